"""Compares the engines of `triage serve` on small batches: the time they take, and how often their decisions differ.

    python benchmarks/small_batches.py --model-base-path BASE --json FILE

Three ways take turns in answering the same messages, on one thread: LiteRT, the SavedModel's signature `state` (as with
`--no-litert`), and its signature `serving_default`, which looks codes up in the graph. The figure is the processor time
of a call, the least of the rounds, so that other load on the machine has little effect; compare the ratios. Then LiteRT
and the SavedModel answer random states, in batches of every size. The table on standard output is Markdown.
"""

import argparse
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from schemas import features
from schemas.model_directory import find_version
from schemas.parity import decided_clearly, probes
from serving.bench.serve import make_requests
from serving.models.engine import run_in_one_thread
from serving.models.litert import MOST_STATES, InterpreterPool
from serving.models.saved_model import SavedModelEngine, SavedModelWithLiteRt
from serving.models.state_tensors import to_inputs, to_responses
from triage.v1 import triage_service_pb2
from triage_runtime.command_line import figures

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
STATES_IN_A_TURN = 200
VALUES = (features.Q_VALUES, features.NOVELTY)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model-base-path", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--states", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    figures.add_argument(parser)
    arguments = parser.parse_args()
    figures.check(arguments.json)
    run_in_one_thread()
    folder = find_version(arguments.model_base_path)
    engine, alone = SavedModelWithLiteRt(folder, most_states=max(SIZES)), SavedModelEngine(folder)
    if engine.litert is None:
        sys.exit("this version is not answered by LiteRT: export it again")
    rows = [duration(engine, alone, size, arguments.rounds) for size in SIZES]
    differences = parity(engine, engine.litert, arguments.states, arguments.seed)
    if arguments.json != "-":
        sys.stdout.write(
            table(rows) + "\n" + "\n".join(f"{name}: {value:.3g}" for name, value in differences.items()) + "\n"
        )
    figures.write({"durations": rows, "parity": differences}, arguments.json)


def duration(engine: SavedModelWithLiteRt, alone: SavedModelEngine, size: int, rounds: int) -> dict[str, Any]:
    """Returns the microseconds of processor time that each way takes for `size` messages."""
    requests = make_requests(engine.vocabulary)
    messages = [triage_service_pb2.TriageRequest.FromString(requests[n % len(requests)]).state for n in range(size)]

    def codes() -> None:
        to_responses(engine.predict(features.SERVING_DEFAULT, to_inputs(messages)), engine.info)

    ways: dict[str, Callable[[], object]] = {
        "litert": lambda: engine.triage(messages),
        "state": lambda: alone.triage(messages),
        "serving_default": codes,
    }
    least = dict.fromkeys(ways, float("inf"))
    calls = max(2, STATES_IN_A_TURN // size)
    for _ in range(rounds):
        for name, call in ways.items():
            call()
            begin = time.process_time()
            for _ in range(calls):
                call()
            least[name] = min(least[name], (time.process_time() - begin) / calls * 1e6)
    return {"states": size, "microseconds": least}


def parity(engine: SavedModelWithLiteRt, litert: InterpreterPool, count: int, seed: int) -> dict[str, float]:
    """Returns how much LiteRT differs from the SavedModel on random states: largest differences, numbers of states."""
    states, asked = probes(engine.info.evidence_count, engine.info.max_questions, count, seed)
    parts, begin, size = [], 0, 0
    while begin < count:
        size = size % MOST_STATES + 1
        parts.append(litert.run(states[begin : begin + size], asked[begin : begin + size]))
        begin += size
    outputs = {name: np.concatenate([part[name] for part in parts if part]) for name in parts[0] or {}}
    expected = engine.predict(features.STATE, {features.STATES: states, features.QUESTIONS_ASKED: asked})
    apart = {name: np.abs(outputs[name] * 1.0 - expected[name]) for name in outputs}
    clear = decided_clearly(expected, engine.info)
    differences = {"states": count, "clearly_decided": int(clear.sum())}
    differences |= {f"{name}_largest_difference": float(apart[name].max()) for name in VALUES if name in apart}
    return differences | {f"{name}_differs": int((apart[name] > 0).sum()) for name in apart if name not in VALUES}


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| states | LiteRT | SavedModel | serving_default | LiteRT / SavedModel |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        least = row["microseconds"]
        cells = [f"{least[name]:,.0f}" for name in ("litert", "state", "serving_default")]
        lines.append(f"| {row['states']} | {' | '.join(cells)} | {least['litert'] / least['state']:.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
