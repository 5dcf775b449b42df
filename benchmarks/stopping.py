"""When should an interview stop? Compares rules at equal mean numbers of questions, with the same questions.

    triage simulate --whole-patient --vignettes 12480 --test-fraction 0.2 --seed 1041 --out whole
    triage train --data whole --job-dir job
    python benchmarks/stopping.py --job-dir job --data whole --json stopping.json

All interviews are those that the agent leads, on the patients of the test split. They stop

- `threshold`: where the utility of the best decision reaches a threshold, which falls with what is known;
- `q_ask`: where Q(ask) at a price is no more than the utility of the best decision;
- `fixed`: after the same number of questions for everybody.

By the first two, no interview ends while a red flag is open, as served. The threshold or price is the one with which
interviews have so many questions in the mean; a rule that cannot stop so early is left out. In brackets stands the 95%
interval of the paired difference from `threshold`, in the sum of appropriateness and safety.
"""

import argparse
import dataclasses
import math
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
from trainer.graph.decide import PRICES, OperatingPoint, ask_value, utilities
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


def ends_by_rule(interviews: Interviews, point: OperatingPoint, mean: int) -> dict[str, np.ndarray]:
    """Returns after how many questions each of V interviews ends by each rule, int `[V]`: `mean` in the mean."""
    outputs = tf.constant(interviews.outputs.reshape(-1, interviews.outputs.shape[2]))
    shape, decisions = interviews.outputs.shape[:2], interviews.decisions(point)
    best = utilities(outputs, point).numpy().max(axis=1)
    falling = best + outputs[:, -1].numpy()

    def ends(asks: np.ndarray) -> np.ndarray:
        return interviews.ends_by(np.where(asks.reshape(shape), int(Action.ASK), decisions), decisions)

    def by_price(logarithm: float) -> np.ndarray:
        priced = dataclasses.replace(point, price=math.exp(-logarithm))
        return ends(ask_value(outputs, priced).numpy() > best)

    found = {
        THRESHOLD: _with_mean(lambda threshold: ends(falling < threshold), 0.0, 2.0, mean),
        Q_ASK: _with_mean(by_price, -math.log(PRICES[-1]), -math.log(PRICES[0]), mean),
    }
    return {name: each for name, each in found.items() if abs(each.mean() - mean) < 0.1} | {
        FIXED: np.full(shape[1], mean)
    }


def _with_mean(ends: Callable[[float], np.ndarray], low: float, high: float, mean: int) -> np.ndarray:
    """Returns the ends at the setting with which they have a `mean`; they rise between settings `low` and `high`."""
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if ends(middle).mean() < mean else (low, middle)
    return ends(high)


def compare(interviews: Interviews, counts: np.ndarray, point: OperatingPoint, seed: int) -> Figures:
    """Returns estimates by mean number of questions, rule and metric; the `difference` is from `threshold`."""
    right = quality(interviews, counts, point)
    red = majority_decisions(counts) == Action.RED
    decisions, everybody = interviews.decisions(point), np.arange(len(counts))
    found: Figures = {}
    for mean in MEANS:
        ends = ends_by_rule(interviews, point, mean)
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
    if trained.questions is None or not trained.has_probabilities or not data.whole_patients:
        raise SystemExit("expected an agent with probabilities that leads interviews, and data of complete patients")
    vocabulary, point = trained.vocabulary, trained.operating_point
    patients = whole_patients(data.read("test", names=False), len(vocabulary)).at_home(vocabulary)
    rules = safety_rules.choose(None, vocabulary)[0].rules
    graph = QuestionGraph(trained.questions, vocabulary, rules, point, trained.model)
    interviews = lead(patients, trained.model, graph, QUESTIONS, point)
    found = compare(interviews, patients.decision_counts, point, SEED)
    show(found)
    json_output.write({"patients": len(patients.answers), "questions": json_output.plain(found)}, given.json)


if __name__ == "__main__":
    main()
