"""Plain classifiers that see all evidence: no part of the paper, but what a learned agent should be compared with.

Imports no TensorFlow.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from schemas.triage import NUM_DECISIONS
from trainer.study.ensemble import States, decision_rows

CLASSIFIERS: dict[str, Callable[[int], Any]] = {
    "forest": lambda seed: RandomForestClassifier(300, min_samples_leaf=2, n_jobs=-1, random_state=seed),
    "logistic": lambda seed: LogisticRegression(max_iter=1000),
}
"""By name, what makes an untrained classifier from a seed."""


def classifier(name: str, states: States, decision_counts: np.ndarray, seed: int) -> Callable[[States], np.ndarray]:
    """Returns the triage values of a trained classifier, float64 `[B, 4]`: the share of clinicians that it expects.

    Args:
        name: one of `CLASSIFIERS`.
        states: V of them, with all evidence.
        decision_counts: `[V, 4]`, the clinicians' decisions on each.
        seed: of its draws.
    """
    rows, colours, weights = decision_rows(decision_counts, repeated=False)
    trained = CLASSIFIERS[name](seed).fit(states[rows], colours, sample_weight=weights)

    def triage_values(judged: States) -> np.ndarray:
        values = np.zeros([judged.shape[0], NUM_DECISIONS])
        values[:, trained.classes_] = trained.predict_proba(judged)
        return values

    return triage_values
