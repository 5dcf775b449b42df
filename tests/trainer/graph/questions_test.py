import numpy as np
import pytest
import tensorflow as tf

from schemas.evidence import Evidence, Vocabulary
from schemas.safety_rules import SafetyRule
from schemas.triage import Action
from tests.builders import symptoms
from trainer.graph.decide import ASK_POINTS, OperatingPoint
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


@pytest.fixture(scope="module")
def listing(mixture):
    """The same classes, of which vignettes say only what is present, and a collapse sets the second class apart.

    For that class alone Green is unsafe, so it is what urgent patients are like: .4 of them have pain, and .25 of all;
    .06 collapse, and .035 of all; a rash is as frequent in all, and a cough less frequent than in all.
    """
    present = mixture.present.copy()
    present[1, 3] = 0.06
    return mixture._replace(present=present, denied=np.full_like(present, 1e-4))


@pytest.fixture
def rare(mixture):
    """The same classes, the second of one patient in ten, to which half of those belong who have no cough.

    `rare(a, b)` is the mixture in which a collapse has the probability a in the first class, and b in the second.
    """

    def collapse(*likely):
        present = mixture.present.copy()
        present[:, 3] = likely
        return mixture._replace(log_prior=np.log([0.9, 0.1]).astype(np.float32), present=present)

    return collapse


def _graph(mixture, vocabulary, rules=(), weight=0.0):
    return QuestionGraph(mixture, vocabulary, rules, OperatingPoint(weight))


def _entropy(share):
    return -(share * np.log2(share) + (1 - share) * np.log2(1 - share))


def test_the_value_is_the_information_about_what_is_right(mixture, vocabulary):
    graph = _graph(mixture, vocabulary)
    gains, likely = (part.numpy()[0] for part in graph.values(graph.classes(tf.zeros([1, 4]))))
    np.testing.assert_allclose(likely, [0.5, 0.3, 0.25, 0.015], rtol=1e-5)
    # Appropriateness alone counts. That of Red is certain; of the others it is one bit, as the classes are equally
    # frequent. After a cough the first class has .9, and after none .1.
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
    graph = _graph(mixture, vocabulary)
    gains = graph.values(tf.constant(classes, tf.float32))[0].numpy()[0]
    present, truths = mixture.present.astype(float), mixture.truths[:, 1].astype(float)  # [2, 4], [2]
    yes, now = classes[0] @ present, classes[0] @ truths
    true = (classes[0] * truths) @ present  # P(present and true)
    exact = _entropy(now) - yes * _entropy(true / yes) - (1 - yes) * _entropy((now - true) / (1 - yes))
    np.testing.assert_allclose(gains[[0, 2, 3]], 3 / 4 * exact[[0, 2, 3]], rtol=0.3)
    assert gains[1] < 1e-3 * gains[3]


def test_age_comes_before_red_flags_and_by_its_most_likely_band():
    """Over a cough and three age bands, of which the second is the most likely; a cough would be a red flag."""
    groups = {"young": "age", "middle": "age", "old": "age"}
    codes = ("cough", *groups)
    vocabulary = Vocabulary(
        Evidence(code, "symptom", code, f"{code}?", exclusive=groups.get(code, "")) for code in codes
    )
    present = np.array([[0.5, 0.2, 0.5, 0.3]], np.float32)
    mixture = Mixture(np.zeros(1, np.float32), present, np.full([1, 8], 0.5, np.float32), 1 - present)
    flag = SafetyRule("flag", "A red flag.", Action.RED, True, all_of=(("cough", True),))
    graph = _graph(mixture, vocabulary, [flag])
    states = tf.constant([[0.0, 0, 0, 0], [0, 0, 0, 1], [0, 0, -1, 0], [0, 0, 0, 0]])
    not_to_ask = tf.constant([[False] * 4] * 3 + [[False, True, False, False]])
    asked = [[codes[cell] for cell in row if cell >= 0] for row in graph(states, not_to_ask).codes.numpy()]
    assert asked[0] == ["middle", "cough"]
    assert asked[1] == ["cough"]  # one band is known, so the others are
    assert asked[2][0] == "cough"  # nothing opens where a band is denied
    assert set(asked[2][1:]) == {"young", "old"}
    assert asked[3] == ["cough"]  # who cannot tell one band cannot tell another


@pytest.mark.parametrize(("youngest", "flagged"), [(0.01, True), (0.0002, False)])
def test_age_is_a_red_flag_where_one_of_its_bands_is(youngest, flagged):
    """Cards seldom tell the age. One band is true: the first is .01 of .31 likely, or .0002 of .3; a sex likelier."""
    groups = {"baby": "age", "adult": "age", "old": "age", "female": "sex", "male": "sex"}
    codes = ("cough", *groups)
    vocabulary = Vocabulary(
        Evidence(code, "symptom", code, f"{code}?", exclusive=groups.get(code, "")) for code in codes
    )
    present = np.array([[0.5, youngest, 0.2, 0.1, 0.3, 0.3]], np.float32)
    mixture = Mixture(np.zeros(1, np.float32), present, np.full([1, 8], 0.5, np.float32), 1 - present)
    flag = SafetyRule("flag", "A red flag.", Action.RED, True, all_of=(("cough", True), ("baby", True)))
    graph = QuestionGraph(mixture, vocabulary, (flag,), OperatingPoint(0.0), _network(0.1, [0.0] * 6))
    states, nothing = tf.constant([[1.0, 0, 0, 0, 0, 0], [-1, 0, 0, 0, 0, 0]]), tf.zeros([2, 6], tf.bool)
    questions = graph(states, nothing)
    assert [codes[cell] for cell in questions.codes.numpy()[0, :2]] == ["adult", "female"]
    assert questions.red_flags.numpy()[:, 0].tolist() == [flagged, False]
    assert questions.worth_asking.numpy()[:, :2].all()  # as age and sex always are
    flags = [{codes[cell] for cell in np.flatnonzero(row)} for row in graph.open_red_flags(states, nothing).numpy()]
    assert flags == [{"adult"} if flagged else set(), set()]


def _network(asking, effect):
    """Q(ask) is `asking`; P(appropriate) of Blue and P(safe) of it move by `effect` `[4]` where a code is present."""

    def outputs(states):
        blue = 0.5 + tf.linalg.matvec(tf.nn.relu(states), effect)
        columns = [tf.fill([tf.shape(states)[0]], value) for value in (*[0.5] * 5, 0.1, 0.1, 0.1)]
        safe = [tf.ones_like(blue)] * 3
        return tf.stack([*columns, blue, *safe, blue, *[tf.fill(tf.shape(blue), asking)] * len(ASK_POINTS)], axis=1)

    return outputs


def test_the_network_that_decides_values_the_best_questions_of_the_mixture(mixture, vocabulary):
    """A rash says nothing to the mixture, but all to the network; of two questions it may judge, it is none."""
    network = _network(0.9, [0.0, 0.4, 0.0, 0.0])
    for shortlist, first in ((4, "rash"), (2, "cough")):
        graph = QuestionGraph(mixture, vocabulary, (), OperatingPoint(0.0), network, shortlist)
        questions = graph(tf.zeros([1, 4]), tf.zeros([1, 4], tf.bool))
        assert CODES[questions.codes.numpy()[0, 0]] == first
    # A rash is .3 likely: .9 after a yes, .5 after a no, .62 before. One of four decisions is uncertain.
    graph = QuestionGraph(mixture, vocabulary, (), OperatingPoint(0.0), network)
    gain = graph(tf.zeros([1, 4]), tf.zeros([1, 4], tf.bool)).gains.numpy()[0, 0]
    assert gain == pytest.approx((_entropy(0.62) - 0.3 * _entropy(0.9) - 0.7 * _entropy(0.5)) / 4, abs=1e-4)


@pytest.mark.parametrize(("asking", "worth"), [(0.9, [True, True, True, False]), (0.1, [False] * 4)])
def test_asking_is_worth_it_where_going_on_is_worth_more_than_the_decision(mixture, vocabulary, asking, worth):
    graph = QuestionGraph(mixture, vocabulary, (), OperatingPoint(0.0), _network(asking, [0.0] * 4))
    questions = graph(tf.constant([[0.0, -1, 0, 0]]), tf.zeros([1, 4], tf.bool))
    assert questions.worth_asking.numpy()[0].tolist() == worth  # three codes are open


def test_a_red_flag_is_worth_asking_for_and_anything_where_nothing_is_known(rare, vocabulary):
    rule = SafetyRule("collapse", "r", Action.RED, True, all_of=(("collapse", True),))
    graph = QuestionGraph(rare(1e-6, 0.2), vocabulary, (rule,), OperatingPoint(0.0), _network(0.1, [0.0] * 4))
    questions = graph(tf.constant([[-1.0, -1, 0, 0], [-1, -1, 0, -1], [0, 0, 0, 0]]), tf.zeros([3, 4], tf.bool))
    assert questions.worth_asking.numpy().tolist() == [[True, False, False, False], [False] * 4, [True] * 4]


def test_what_is_known_or_not_to_be_asked_is_not_asked(mixture, vocabulary):
    states = tf.constant([[1.0, 0, 0, 0], [0, -1, 0, 0], [1, 1, 1, -1]])
    not_to_ask = tf.constant([[False, False, True, False], [False] * 4, [False] * 4])
    codes = _graph(mixture, vocabulary)(states, not_to_ask).codes.numpy()
    assert [CODES[cell] for cell in codes[0] if cell >= 0] == ["collapse", "rash"]
    assert [CODES[cell] for cell in codes[1] if cell >= 0] == ["cough", "pain", "collapse"]
    assert codes[2].tolist() == [-1] * 4  # nothing is left


def test_with_a_weight_on_safety_what_uncovers_under_triage_is_worth_more():
    """One code says whether Blue is safe, the other whether Red is appropriate; both are a bit at most."""
    vocabulary = symptoms("harmless", "overdone")
    yes_no = np.array([[0.9, 0.5], [0.1, 0.5], [0.5, 0.9], [0.5, 0.1]], np.float32)
    truths = np.full([4, 8], ALWAYS, np.float32)
    truths[1, 7] = NEVER  # Blue is not safe in the second class
    truths[3, 0] = NEVER  # Red is not appropriate in the last
    mixture = Mixture(np.log([0.25] * 4).astype(np.float32), yes_no, truths, 1 - yes_no)
    for weight, first in ((0.2, "overdone"), (5.0, "harmless")):
        questions = _graph(mixture, vocabulary, weight=weight)(tf.zeros([1, 2]), tf.zeros([1, 2], tf.bool))
        assert vocabulary.codes[questions.codes.numpy()[0, 0]] == first


@pytest.mark.parametrize(
    ("likely", "needed", "first"),
    [
        ((1e-6, 0.2), ("collapse",), "collapse"),  # .1 now, .02 of all patients
        ((0.2, 0.2), ("collapse",), "pain"),  # no likelier than of all
        ((1e-6, 0.0019), ("collapse",), "pain"),  # .00095 now
        ((1e-6, 1e-6), ("collapse", "rash"), "collapse"),
    ],
)
def test_a_red_flag_comes_first_if_it_is_likely_enough_and_more_than_usual_or_its_rule_has_begun(
    rare, vocabulary, likely, needed, first
):
    rule = SafetyRule("collapse", "r", Action.RED, True, all_of=tuple((code, True) for code in needed))
    graph = _graph(rare(*likely), vocabulary, (rule,))
    no_cough_but_a_rash = tf.constant([[-1.0, 1, 0, 0]])
    assert CODES[1] == "rash"
    questions = graph(no_cough_but_a_rash, tf.zeros([1, 4], tf.bool))
    assert CODES[questions.codes.numpy()[0, 0]] == first
    assert questions.red_flags.numpy()[0].tolist().count(True) == (first == "collapse")


def _flagged(*codes, parents=()):
    """A vocabulary over `CODES`, some of which are red flags; `parents` are pairs of a code and its parent."""
    return Vocabulary(
        Evidence(
            code,
            "symptom",
            code,
            f"{code}?",
            parent=dict(parents).get(code, ""),
            red_flag="yes" if code in codes else "",
        )
        for code in CODES
    )


def _asked(graph, states, not_to_ask=None):
    """The codes of the first question, and those of all questions."""
    nothing = np.zeros([len(states), 4], bool) if not_to_ask is None else not_to_ask
    questions = graph(tf.constant(states, tf.float32), tf.constant(nothing))
    first = graph.asks(tf.constant(states, tf.float32), tf.constant(nothing)).numpy()
    named = [
        [[CODES[cell] for cell in row if cell >= 0] for row in cells] for cells in (first, questions.codes.numpy())
    ]
    for together, codes in zip(questions.together.numpy(), named[0], strict=True):
        assert [CODES[cell] for cell in together if cell >= 0] == (codes if len(codes) > 1 else [])
    return named


def test_red_flags_of_the_vocabulary_are_one_question_and_come_first(listing):
    """Pain is .25 likely, a collapse .035; a rash, .3, is no flag. A cough says most."""
    first, questions = _asked(
        _graph(listing, _flagged("pain", "collapse")), [[0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, -1]]
    )
    assert first == [["pain", "collapse"], ["collapse"], ["pain"]]
    assert questions[0] == ["pain", "cough", "rash"]  # a collapse is asked together with pain


def test_red_flags_come_first_that_set_urgent_patients_apart(listing):
    """Pain by .4 ln(.4 / .25) = .19 nats, a collapse by .06 ln(.06 / .035) = .03, a rash not; a cough is harmless."""
    first, questions = _asked(_graph(listing, _flagged(*CODES)), [[0, 0, 0, 0]])
    assert first == [["pain", "collapse"]]
    assert questions[0] == ["pain", "cough", "rash"]


def test_a_red_flag_that_may_fire_a_rule_leads_those_that_may_not(listing):
    rule = SafetyRule("rash", "r", Action.RED, True, all_of=(("cough", True), ("rash", True)))
    graph = _graph(listing, _flagged("pain", "collapse"), (rule,))
    assert _asked(graph, [[1, 0, 0, 0]])[0] == [["rash", "pain", "collapse"]]


def test_a_red_flag_that_follows_from_another_waits(listing):
    """Whoever collapses with pain has pain: two ticks, one of which says both, would contradict each other."""
    present = listing.present.copy()
    present[:, 1] = 0.1, 0.3  # a rash sets urgent patients apart as well
    graph = _graph(
        listing._replace(present=present), _flagged("pain", "collapse", "rash", parents=[("collapse", "pain")])
    )
    first, questions = _asked(graph, [[0, 0, 0, 0], [0, 0, 1, 0]])
    assert first == [["pain", "rash"], ["rash", "collapse"]]
    assert "collapse" not in questions[0]


def test_a_special_kind_waits_for_what_it_is_a_kind_of_which_is_asked_as_soon(rare):
    """A rule names the collapse; a collapse is a kind of a rash, which is no red flag itself and says nothing."""
    rule = SafetyRule("collapse", "r", Action.RED, True, all_of=(("collapse", True),))
    mixture, vocabulary = rare(1e-6, 0.1), _flagged(parents=[("collapse", "rash")])
    graph = QuestionGraph(mixture, vocabulary, (rule,), OperatingPoint(0.0), _network(0.1, [0.0] * 4))
    states = tf.constant([[-1.0, 0, 0, 0], [-1, 1, 0, 0], [-1, -1, 0, 0], [-1, 0, 0, 0]])
    cannot_tell = tf.constant([[False] * 4] * 3 + [[False, True, False, False]])
    questions = graph(states, cannot_tell)
    asked = [[CODES[cell] for cell in row if cell >= 0] for row in questions.codes.numpy()]
    assert [row[0] for row in asked] == ["rash", "collapse", "pain", "collapse"]
    assert "collapse" not in asked[0] + asked[2]  # nobody knows yet; nobody without a rash collapses
    assert questions.red_flags.numpy()[:, 0].tolist() == [True, True, False, True]
    assert questions.worth_asking.numpy()[:, 0].tolist() == [True, True, False, True]
    assert graph.open_red_flags(states, cannot_tell).numpy().any(axis=1).tolist() == [True, True, False, True]
    without_rule = QuestionGraph(mixture, vocabulary, (), OperatingPoint(0.0))
    asked = without_rule(states, cannot_tell).codes.numpy()
    # Whoever cannot tell of a rash is not asked about its kinds either, unless they are red flags.
    assert [CODES.index("collapse") in row for row in asked] == [False, True, False, False]


def test_once_red_flags_of_the_complaint_are_denied_general_danger_signs_follow():
    """Half of the urgent patients have another complaint, and .9 of these the general sign.

    That sets them apart from all patients, by .455 ln(.455 / .233) = .3 nats, and not from those with this complaint.
    So an interview goes on for the fourth red flag, with which the general sign is asked, and not for the sign.
    """
    codes = ["complaint", "one", "two", "three", "four", "general", "common"]
    parents = {"four": "complaint"}  # a special kind is no general sign
    vocabulary = Vocabulary(
        Evidence(
            code,
            "symptom",
            code,
            f"{code}?",
            parent=parents.get(code, ""),
            red_flag="yes" if code != "complaint" else "",
        )
        for code in codes
    )
    present = np.array([[*[0.9] * 5, 0.01, 0.3], [1e-4, *[0.01] * 4, 0.9, 0.3], [0.9, *[0.01] * 5, 0.3]])
    truths = np.array([[ALWAYS, NEVER, NEVER, NEVER] * 2] * 2 + [[ALWAYS] * 8], np.float32)
    prior = np.log([0.25, 0.25, 0.5]).astype(np.float32)
    mixture = Mixture(prior, present.astype(np.float32), truths, np.full([3, 7], 1e-4, np.float32))
    graph = QuestionGraph(mixture, vocabulary, (), OperatingPoint(0.0), _network(0.1, [0.0] * 7))
    states = tf.constant(
        [[1.0, 0, 0, 0, 0, 0, 0], [1, -1, -1, 0, 0, 0, 0], [1, -1, -1, -1, 0, 0, 0], [1, -1, -1, -1, -1, 0, 0]]
    )
    nothing = tf.zeros(states.shape, tf.bool)
    first = graph.asks(states, nothing).numpy()
    assert [[codes[cell] for cell in row if cell >= 0] for row in first] == [
        ["one", "two", "three", "four"],
        ["three", "four"],
        ["four", "general"],
        ["general"],
    ]
    questions, open_flags = graph(states, nothing), graph.open_red_flags(states, nothing).numpy().any(axis=1)
    assert open_flags.tolist() == [True, True, True, False]
    assert questions.worth_asking.numpy()[:, 0].tolist() == open_flags.tolist()
    assert questions.red_flags.numpy()[:, 0].tolist() == open_flags.tolist()


def _of_urgent_patients(present, harmless):
    """Half of the patients are urgent and have a code as `present` says, the others as `harmless` says."""
    present = np.stack([np.broadcast_to(np.float32(harmless), len(present)), np.float32(present)])
    truths = np.array([[ALWAYS] * 8, [ALWAYS, NEVER, NEVER, NEVER] * 2], np.float32)
    return Mixture(np.log([0.5, 0.5]).astype(np.float32), present, truths, np.full_like(present, 1e-4))


def test_no_interview_ends_before_six_red_flags_of_the_vocabulary_are_known():
    """The network would decide; of eight flags five, then six, are known. The seventh hardly anybody has."""
    codes = [f"flag_{number}" for number in range(8)]
    vocabulary = Vocabulary(Evidence(code, "symptom", code, f"{code}?", red_flag="yes") for code in codes)
    mixture = _of_urgent_patients([0.3] * 6 + [0.001, 0.3], 0.01)
    graph = QuestionGraph(mixture, vocabulary, (), OperatingPoint(0.0), _network(0.1, [0.0] * 8))
    states, nothing = tf.constant([[-1.0] * 5 + [0, 0, 0], [-1] * 6 + [0, 0]]), tf.zeros([2, 8], tf.bool)
    questions = graph(states, nothing)
    assert questions.codes.numpy()[:, 0].tolist() == [5, 7]
    assert questions.worth_asking.numpy()[:, 0].tolist() == [True, False]
    assert questions.red_flags.numpy()[:, 0].tolist() == [True, False]
    assert graph.open_red_flags(states, nothing).numpy().sum(axis=1).tolist() == [2, 0]


@pytest.mark.parametrize(("denied", "group"), [(1e-4, [12, 13, 14]), (0.1, [])], ids=["complete patients", "cards"])
def test_of_cards_other_questions_follow_where_two_groups_of_red_flags_are_denied(denied, group):
    """Of fifteen flags twelve are denied. The cough tells all about the patient, and a flag next to nothing."""
    flags = [Evidence(f"flag_{number:02}", "symptom", "f", "f?", red_flag="yes") for number in range(15)]
    vocabulary = Vocabulary([*flags, Evidence("other_cough", "symptom", "c", "c?")])
    mixture = _of_urgent_patients([0.3] * 15 + [0.01], [0.1] * 15 + [0.99])
    graph = _graph(mixture._replace(denied=np.full([2, 16], denied, np.float32)), vocabulary)
    states, nothing = tf.constant([[-1.0] * 12 + [0.0] * 4]), tf.zeros([1, 16], tf.bool)
    questions = graph(states, nothing)
    assert questions.together.numpy()[0, :3].tolist() == (group or [-1] * 3)
    assert questions.codes.numpy()[0, 0] == (group or [15])[0]
    one_present = tf.tensor_scatter_nd_update(states, [[0, 4]], [1.0])
    assert graph(one_present, nothing).together.numpy()[0, :3].tolist() == [12, 13, 14]


@pytest.mark.parametrize(
    ("present", "denied", "asked"),
    [(0.02, 0.0, True), (0.005, 0.0, False), (0.002, 0.1, True), (0.0005, 0.1, False)],
    ids=["had by 2%", "had by .5%", "mostly denied", "always denied"],
)
def test_only_what_such_vignettes_mention_is_asked(mixture, vocabulary, present, denied, asked):
    """In at least 1% of them; of those at least 1% must have it."""
    shares = mixture.present.copy(), mixture.denied.copy()
    shares[0][:, 1], shares[1][:, 1] = present, denied
    graph = _graph(mixture._replace(present=shares[0], denied=shares[1]), vocabulary)
    assert ("rash" in _asked(graph, [[0, 0, 0, 0]])[1][0]) == asked


def test_a_question_drawn_at_random_is_open_and_related(mixture, vocabulary):
    """Where a cough is known, vignettes mention pain and a collapse, which they only deny, and no rash."""
    present = np.array([[0.9, 0.0, 0.2, 0.0]], np.float32)
    one = mixture._replace(
        log_prior=np.zeros(1, np.float32), present=np.maximum(present, 1e-6), truths=mixture.truths[:1],
        denied=np.array([[0.05, 0.0, 0.1, 0.5]], np.float32),
    )  # fmt: skip
    states = tf.constant([[1.0, 0, 0, 0]] * 8 + [[1.0, 0, -1, 0]])
    generator = tf.random.Generator.from_seed(0, alg="philox")
    questions, likely = (part.numpy() for part in _graph(one, vocabulary).imagined(states, generator))
    assert questions.tolist() == [[0, 0, 1, 0]] * 8 + [[0] * 4]
    np.testing.assert_allclose(likely, [0.2] * 8 + [0], rtol=1e-4)
