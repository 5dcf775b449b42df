"""How good the default agent is, beside simulated clinicians and a random forest: the figures of docs/results.md.

    python benchmarks/quality.py --work work
    python benchmarks/quality.py --work work --seeds 1100 --parts cards whole

Each seed has a panel of simulated clinicians of its own, and each part of a seed an agent of the preset default:

    cards              9,984 written vignettes to learn from, 2,496 others to judge
    whole              as many complete patients; all agents with 9,984 interview 2,496 further complete patients
    cards-225 and so on   fewer written vignettes
    unlike             400 vignettes with many denials and two decisions each

The forest sees the same evidence: all of a vignette, and of an interview what the agent knew where it stopped. The one
of complete patients learned from interviews that the agent led with its own training patients.

Each part of a seed is a record in benchmarks/results, which is not measured again: an interrupted run goes on. Data and
agents stay in --work. `make results` makes pages of the records.
"""

import argparse
import dataclasses
import functools
import pathlib
import sys
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

import trainer  # noqa: F401  # isort: skip  # before TensorFlow, as its legacy-Keras switch demands

import numpy as np
import tensorflow as tf

import triage_cli
from benchmarks import records
from benchmarks.learn import fitted_forest
from schemas import safety_rules
from schemas.evidence import Vocabulary
from schemas.safety_rules import NO_RULES, RuleSet
from schemas.triage import NUM_DECISIONS, Action
from trainer.data import state
from trainer.data.data_writer import write_splits
from trainer.data.output import describe, output_directory
from trainer.data.state import Vignettes, sparse_states
from trainer.data.textbook_case import DEFAULT, EMERGENCY, TextbookCase, read_cases
from trainer.data.tfrecord import DataDirectory
from trainer.dyqn.rollout import Slice, order_seeds
from trainer.evaluation import agreement, cases, metrics
from trainer.evaluation.case_play import lead_cases
from trainer.evaluation.measurement import agent_outcomes, baseline_figures
from trainer.graph.decide import best_triage
from trainer.graph.questions import QuestionGraph
from trainer.graph.rules import RuleGraph
from trainer.interviews.patients import Patients, whole_patients
from trainer.interviews.play import Interviews, lead
from trainer.reports.agent_report import case_figures
from trainer.simulation import simulator
from trainer.simulation.config import CardConfig, SimulationConfig
from trainer.simulation.knowledge_base import KnowledgeBase
from trainer.simulation.simulator import BLOCK, Simulator
from trainer.training.job import TrainedNetwork, load_network

SEEDS = (1100, 1101, 1102)
"""Give others with --seeds; see also `records.TRIED`."""
CARDS, WHOLE, UNLIKE = "cards", "whole", "unlike"
TRAIN, TEST = 9_984, 2_496
FEWER = (225, 1_248, 4_992)
FEW = 400
MANY_DENIALS = SimulationConfig(decisions_per_vignette=(0.0, 1.0), card=CardConfig(symptoms_absent=(14.0, 5.0)))
MINIMUM_DECISIONS, ORDERS, SEED = 3, 10, 0
MEASURES = ("appropriateness", "safety", "over_triage", "red_sensitivity")
CASES = {
    "textbook": DEFAULT,
    **{name: str(ROOT / "schemas" / "cases" / f"{name}.jsonl") for name in ("other_complaints", "unseen_complaints")},
}
QUESTIONS = 20
"""Most questions of the curve by number of questions."""
CALLED_RED = (0.02, 0.04, 0.06, 0.08, 0.1, 0.13, 0.16, 0.2, 0.25, 0.3)
"""Shares of the patients who are called Red in turn."""

Forest = Any
"""A `RandomForestClassifier` of the four decisions."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures what has no record yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=pathlib.Path, required=True, help="folder of data and agents")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    records.add_argument(parser)
    given = parser.parse_args(arguments)
    for seed in given.seeds:
        for part in given.parts:
            if not records.finished(given.results, f"{part}-{seed}"):
                folder = given.work / str(seed)
                folder.mkdir(parents=True, exist_ok=True)
                records.write(given.results, f"{part}-{seed}", PARTS[part](folder, seed), seed)


def on_cards(folder: pathlib.Path, seed: int) -> dict[str, Any]:
    """Returns the figures of an agent of written vignettes, with theirs, in interviews and on textbook cases."""
    data = simulated(folder / CARDS, TRAIN, TEST, seed)
    trained, training = agent(data, folder / f"{CARDS}-job")
    trees = forest_of(data)
    return {
        "vignettes": sizes(data),
        "training": training,
        "own": on_vignettes(trained, trees, data.read("test", names=False)),
        "interviews": in_interviews(trained, trees, fresh_patients(seed, trained.vocabulary)),
        "cases": on_cases(trained, trees),
    }


def on_fewer_cards(train: int, folder: pathlib.Path, seed: int) -> dict[str, Any]:
    """Returns the figures of an agent of `train` written vignettes on others of these."""
    data = simulated(folder / f"{CARDS}-{train}", train, TEST, seed)
    trained, training = agent(data, folder / f"{CARDS}-{train}-job")
    own = on_vignettes(trained, forest_of(data), data.read("test", names=False))
    return {"vignettes": sizes(data), "training": training, "own": own}


def on_whole(folder: pathlib.Path, seed: int) -> dict[str, Any]:
    """Returns the figures of an agent of complete patients in interviews with others, and on textbook cases."""
    data = simulated(folder / WHOLE, TRAIN, TEST, seed, "--whole-patient")
    trained, training = agent(data, folder / f"{WHOLE}-job")
    learned = at_home(data.read("train", names=False), trained.vocabulary)
    played, ends = interviewed(trained, learned, NO_RULES)[:2]
    trees = fitted_forest(played.states(learned)[ends, np.arange(len(ends))], learned.decision_counts, SEED)
    return {
        "vignettes": sizes(data),
        "training": training,
        "interviews": in_interviews(trained, trees, fresh_patients(seed, trained.vocabulary)),
        "cases": on_cases(trained, None),
    }


def on_unlike(folder: pathlib.Path, seed: int) -> dict[str, Any]:
    """Returns the figures of an agent of few vignettes with many denials and two decisions each, on others of these."""
    path = folder / UNLIKE
    if not path.exists():
        knowledge = KnowledgeBase.load()
        vignettes = list(simulator.simulated(Simulator(knowledge, MANY_DENIALS, seed), FEW + TEST, processes=1))
        with output_directory(path, overwrite=False) as output:
            written = write_splits(vignettes, output.staging, Fraction(TEST, FEW + TEST), seed)
            vocabulary = knowledge.catalogue.vocabulary
            named = {"format": "simulate", "vocabulary_fingerprint": vocabulary.fingerprint}
            describe(output.staging, vocabulary, named | written)
            output.publish()
    data = DataDirectory.open(path)
    trained, training = agent(data, folder / f"{UNLIKE}-job")
    test = data.read("test", names=False)
    states = sparse_states(test, len(data.vocabulary))
    found = {
        "agent": metrics.triage_quality(all_evidence(trained, states.toarray())[np.newaxis], test.decision_counts),
        "forest": metrics.triage_quality(forest_of(data).predict(states)[np.newaxis], test.decision_counts),
    }
    named = {who: {name: values[name] for name in MEASURES[:2]} for who, values in found.items()}
    less = {name: named["agent"][name] - named["forest"][name] for name in MEASURES[:2]}
    less["sum"] = sum(less.values())
    train = data.read("train", names=False)
    return {
        "vignettes": sizes(data),
        "training": training,
        "denials": float((train.signed_codes < 0).sum() / len(train.decision_counts)),
        **{who: metrics.summary(values, SEED) for who, values in named.items()},
        "less_forest": metrics.summary(less, SEED),
    }


PARTS: dict[str, Callable[[pathlib.Path, int], dict[str, Any]]] = {
    CARDS: on_cards,
    WHOLE: on_whole,
    **{f"{CARDS}-{train}": functools.partial(on_fewer_cards, train) for train in FEWER},
    UNLIKE: on_unlike,
}


def simulated(path: pathlib.Path, train: int, test: int, seed: int, *options: str) -> DataDirectory:
    """Returns the data directory at `path`, made by `triage simulate` unless it is there."""
    if not path.exists():
        share = Fraction(test, train + test)
        run("simulate", "--vignettes", train + test, "--test-fraction", share, "--seed", seed, "--out", path, *options)
    return DataDirectory.open(path)


def agent(data: DataDirectory, job: pathlib.Path) -> tuple[TrainedNetwork, dict[str, Any]]:
    """Returns the agent of `triage train`, and the processor time in seconds, None if an earlier run began with it."""
    began = None if job.exists() else time.process_time()
    run("train", "--data", data.path, "--job-dir", job, "--evaluation-interval", 0)
    trained = load_network(job)
    seconds = None if began is None else time.process_time() - began
    return trained, {"processor_seconds": seconds, "steps": trained.training["steps"]}


def sizes(data: DataDirectory) -> dict[str, int]:
    """Returns the numbers of vignettes that the agent learned from, and that it is judged on."""
    learned, test = (data.stats["splits"][split]["vignettes"] for split in ("train", "test"))
    return {"learned_from": learned, "judged": test}


def run(*words: object) -> None:
    """Runs a command of the package in this process."""
    code = triage_cli.main([str(word) for word in words])
    if code:
        raise SystemExit(code)


def forest_of(data: DataDirectory) -> Forest:
    """Returns a forest of the training vignettes with all their evidence."""
    train = data.read("train", names=False)
    return fitted_forest(sparse_states(train, len(data.vocabulary)), train.decision_counts, SEED)


def fresh_patients(seed: int, vocabulary: Vocabulary) -> Patients:
    """Returns complete patients of the seed's panel who come after all that agents learned from.

    A patient of `triage simulate --whole-patient` is that of the written vignette with the same seed and number, so
    that the test split of one holds patients of whom the other's agent has learned.
    """
    simulator = Simulator(KnowledgeBase.load(None), SimulationConfig(), seed, Fraction(1))
    first = -(-(TRAIN + TEST) // BLOCK)
    blocks = range(first, first + -(-TEST // BLOCK))
    vignettes = [vignette for number in blocks for vignette in simulator.block(number)][:TEST]
    counts = np.array([vignette.decision_counts for vignette in vignettes])
    return at_home(rows_of([(each.present, each.absent) for each in vignettes], counts, vocabulary), vocabulary)


def at_home(vignettes: Vignettes, vocabulary: Vocabulary) -> Patients:
    """Returns complete patients without instruments, of whom the presenting complaint is known."""
    return whole_patients(vignettes, len(vocabulary)).at_home(vocabulary)


def rows_of(
    evidence: Sequence[tuple[Sequence[str], Sequence[str]]], decision_counts: np.ndarray, vocabulary: Vocabulary
) -> Slice:
    """Returns vignettes as arrays: what is present and what is absent of each of V, and the decisions `[V, 4]`."""
    codes = [state.signed_codes(present, absent, vocabulary) for present, absent in evidence]
    offsets = np.cumsum([0, *map(len, codes)])
    return Slice(offsets, np.concatenate([np.array(each, np.int16) for each in codes]), decision_counts)


def all_evidence(trained: TrainedNetwork, states: np.ndarray) -> np.ndarray:
    """Returns the decisions of the agent in states `[V, E]`, int `[V]`."""
    parts = (tf.constant(states[start : start + BLOCK], tf.float32) for start in range(0, len(states), BLOCK))
    return np.concatenate([best_triage(trained.model(part)["q"]).numpy() for part in parts])


def on_vignettes(trained: TrainedNetwork, trees: Forest, test: Vignettes) -> dict[str, Any]:
    """Returns the figures of agent, forest and clinicians on written vignettes.

    The agent reads each piece by piece in random orders and decides when it likes, or, as `all_evidence`, at the end.
    """
    outcomes = agent_outcomes(
        trained.model, test, order_seeds(SEED, ORDERS), trained.max_questions, point=trained.operating_point
    )
    counts, states = np.asarray(test.decision_counts), sparse_states(test, len(trained.vocabulary))
    asked = {name: getattr(outcomes, name).mean(axis=0) for name in ("questions", "evidence_seen")}
    return {
        "agent": judged(outcomes.decisions, counts) | metrics.summary(asked, SEED),
        "all_evidence": judged(all_evidence(trained, states.toarray())[np.newaxis], counts),
        "forest": judged(trees.predict(states)[np.newaxis], counts),
        "clinicians": clinicians(counts),
        "evidence": float(np.diff(test.offsets).mean()),
    }


def judged(decisions: np.ndarray, counts: np.ndarray) -> dict[str, Any]:
    """Returns the `MEASURES` of decisions int `[K, V]` in the place of one clinician, and less the clinicians' own."""
    found = agreement.leave_one_out(decisions, counts, MINIMUM_DECISIONS, SEED)
    if found is None:
        raise SystemExit(f"no vignette has {MINIMUM_DECISIONS} decisions")
    own, less = ({name: each[name] for name in MEASURES} for each in (found.by_all_but_one, found.less_clinicians))
    return own | {"less_clinicians": less}


def clinicians(counts: np.ndarray) -> dict[str, Any]:
    """Returns the `MEASURES` of the clinicians, each judged by the others."""
    human = baseline_figures(counts, MINIMUM_DECISIONS, SEED)
    found = {**(human.human or {}), **(human.human_agreement or {})}
    return {name: found[name] for name in MEASURES}


def interviewed(
    trained: TrainedNetwork, patients: Patients, rules: RuleSet
) -> tuple[Interviews, np.ndarray, np.ndarray]:
    """Returns interviews that the agent leads, obeying `rules`: questions until it stops, and decisions, int `[V]`."""
    if trained.questions is None:
        raise SystemExit("the agent does not choose questions")
    graph = QuestionGraph(trained.questions, trained.vocabulary, rules.rules, trained.signs)
    network = tf.function(trained.model, autograph=False, reduce_retracing=True)
    played = lead(patients, network, graph, trained.max_questions)
    obeyed = RuleGraph(rules.rules, trained.vocabulary) if len(rules) else None
    left = played.leave(patients, trained.operating_point, obeyed)
    return played, left.questions, left.decisions


def in_interviews(trained: TrainedNetwork, trees: Forest, patients: Patients) -> dict[str, Any]:
    """Returns the figures of agent, forest and clinicians on patients whom the agent asks."""
    counts, everybody = patients.decision_counts, np.arange(len(patients.answers))
    played, ends, decisions = interviewed(trained, patients, NO_RULES)
    _, ruled_ends, ruled = interviewed(trained, patients, default_rules(trained.vocabulary))
    heads = {name: values[ends, everybody] for name, values in played.heads.items()}
    forest_values: np.ndarray = np.zeros([len(ends), NUM_DECISIONS])
    forest_values[:, trees.classes_] = trees.predict_proba(played.states(patients)[ends, everybody])
    says = {
        name: heads[head][everybody, decisions].astype(float)
        for name, head in zip(MEASURES, ("appropriate", "safe"), strict=False)
    }
    true = metrics.triage_quality(decisions[np.newaxis], counts)
    return {
        "agent": judged(decisions[np.newaxis], counts) | {"questions": metrics.estimate(ends.astype(float), SEED)},
        "with_rules": judged(ruled[np.newaxis], counts)
        | {"questions": metrics.estimate(ruled_ends.astype(float), SEED)},
        "forest": judged(forest_values.argmax(axis=1)[np.newaxis], counts),
        "clinicians": clinicians(counts),
        "says": metrics.summary(says, SEED),
        "true": metrics.summary({name: true[name] for name in says}, SEED),
        "by_questions": [
            {name: value for name, value in judged(row[np.newaxis], counts).items() if name in MEASURES[:2]}
            for row in played.decisions()[: QUESTIONS + 1]
        ],
        "by_share_of_red": {
            who: [
                {name: value for name, value in judged(row[np.newaxis], counts).items() if name in MEASURES[2:]}
                for row in called_red(values)
            ]
            for who, values in (("agent", heads["q"][:, :NUM_DECISIONS]), ("forest", forest_values))
        },
    }


def called_red(values: np.ndarray) -> np.ndarray:
    """Returns decisions int `[S, V]` by values `[V, 4]` that call each share of `CALLED_RED` Red, the likeliest."""
    others = values[:, Action.RED + 1 :]
    margins = values[:, Action.RED] - others.max(axis=1)
    least = np.quantile(margins, 1 - np.array(CALLED_RED))
    return np.where(margins >= least[:, np.newaxis], int(Action.RED), others.argmax(axis=1) + 1)


def default_rules(vocabulary: Vocabulary) -> RuleSet:
    """Returns the safety rules of the package."""
    return safety_rules.choose(safety_rules.DEFAULT, vocabulary)[0]


def on_cases(trained: TrainedNetwork, trees: Forest | None) -> dict[str, Any]:
    """Returns for each file of `CASES` how many emergencies are decided too late, and how many others too early.

    Each figure is a number without safety rules, and one with them.
    """
    return {name: _on_file(trained, trees, path) for name, path in CASES.items()}


def _on_file(trained: TrainedNetwork, trees: Forest | None, path: str) -> dict[str, Any]:
    vocabulary, rules = trained.vocabulary, default_rules(trained.vocabulary)
    textbook = read_cases(pathlib.Path(path), vocabulary)
    emergencies = [case for case in textbook if case.category == EMERGENCY]
    each = [begun for case in emergencies for begun in from_each_complaint(case, vocabulary)]
    own, begun = (case_figures(path, some, trained, rules).played for some in (textbook, each))
    found: dict[str, Any] = {
        "emergencies": len(emergencies),
        "others": len(textbook) - len(emergencies),
        "from_each_complaint": len(each),
        "too_late": {
            "all_evidence": {when: late(one.all_evidence) for when, one in own.items()},
            "interview": {when: late(one.interview) for when, one in own.items()},
            "from_each_complaint": {when: late(one.interview) for when, one in begun.items()},
            "not_known": {
                when: answers_unknown(trained, emergencies, some)
                for when, some in ((cases.WITHOUT, NO_RULES), (cases.WITH, rules))
            },
        },
        "others_too_early": {
            when: one.interview.categories["all"].too_early - one.interview.categories[EMERGENCY].too_early
            for when, one in own.items()
        },
    }
    if trees is not None:
        rows = rows_of(
            [(case.present, case.absent) for case in emergencies], np.ones((len(emergencies), 4)), vocabulary
        )
        states = sparse_states(rows, len(vocabulary)).toarray()
        made = trees.predict(states)
        graph = RuleGraph(rules.rules, vocabulary)
        raised = graph.apply(graph.fired(tf.constant(states)), made, made).best_triage.numpy()
        found["forest_too_late"] = {
            when: count_late(emergencies, decided) for when, decided in ((cases.WITHOUT, made), (cases.WITH, raised))
        }
    return found


def late(results: cases.CaseResults) -> int:
    """Returns the number of emergencies that are too late."""
    return results.categories[EMERGENCY].too_late


def count_late(emergencies: Sequence[TextbookCase], decisions: Sequence[int] | np.ndarray) -> int:
    """Returns how many cases have a decision that is too late."""
    pairs = zip(emergencies, decisions, strict=True)
    return sum(cases.verdict(case, Action(int(decision))) == cases.TOO_LATE for case, decision in pairs)


def from_each_complaint(case: TextbookCase, vocabulary: Vocabulary) -> list[TextbookCase]:
    """Returns the case as often as it has symptoms, with another one first each time."""
    symptoms = [code for code in case.present if vocabulary[vocabulary.index(code)].kind == "symptom"]
    return [
        dataclasses.replace(case, present=(first, *(code for code in case.present if code != first)))
        for first in dict.fromkeys([case.present[0], *symptoms])
    ]


def answers_unknown(trained: TrainedNetwork, emergencies: Sequence[TextbookCase], rules: RuleSet) -> int:
    """Returns how many interviews end too late whose patients do not know what their case does not list."""
    if trained.questions is None:
        raise SystemExit("the agent does not choose questions")
    codes = trained.vocabulary.codes
    denied = np.array([[code in case.absent for code in codes] for case in emergencies])

    def said(states: tf.Tensor) -> tf.Tensor:
        """Returns states `[C, E]` without denials of what the cases do not list."""
        return tf.where((states < 0) & ~denied, tf.zeros_like(states), states)

    class Questions(QuestionGraph):
        def asks(self, states: tf.Tensor, not_to_ask: tf.Tensor) -> tf.Tensor:
            return super().asks(said(states), not_to_ask | (said(states) != states))

        def open_signs(self, states: tf.Tensor, not_to_ask: tf.Tensor) -> tf.Tensor:
            return super().open_signs(said(states), not_to_ask | (said(states) != states))

    class Rules(RuleGraph):
        def fired(self, states: tf.Tensor) -> tf.Tensor:
            return super().fired(said(states))

    decisions, _ = lead_cases(
        lambda states: trained.model(said(states)),
        Questions(trained.questions, trained.vocabulary, rules.rules, trained.signs),
        Rules(rules.rules, trained.vocabulary) if len(rules) else None,
        trained.operating_point,
        emergencies,
        trained.vocabulary,
        trained.max_questions,
    )
    return count_late(emergencies, decisions)


if __name__ == "__main__":
    main()
