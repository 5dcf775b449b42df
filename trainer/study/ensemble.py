"""The supervised triage model of the baselines: classifiers that vote with their probabilities.

Members and hyper-parameters are those of the paper's appendix "Baseline model for supervised triage". They are trained
on one row per decision: a state that three clinicians judged makes three rows. Members for which a single row of weight
3 is equivalent get that, as it is faster.
"""

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
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
from trainer.study.study import MEMBERS

STATES_AT_ONCE = 2_048
"""States that a member judges at a time: the layers of the MLP are dense."""
MANY_STATES = 50_000
"""Of more states than these the MLP makes a single pass: more passes take hours."""

_SLOWEST_FIRST = ("svc", "mlp")  # so that no core is left with them at the end
_ROW_BY_ROW = ("sgd", "mlp", "forest")
"""Members that take a step for each row or draw rows: for them, a row of weight 3 is not equivalent to three rows."""

States: TypeAlias = np.ndarray | scipy.sparse.csr_matrix
"""Float32 `[B, E]` in {-1, 0, 1}, dense or sparse, see `trainer.vignettes.state`."""


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

    def __post_init__(self) -> None:
        unknown = sorted(set(self.members) - set(MEMBERS))
        rules = [
            (not unknown, f"no such member {unknown}: known are {', '.join(MEMBERS)}"),
            (len(set(self.members)) == len(self.members) > 0, "members must be one or more, without repetition"),
            (self.folds >= 2, "folds must be at least 2"),
            (self.svc_states >= 1, "svc_states must be at least 1"),
            (0 <= self.seed < 2**32, "seed must be 0 or more, and below 2^32"),
            (self.jobs != 0, "jobs must be a number of processes, or -1 for one per core"),
        ]
        for holds, message in rules:
            if not holds:
                raise InputError(f"ensemble configuration: {message}")


class TriageEnsemble:
    """A trained ensemble. Made by `train_ensemble`."""

    def __init__(self, voters: Mapping[str, Sequence[Any]], config: EnsembleConfig, evidence_count: int):
        """Assembles an ensemble.

        Args:
            voters: by member, its fitted classifiers; their classes are columns of triage decisions.
            config: how they were trained.
            evidence_count: E, the width of the states.
        """
        self.voters = voters
        self.config = config
        self.evidence_count = evidence_count

    def triage_values(self, states: States) -> np.ndarray:
        """Returns the probability of each triage decision, float64 `[B, 4]`, rows sum to 1.

        The mean over the members. Columns are in urgency order, 0 for colours that are not in the training data.
        Without calibration, a member without probabilities (SGD with its hinge loss, SVC) votes with the softmax of its
        one-against-the-rest decision values, which are probabilities only in range and order.

        Args:
            states: B of them, 0 or more.

        Raises:
            ValueError: states of another width.
        """
        if states.ndim != 2 or states.shape[1] != self.evidence_count:
            raise ValueError(f"expected states [B, {self.evidence_count}], found {list(states.shape)}")
        parts = [states[start : start + STATES_AT_ONCE] for start in range(0, states.shape[0], STATES_AT_ONCE)]
        if not parts:
            return np.zeros([0, NUM_DECISIONS])
        jobs = self.config.jobs if len(parts) > 1 else 1
        # Threads suffice, as the work releases the interpreter's lock.
        return np.concatenate(joblib.Parallel(jobs, prefer="threads")(joblib.delayed(self._vote)(p) for p in parts))

    def _vote(self, states: States) -> np.ndarray:
        total = np.zeros([states.shape[0], NUM_DECISIONS])
        voters = [voter for each in self.voters.values() for voter in each]
        for voter in voters:
            total[:, voter.classes_] += _probabilities(voter, states)
        return total / len(voters)  # each member has the same number of voters


def train_ensemble(
    states: States, decision_counts: np.ndarray, groups: np.ndarray, config: EnsembleConfig
) -> TriageEnsemble:
    """Returns the ensemble of the paper's table "Structure of the supervised triage model".

    Args:
        states: V of them.
        decision_counts: `[V, 4]`, the clinicians' decisions on each.
        groups: `[V]`, equal for states of one vignette.
        config: how to train.

    Returns:
        The ensemble; the same for the same arguments on the same machine.

    Raises:
        InputError: too few vignettes, or too few that differ in their decisions.
    """
    matrix = scipy.sparse.csr_matrix(states, dtype=np.float32)
    folds = _folds(decision_counts, groups, config)
    tasks: list[tuple[str, _Training, np.ndarray | None]] = []
    for name in sorted(config.members, key=lambda member: member not in _SLOWEST_FIRST):
        drawn = draw_states(groups, config.svc_states if name == "svc" else len(groups), config.seed)
        _require_colours(decision_counts[drawn], folds[drawn], config)
        rows, colours, weights = decision_rows(decision_counts[drawn], name in _ROW_BY_ROW)
        inputs = matrix[drawn][rows]
        if name == "mlp":
            inputs = inputs.astype(np.float64)  # in float32 its penalty makes most weights denormal, which are slow
        training = _Training(_member(name, config.seed, len(drawn)), inputs, colours, weights)
        row_folds = folds[drawn][rows]
        for fold in range(config.folds) if config.calibrated else (None,):
            tasks.append((name, training, None if fold is None else row_folds == fold))
    fitted = joblib.Parallel(config.jobs)(joblib.delayed(_fit)(training, held_out) for _, training, held_out in tasks)
    voters: dict[str, list[Any]] = {name: [] for name in config.members}
    for (name, _, _), voter in zip(tasks, fitted, strict=True):
        voters[name].append(voter)
    return TriageEnsemble(voters, config, matrix.shape[1])


def decision_rows(decision_counts: np.ndarray, repeated: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the training rows of states whose decisions are `[V, 4]`.

    Args:
        decision_counts: of each state.
        repeated: whether each decision is a row; otherwise, a state's equal decisions are one row with a weight.

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

    Args:
        groups: `[V]`.
        limit: number of states.
        seed: of the draw.
    """
    if limit >= len(groups):
        return np.arange(len(groups))
    generator = np.random.default_rng(seed)
    _, group_numbers = np.unique(groups, return_inverse=True)
    group_order = generator.permutation(
        group_numbers.max() + 1
    )  # otherwise a pattern in the groups could match the stride
    by_group = np.lexsort((generator.random(len(groups)), group_order[group_numbers]))
    places = (np.arange(limit) + generator.random()) * (len(groups) / limit)
    return np.sort(by_group[places.astype(np.int64)])


@dataclasses.dataclass(frozen=True)
class _Training:
    """The training data of a member, R rows."""

    member: Any
    states: scipy.sparse.csr_matrix
    colours: np.ndarray
    weights: np.ndarray


class _Network(MLPClassifier):
    """An MLP that judges part by part: its layers for all held-out rows of D_pow would fill the memory."""

    def predict_proba(self, X: States) -> np.ndarray:  # noqa: N803 (scikit-learn's name)
        judge, starts = super().predict_proba, range(0, X.shape[0], STATES_AT_ONCE)
        return np.concatenate([judge(X[start : start + STATES_AT_ONCE]) for start in starts])


def _member(name: str, seed: int, states: int) -> Any:
    """Returns an untrained member, with the hyper-parameters of the paper's table; the others are scikit-learn's."""
    passes = 1 if states > MANY_STATES else 1000
    members = {
        "sgd": lambda: SGDClassifier(max_iter=1000, random_state=seed),
        "logistic": lambda: LogisticRegression(max_iter=1000),
        "mlp": lambda: _Network((512, 512), alpha=1, max_iter=passes, n_iter_no_change=5, tol=0.001, random_state=seed),
        "tree": lambda: DecisionTreeClassifier(max_depth=5, random_state=seed),
        "forest": lambda: RandomForestClassifier(max_depth=5, n_estimators=10, max_features=1, random_state=seed),
        "svc": lambda: SVC(gamma="auto"),
    }
    return members[name]()


@threadpoolctl.threadpool_limits.wrap(
    limits=1
)  # with more threads the MLP depends on the machine, and is seldom faster
def _fit(training: _Training, held_out: np.ndarray | None) -> Any:
    """Returns a fitted classifier, calibrated on the rows `held_out` bool `[R]`; not calibrated if None."""
    voter = training.member
    if held_out is not None:
        split = [(np.flatnonzero(~held_out), np.flatnonzero(held_out))]
        voter = CalibratedClassifierCV(voter, method="isotonic", cv=split)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the MLP may make a single pass
        voter.fit(training.states, training.colours, sample_weight=training.weights)
    if held_out is None:
        _forget_training(voter)
        return voter
    voter.set_params(cv=None)
    for pair in voter.calibrated_classifiers_:
        _forget_training(pair.estimator)
    return voter


def _forget_training(member: Any) -> None:
    """Drops an MLP's state for further training, which is twice the size of its weights."""
    for name in ("_optimizer", "_random_state"):
        vars(member).pop(name, None)


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
