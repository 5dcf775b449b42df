"""The supervised triage model of the baselines: classifiers that vote with their probabilities.

Members and hyper-parameters are those of the paper's appendix "Baseline model for supervised triage". They are trained
on one row per decision: a state that three clinicians judged makes three rows. Members for which a single row of weight
3 is equivalent get that, as it is faster.
"""

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any, TypeAlias

import joblib
import numpy as np
import scipy.sparse
import scipy.special
import threadpoolctl
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from schemas.errors import InputError
from schemas.triage import NUM_DECISIONS

MEMBERS = ("sgd", "logistic", "mlp", "tree", "forest", "svc")
"""The classifiers of the paper's table. The MLP and the SVC are by far the slowest."""
MANY_STATES = 50_000
"""Of more states than these the MLP makes a single pass: more passes take hours."""

_ROW_BY_ROW = ("sgd", "mlp", "forest")
"""Members that take a step for each row or draw rows: for them, a row of weight 3 is not equivalent to three rows."""

States: TypeAlias = np.ndarray | scipy.sparse.csr_matrix
"""Float32 `[B, E]` in {-1, 0, 1}, dense or sparse, see `trainer.data.state`."""


@dataclasses.dataclass(frozen=True)
class EnsembleConfig:
    """How an ensemble is trained.

    The paper's hyper-parameters are fixed. The cost of the SVC grows with the square of its states, and,
    as most of them become support vectors, linearly for each state judged. Of D_pow, it sees a sample.
    """

    members: tuple[str, ...] = MEMBERS
    calibrated: bool = True
    folds: int = 5
    """Folds of the isotonic calibration: each member votes with as many copies, each calibrated on the fold it was not
    trained on. A group is in a single fold."""
    svc_states: int = 10_000
    """Maximum number of states that the SVC is trained on."""
    seed: int = 0
    jobs: int = -1
    """Processes; -1 means one per core. Does not affect the result."""


class TriageEnsemble:
    """A trained ensemble. Made by `train_ensemble`."""

    def __init__(self, voters: Mapping[str, Any]):
        """Assembles the fitted classifier of each member; its classes are columns of triage decisions."""
        self.voters = voters

    def triage_values(self, states: States) -> np.ndarray:
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
    states: States, decision_counts: np.ndarray, groups: np.ndarray, config: EnsembleConfig
) -> TriageEnsemble:
    """Returns the ensemble, the same for the same arguments on the same machine.

    Args:
        states: V of them.
        decision_counts: `[V, 4]`, the clinicians' decisions on each.
        groups: `[V]`, equal for states of one vignette.
        config: how to train.

    Raises:
        InputError: too few vignettes, or too few that differ in their decisions.
    """
    matrix = scipy.sparse.csr_matrix(states, dtype=np.float32)
    folds = _folds(decision_counts, groups, config)
    voters = {}
    for name in config.members:
        drawn = draw_states(groups, config.svc_states if name == "svc" else len(groups), config.seed)
        _require_colours(decision_counts[drawn], folds[drawn], config)
        rows, colours, weights = decision_rows(decision_counts[drawn], name in _ROW_BY_ROW)
        inputs = matrix[drawn][rows]
        if name == "mlp":
            inputs = inputs.astype(np.float64)  # in float32 its penalty makes most weights denormal, which are slow
        voter = _member(name, config.seed, len(drawn))
        if config.calibrated:
            held_out = [folds[drawn][rows] == fold for fold in range(config.folds)]
            splits = [(np.flatnonzero(~here), np.flatnonzero(here)) for here in held_out]
            voter = CalibratedClassifierCV(voter, method="isotonic", cv=splits, n_jobs=config.jobs)
        # With more threads the MLP depends on the machine, and is seldom faster.
        one_thread = joblib.parallel_config("loky", inner_max_num_threads=1)
        with warnings.catch_warnings(), threadpoolctl.threadpool_limits(1), one_thread:
            warnings.simplefilter("ignore", ConvergenceWarning)  # the MLP may make a single pass
            voters[name] = voter.fit(inputs, colours, sample_weight=weights)
        if config.calibrated:
            voters[name].set_params(cv=None)  # does not keep the places of all rows
    return TriageEnsemble(voters)


def decision_rows(decision_counts: np.ndarray, repeated: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the training rows of states whose decisions are `[V, 4]`.

    If `repeated`, each decision is a row; otherwise, a state's equal decisions are one row with a weight.

    Returns:
        The state int `[R]`, the colour int `[R]`, the weight float64 `[R]`.
    """
    rows, colours = np.nonzero(decision_counts)
    times = decision_counts[rows, colours]
    if repeated:
        return np.repeat(rows, times), np.repeat(colours, times), np.ones(int(times.sum()))
    return rows, colours, times.astype(np.float64)


def draw_states(groups: np.ndarray, limit: int, seed: int) -> np.ndarray:
    """Returns the places of `limit` of the states, int `[min(V, limit)]` ascending, drawn without replacement.

    Every group keeps its share: a group of n of the V states gets n * limit / V, rounded up or down.
    """
    if limit >= len(groups):
        return np.arange(len(groups))
    generator = np.random.default_rng(seed)
    _, group_numbers = np.unique(groups, return_inverse=True)
    group_order = generator.permutation(group_numbers.max() + 1)  # or a pattern in the groups could match the stride
    by_group = np.lexsort((generator.random(len(groups)), group_order[group_numbers]))
    places = (np.arange(limit) + generator.random()) * (len(groups) / limit)
    return np.sort(by_group[places.astype(np.int64)])


def _member(name: str, seed: int, states: int) -> Any:
    """Returns an untrained member, with the hyper-parameters of the paper's table; the others are scikit-learn's."""
    passes = 1 if states > MANY_STATES else 1000
    members = {
        "sgd": lambda: SGDClassifier(max_iter=1000, random_state=seed),
        "logistic": lambda: LogisticRegression(max_iter=1000),
        "mlp": lambda: MLPClassifier(
            (512, 512), alpha=1, max_iter=passes, n_iter_no_change=5, tol=0.001, random_state=seed
        ),
        "tree": lambda: DecisionTreeClassifier(max_depth=5, random_state=seed),
        "forest": lambda: RandomForestClassifier(max_depth=5, n_estimators=10, max_features=1, random_state=seed),
        "svc": lambda: SVC(gamma="auto"),
    }
    return members[name]()


def _folds(decision_counts: np.ndarray, groups: np.ndarray, config: EnsembleConfig) -> np.ndarray:
    """Returns the fold of each state, int `[V]`: groups are not divided, and colours are spread evenly."""
    folds: np.ndarray = np.zeros(len(groups), np.int64)
    if not config.calibrated:
        return folds
    if min(len(np.unique(groups)), decision_counts.sum(axis=0).max()) < config.folds:
        raise InputError(f"calibration needs at least {config.folds} training vignettes, and as many equal decisions")
    rows, colours, _ = decision_rows(decision_counts, repeated=True)
    splitter = StratifiedGroupKFold(config.folds, shuffle=True, random_state=config.seed)
    for fold, (_, held_out) in enumerate(splitter.split(rows, colours, groups[rows])):
        folds[rows[held_out]] = fold
    return folds


def _require_colours(decision_counts: np.ndarray, folds: np.ndarray, config: EnsembleConfig) -> None:
    """Raises InputError if there are too few colours for a classifier."""
    colours = _colours(decision_counts)
    if colours < 2:
        raise InputError(
            f"all decisions of the {len(folds)} training states are the same: a classifier needs two colours or more"
        )
    for fold in range(config.folds if config.calibrated else 0):
        # A member that knows two of several colours has one decision value, which breaks calibration.
        if _colours(decision_counts[folds != fold]) < min(colours, 3) or not (folds == fold).any():
            raise InputError(
                f"too few training vignettes with different decisions for {config.folds} folds of calibration"
            )


def _colours(decision_counts: np.ndarray) -> int:
    return int((decision_counts.sum(axis=0) > 0).sum())


def _probabilities(voter: Any, states: States) -> np.ndarray:
    """Returns float `[B, C]`, a column for each of the voter's classes."""
    if hasattr(voter, "predict_proba"):
        return voter.predict_proba(states)
    values = voter.decision_function(states)
    if values.ndim == 1:  # two classes: the value of the second one
        values = np.stack([-values, values], axis=1)
    return scipy.special.softmax(values, axis=1)
