"""Compares the TFLite files of a version: size, latency, parity, and metrics on the test split.

    python benchmarks/mobile.py --model BASE --data DIR --json FILE

Every file is converted from the same version and run by LiteRT on one thread. Parity is over random states, as in
`triage tflite`; the test split is played in the same evidence orders by the SavedModel and by each file. Latency is the
median of single calls. The files take turns, so that other load on the machine affects all equally: compare the ratios.
The table on standard output is Markdown.
"""

import argparse
import pathlib
import platform
import time
from typing import Any

import numpy as np
from rich.console import Console

from schemas.model_directory import version_folder
from schemas.parity import random_states
from trainer.dyqn.rollout import Outcomes
from trainer.evaluation.measurement import ORDERS
from trainer.exporting import tflite_file, tflite_parity
from trainer.exporting.publish import Examination
from trainer.exporting.tflite import STATES
from trainer.servable import conversion
from trainer.servable.litert import as_version, litert_version
from trainer.servable.policy import LoadedVersion, load_version
from triage_runtime.command_line import figures
from triage_runtime.litert import LiteRtModel

METRICS = ("appropriateness", "safety", "questions", "evidence_seen")
TURNS, CALLS = 50, 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--orders", type=int, default=ORDERS)
    parser.add_argument("--states", type=int, default=STATES)
    parser.add_argument("--seed", type=int, default=0)
    figures.add_argument(parser)
    arguments = parser.parse_args()
    version = load_version(version_folder(arguments.model))
    exam = Examination(arguments.data, arguments.orders, arguments.seed)
    reference = exam.play(version, "SavedModel")
    states, origin = conversion.calibration_states(arguments.data, version, arguments.seed)
    files = {name: conversion.convert(version, name, states) for name in conversion.QUANTIZATIONS}
    rows: dict[str, Any] = {"SavedModel": {"evaluation": evaluation(exam, reference, reference)}}
    for name, content in files.items():
        model = LiteRtModel(content)
        bound = tflite_parity.BOUNDS[name]
        parity = tflite_parity.compare(version, model, bound, arguments.states, arguments.seed)
        calibration = origin if name == conversion.INT8 else None
        description = tflite_file.describe(version, model, name, parity, calibration)
        outcomes = exam.play(as_version(model, version), name)
        rows[name] = {
            "bytes": len(tflite_file.embed(content, description)),
            "parity": parity._asdict(),
            "evaluation": evaluation(exam, outcomes, reference),
        }
    for name, microseconds in latency(files, version, arguments.seed).items():
        rows[name]["latency_microseconds"] = microseconds
    setting = {"processor": platform.processor() or platform.machine(), "litert": litert_version(), "threads": 1}
    if arguments.json != "-":
        Console(width=200, highlight=False, markup=False).print(table(rows))
    figures.write({**setting, "turns": TURNS, "calls": CALLS, "files": rows}, arguments.json)


def evaluation(exam: Examination, outcomes: Outcomes, reference: Outcomes) -> dict[str, Any]:
    """Returns metrics with their intervals, and the share of episodes with another decision than the SavedModel's."""
    agent = exam.report(outcomes)["agent"]
    return {
        **{metric: agent[metric] for metric in METRICS},
        "triage_changed": float((outcomes.decisions != reference.decisions).mean()),
        "questions_changed": float((outcomes.questions != reference.questions).mean()),
    }


def latency(files: dict[str, bytes], version: LoadedVersion, seed: int) -> dict[str, float]:
    """Returns the median duration of a call in microseconds."""
    models = {name: LiteRtModel(content) for name, content in files.items()}
    states, questions_asked = random_states(len(version.vocabulary), version.max_questions, CALLS, seed)
    durations: dict[str, list[int]] = {name: [] for name in models}
    for turn in range(TURNS + 1):
        for name, model in models.items():
            for state, questions in zip(states[:, np.newaxis], questions_asked[:, np.newaxis], strict=True):
                start = time.perf_counter_ns()
                model.run(state, questions)
                if turn:  # the first turn warms up
                    durations[name].append(time.perf_counter_ns() - start)
    return {name: float(np.median(each)) / 1000 for name, each in durations.items()}


def table(rows: dict[str, Any]) -> str:
    shares = ("decision changed", "less urgent", "largest Δnovelty", "is novel changed")
    headings = ("", "bytes", "call", "largest ΔQ", *shares, *METRICS, "triage changed")
    lines = [
        "| " + " | ".join(heading.replace("_", " ") for heading in headings) + " |",
        "| --- " * len(headings) + "|",
    ]
    base = rows[conversion.NONE]["latency_microseconds"]
    for name, row in rows.items():
        evaluation = row["evaluation"]
        cells = [name]
        if "parity" in row:
            parity, ratio = row["parity"], row["latency_microseconds"] / base
            cells += [f"{row['bytes']:,}", f"{ratio:.2f}", f"{parity['largest_q_difference']:.1e}"]
            cells += [f"{parity[share]:.2%}" for share in ("decision_changed", "best_triage_less_urgent")]
            if parity["largest_novelty_difference"] is None:
                cells += ["-", "-"]
            else:
                cells += [f"{parity['largest_novelty_difference']:.3f}", f"{parity['is_novel_changed']:.2%}"]
        else:
            cells += ["-"] * 7
        digits = {"questions": 2, "evidence_seen": 2}
        cells += [f"{evaluation[metric]['mean']:.{digits.get(metric, 3)}f}" for metric in METRICS]
        cells.append(f"{evaluation['triage_changed']:.2%}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
