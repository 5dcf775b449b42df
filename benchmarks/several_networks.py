"""Measures what several networks in one model cost: size of the files, and the server's latency for one state.

    python benchmarks/several_networks.py --vocabulary data/vocabulary.csv --networks 1 5

Weights are random, as neither size nor time depends on them; the settings are those of the preset `default`. Each
model is served by a process of its own. A single caller calls them in turns, so that other work on the machine affects
all of them alike: compare the differences. The table on standard output is Markdown.
"""

import argparse
import contextlib
import dataclasses
import pathlib
import random
import tempfile
import time
from collections.abc import Sequence

import numpy as np

from schemas import directories
from schemas.evidence import Vocabulary
from serving.bench.serve import triage_server
from trainer.dyqn.decision import Dial
from trainer.dyqn.network import build_network
from trainer.presets import preset
from trainer.runs.job import TrainedNetwork
from trainer.servable.saved_model import write_version
from triage_client import TriageClient, evidence_state

PIECES = 10
CALL_SECONDS = 120.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabulary", type=pathlib.Path, required=True)
    parser.add_argument("--networks", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--turns", type=int, default=50)
    parser.add_argument("--calls", type=int, default=40, help="of each model in a turn")
    arguments = parser.parse_args()
    vocabulary = Vocabulary.load(arguments.vocabulary)
    with contextlib.ExitStack() as stack:
        scratch = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        versions = {count: export(scratch / str(count), vocabulary, count) for count in arguments.networks}
        clients = {count: connected(stack, folder.parent) for count, folder in versions.items()}
        milliseconds = latency(clients, vocabulary, arguments.turns, arguments.calls)
        written = sizes(versions)
    first = arguments.networks[0]
    print("| networks | SavedModel, MB | LiteRT, MB | p50 of a call, ms | beside the first, ms |")
    print("| --- | --- | --- | --- | --- |")
    for count, (saved, litert) in written.items():
        medians, base = np.median(milliseconds[count], axis=1), np.median(milliseconds[first], axis=1)
        beside = "" if count == first else f"{np.median(medians - base):+.2f}"
        print(f"| {count} | {saved / 1e6:.1f} | {litert / 1e6:.1f} | {np.median(medians):.2f} | {beside} |")


def export(base: pathlib.Path, vocabulary: Vocabulary, networks: int) -> pathlib.Path:
    """Writes a version of so many networks."""
    config = dataclasses.replace(preset("default").network.served, networks=networks)
    model = build_network(len(vocabulary), config, seed=0)
    training = {"steps": 0, "episodes": 0}
    return write_version(base, TrainedNetwork(model, vocabulary, {}, 23, "", {}, training, dial=Dial(1.0, 0.9)))


def sizes(versions: dict[int, pathlib.Path]) -> dict[int, tuple[int, int]]:
    """Returns the bytes of the SavedModel, and of the LiteRT file, of each version."""
    parts = (directories.SAVED_MODEL, "variables/*")
    return {
        count: (
            sum(path.stat().st_size for part in parts for path in folder.glob(part)),
            (folder / directories.LITERT).stat().st_size,
        )
        for count, folder in versions.items()
    }


def connected(stack: contextlib.ExitStack, base: pathlib.Path) -> TriageClient:
    """Starts `triage serve` in a process of its own, and connects to it."""
    [server] = stack.enter_context(triage_server(base, (), http=False))
    return stack.enter_context(TriageClient(server.address, timeout_seconds=CALL_SECONDS))


def latency(
    clients: dict[int, TriageClient], vocabulary: Vocabulary, turns: int, calls: int
) -> dict[int, Sequence[Sequence[float]]]:
    """Returns the milliseconds of each model's calls, one sequence for each turn."""
    generator = random.Random(0)  # noqa: S311 (not secret)
    states = []
    for _ in range(calls):
        codes = generator.sample(vocabulary.codes, min(PIECES, len(vocabulary)))
        states.append(evidence_state(codes[::2], codes[1::2]))
    milliseconds: dict[int, list[list[float]]] = {count: [] for count in clients}
    for turn in range(turns + 1):
        for count, client in clients.items():
            durations = []
            for state in states:
                start = time.perf_counter()
                client.triage(state)
                durations.append(1000 * (time.perf_counter() - start))
            if turn:  # the first turn warms up
                milliseconds[count].append(durations)
    return milliseconds


if __name__ == "__main__":
    main()
