"""Measures how hard a data directory is: the paper's calibrated classifier ensemble on full evidence.

    python benchmarks/difficulty.py DIR [DIR ...] [--logistic] --json FILE

The soft-voting ensemble of the paper's appendix, each member calibrated isotonically, sees all evidence of the training
vignettes, one row a decision, and is judged by the clinicians' decisions of the test split and of the training split.
The paper's figures are .86 and .94 (test), and about .95 (appropriateness, training). `--logistic` takes one of its
members alone: seconds instead of minutes, to compare data directories. Needs scikit-learn (the extra `dev`).
"""

import argparse
import pathlib
import statistics
from typing import Any

import numpy as np
import scipy.sparse
from rich.console import Console
from rich.table import Table
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GroupKFold
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from schemas import figures
from trainer.arrays import VignetteArrays
from trainer.metrics import triage_quality
from trainer.tfrecord import DataDirectory

FOLDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path, nargs="+")
    parser.add_argument("--logistic", action="store_true")
    figures.add_argument(parser)
    arguments = parser.parse_args()
    runs = []
    for path in arguments.data:
        runs.append({"data": str(path), **measure(DataDirectory.open(path), arguments.logistic)})
        Console(stderr=True).print(runs[-1])
    show(runs)
    figures.write({"runs": runs}, arguments.json)


def measure(data: DataDirectory, logistic: bool) -> dict[str, Any]:
    """Returns appropriateness and safety of the classifier, by split."""
    train = data.read("train")
    states = dense_states(train, len(data.vocabulary))
    rows, labels = decision_rows(train.decision_counts)
    # The decisions of a vignette stay in one fold, or the calibration would be judged on what it was fitted to.
    folds = list(GroupKFold(FOLDS).split(states[rows], labels, groups=rows))
    model = (members()["logistic"] if logistic else ensemble(folds)).fit(states[rows], labels)
    found: dict[str, Any] = {}
    for split in ("test", "train"):
        arrays = data.read(split)
        chosen = model.classes_[model.predict_proba(dense_states(arrays, len(data.vocabulary))).argmax(axis=1)]
        quality = triage_quality(chosen[None, :], arrays.decision_counts)
        found |= {f"{split}_{name}": float(quality[name].mean()) for name in ("appropriateness", "safety")}
    return found


def ensemble(folds: list[Any]) -> VotingClassifier:
    """Returns the classifier of the paper's table "Structure of the supervised triage model"."""
    calibrated = [(name, CalibratedClassifierCV(m, method="isotonic", cv=folds)) for name, m in members().items()]
    return VotingClassifier(calibrated, voting="soft", n_jobs=-1)


def members() -> dict[str, Any]:
    """Returns the members of the ensemble, before their calibration."""
    return {
        "sgd": SGDClassifier(max_iter=1000, random_state=0),
        "logistic": LogisticRegression(max_iter=1000),
        "mlp": MLPClassifier((512, 512), alpha=1, max_iter=1000, n_iter_no_change=5, tol=0.001, random_state=0),
        "tree": DecisionTreeClassifier(max_depth=5, random_state=0),
        "forest": RandomForestClassifier(max_depth=5, n_estimators=10, max_features=1, random_state=0),
        "svc": SVC(gamma="auto"),
    }


def dense_states(arrays: VignetteArrays, codes: int) -> np.ndarray:
    """Returns the full evidence of each vignette, float32 `[V, E]` in {-1, 0, 1}."""
    signed = arrays.signed_codes.astype(np.int64)
    matrix = scipy.sparse.csr_matrix(
        (np.sign(signed), np.abs(signed) - 1, arrays.offsets), shape=(len(arrays.vignette_ids), codes)
    )
    return matrix.toarray().astype(np.float32)


def decision_rows(decision_counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the vignette and the colour of each decision, int `[sum of decisions]` both."""
    vignettes, colours = np.nonzero(decision_counts)
    times = decision_counts[vignettes, colours]
    return np.repeat(vignettes, times), np.repeat(colours, times)


def show(runs: list[dict[str, Any]]) -> None:
    names = [name for name in runs[0] if name != "data"]
    table = Table(title="Classifier on full evidence")
    for heading in ("data", *names):
        table.add_column(heading)
    for run in runs:
        table.add_row(run["data"], *(f"{run[name]:.3f}" for name in names))
    if len(runs) > 1:
        columns = [[run[name] for run in runs] for name in names]
        table.add_row("mean (SD)", *(f"{statistics.mean(c):.3f} ({statistics.stdev(c):.3f})" for c in columns))
    table.add_row("paper", "0.86", "0.94", "0.95", "")
    Console().print(table)


if __name__ == "__main__":
    main()
