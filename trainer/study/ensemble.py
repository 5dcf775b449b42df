"""The supervised triage model of the baselines: classifiers that vote with their probabilities.

Members and hyper-parameters are those of the paper's appendix "Baseline model for supervised triage". They are trained
on one row per decision: a state that three clinicians judged makes three rows. Members for which a single row of weight
3 is equivalent get that, as it is faster.
"""

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import joblib
import numpy as np
import scipy.sparse
import scipy.special
import threadpoolctl
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import PredefinedSplit, StratifiedGroupKFold
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import resample

from schemas.errors import InputError
from schemas.triage import NUM_DECISIONS

MEMBERS = ("sgd", "logistic", "mlp", "tree", "forest", "svc")
"""The classifiers of the paper's table. The MLP and the SVC are by far the slowest."""
MANY_STATES = 50_000  # of more states than these the MLP makes a single pass: more passes take hours
SVC_STATES = 10_000
"""Maximum number of states that the SVC is trained on. Its cost grows with their square, and, as most of them become
support vectors, linearly for each state judged."""
FOLDS = 5  # of the calibration

_ROW_BY_ROW = ("sgd", "mlp", "forest")
"""Members that take a step for each row or draw rows: for them, a row of weight 3 is not equivalent to three rows."""


@dataclasses.dataclass(frozen=True)
class TriageEnsemble:
    """A trained ensemble. Made by `train_ensemble`."""

    voters: Mapping[str, Any]  # the fitted classifier of each member; its classes are columns of triage decisions

    def triage_values(self, states: scipy.sparse.csr_matrix) -> np.ndarray:
        """Returns the probability of each triage decision, float64 `[B, 4]`, rows sum to 1.

        The mean over the members. Columns are in urgency order, 0 for colours that are not in the training data.
        Without calibration, a member without probabilities (SGD with its hinge loss, SVC) votes with the softmax of its
        one-against-the-rest decision values, which are probabilities only in range and order.
        """
        total = np.zeros([states.shape[0], NUM_DECISIONS])
        for voter in self.voters.values():
            total[:, voter.classes_] += _probabilities(voter, states)
        return total / len(self.voters)


def train_ensemble(
    states: scipy.sparse.csr_matrix,
    decision_counts: np.ndarray,
    groups: np.ndarray,
    calibrated: bool,
    seed: int,
    jobs: int = -1,
    members: Sequence[str] = MEMBERS,
) -> TriageEnsemble:
    """Returns the ensemble, the same for the same arguments on the same machine.

    Args:
        states: float32 `[V, E]` in {-1, 0, 1}.
        decision_counts: `[V, 4]`, the clinicians' decisions on each.
        groups: `[V]`, equal for states of one vignette, which are in a single fold of the calibration.
        calibrated: whether each member votes with `FOLDS` copies, each calibrated (isotonic) on the fold that it was
            not trained on.
        seed: of every random draw.
        jobs: processes, -1 for one on each core; the result is the same for any number.
        members: some of `MEMBERS`.

    Raises:
        InputError: too few vignettes, or too few that differ in their decisions.
    """
    folds = _folds(decision_counts, groups, seed) if calibrated else np.zeros(len(groups), np.int64)
    voters = {}
    for name in members:
        drawn = draw_states(groups, SVC_STATES if name == "svc" else len(groups), seed)
        _require_colours(decision_counts[drawn], folds[drawn], calibrated)
        rows, colours, weights = decision_rows(decision_counts[drawn], name in _ROW_BY_ROW)
        inputs = states[drawn][rows]
        if name == "mlp":
            inputs = inputs.astype(np.float64)  # in float32 its penalty makes most weights denormal, which are slow
        voter = _member(name, seed, len(drawn))
        if calibrated:
            held_out = PredefinedSplit(folds[drawn][rows])
            voter = CalibratedClassifierCV(voter, method="isotonic", cv=held_out, n_jobs=jobs)
        # With more threads the MLP depends on the machine, and is seldom faster.
        one_thread = joblib.parallel_config("loky", inner_max_num_threads=1)
        with warnings.catch_warnings(), threadpoolctl.threadpool_limits(1), one_thread:
            warnings.simplefilter("ignore", ConvergenceWarning)  # the MLP may make a single pass
            voters[name] = voter.fit(inputs, colours, sample_weight=weights)
        if calibrated:
            voters[name].set_params(cv=None)  # does not keep the places of all rows
    return TriageEnsemble(voters)


def decision_rows(decision_counts: np.ndarray, repeated: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the training rows of V states with these decisions `[V, 4]`: state, colour and weight, `[R]` each.

    If `repeated`, each decision is a row; otherwise, a state's equal decisions are one row with a weight.
    """
    rows, colours = np.nonzero(decision_counts)
    times = decision_counts[rows, colours]
    if repeated:
        return np.repeat(rows, times), np.repeat(colours, times), np.ones(int(times.sum()))
    return rows, colours, times.astype(np.float64)


def draw_states(groups: np.ndarray, limit: int, seed: int) -> np.ndarray:
    """Returns the places of `limit` of the V states, ascending, drawn without replacement; or of all, if fewer.

    Every group keeps its share, rounded up or down.
    """
    places = np.arange(len(groups))
    if limit >= len(groups):
        return places
    return np.sort(resample(places, replace=False, n_samples=limit, stratify=groups, random_state=seed))


def _member(name: str, seed: int, states: int) -> Any:
    """Returns an untrained member, with the hyper-parameters of the paper's table; the others are scikit-learn's."""
    passes = 1 if states > MANY_STATES else 1000
    members = {
        "sgd": SGDClassifier(max_iter=1000, random_state=seed),
        "logistic": LogisticRegression(max_iter=1000),
        "mlp": MLPClassifier((512, 512), alpha=1, max_iter=passes, n_iter_no_change=5, tol=0.001, random_state=seed),
        "tree": DecisionTreeClassifier(max_depth=5, random_state=seed),
        "forest": RandomForestClassifier(max_depth=5, n_estimators=10, max_features=1, random_state=seed),
        "svc": SVC(gamma="auto"),
    }
    return members[name]


def _folds(decision_counts: np.ndarray, groups: np.ndarray, seed: int) -> np.ndarray:
    """Returns the fold of each state, int `[V]`: groups are not divided, and colours are spread evenly."""
    rows, colours, _ = decision_rows(decision_counts, repeated=True)
    folds: np.ndarray = np.zeros(len(groups), np.int64)
    if np.bincount(colours).max() >= FOLDS:  # else the splitter refuses them, and `_require_colours` says it better
        splitter = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=seed)
        for fold, (_, held_out) in enumerate(splitter.split(rows, colours, groups[rows])):
            folds[rows[held_out]] = fold
    return folds


def _require_colours(decision_counts: np.ndarray, folds: np.ndarray, calibrated: bool) -> None:
    """Raises InputError if there are too few colours for a classifier."""
    colours = (decision_counts > 0).any(axis=0).sum()
    if colours < 2:
        raise InputError(
            f"all decisions of the {len(folds)} training states are the same: a classifier needs two colours or more"
        )
    for fold in range(FOLDS if calibrated else 0):
        # A member that knows two of several colours has one decision value, which breaks calibration.
        known = (decision_counts[folds != fold] > 0).any(axis=0).sum()
        if known < min(colours, 3) or not (folds == fold).any():
            raise InputError(f"too few training vignettes with different decisions for {FOLDS} folds of calibration")


def _probabilities(voter: Any, states: scipy.sparse.csr_matrix) -> np.ndarray:
    """Returns float `[B, C]`, a column for each of the voter's classes."""
    if hasattr(voter, "predict_proba"):
        return voter.predict_proba(states)
    values = voter.decision_function(states)
    if values.ndim == 1:  # two classes: the value of the second one
        values = np.stack([-values, values], axis=1)
    return scipy.special.softmax(values, axis=1)
