import types

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from schemas.errors import InputError
from schemas.triage import Action
from trainer.study import ensemble
from trainer.study.ensemble import MEMBERS, TriageEnsemble, draw_states, train_ensemble

CHEAP = ("sgd", "logistic", "tree", "forest", "svc")


def _told_by_one_code(vignettes, noise_codes=4):
    """Code c of the first four is present where the clinicians say colour c; further codes tell nothing."""
    generator = np.random.default_rng(1)
    colours = np.arange(vignettes) % 4
    states = np.concatenate([np.eye(4)[colours], generator.integers(-1, 2, [vignettes, noise_codes])], axis=1)
    return states.astype(np.float32), (2 * np.eye(4, dtype=np.uint8))[colours]


def _train(states, counts, groups=None, **settings):
    settings = {"calibrated": True, "seed": 0, "jobs": 1, "members": CHEAP, **settings}
    groups = np.arange(len(counts)) if groups is None else groups
    return train_ensemble(scipy.sparse.csr_matrix(states), counts, groups, **settings)


@pytest.mark.parametrize("calibrated", [True, False])
@pytest.mark.parametrize("member", CHEAP)
def test_each_member_learns_what_one_code_tells(member, calibrated):
    states, counts = _told_by_one_code(80, noise_codes=0)
    trained = _train(states, counts, members=(member,), calibrated=calibrated)
    values = trained.triage_values(np.eye(4, dtype=np.float32))
    assert values.argmax(axis=1).tolist() == [Action.RED, Action.YELLOW, Action.GREEN, Action.BLUE]
    assert (values >= 0).all()
    np.testing.assert_allclose(values.sum(axis=1), 1.0, atol=1e-6)


# The rows of the paper's table "Structure of the supervised triage model".
TABLE = {
    "sgd": ("SGDClassifier", {"max_iter": 1000}),
    "logistic": ("LogisticRegression", {"max_iter": 1000}),
    "mlp": ("MLPClassifier", {"hidden_layer_sizes": (512, 512), "alpha": 1, "max_iter": 1000,
                              "n_iter_no_change": 5, "tol": 0.001}),
    "tree": ("DecisionTreeClassifier", {"max_depth": 5}),
    "forest": ("RandomForestClassifier", {"max_depth": 5, "n_estimators": 10, "max_features": 1}),
    "svc": ("SVC", {"gamma": "auto"}),
}  # fmt: skip


def test_hyper_parameters_are_those_of_the_table_and_otherwise_scikit_learns():
    states, counts = _told_by_one_code(16, noise_codes=0)
    trained = _train(states, counts, members=MEMBERS, calibrated=False)
    assert list(trained.voters) == list(TABLE)
    for name, (kind, settings) in TABLE.items():
        voter = trained.voters[name]
        defaults = type(voter)().get_params()
        changed = {key: value for key, value in voter.get_params().items() if value != defaults[key]}
        changed.pop("random_state", None)
        unchanged = {key: value for key, value in settings.items() if defaults[key] == value}
        assert (type(voter).__name__, {**changed, **unchanged}) == (kind, settings)


def _voter(classes, probabilities=None, decision_values=None):
    """A fitted classifier that always says the same."""

    def always(values):
        return lambda states: np.tile(values, [states.shape[0], 1] if np.ndim(values) else states.shape[0])

    given = {"predict_proba": probabilities, "decision_function": decision_values}
    methods = {name: always(values) for name, values in given.items() if values is not None}
    return types.SimpleNamespace(classes_=np.array(classes), **methods)


@pytest.mark.parametrize(
    ("voters", "expected"),
    [
        # Yellow and Blue from one, all four from the other: (0 + .1, .7 + .2, 0 + .3, .3 + .4) / 2.
        ([_voter([1, 3], [0.7, 0.3]), _voter([0, 1, 2, 3], [0.1, 0.2, 0.3, 0.4])], [0.05, 0.45, 0.15, 0.35]),
        # exp(log 2) : exp(0) : exp(log 5) = 2 : 1 : 5.
        ([_voter([0, 2, 3], decision_values=[np.log(2), 0.0, np.log(5)])], [0.25, 0.0, 0.125, 0.625]),
        # The one decision value of two classes speaks for the second: exp(-d) : exp(d) = 1 : 4 for d = log 2.
        ([_voter([1, 2], decision_values=np.log(2))], [0.0, 0.2, 0.8, 0.0]),
    ],
    ids=["mean in urgency order", "softmax of decision values", "two classes"],
)
def test_members_vote_with_probabilities_or_else_with_the_softmax_of_their_decision_values(voters, expected):
    values = TriageEnsemble(dict(enumerate(voters))).triage_values(np.zeros([2, 2], np.float32))
    np.testing.assert_allclose(values, [expected] * 2)


def test_calibration_never_sees_the_vignette_that_a_copy_was_trained_on():
    # 40 vignettes, ten equal states each and a code of its own: nothing tells a colour, unless a copy is known.
    vignettes = np.repeat(np.arange(40), 10)
    counts = np.eye(4, dtype=np.uint8)[vignettes % 2]
    states = np.eye(40, dtype=np.float32)[vignettes]
    apart = _train(states, counts, vignettes, members=("logistic",)).triage_values(states)
    mixed = _train(states, counts, np.arange(400), members=("logistic",)).triage_values(states)
    assert apart.max() < 0.7
    assert mixed.max(axis=1).min() > 0.95


@pytest.mark.parametrize(("member", "make"), [("logistic", lambda: LogisticRegression(max_iter=1000)),
                                              ("svc", lambda: SVC(gamma="auto"))])  # fmt: skip
def test_a_row_that_counts_three_times_is_three_rows(member, make):
    generator = np.random.default_rng(5)
    states = generator.integers(-1, 2, [30, 5]).astype(np.float32)
    counts = generator.multinomial(4, [0.3, 0.3, 0.2, 0.2], 30).astype(np.uint8)
    rows = [(state, colour) for state, given in zip(states, counts, strict=True) for colour in range(4)
            for _ in range(given[colour])]  # fmt: skip
    expected = make().fit(np.stack([state for state, _ in rows]), [colour for _, colour in rows])
    voter = _train(states, counts, members=(member,), calibrated=False).voters[member]
    np.testing.assert_allclose(voter.decision_function(states), expected.decision_function(states), atol=2e-3)


@pytest.mark.parametrize("seed", range(5))
def test_a_sample_keeps_the_share_of_every_vignette(seed):
    groups = np.random.default_rng(seed).permutation(np.repeat([3, 7, 9], [8, 4, 12]))
    drawn = draw_states(groups, 6, seed)  # a quarter
    assert np.bincount(groups[drawn], minlength=10)[[3, 7, 9]].tolist() == [2, 1, 3]
    assert drawn.tolist() == sorted(set(drawn.tolist()))
    assert drawn.tolist() == draw_states(groups, 6, seed).tolist()


def test_the_svc_may_see_fewer_states_than_the_others(monkeypatch):
    monkeypatch.setattr(ensemble, "SVC_STATES", 10)
    states, counts = _told_by_one_code(40)
    voters = _train(states, counts, members=("svc", "mlp", "tree"), calibrated=False).voters
    assert voters["svc"].shape_fit_[0] == 10
    assert voters["mlp"].t_ == 80 * voters["mlp"].n_iter_  # rows seen: two decisions a state
    assert voters["tree"].tree_.n_node_samples[0] == 40


@pytest.mark.slow  # the processes load all modules
def test_the_same_seed_gives_the_same_values_with_one_process_and_with_two():
    states, counts = _told_by_one_code(40)
    one, two, other = (
        _train(states, counts, members=("sgd", "tree", "forest"), jobs=jobs, seed=seed).triage_values(states)
        for jobs, seed in ((1, 0), (2, 0), (1, 1))
    )
    np.testing.assert_array_equal(one, two)
    assert (one != other).any()


def test_one_colour_is_nothing_to_learn_from():
    with pytest.raises(InputError, match="10 training states"):
        _train(np.zeros([10, 2], np.float32), np.tile([0, 0, 3, 0], [10, 1]))


def test_folds_that_leave_too_few_colours_are_refused():
    # Yellow and Blue are in one vignette, which is held out once: then only Red and Green are left. Four decisions of a
    # colour are too few to put one in each fold.
    for counts in ([[1, 0, 1, 0]] * 5 + [[0, 1, 0, 1]], [[1, 0, 1, 1]] * 4):
        with pytest.raises(InputError, match="too few"):
            _train(np.eye(len(counts), 6, dtype=np.float32), np.array(counts, np.uint8))
