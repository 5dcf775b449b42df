"""Measures novelty scores: do they separate moments of held-out interviews from states that no patient has?

    python benchmarks/novelty.py --data DIR [--seed N] --json FILE

The scores are fitted to the training split. Natural states are random moments of interviews about the test split. They
are compared with as many states with the same numbers of pieces, of three kinds: `shuffled`, pieces of all training
vignettes drawn one by one, with their usual frequencies but unrelated; `mixed`, half from one test vignette and half
from another; `uniform`, any pieces, present or absent at random. The figures are the area under the ROC curve of each
score (AUROC; 0.5 is chance), and for the score of exported models the share of each kind that it calls novel.
"""

import argparse
import pathlib
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.metrics import roc_auc_score

from trainer import state
from trainer.safeguards import novelty
from trainer.vignettes.arrays import VignetteArrays
from trainer.vignettes.tfrecord import DataDirectory
from triage_runtime.command_line import figures

KINDS = ("natural", "shuffled", "mixed", "uniform")
Rows = list[np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    figures.add_argument(parser)
    arguments = parser.parse_args()
    data = DataDirectory.open(arguments.data).whole()
    report = measure(data.read("train"), data.read("test"), len(data.vocabulary), arguments.seed)
    if arguments.json != "-":
        show(report)
    figures.write({"data_fingerprint": data.data_fingerprint, "seed": arguments.seed, **report}, arguments.json)


def measure(train: VignetteArrays, test: VignetteArrays, evidence_count: int, seed: int) -> dict:
    """Returns the AUROC of each score against each kind, and the shares that are called novel."""
    generator = np.random.default_rng(seed)
    fitted = novelty.fit(train, evidence_count, seed)
    if fitted is None:
        raise SystemExit(f"expected at least {novelty.MINIMUM_VIGNETTES} training vignettes")
    known, groups = rows_of(train), groups_of(rows_of(train), rows_of(test), evidence_count, generator)

    def percentiles(rows: Rows) -> np.ndarray:
        width = max(map(len, rows))
        padded = np.array([np.pad(row, (0, width - len(row))) for row in rows], np.int32)
        return fitted.percentiles(state.from_signed_codes(padded, evidence_count)).numpy()

    scores = {"exported": percentiles} | others(known, evidence_count)
    auroc = {}
    for name, score in scores.items():
        values = {kind: score(rows) for kind, rows in groups.items()}
        truth = np.repeat([0, 1], len(groups["natural"]))
        auroc[name] = {
            kind: float(roc_auc_score(truth, np.concatenate([values["natural"], values[kind]]))) for kind in KINDS[1:]
        }
    called = {kind: float((percentiles(rows) > novelty.THRESHOLD + 1e-4).mean()) for kind, rows in groups.items()}
    return {"states": len(groups["natural"]), "auroc": auroc, "called_novel": called}


def rows_of(vignettes: VignetteArrays) -> Rows:
    """Returns the signed codes of each vignette."""
    return [part.astype(np.int64) for part in np.split(vignettes.signed_codes, vignettes.offsets[1:-1])]


def groups_of(train: Rows, test: Rows, evidence_count: int, generator: np.random.Generator) -> dict[str, Rows]:
    """Returns the states of each kind, of the same numbers of pieces."""
    natural = novelty.moments(test, generator)
    pool = np.concatenate(train)

    def distinct(draw: Callable[[], np.int64], count: int) -> np.ndarray:
        codes: dict[int, int] = {}
        while len(codes) < count:
            code = int(draw())
            codes.setdefault(abs(code), code)
        return np.array(list(codes.values()))

    def mixed(row: np.ndarray) -> np.ndarray:
        codes = {abs(int(code)): code for code in row[: (len(row) + 1) // 2]}
        # A few vignettes are too short for half of the pieces; others fill up the rest.
        for code in (*test[generator.integers(len(test))], *generator.choice(pool, 200)):
            if len(codes) < len(row):
                codes.setdefault(abs(int(code)), code)
        return np.array(list(codes.values()))

    return {
        "natural": natural,
        "shuffled": [distinct(lambda: generator.choice(pool), len(row)) for row in natural],
        "mixed": [mixed(row) for row in natural],
        "uniform": [
            (generator.permutation(evidence_count)[: len(row)] + 1) * generator.choice([-1, 1], len(row))
            for row in natural
        ],
    }


def others(train: Rows, evidence_count: int) -> dict[str, Callable[[Rows], np.ndarray]]:
    """Returns the scores that were not chosen; higher is more novel."""
    known = novelty.literals(train, evidence_count)
    frequency = (np.asarray(known.sum(axis=0)).ravel() + 0.1) / known.shape[0]
    together = (known.T @ known).toarray()

    def rarity(rows: Rows) -> np.ndarray:
        return np.array([-np.log(frequency[place]).mean() for place in places(rows)])

    def unseen_pairs(rows: Rows) -> np.ndarray:
        shares = []
        for place in places(rows):
            first, second = np.triu_indices(len(place), 1)
            pairs = together[place[first], place[second]] if len(place) > 1 else together[place, place]
            shares.append((pairs == 0).mean())
        return np.array(shares)

    def nearest(rows: Rows) -> np.ndarray:
        shared = (novelty.literals(rows, evidence_count) @ known.T).toarray().max(axis=1)
        return 1 - shared / [len(row) for row in rows]

    def places(rows: Rows) -> list[np.ndarray]:
        return [np.where(row > 0, row - 1, evidence_count - row - 1) for row in rows]

    return {"rarity of each piece": rarity, "share of pairs never seen": unseen_pairs, "nearest vignette": nearest}


def show(report: dict) -> None:
    """Prints the figures."""
    table = Table("score", *(f"AUROC, {kind}" for kind in KINDS[1:]))
    for name, areas in report["auroc"].items():
        table.add_row(name, *(f"{areas[kind]:.3f}" for kind in KINDS[1:]))
    console = Console()
    console.print(table)
    shares = ", ".join(f"{kind} {share:.1%}" for kind, share in report["called_novel"].items())
    console.print(f"called novel, of {report['states']:,} states each: {shares}")


if __name__ == "__main__":
    main()
