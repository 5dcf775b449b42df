"""Compares ways to load a version: the time they take, and how long calls wait for the interpreter meanwhile.

    python benchmarks/loading.py --model-base-path BASE --json FILE

Three ways take turns: a session, as in `triage serve`, the same with Grappler, and `tf.saved_model.load`. Each load
includes a first run of every signature, on one thread. Meanwhile another thread repeatedly sleeps for a fifth of a
millisecond and records the delay. `waiting` is the sum of the delays above 2 ms, `longest wait` the largest delay. Then
each way runs the signature `state`. The table on standard output is Markdown; compare the ratios, of medians over the
rounds.
"""

import argparse
import os
import pathlib
import statistics
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from schemas import features
from schemas.model_directory import find_version, read_version
from schemas.parity import probes
from serving.calls.event_loop import take_short_turns
from serving.models.engine import run_in_one_thread
from serving.models.saved_model import SavedModel
from triage.v1 import triage_pb2
from triage_runtime.command_line import figures

SLEEP_SECONDS = 0.0002
WAIT_SECONDS = 0.002
RUNS = 100
COLUMNS = ("load_ms", "waiting_ms", "longest_wait_ms", "one_state_ms", "64_states_ms")
Run = Callable[[str, Mapping[str, np.ndarray]], object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model-base-path", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=7)
    figures.add_argument(parser)
    arguments = parser.parse_args()
    figures.check(arguments.json)
    run_in_one_thread()
    take_short_turns()
    folder = find_version(arguments.model_base_path)
    info, vocabulary = read_version(folder)
    states, asked = probes(info.evidence_count, info.max_questions, 64)
    inputs = {
        features.STATE: {features.STATES: states[:1], features.QUESTIONS_ASKED: asked[:1]},
        features.SERVING_DEFAULT: {
            features.PRESENT: np.array([[vocabulary.codes[0]]], object),
            features.ABSENT: np.array([[""]], object),
            features.QUESTIONS_ASKED: asked[:1],
        },
        features.TRIAGE: {features.EVIDENCE_STATES: np.array([triage_pb2.EvidenceState().SerializeToString()], object)},
    }
    ways: dict[str, Callable[[], Run]] = {
        "session": lambda: SavedModel(folder).run,
        "session, Grappler": lambda: SavedModel(folder, grappler=True).run,
        "tf.saved_model.load": lambda: functions(folder),
    }
    for load in ways.values():  # TensorFlow's initialisation, once in a process
        measure(load, inputs, states, asked)
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    for _ in range(arguments.rounds):
        for name, load in ways.items():
            rounds[name].append(measure(load, inputs, states, asked))
    rows = {
        name: {column: statistics.median(row[column] for row in rounds[name]) for column in COLUMNS} for name in ways
    }
    if arguments.json != "-":
        sys.stdout.write(table(rows) + "\n")
    figures.write({"medians": rows, "rounds": rounds}, arguments.json)


def functions(folder: pathlib.Path) -> Run:
    """Returns a function that runs a signature of the SavedModel as loaded by `tf.saved_model.load`."""
    model = tf.saved_model.load(os.fspath(folder))

    def run(signature: str, inputs: Mapping[str, np.ndarray]) -> object:
        outputs = model.signatures[signature](**{alias: tf.constant(value) for alias, value in inputs.items()})
        return {alias: tensor.numpy() for alias, tensor in outputs.items()}

    return run


def measure(
    load: Callable[[], Run], inputs: Mapping[str, Mapping[str, np.ndarray]], states: np.ndarray, asked: np.ndarray
) -> dict[str, float]:
    """Returns the figures of one load and of runs after it, in milliseconds."""
    waits: list[float] = []
    ended = threading.Event()
    watcher = threading.Thread(target=watch, args=(waits, ended))
    watcher.start()
    begin = time.perf_counter()
    try:
        run = load()
        for name, values in inputs.items():
            run(name, values)
        seconds = time.perf_counter() - begin
    finally:
        ended.set()
        watcher.join()
    long = [wait - WAIT_SECONDS for wait in waits if wait > WAIT_SECONDS]
    durations = {"load_ms": seconds, "waiting_ms": sum(long), "longest_wait_ms": max(waits, default=0.0)}
    for column, size in (("one_state_ms", 1), ("64_states_ms", 64)):
        values = {features.STATES: states[:size], features.QUESTIONS_ASKED: asked[:size]}
        durations[column] = min(duration(run, values) for _ in range(RUNS))
    return {name: 1000 * value for name, value in durations.items()}


def watch(waits: list[float], ended: threading.Event) -> None:
    while not ended.is_set():
        begin = time.perf_counter()
        time.sleep(SLEEP_SECONDS)
        waits.append(time.perf_counter() - begin)


def duration(run: Run, inputs: Mapping[str, np.ndarray]) -> float:
    begin = time.perf_counter()
    run(features.STATE, inputs)
    return time.perf_counter() - begin


def table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    lines = [
        "| way | load, ms | waiting beyond 2 ms, ms | longest wait, ms | 1 state, ms | 64 states, ms |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, row in rows.items():
        lines.append(
            f"| {name} | {' | '.join(f'{row[column]:.1f}' for column in COLUMNS[:3])} | "
            f"{row['one_state_ms']:.2f} | {row['64_states_ms']:.2f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
