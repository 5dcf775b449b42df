"""The exported signatures, loaded from disk, against answers that can be worked out by hand."""

import math

import numpy as np
import pytest
import tensorflow as tf

from schemas import safety_rules
from schemas.evidence import Evidence, Vocabulary
from schemas.triage import Action
from tests.builders import network_of, sigmoid_network, symptoms
from trainer.export import signatures
from trainer.graph.decide import OperatingPoint
from trainer.graph.novelty import Novelty
from triage.v1 import triage_pb2

PRESENT, ABSENT = triage_pb2.EVIDENCE_STATUS_PRESENT, triage_pb2.EVIDENCE_STATUS_ABSENT
RED, YELLOW, ASK = triage_pb2.TRIAGE_ACTION_RED, triage_pb2.TRIAGE_ACTION_YELLOW, triage_pb2.TRIAGE_ACTION_ASK

# Names and questions are quoted in the file, codes never are: the table reads each line up to its first comma.
VOCABULARY = Vocabulary(
    [
        Evidence("pain", "symptom", 'Chest pain, "tight"', 'Do you have pain, or a "tight" chest?'),
        Evidence("fièvre", "symptom", "Fièvre, frissons", "Avez-vous de la fièvre, ou des frissons ?"),
        Evidence("喫煙", "risk_factor", "喫煙", "喫煙しますか, または以前に?"),
    ]
)

# One layer, so that Q = sigmoid(s W): sigmoid(0) = 1/2, sigmoid(±L) = 3/4 and 1/4, sigmoid(2 L) = 9/10.
L = math.log(3)
WEIGHTS = [
    # Red, Yellow, Green, Blue, ask
    [L, 0, 0, -L, 0],  # pain present: Red
    [0, L, 0, 0, 2 * L],  # fever present: ask, and Yellow if asking is not possible
    [0, 0, 0, -L, -L],  # smoking absent: Blue and ask alike, and Blue comes first
]
PAIN_Q = [0.75, 0.5, 0.5, 0.25, 0.5]
FEVER_Q = [0.5, 0.75, 0.5, 0.5, 0.9]
NO_SMOKING_Q = [0.5, 0.5, 0.5, 0.75, 0.75]
NOTHING_Q = [0.5] * 5
MAX_QUESTIONS = 10


@pytest.fixture(scope="module")
def served(made_once):
    """A model whose folder was moved after the export, its vocabulary file gone."""

    def make(folder):
        VOCABULARY.save(folder / "vocabulary.csv")
        identity = signatures.Identity("7", VOCABULARY.fingerprint, len(VOCABULARY), MAX_QUESTIONS)
        signatures.write(folder / "model", network_of((WEIGHTS, 0)), folder / "vocabulary.csv", identity)
        (folder / "model").rename(folder / "moved")
        (folder / "vocabulary.csv").unlink()

    return tf.saved_model.load(str(made_once("signatures", make) / "moved"))


def codes_answer(served, present, absent, questions_asked):
    return served.signatures["serving_default"](
        present=tf.constant(present, tf.string),
        absent=tf.constant(absent, tf.string),
        questions_asked=tf.constant(questions_asked, tf.int32),
    )


def evidence_state(*evidence, **fields):
    pieces = [triage_pb2.Evidence(code=code, status=status) for code, status in evidence]
    return triage_pb2.EvidenceState(evidence=pieces, **fields)


def message_answers(served, *states):
    given = [state if isinstance(state, bytes) else state.SerializeToString() for state in states]
    serialized = tf.constant(given, tf.string, shape=[len(states)])
    answers = served.signatures["triage"](evidence_states=serialized)["triage_responses"].numpy()
    return [triage_pb2.TriageResponse.FromString(answer) for answer in answers]


def test_a_model_offers_three_signatures_with_named_tensors(served):
    inputs = {name: sorted(served.signatures[name].structured_input_signature[1]) for name in served.signatures}
    assert inputs == {
        "serving_default": ["absent", "present", "questions_asked"],
        "triage": ["evidence_states"],
        "state": ["questions_asked", "states"],
    }
    # Callers of TensorFlow Serving's REST API need not name an only output.
    assert list(served.signatures["triage"].structured_outputs) == ["triage_responses"]


def test_codes_give_the_decision_of_the_hand_set_weights(served):
    answer = codes_answer(
        served, [["pain"], ["fièvre"], [""], [""]], [[""], [""], ["喫煙"], [""]], questions_asked=[0, 0, 0, 0]
    )
    assert answer["q_values"].numpy() == pytest.approx(
        tf.constant([PAIN_Q, FEVER_Q, NO_SMOKING_Q, NOTHING_Q]).numpy(), abs=1e-6
    )
    assert answer["action_label"].numpy().tolist() == [b"Red", b"ask", b"Blue", b"ask"]  # nothing known: ask
    assert answer["action"].numpy().tolist() == [0, 4, 3, 4]
    assert answer["best_triage_label"].numpy().tolist() == [b"Red", b"Yellow", b"Blue", b"Red"]
    assert answer["best_triage"].numpy().tolist() == [0, 1, 3, 0]
    assert not answer["forced"].numpy().any()


def test_unknown_and_conflicting_codes_are_listed_and_ignored(served):
    answer = codes_answer(served, [["gout", "pain"], ["fièvre", ""]], [["code", "lupus"], ["fièvre", ""]], [0, 0])
    # "code" begins the header line of the vocabulary file; it is no evidence code all the same.
    assert answer["unknown_codes"].numpy().tolist() == [[b"gout", b"code", b"lupus"], [b"", b"", b""]]
    assert answer["conflicting_codes"].numpy().tolist() == [[b""], ["fièvre".encode()]]
    assert answer["q_values"].numpy() == pytest.approx(tf.constant([PAIN_Q, NOTHING_Q]).numpy(), abs=1e-6)


def test_a_message_gets_the_response_of_its_evidence(served):
    state = evidence_state(("fièvre", PRESENT), ("gout", ABSENT), ("pain", ABSENT), ("pain", PRESENT))
    (response,) = message_answers(served, state)
    assert (response.action, response.best_triage, response.forced) == (ASK, YELLOW, False)
    assert [q_value.value for q_value in response.q_values] == pytest.approx(FEVER_Q, abs=1e-6)
    assert [q_value.action for q_value in response.q_values] == [1, 2, 3, 4, 5]
    assert (response.unknown_codes, response.conflicting_codes) == (["gout"], ["pain"])
    assert response.model_version == "7"
    assert response.vocabulary_fingerprint == VOCABULARY.fingerprint


@pytest.mark.parametrize(
    ("fields", "forced"),
    [
        ({}, False),
        ({"questions_asked": 9}, False),
        ({"questions_asked": 10}, True),
        ({"no_more_evidence": True}, True),
        ({"questions_asked": 4, "max_questions": 5}, False),
        ({"questions_asked": 5, "max_questions": 5}, True),
        ({"questions_asked": 9, "max_questions": 99}, False),
        ({"questions_asked": 10, "max_questions": 99}, True),
        ({"questions_asked": 9, "max_questions": -1}, False),
    ],
)
def test_a_message_forces_triage_at_its_own_limit_or_the_models(served, fields, forced):
    (response,) = message_answers(served, evidence_state(("fièvre", PRESENT), **fields))
    assert response.forced is forced
    assert response.action == (YELLOW if forced else ASK)


def test_messages_of_different_lengths_are_read_side_by_side_and_no_text_makes_an_answer_unreadable(served):
    garbled = evidence_state(("ab", PRESENT)).SerializeToString().replace(b"ab", b"a\xff")
    long, short, other = message_answers(
        served,
        evidence_state(("gout", PRESENT), ("pain", ABSENT), ("fièvre", PRESENT), questions_asked=3),
        evidence_state(("lupus", ABSENT), no_more_evidence=True),
        garbled,
    )
    assert [(each.unknown_codes, each.forced) for each in (long, short, other)] == [
        (["gout"], False), (["lupus"], True), (["a\ufffd"], False),
    ]  # fmt: skip


@pytest.mark.parametrize("malformed", [b"\xff\xff", b"\x0a\x05ab", b"\x0a\x02\xff\xff"])
def test_bytes_that_are_not_a_message_fail(served, malformed):
    with pytest.raises(tf.errors.DataLossError):
        message_answers(served, malformed)


def test_an_empty_batch_has_an_empty_answer(served):
    assert message_answers(served) == []
    empty = tf.zeros([0, 0], tf.string)
    assert codes_answer(served, empty, empty, [])["q_values"].shape == (0, 5)


@pytest.mark.parametrize("asked", [[], [3, 23]])
def test_inputs_of_different_batch_sizes_fail(served, asked):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"questions_asked .*states"):
        served.signatures["state"](states=tf.zeros([1, 3]), questions_asked=tf.constant(asked, tf.int32))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"questions_asked .*present"):
        codes_answer(served, [["pain"]], [[""]], asked)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"absent .*present"):
        codes_answer(served, [["pain"]], [["fièvre"], [""]], [0])


@pytest.mark.parametrize("value", [math.nan, -math.inf, 1e38, 0.5, -3.0])
def test_states_other_than_present_absent_and_unknown_fail(served, value):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"states to be (finite|-1, 0 or 1)"):
        served.signatures["state"](
            states=tf.constant([[0.0, 1, 0], [0, value, -1]]), questions_asked=tf.constant([0, 0])
        )


RULES = safety_rules.parse(
    """
[soon]
reason = "Fever."
urgency = "Yellow"
all.present = ["fièvre"]
[now]
reason = "Fever without pain."
urgency = "Red"
all.present = ["fièvre"]
all.absent = ["pain"]
""",
    "rules.toml",
    VOCABULARY,
)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """The same model with two rules, and a novelty of which the halves lie at a score of 0."""
    folder = tmp_path_factory.mktemp("guarded")
    VOCABULARY.save(folder / "vocabulary.csv")
    model = network_of((WEIGHTS, [0, 0, 0, 3, 0]))  # Blue, if nothing says more
    identity = signatures.Identity("7", VOCABULARY.fingerprint, len(VOCABULARY), MAX_QUESTIONS)
    log_literals = np.zeros([6, 2], np.float32)
    log_literals[0, 1] = 1.0  # pain that is present scores 1, all else 0
    quantiles = np.array([[-1, 0.5]], np.float32)
    statistics = Novelty(np.zeros(1, np.float32), log_literals, quantiles, 10)
    safeguards = signatures.Safeguards(RULES, statistics)
    signatures.write(folder / "model", model, folder / "vocabulary.csv", identity, safeguards)
    return tf.saved_model.load(str(folder / "model"))


def test_all_signatures_answer_after_the_rules(guarded):
    # Nothing; fever; fever without pain; no smoking: forced from the third on.
    evidence = [[], [("fièvre", PRESENT)], [("fièvre", PRESENT), ("pain", ABSENT)], [("喫煙", ABSENT)]]
    asked = [10, 0, 10, 10]
    by_code = codes_answer(guarded, [[""], ["fièvre"], ["fièvre"], [""]], [[""], [""], ["pain"], ["喫煙"]], asked)
    by_state = guarded.signatures["state"](
        states=tf.constant([[0.0, 0, 0], [0, 1, 0], [-1, 1, 0], [0, 0, -1]]), questions_asked=tf.constant(asked)
    )
    # Q of fever: ask 9/10, Blue 1/(1 + e^-3) = .95: Blue, so that Yellow is the rule's. Of nothing: ask by decree.
    for answer in (by_code, by_state):
        assert answer["action_label"].numpy().tolist() == [b"ask", b"Yellow", b"Red", b"Blue"]
        assert answer["best_triage_label"].numpy().tolist()[1:] == [b"Yellow", b"Red", b"Blue"]
        assert answer["rules_fired"].numpy().tolist() == [[False, False], [True, False], [True, True], [False, False]]
        assert answer["forced"].numpy().tolist() == [True, False, True, True]
    states = [evidence_state(*pieces, questions_asked=count) for pieces, count in zip(evidence, asked, strict=True)]
    responses = message_answers(guarded, *states)
    assert [response.action for response in responses] == [ASK, YELLOW, RED, triage_pb2.TRIAGE_ACTION_BLUE]
    fired = [[(rule.rule_id, rule.from_action, rule.to_action) for rule in r.fired_rules] for r in responses]
    blue = triage_pb2.TRIAGE_ACTION_BLUE
    assert fired == [[], [("soon", blue, YELLOW)], [("soon", blue, YELLOW), ("now", YELLOW, RED)], []]
    assert responses[2].fired_rules[1].reason == "Fever without pain."


def test_novelty_is_the_share_of_moments_that_were_less_unusual(guarded):
    answer = codes_answer(guarded, [["pain"], ["fièvre"], [""]], [[""], [""], [""]], [0, 0, 0])
    # Scores 1, 0 and none against quantiles of -1 and .5.
    assert answer["novelty"].numpy().tolist() == [1.0, 0.5, 0.0]
    assert answer["is_novel"].numpy().tolist() == [True, False, False]
    response, _ = message_answers(guarded, evidence_state(("pain", PRESENT)), evidence_state())
    assert (response.novelty, response.is_novel) == (1.0, True)


RELATED = symptoms("pain", "rash", "cough", "child", "adult", exclusive={"child": "age", "adult": "age"})


@pytest.fixture(scope="module")
def cautious(tmp_path_factory):
    """A model that hands over what it decides below Red where P(Red) is .3 or more."""
    folder = tmp_path_factory.mktemp("cautious")
    RELATED.save(folder / "vocabulary.csv")
    q, likely = np.zeros([5, 5]), np.zeros([5, 4])
    q[2, Action.ASK] = 18  # with a cough, asking is worth more than any decision
    q[3, :2] = 4, -4  # a child is Red
    likely[3:, Action.RED] = 4, 0.5  # P(Red) of a child is 1/(1 + e^-3) = .953, of an adult 1/(1 + e^.5) = .378
    # Yellow for others, of whom P(Red is appropriate) is 1/(1 + e) = .269.
    appropriate, safe = (likely, [-1, 0, 0, 0]), (np.zeros([5, 4]), [0] * 4)
    model = sigmoid_network(q=(q, [-1, 2, -2, -2, -9]), appropriate=appropriate, safe=safe)
    rule = '[r]\nreason = "A rash."\nurgency = "Red"\nall.present = ["rash", "adult"]\n'
    log_literals = np.zeros([10, 2], np.float32)
    log_literals[0, 1] = 1.0  # pain is novel
    safeguards = signatures.Safeguards(
        safety_rules.parse(rule, "rules.toml", RELATED),
        Novelty(np.zeros(1, np.float32), log_literals, np.array([[-1, 0.5]], np.float32), 10),
        OperatingPoint(hand_over_from=0.3),
    )
    identity = signatures.Identity("7", RELATED.fingerprint, len(RELATED), MAX_QUESTIONS)
    signatures.write(folder / "model", model, folder / "vocabulary.csv", identity, safeguards)
    return tf.saved_model.load(str(folder / "model"))


def test_states_and_codes_are_handed_over_with_the_reason_and_messages_never(cautious):
    cases = [
        (["child", ""], "", 0, b"Red", 0),
        (["adult", ""], "", 0, b"Yellow", 3),  # may be Red
        (["adult", "rash"], "", 0, b"Red", 0),  # is Red by a rule
        (["adult", "cough"], "", 0, b"ask", 0),  # the next answer may help
        (["adult", "cough"], "", 10, b"Yellow", 3),
        (["pain", ""], "", 0, b"Yellow", 2),
        (["pain", "adult"], "", 0, b"Yellow", 2),  # novel first
        (["", ""], "", 10, b"ask", 0),  # there is no decision
        (["child", "adult"], "", 0, b"Red", 1),
        (["adult", "cough"], "cough", 0, b"Yellow", 1),  # only codes can say both
    ]
    present, absent, asked, actions, expected = (list(column) for column in zip(*cases, strict=True))
    answer = codes_answer(cautious, present, [[code] for code in absent], asked)
    assert answer["action_label"].numpy().tolist() == actions
    assert answer["p_appropriate"].numpy()[[0, 1, 5], 0] == pytest.approx([0.953, 0.378, 0.269], abs=1e-3)
    assert answer["deferred"].numpy().tolist() == expected
    states = tf.constant([[code in there for code in RELATED.codes] for there in present[:-1]])
    answer = cautious.signatures["state"](states=tf.cast(states, tf.float32), questions_asked=tf.constant(asked[:-1]))
    assert answer["deferred"].numpy().tolist() == expected[:-1]
    (response,) = message_answers(cautious, evidence_state(("child", PRESENT), ("adult", PRESENT)))
    assert not response.HasField("deferred"), "callers who did not ask for it see what they saw"
