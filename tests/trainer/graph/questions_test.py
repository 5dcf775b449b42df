"""The choice of questions, of mixtures and danger signs made by hand."""

import numpy as np
import pytest
import tensorflow as tf

from schemas.danger_signs import NO_SIGNS, DangerSigns
from schemas.safety_rules import SafetyRule
from schemas.triage import Action
from tests.builders import symptoms
from trainer.graph.mixture import Mixture
from trainer.graph.questions import QuestionGraph

CODES = ("cough", "rash", "pain", "collapse")
ALWAYS, NEVER = 0.999, 0.001


@pytest.fixture(scope="module")
def vocabulary():
    return symptoms(*CODES)


@pytest.fixture(scope="module")
def mixture():
    """Two classes, equally frequent: one with a cough and every decision right, one without and only Red right.

    A rash is as frequent in both, so that it says nothing; pain is a weaker sign of the second class.
    """
    present = np.array([[0.9, 0.3, 0.1, 0.01], [0.1, 0.3, 0.4, 0.02]], np.float32)
    truths = np.array([[ALWAYS] * 8, [ALWAYS, NEVER, NEVER, NEVER] * 2], np.float32)
    return Mixture(np.log([0.5, 0.5]).astype(np.float32), present, truths, 1 - present)


def _saying_nothing(*likely):
    """One class in which codes are so likely, and no answer says anything."""
    present = np.array([likely], np.float32)
    return Mixture(np.zeros(1, np.float32), present, np.full([1, 8], 0.5, np.float32), 1 - present)


def _network(asking):
    """Every decision is worth .5, and asking as much as is said."""
    return lambda states: {"q": tf.tile(tf.constant([[0.5] * 4 + [asking]]), [states.shape[0], 1])}


def _entropy(share):
    return -(share * np.log2(share) + (1 - share) * np.log2(1 - share))


def _asked(graph, codes, states, not_to_ask=()):
    """The codes of the first question in each state, and those of all questions; `not_to_ask` are codes."""
    states = tf.constant(states, tf.float32)
    withheld = tf.constant([[code in not_to_ask for code in codes]] * len(states))
    questions, first = graph(states, withheld), graph.asks(states, withheld).numpy()
    parts = (first, questions.codes.numpy(), questions.together.numpy())
    named = [[[codes[cell] for cell in row if cell >= 0] for row in cells] for cells in parts]
    for question, listed, together in zip(*named, strict=True):
        assert question == (together or listed[:1]), "training and an exported model ask the same"
        assert question[:1] == listed[:1]
        assert len(together) != 1
    return named[:2]


def test_the_value_is_the_information_about_what_is_right(mixture, vocabulary):
    graph = QuestionGraph(mixture, vocabulary)
    gains, likely = (part.numpy()[0] for part in graph.values(graph.classes(tf.zeros([1, 4]))))
    np.testing.assert_allclose(likely, [0.5, 0.3, 0.25, 0.015], rtol=1e-5)
    # Whether Red is right is certain; of the other decisions it is one bit, as the classes are equally frequent. After
    # a cough the first class has .9, and after none .1.
    one = _entropy(0.5 * ALWAYS + 0.5 * NEVER) - _entropy(0.9 * ALWAYS + 0.1 * NEVER)
    assert gains[0] == pytest.approx(3 / 4 * one, abs=1e-4)
    assert gains[1] == pytest.approx(0, abs=1e-6)
    assert gains[0] > gains[2] > gains[3] > gains[1]


@pytest.mark.parametrize("denials", [0, 6])
def test_values_keep_their_order_where_next_to_nothing_is_left_to_know(mixture, vocabulary, denials):
    """As few as one in a million are of the second class, where a difference of entropies would be rounding in float32.

    A rash is as frequent in both classes, so its value is 0. That of any other code is the information, which float64
    still tells, to within the third order of what an answer changes.
    """
    classes = np.array([[1.0, 10.0**-denials]]) / (1 + 10.0**-denials)
    gains = QuestionGraph(mixture, vocabulary).values(tf.constant(classes, tf.float32))[0].numpy()[0]
    present, truths = mixture.present.astype(float), mixture.truths[:, 1].astype(float)  # [2, 4], [2]
    yes, now = classes[0] @ present, classes[0] @ truths
    true = (classes[0] * truths) @ present  # P(present and true)
    exact = _entropy(now) - yes * _entropy(true / yes) - (1 - yes) * _entropy((now - true) / (1 - yes))
    np.testing.assert_allclose(gains[[0, 2, 3]], 3 / 4 * exact[[0, 2, 3]], rtol=0.3)
    assert gains[1] < 1e-3 * gains[3]


def test_what_is_known_or_not_to_be_asked_is_not_asked(mixture, vocabulary):
    graph = QuestionGraph(mixture, vocabulary)
    _, questions = _asked(graph, CODES, [[1, 0, 0, 0], [0, -1, 0, 0], [1, 1, 1, -1]])
    assert questions == [["pain", "collapse", "rash"], ["cough", "pain", "collapse"], []]
    assert _asked(graph, CODES, [[1, 0, 0, 0], [1, -1, 0, -1]], ["pain"])[1] == [["collapse", "rash"], []]


@pytest.mark.parametrize(
    ("first", "second", "asked"),
    [(0.02, 0.02, True), (0.005, 0.005, False), (0.02, 0.06, True), (0.02, 0.1, False)],
    ids=["had by 2%", "had by .5%", "had by 2.4%, in all 4%", "had by 2.8%, in all 6%"],
)
def test_only_what_such_patients_have_at_least_half_as_often_as_all_is_asked(mixture, vocabulary, first, second, asked):
    """With a cough, 90% are of the first class, of all patients half."""
    present = mixture.present.copy()
    present[:, 1] = first, second
    graph = QuestionGraph(mixture._replace(present=present), vocabulary)
    assert ("rash" in _asked(graph, CODES, [[1, 0, 0, 0]])[1][0]) == asked


@pytest.mark.parametrize(("asking", "worth"), [(0.6, [True] * 3), (0.4, [False] * 3), (None, [True] * 3)])
def test_asking_is_worth_it_where_going_on_is_worth_more_than_the_decision(mixture, vocabulary, asking, worth):
    graph = QuestionGraph(mixture, vocabulary, network=None if asking is None else _network(asking))
    questions = graph(tf.constant([[0.0, -1, 0, 0]]), tf.zeros([1, 4], tf.bool))
    assert questions.worth_asking.numpy()[0].tolist() == [*worth, False]  # three codes are open


def test_a_danger_sign_is_worth_asking_about_and_anything_where_nothing_is_known(mixture, vocabulary):
    signs = DangerSigns({"cough": (("collapse",),)})
    graph = QuestionGraph(mixture, vocabulary, (), signs, _network(0.4))
    questions = graph(tf.constant([[1.0, -1, 0, 0], [1, -1, 0, -1], [0, 0, 0, 0]]), tf.zeros([3, 4], tf.bool))
    assert questions.worth_asking.numpy().tolist() == [[True, False, False, False], [False] * 4, [True] * 4]
    assert questions.red_flags.numpy()[:, 0].tolist() == [True, False, False]


AGES = ("cough", "baby", "adult", "old", "female", "male")
WITH_AGE = symptoms(*AGES, exclusive={"baby": "age", "adult": "age", "old": "age", "female": "sex", "male": "sex"})


def test_age_and_sex_come_first_each_by_its_most_likely_member():
    graph = QuestionGraph(_saying_nothing(0.5, 0.2, 0.5, 0.3, 0.5, 0.4), WITH_AGE)
    asked = _asked(graph, AGES, [[0] * 6, [0, 0, 1, 0, 0, -1], [0, 0, -1, 0, 1, 0]])[1]
    assert asked[0] == ["adult", "female", "cough"]
    assert asked[1] == ["cough"]  # a member of each is known, and the others with it
    assert asked[2][0] == "cough", "nothing opens where a band is denied"
    assert set(asked[2]) == {"cough", "baby", "old"}
    assert _asked(graph, AGES, [[0] * 6], ["baby"])[1] == [["female", "cough"]], (
        "no band is asked of who cannot tell one"
    )


def test_an_age_that_is_a_danger_sign_keeps_an_interview_going_until_the_age_is_known_or_cannot_be_told():
    signs = DangerSigns({"cough": (("baby",),)})
    graph = QuestionGraph(_saying_nothing(0.5, 0.01, 0.2, 0.1, 0.3, 0.3), WITH_AGE, (), signs, _network(0.1))
    states = tf.constant([[1.0, 0, 0, 0, 0, 0], [-1, 0, 0, 0, 0, 0], [1, 0, 1, 0, 0, 0]])
    nothing = tf.zeros([3, 6], tf.bool)
    questions = graph(states[:2], nothing[:2])
    assert [AGES[cell] for cell in questions.codes.numpy()[0, :2]] == ["adult", "female"]
    assert questions.worth_asking.numpy()[:, :2].all()
    assert [row.any() for row in graph.open_signs(states, nothing).numpy()] == [True, False, False]
    cannot_tell = tf.constant([[code == "adult" for code in AGES]] * 3)
    assert not graph.open_signs(states, cannot_tell).numpy().any()


SIGNS = DangerSigns({"cough": (("pain", "collapse"), ("rash",))})


def test_danger_signs_of_the_complaint_come_first_several_in_a_question(mixture, vocabulary):
    graph = QuestionGraph(mixture, vocabulary, (), DangerSigns({"cough": (("pain", "collapse"),)}))
    first, questions = _asked(graph, CODES, [[0, 0, 0, 0], [1, 0, 0, 0], [1, 0, 1, 0], [1, 0, -1, -1], [-1, 0, 0, 0]])
    assert first == [["cough"], ["pain", "collapse"], ["collapse"], ["rash"], ["pain"]]
    assert questions[1] == ["pain", "rash"]  # a collapse is asked together with pain


def test_a_group_comes_before_the_next_one_whatever_its_signs_say():
    """The last of eight signs says a lot, and no other one anything; two of them are left for a second question."""
    codes = ("complaint", *(f"sign_{number}" for number in range(8)))
    present = np.array([[0.5, *[0.2] * 7, 0.9], [0.5, *[0.2] * 7, 0.1]], np.float32)
    truths = np.array([[ALWAYS] * 8, [NEVER] * 8], np.float32)
    mixture = Mixture(np.log([0.5, 0.5]).astype(np.float32), present, truths, 1 - present)
    signs = DangerSigns({"complaint": tuple((code,) for code in codes[1:])})
    first, _ = _asked(QuestionGraph(mixture, symptoms(*codes), (), signs), codes, [[1, *[0] * 8], [1, *[-1] * 6, 0, 0]])
    assert first == [list(codes[1:7]), list(codes[7:])]


def test_open_signs_keep_an_interview_going_until_each_is_known_or_cannot_be_told(mixture, vocabulary):
    graph = QuestionGraph(mixture, vocabulary, (), SIGNS)
    states = tf.constant([[1.0, 0, 0, 0], [1, -1, 1, 0], [1, -1, -1, -1], [1, -1, -1, 0], [0, 0, 0, 0]])
    cannot_tell = tf.constant([[False] * 4] * 3 + [[False, False, False, True]] * 2)
    opened = [[CODES[cell] for cell in np.flatnonzero(row)] for row in graph.open_signs(states, cannot_tell).numpy()]
    assert opened == [["rash", "pain", "collapse"], ["collapse"], [], [], []]
    assert not QuestionGraph(mixture, vocabulary).open_signs(states, cannot_tell).numpy().any()


def test_signs_of_a_rule_that_has_begun_lead_those_of_the_complaint(mixture, vocabulary):
    rule = SafetyRule("rash", "r", Action.RED, True, all_of=(("cough", True), ("rash", True)))
    signs = DangerSigns({"cough": (("pain", "collapse"),)})
    graph = QuestionGraph(mixture, vocabulary, (rule,), signs)
    assert _asked(graph, CODES, [[1, 0, 0, 0], [-1, 0, 0, 0]])[0] == [["rash", "pain", "collapse"], ["pain"]]
    alone = SafetyRule("rash", "r", Action.RED, True, all_of=(("rash", True),))  # never begins
    graph = QuestionGraph(mixture, vocabulary, (alone,), signs)
    assert _asked(graph, CODES, [[1, 0, 0, 0]])[0] == [["pain", "collapse"]]


def test_what_both_a_rule_and_the_list_of_the_complaint_ask_for_leads_in_the_order_of_the_list(mixture, vocabulary):
    """A cough, which only the rule asks for, says most; pain says more than a collapse."""
    causes = tuple((code, True) for code in ("cough", "pain", "collapse"))
    rule = SafetyRule("rash", "r", Action.RED, True, all_of=(("rash", True),), any_of=causes)
    graph = QuestionGraph(mixture, vocabulary, (rule,), DangerSigns({"rash": (("collapse",), ("pain",))}))
    assert _asked(graph, CODES, [[0, 1, 0, 0]])[0] == [["collapse", "pain", "cough"]]


def test_nobody_is_asked_what_the_table_does_not_ask_of_those_who_have_a_code_nor_for_a_rule_that_requires_it(mixture):
    vocabulary = symptoms("cough", "rash", "pain", "collapse", parents={"collapse": "rash"})
    rule = SafetyRule("r", "x", Action.RED, True, all_of=(("cough", True), ("rash", True)), any_of=(("pain", True),))
    signs = DangerSigns({"cough": (("collapse",),)}, {"cough": ("rash",)})
    graph = QuestionGraph(mixture, vocabulary, (rule,), signs)
    assert _asked(graph, CODES, [[1, 0, 0, 0], [-1, 0, 0, 0]])[1] == [["pain"], ["pain", "rash"]]
    nothing = tf.zeros([1, 4], tf.bool)
    assert not graph.open_signs(tf.constant([[1.0, 0, 0, 0]]), nothing).numpy().any()
    assert graph.open_signs(tf.constant([[1.0, 1, 0, 0]]), nothing).numpy().any()  # who said so is


def test_nobody_is_asked_what_the_table_does_not_ask_of_those_who_have_the_code_by_a_special_kind_of_it(mixture):
    vocabulary = symptoms(*CODES, parents={"collapse": "rash"})
    graph = QuestionGraph(mixture, vocabulary, (), DangerSigns({}, {"rash": ("pain",)}))
    assert _asked(graph, CODES, [[0, 0, 0, 1], [0, -1, 0, 0]])[1] == [["cough"], ["cough", "pain"]]


def test_a_special_kind_waits_for_its_parent_which_is_asked_in_its_place(mixture):
    """A collapse is a kind of a rash, which is no sign itself and says nothing."""
    vocabulary = symptoms(*CODES, parents={"collapse": "rash"})
    graph = QuestionGraph(mixture, vocabulary, (), DangerSigns({"cough": (("collapse",),)}), _network(0.1))
    states = [[1, 0, 0, 0], [1, 1, 0, 0], [1, -1, 0, 0]]
    first, questions = _asked(graph, CODES, states)
    assert first == [["rash"], ["collapse"], ["pain"]]  # nobody without a rash collapses
    assert "collapse" not in questions[0] + questions[2]
    known, nothing = tf.constant(states, tf.float32), tf.zeros([3, 4], tf.bool)
    said = graph(known, nothing)
    assert said.red_flags.numpy()[:, 0].tolist() == [True, True, False]
    assert said.worth_asking.numpy()[:, 0].tolist() == [True, True, False]
    assert graph.open_signs(tf.constant(states, tf.float32), nothing).numpy().any(axis=1).tolist() == [
        True,
        True,
        False,
    ]
    # Of who cannot tell of a rash even its kind is asked if it is a sign, and not otherwise.
    assert _asked(graph, CODES, states[:1], ["rash"])[0] == [["collapse"]]
    assert "collapse" not in _asked(QuestionGraph(mixture, vocabulary), CODES, states[:1], ["rash"])[1][0]


def test_a_sign_that_follows_from_another_answer_of_the_question_waits():
    """Whoever is left-sided is not right-sided: two ticks would contradict each other."""
    codes = ("cough", "left", "right", "rash")
    vocabulary = symptoms(*codes, exclusive={"left": "side", "right": "side"})
    mixture = _saying_nothing(0.5, 0.2, 0.3, 0.2)
    both = DangerSigns({"cough": (("left", "right"),)})
    graph = QuestionGraph(mixture, vocabulary, (), both)
    first, questions = _asked(graph, codes, [[1, 0, 0, 0], [1, -1, 0, 0], [1, 1, 0, 0]])
    assert first == [["left"], ["right"], ["rash"]], "two that exclude each other and no other are one after the other"
    assert questions[0] == ["left", "right", "rash"]
    more = QuestionGraph(mixture, vocabulary, (), DangerSigns({"cough": (("left", "right", "rash"),)}))
    assert _asked(more, codes, [[1, 0, 0, 0]])[0] == [["left", "rash"]]


@pytest.mark.parametrize("signs", [NO_SIGNS, DangerSigns({"a": (("c", "d"), ("e", "f", "g")), "b": (("h", "c"),)})])
def test_training_asks_what_an_exported_model_asks_whatever_is_known(signs):
    codes = tuple("abcdefghi")
    vocabulary = symptoms(*codes, parents={"d": "c", "i": "f"}, exclusive={"e": "side", "h": "side"})
    generator = np.random.default_rng(0)
    present = generator.uniform(0.01, 0.9, (5, 9)).astype(np.float32)
    truths = generator.uniform(0.05, 0.95, (5, 8)).astype(np.float32)
    rule = SafetyRule("r", "r", Action.RED, True, all_of=(("b", True), ("i", True)), any_of=(("g", True), ("h", True)))
    graph = QuestionGraph(Mixture(np.zeros(5, np.float32), present, truths, 0.1 * present), vocabulary, (rule,), signs)
    for withheld in ((), ("c",), ("e", "i")):
        _asked(graph, codes, generator.choice([-1, 0, 0, 0, 1], (60, 9)), withheld)
