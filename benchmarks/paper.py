"""The paper's agents on simulated vignettes, beside the paper's own figures.

    python benchmarks/paper.py --work work

Simulates the vignettes, runs `triage reproduce` on them without its cross-validation, and writes a record of
benchmarks/results. Data and agents stay in --work: an interrupted run goes on.
"""

import argparse
import pathlib
import sys
from collections.abc import Mapping
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

import trainer  # noqa: F401  # isort: skip  # before TensorFlow, as its legacy-Keras switch demands

from benchmarks import records
from benchmarks.quality import run, simulated
from triage_runtime.storage.whole_file import read_json

SEED, TRAIN, TEST = 0, 1_248, 1_000


def main() -> None:
    """Measures, and writes the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=pathlib.Path, required=True, help="folder of data and agents")
    records.add_argument(parser)
    given = parser.parse_args()
    data, study = simulated(given.work / "data", TRAIN, TEST, SEED), given.work / "study"
    run("reproduce", "--data", data.path, "--out", study, "--folds", 0)
    records.write(given.results, "paper", figures(read_json(study / "results.json")), SEED)


def figures(results: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what docs/results.md shows of the results of a study."""
    rows = results["agents"].values()
    compared = [row for row in rows if row["dyqn_or_minus"]]
    return {
        "vignettes": results["data"]["vignettes"],
        "compared_on": compared[0]["dyqn_or_minus"]["safety"]["vignettes"],
        "agents": [
            {
                "agent": row["label"],
                **{name: _beside(row, name) for name in ("appropriateness", "safety", "questions")},
                "forced": row["test"]["forced"]["mean"] if "forced" in row["test"] else None,
            }
            for row in rows
        ],
        "differences": [{"agent": row["label"], **row["dyqn_or_minus"]} for row in compared],
        # The first piece of evidence is not asked for.
        "questions_that_reveal": results["agents"]["dyqn_or"]["test"]["evidence_seen"]["mean"] - 1,
    }


def _beside(row: Mapping[str, Any], name: str) -> dict[str, float | None] | None:
    """Returns a figure with its standard deviation over trainings, and the paper's; None where it has no meaning."""
    if name == "questions" and row["paper"][name] is None:  # it sees all evidence at once
        return None
    found = row["test"][name]
    return {"mean": found["mean"], "sd": found["sd_over_seeds"], "paper": row["paper"][name]}


if __name__ == "__main__":
    main()
