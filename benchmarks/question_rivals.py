"""Is the agent's choice of questions better than those of the literature, at equal cost and with the same network?

    triage simulate --whole-patient --vignettes 12480 --test-fraction 0.2 --seed 1021 --out whole
    triage train --data whole --job-dir job
    python benchmarks/question_rivals.py --job-dir job --data whole --json rivals.json

The job's network decides for everybody, and every interview opens with age and sex. `learned` is what is served:
danger signs come first, several in one turn; then the same, `one at a time`; and `by value`, where none come first, as
in all rivals. `static` and `naive-bayes` are those of `triage evaluate --questions`. The others lower the
cross-entropy of whether each decision is appropriate and safe:

- `dime` (Gadgil et al. 2024): a network says by how much an answer will lower it.
- `gdfs` (Covert et al. 2023): a network chooses the question that lowers it the most. It learns by policy gradient, not
  by relaxed choices: the job's network reads answers that are yes or no.
- `aaco` (Valancius et al. 2024), AACO-like, one step: of a shortlist, the question that lowers it the most in the
  nearest patients, who agree with what is known.

`dime` and `gdfs` learn in simulated interviews, without changing the job's network. All rivals know the complete
patients of the train split. An agent of cards never saw these, and one that learned from them is surer of them.

Tables show quality after so many turns, and after as many turns as ask no more than so many codes, those of the opening
included; in brackets, the 95% interval of the paired difference from `learned`.
"""

import argparse
import pathlib
from collections.abc import Mapping, Sequence

import trainer  # noqa: F401  # isort: skip  # before TensorFlow, as its legacy-Keras switch demands

import keras
import numpy as np
import tensorflow as tf
from rich import box
from rich.table import Table

from schemas import safety_rules
from schemas.triage import NUM_DECISIONS
from trainer.dyqn.network import PresentAndAbsent
from trainer.evaluation.estimates import Estimate
from trainer.evaluation.metrics import estimate
from trainer.evaluation.options import NAIVE_BAYES, STATIC
from trainer.evaluation.question_policies import frequencies, simple_policies
from trainer.graph import rewards
from trainer.graph.questions import Network, QuestionGraph
from trainer.interviews.patients import Patients, whole_patients
from trainer.interviews.play import Interviews, MayAsk, Opening, Policy, highest, learned_policy, play
from trainer.reports.question_report import QUALITY, quality
from trainer.training.job import load_network
from trainer.vignettes.tfrecord import DataDirectory
from triage_runtime.command_line import json_output
from triage_runtime.command_line.progress import followed, print_table

LEARNED = "learned"
SHOWN = (3, 5, 8, 10, 20)
HIDDEN = (256, 256)  # as the agent's networks
LEARNING_RATE = 1e-3
BATCH = 256  # interviews that are simulated together
DRAWN = 4  # answers that are tried in each state
NEIGHBOURS = 100
SHORTLIST = 12  # questions whose answers the network judges
QUESTIONS = 20  # of an interview
SEED = 0
_LEAST = 1e-6

Figures = dict[str, dict[int, dict[str, dict[str, Estimate]]]]


class Judge:
    """What the truths of patients `[V, 8]` cost in bits: whether each decision is appropriate, then whether safe."""

    def __init__(self, network: Network, safety_weight: float):
        self._network = network
        weights: np.ndarray = np.repeat([1.0, safety_weight], NUM_DECISIONS)
        self.weights = (weights / weights.sum() / np.log(2)).astype(np.float32)

    def probabilities(self, states: tf.Tensor) -> tf.Tensor:
        """Returns those of the network, `[B, 8]`."""
        heads = self._network(states)
        return tf.clip_by_value(tf.concat([heads["appropriate"], heads["safe"]], axis=1), _LEAST, 1 - _LEAST)

    def loss(self, probabilities: tf.Tensor, truths: tf.Tensor) -> tf.Tensor:
        """Returns the cross-entropy `[...]` of `truths` `[..., 8]`, which may be probabilities, too."""
        logs = truths * tf.math.log(probabilities) + (1 - truths) * tf.math.log(1 - probabilities)
        return -tf.reduce_sum(logs * self.weights, axis=-1)


def truths_of(counts: np.ndarray) -> np.ndarray:
    return np.concatenate([rewards.appropriate(counts), rewards.safe(counts)], axis=1, dtype=np.float32)


def dime_loss(scores: tf.Tensor, chosen: tf.Tensor, gained: tf.Tensor, entropy: tf.Tensor) -> tf.Tensor:
    """Returns how wrong a value network is about what answers gained; no answer gains more than the entropy."""
    values = tf.sigmoid(tf.gather(scores, chosen, batch_dims=1)) * entropy[:, tf.newaxis]
    return tf.reduce_mean((values - gained) ** 2)


def gdfs_loss(scores: tf.Tensor, chosen: tf.Tensor, gained: tf.Tensor, entropy: tf.Tensor) -> tf.Tensor:
    """Returns the policy gradient's loss; each answer is compared with the others that the same patient gave."""
    logs = tf.gather(tf.nn.log_softmax(scores), chosen, batch_dims=1)
    advantages = gained - tf.reduce_mean(gained, axis=1, keepdims=True)
    return -tf.reduce_mean(logs * advantages / (tf.math.reduce_std(advantages) + _LEAST))


LOSSES = {"dime": dime_loss, "gdfs": gdfs_loss}


def learned_rival(
    name: str, judge: Judge, patients: Patients, may_ask: MayAsk, turns: int, batches: int, seed: int
) -> Policy:
    """Returns the policy of a network that learned from `batches` of interviews with `patients`, of so many `turns`."""
    width = patients.answers.shape[1]
    generator = tf.random.Generator.from_seed(seed, alg="philox")
    common = np.sqrt((patients.answers > 0).mean(axis=0) + 1 / len(patients.answers)).astype(np.float32)
    bias = np.log(common) if name == "gdfs" else np.full(width, -4.0)  # first at random, or worth nearly nothing
    inputs = keras.Input((width,))
    hidden, seeds = PresentAndAbsent(None)(inputs), keras.random.SeedGenerator(seed)
    for size in HIDDEN:
        hidden = keras.layers.Dense(size, "relu", kernel_initializer=keras.initializers.HeNormal(seeds))(hidden)
    last = keras.layers.Dense(width, kernel_initializer="zeros", bias_initializer=keras.initializers.Constant(bias))
    network = keras.Model(inputs, last(hidden))
    optimiser = keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(LEARNING_RATE, batches * turns))
    optimiser.build(network.trainable_variables)

    @tf.function(autograph=False)
    def turn(
        states: tf.Tensor, before: tf.Tensor, answers: tf.Tensor, truths: tf.Tensor, explored: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        closed = tf.where(may_ask(states) & (answers != 0), 0.0, -1e9)
        entropy = judge.loss(before, before)
        with tf.GradientTape() as tape:
            scores = network(states) + closed
            odds = scores if name == "gdfs" else tf.math.log(common) + closed
            uniform = generator.uniform([tf.shape(states)[0], DRAWN, width], _LEAST, 1 - _LEAST)
            chosen = tf.argmax(odds[:, tf.newaxis] - tf.math.log(-tf.math.log(uniform)), axis=2)  # [B, D]
            if name == "dime":
                own = generator.uniform([tf.shape(states)[0]]) >= explored
                first = tf.where(own, tf.argmax(scores, axis=1), chosen[:, 0])
                chosen = tf.concat([first[:, tf.newaxis], chosen[:, 1:]], axis=1)
            after = states[:, tf.newaxis] + tf.one_hot(chosen, width) * answers[:, tf.newaxis]  # [B, D, E]
            judged = tf.reshape(judge.probabilities(tf.reshape(after, [-1, width])), [-1, DRAWN, 2 * NUM_DECISIONS])
            gained = judge.loss(before, truths)[:, tf.newaxis] - judge.loss(judged, truths[:, tf.newaxis])
            loss = LOSSES[name](scores, chosen, gained, entropy)
        optimiser.apply(tape.gradient(loss, network.trainable_variables), network.trainable_variables)
        return after[:, 0], judged[:, 0]

    truths = truths_of(patients.decision_counts)
    drawn = np.random.default_rng(seed).integers(len(truths), size=[batches, BATCH])
    for number in followed(range(batches), name, "batches"):
        known, given = (tf.cast(each[drawn[number]], tf.float32) for each in (patients.known, patients.answers))
        states, true = known * given, tf.constant(truths[drawn[number]])
        now = judge.probabilities(states)
        for _ in range(turns):
            states, now = turn(states, now, given, true, tf.constant(1 - 0.9 * number / batches))
    return lambda states, open_codes: highest(network(states).numpy(), open_codes)


def aaco(judge: Judge, patients: Patients) -> Policy:
    """Returns the policy that asks what lowers the mean loss of the nearest `patients` the most."""
    yes = (patients.answers > 0).astype(np.float32)  # [N, E]
    truths = truths_of(patients.decision_counts)  # [N, 8]
    share = yes.mean(axis=0)
    scale = 1 / np.maximum(share * (1 - share), 0.01)  # so that a rare complaint outweighs many denials
    count = min(NEIGHBOURS, len(yes))

    def scores(states: np.ndarray, open_codes: np.ndarray) -> np.ndarray:
        known = states * scale
        apart = (np.abs(known).sum(axis=1, keepdims=True) - known @ (2 * yes - 1).T) / 2  # [B, N], what disagrees
        near = np.argpartition(apart, count - 1, axis=1)[:, :count]  # [B, K]
        far = np.take_along_axis(apart, near, axis=1)
        far -= far.min(axis=1, keepdims=True)
        kernel = np.exp(-far / np.maximum(far.mean(axis=1, keepdims=True), _LEAST))
        kernel = (kernel / kernel.sum(axis=1, keepdims=True))[:, :, np.newaxis]
        now = (kernel * truths[near]).sum(axis=1)[:, np.newaxis]  # [B, 1, 8]
        likely = (kernel * yes[near]).sum(axis=1)[:, :, np.newaxis]  # [B, E, 1]
        joint = np.swapaxes(yes[near], 1, 2) @ (kernel * truths[near])  # [B, E, 8]: has it, and it is true
        alone = np.where(open_codes, _after_answer(judge, likely, joint, now), np.inf)
        cells = np.argsort(alone, axis=1, kind="stable")[:, :SHORTLIST]  # [B, C]
        change = np.eye(states.shape[1], dtype=np.float32)[cells][:, :, np.newaxis] * np.array([[1], [-1]], np.float32)
        after = np.where(change != 0, change, states[:, np.newaxis, np.newaxis])  # [B, C, 2, E]
        judged = judge.probabilities(tf.constant(after.reshape(-1, states.shape[1]))).numpy()
        judged = np.moveaxis(judged.reshape(*cells.shape, 2, -1), 2, 0)
        likely, joint = (np.take_along_axis(each, cells[:, :, np.newaxis], axis=1) for each in (likely, joint))
        loss = _after_answer(judge, likely, joint, now, *judged)
        result = np.full(states.shape, -np.inf)
        np.put_along_axis(result, cells, -loss, axis=1)
        return result

    return lambda states, open_codes: highest(scores(states, open_codes), open_codes)


def _after_answer(
    judge: Judge, likely: np.ndarray, joint: np.ndarray, now: np.ndarray, *given: np.ndarray
) -> np.ndarray:
    """Returns the neighbours' mean loss after an answer, `[B, C]`, with `given` probabilities or with their own.

    `likely` `[B, C, 1]` say yes, of each truth `joint` `[B, C, 8]` do so, and it holds of `now` `[B, 1, 8]`.
    """
    loss: np.ndarray = np.zeros(joint.shape[:2])
    for answer, (weight, part) in enumerate(((likely, joint), (1 - likely, now - joint))):
        true = np.clip(part / np.maximum(weight, _LEAST), _LEAST, 1 - _LEAST)
        loss += weight[..., 0] * judge.loss(given[answer] if given else true, true).numpy()
    return loss


def opened(patients: Patients, opening: Opening) -> Patients:
    """Returns patients of whom is known what the opening of an interview tells, all of it present."""
    states = np.where(patients.known, patients.answers, 0).astype(np.float32)
    codes = opening(tf.constant(states), tf.constant(patients.answers)).numpy()
    row, place = np.nonzero(codes)
    states[row, codes[row, place] - 1] = 1
    return patients._replace(known=states != 0)


def one_at_a_time(graph: QuestionGraph) -> Policy:
    best = tf.function(lambda states, not_to_ask: graph(states, not_to_ask).codes[:, :1], autograph=False)
    return lambda states, open_codes: best(tf.constant(states), tf.constant(~open_codes)).numpy()


def after(interviews: Interviews, number: int, cost: str) -> np.ndarray:
    """Returns after how many questions each of V interviews has cost `number` turns, or at most as many codes."""
    codes = (interviews.revealed != 0).sum(axis=2).cumsum(axis=0)  # [Q, V]
    return np.full(codes.shape[1], number) if cost == "turns" else (codes <= number).sum(axis=0)


def compare(interviews: Mapping[str, Interviews], counts: np.ndarray, seed: int) -> Figures:
    """Returns estimates by cost, number, policy and metric; those with `_difference` are paired with `learned`."""
    right = {name: quality(each, counts) for name, each in interviews.items()}
    found: Figures = {"turns": {}, "codes": {}}
    for cost, by_number in found.items():
        for number in (number for number in SHOWN if number < len(interviews[LEARNED].flagged)):
            by_number[number] = {name: {} for name in interviews}
            for metric in right[LEARNED]:
                values = {
                    name: right[name][metric][after(each, number, cost), np.arange(len(counts))].astype(float)
                    for name, each in interviews.items()
                }
                for name, each in values.items():
                    by_number[number][name] |= {
                        metric: estimate(each, seed),
                        f"{metric}_difference": estimate(each - values[LEARNED], seed),
                    }
    return found


def show(found: Figures) -> None:
    for cost, by_number in found.items():
        for metric in QUALITY:
            table = Table(f"{metric} after", *(f"{number} {cost}" for number in by_number), box=box.SIMPLE)
            for name in next(iter(by_number.values())):
                cells = ((each[name][metric], each[name][f"{metric}_difference"]) for each in by_number.values())
                table.add_row(name, *(f"{value.mean:.3f} [{less.low:+.3f}, {less.high:+.3f}]" for value, less in cells))
            print_table(table)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job-dir", type=pathlib.Path, required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--patients", type=int, default=2500, help="of the test split")
    parser.add_argument("--batches", type=int, default=300, help=f"of {BATCH} interviews that dime and gdfs learn from")
    json_output.add_argument(parser)
    given = parser.parse_args(arguments)
    trained, data = load_network(given.job_dir), DataDirectory.open(given.data)
    if trained.questions is None or not trained.has_probabilities or not data.whole_patients:
        raise SystemExit("expected an agent with probabilities that leads interviews, and data of complete patients")
    vocabulary, mixture = trained.vocabulary, trained.questions
    network = tf.function(trained.model, autograph=False)
    train, test = (data.read(split, names=False) for split in ("train", "test"))
    patients, others = (whole_patients(each, len(vocabulary)).at_home(vocabulary) for each in (test, train))
    patients = Patients(*(part[: given.patients] for part in patients))
    rules = safety_rules.choose(None, vocabulary)[0].rules
    served = QuestionGraph(mixture, vocabulary, rules, trained.signs)
    judge, others = Judge(network, trained.target.safety_weight), opened(others, served.opening)
    simple = simple_policies(frequencies(train, len(vocabulary)), SEED)
    chosen = {
        LEARNED: learned_policy(served),
        f"{LEARNED}, one at a time": one_at_a_time(served),
        f"{LEARNED}, by value": learned_policy(QuestionGraph(mixture, vocabulary)),
        **{name: simple[name] for name in (STATIC, NAIVE_BAYES)},
        **{
            name: learned_rival(name, judge, others, served.may_ask, QUESTIONS - 1, given.batches, SEED)
            for name in LOSSES
        },
        "aaco": aaco(judge, others),
    }
    found = compare(
        {
            name: play(patients, network, served.may_ask, policy, QUESTIONS, opening=served.opening)
            for name, policy in followed(chosen.items(), "play", "policies")
        },
        patients.decision_counts,
        SEED,
    )
    show(found)
    same = trained.data_fingerprint == data.data_fingerprint
    result = {"patients": len(patients.answers), "learned_from_data": same, **json_output.plain(found)}
    json_output.write(result, given.json)


if __name__ == "__main__":
    main()
