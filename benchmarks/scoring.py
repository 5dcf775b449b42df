"""Measures `triage score` against the bare model, and how its memory grows.

    triage simulate --vignettes 1000000 --test-fraction 0.5 --out data
    python benchmarks/scoring.py --model models --cases data/*.tfrecord*

The bare model runs the signature `state` on states that lie in memory, at the batch size at which it is fastest; it
reads and writes nothing. Both take turns, so that other work on the machine affects both alike: compare the ratio. The
cases are JSON Lines; what TFRecord, CSV or Parquet cost is another matter.
"""

import argparse
import gc
import itertools
import json
import pathlib
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence

from schemas.model_directory import version_folder
from schemas.parity import random_states
from serving.engine.saved_model import SavedModelEngine
from serving.scoring.answers import Scorer
from serving.scoring.cases import ABSENT, ID, PRESENT, read
from serving.scoring.file import score_file

BATCHES = (256, 512, 1024, 2048, 4096)
SECONDS = 4.0
CASES = 50_000  # in a file


def main() -> None:
    """Prints the rates and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--cases", type=pathlib.Path, nargs="+", required=True, help="files of cases, used in turn")
    parser.add_argument("--rounds", type=int, default=10, help=f"files of {CASES:,} cases")
    given = parser.parse_args()
    scorer = Scorer(SavedModelEngine(version_folder(given.model)), 0, allow_unknown_codes=False)
    gc.freeze()  # as the command does
    best = max(BATCHES, key=lambda size: _bare(scorer, size))
    ratios, memory = [], []
    with tempfile.TemporaryDirectory() as scratch:
        for number, source in enumerate(_files(given.cases, given.rounds, pathlib.Path(scratch))):
            began = time.monotonic()
            counts = score_file(scorer, source, source.with_suffix(".answers.jsonl"), lambda _: None)
            rate, bare = counts.total() / (time.monotonic() - began), _bare(scorer, best)
            ratios.append(rate / bare)
            memory.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
            sys.stdout.write(
                f"round {number + 1}: {rate:,.0f} cases/s, bare model {bare:,.0f}/s at batches of {best}, ratio "
                f"{ratios[-1]:.2f}, largest memory so far {memory[-1]:,.0f} MB\n"
            )
    sys.stdout.write(f"median ratio {statistics.median(ratios):.2f}; memory grew by {memory[-1] - memory[0]:,.0f} MB\n")


def _bare(scorer: Scorer, batch_size: int) -> float:
    """Returns the states a second that the model answers."""
    info = scorer.engine.info
    states, asked = random_states(info.evidence_count, info.max_questions, batch_size, 0)
    scorer.engine.decide(states, asked)
    began, runs = time.monotonic(), 0
    while time.monotonic() - began < SECONDS:
        scorer.engine.decide(states, asked)
        runs += 1
    return runs * batch_size / (time.monotonic() - began)


def _files(paths: Sequence[pathlib.Path], count: int, folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns files of `CASES` cases each, as JSON Lines."""
    batches = itertools.chain.from_iterable(read(path, CASES) for path in paths)
    files = []
    for number, cases in zip(range(count), itertools.cycle(batches), strict=False):
        files.append(folder / f"{number}.jsonl")
        rows = zip(cases.ids, cases.present, cases.absent, strict=True)
        lines = (json.dumps(dict(zip((ID, PRESENT, ABSENT), row, strict=True))) for row in rows)
        files[-1].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return files


if __name__ == "__main__":
    main()
