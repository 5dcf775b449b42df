"""When should an interview stop? Compares rules at equal mean numbers of questions, with the same questions.

    triage simulate --whole-patient --vignettes 12480 --test-fraction 0.2 --seed 1041 --out whole
    triage train --data whole --job-dir job
    python benchmarks/stopping.py --job-dir job --data whole --json stopping.json

All interviews are those that the agent leads, on the patients of the test split. They stop

- `threshold`: where the Q-value of the best decision reaches a threshold, as if that were all that asking is worth;
- `q_ask`: where Q(ask), less a price beyond that of the training, is no more than the Q-value of the best decision;
- `fixed`: after the same number of questions for everybody.

By the first two, no interview ends while a danger sign is open, as served. The threshold or price is the one with which
interviews have so many questions in the mean; what cannot stop so early is left out. In brackets stands the 95%
interval of the paired difference from `threshold`, in the sum of appropriateness and safety.
"""

import argparse
import pathlib
from collections.abc import Callable, Sequence

import trainer  # noqa: F401  # isort: skip  # before TensorFlow, as its legacy-Keras switch demands

import numpy as np
import tensorflow as tf
from rich import box
from rich.table import Table

from schemas import safety_rules
from schemas.triage import Action
from trainer.evaluation.agreement import majority_decisions
from trainer.evaluation.estimates import Estimate
from trainer.evaluation.metrics import estimate
from trainer.graph.decide import NEUTRAL, OperatingPoint, would_ask
from trainer.graph.questions import QuestionGraph
from trainer.interviews.patients import whole_patients
from trainer.interviews.play import Interviews, lead
from trainer.reports.question_report import QUALITY, quality
from trainer.training.job import load_network
from trainer.vignettes.tfrecord import DataDirectory
from triage_runtime.command_line import json_output
from triage_runtime.command_line.progress import print_table

THRESHOLD, Q_ASK, FIXED = "threshold", "q_ask", "fixed"
MEANS = (4, 6, 8, 10)
STEPS = 30
QUESTIONS = 22
"""That an interview has at most."""
SEED = 0

Figures = dict[int, dict[str, dict[str, Estimate]]]


def ends_by_rule(interviews: Interviews, mean: int) -> dict[str, np.ndarray]:
    """Returns after how many questions each of V interviews ends by each rule, int `[V]`: `mean` in the mean."""
    q, decisions = interviews.heads["q"], interviews.decisions()

    def ends(values_of_asking: np.ndarray, point: OperatingPoint = NEUTRAL) -> np.ndarray:
        valued = q.copy()
        valued[..., Action.ASK] = values_of_asking
        asks = would_ask(tf.constant(valued.reshape(-1, q.shape[2])), point).numpy().reshape(decisions.shape)
        return interviews.ends_by(np.where(asks, int(Action.ASK), decisions), decisions)

    nothing, learned = np.zeros(decisions.shape), q[..., Action.ASK]
    found = {
        THRESHOLD: _with_mean(lambda threshold: ends(nothing, OperatingPoint(threshold)), 0.0, 1.0, mean),
        Q_ASK: _with_mean(lambda more: ends(learned + more), -1.0, 1.0, mean),
    }
    return {name: each for name, each in found.items() if abs(each.mean() - mean) < 0.1} | {
        FIXED: np.full(decisions.shape[1], mean)
    }


def _with_mean(ends: Callable[[float], np.ndarray], low: float, high: float, mean: int) -> np.ndarray:
    """Returns the ends at the setting with which they have a `mean`; they rise between settings `low` and `high`."""
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if ends(middle).mean() < mean else (low, middle)
    return ends(high)


def compare(interviews: Interviews, counts: np.ndarray, seed: int) -> Figures:
    """Returns estimates by mean number of questions, rule and metric; the `difference` is from `threshold`."""
    right = quality(interviews, counts)
    red = majority_decisions(counts) == Action.RED
    decisions, everybody = interviews.decisions(), np.arange(len(counts))
    found: Figures = {}
    for mean in MEANS:
        ends = ends_by_rule(interviews, mean)
        if THRESHOLD not in ends:
            continue
        taken = {
            name: {metric: right[metric][end, everybody].astype(float) for metric in QUALITY}
            for name, end in ends.items()
        }
        sums = {name: sum(each.values()) for name, each in taken.items()}
        found[mean] = {
            name: {metric: estimate(values, seed) for metric, values in taken[name].items()}
            | {
                "red_sensitivity": estimate((decisions[end, everybody] == Action.RED)[red].astype(float), seed),
                "difference": estimate(sums[name] - sums[THRESHOLD], seed),
            }
            for name, end in ends.items()
        }
    return found


def show(found: Figures) -> None:
    names = (THRESHOLD, Q_ASK, FIXED)
    table = Table("questions", *names, box=box.SIMPLE)
    for mean, by_rule in found.items():
        table.add_row(str(mean), *(_cell(by_rule[name]) if name in by_rule else "" for name in names))
    print_table(table)


def _cell(values: dict[str, Estimate]) -> str:
    shares = " / ".join(f"{values[metric].mean:.3f}" for metric in QUALITY)
    less = values["difference"]
    return f"{shares} Red {values['red_sensitivity'].mean:.3f} [{less.low:+.3f}, {less.high:+.3f}]"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job-dir", type=pathlib.Path, required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    json_output.add_argument(parser)
    given = parser.parse_args(arguments)
    trained, data = load_network(given.job_dir), DataDirectory.open(given.data)
    if trained.questions is None or not data.whole_patients:
        raise SystemExit("expected an agent that leads interviews, and data of complete patients")
    vocabulary = trained.vocabulary
    patients = whole_patients(data.read("test", names=False), len(vocabulary)).at_home(vocabulary)
    rules = safety_rules.choose(None, vocabulary)[0].rules
    graph = QuestionGraph(trained.questions, vocabulary, rules, trained.signs)
    interviews = lead(patients, trained.model, graph, QUESTIONS)
    found = compare(interviews, patients.decision_counts, SEED)
    show(found)
    json_output.write({"patients": len(patients.answers), "questions": json_output.plain(found)}, given.json)


if __name__ == "__main__":
    main()
