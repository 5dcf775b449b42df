"""Interviews in training: who answers what, which question comes next, and how they take part in an environment."""

import numpy as np
import pytest
import tensorflow as tf

from schemas.evidence import Evidence, Vocabulary
from schemas.triage import Action
from tests.builders import symptoms
from trainer.config import NetworkConfig
from trainer.dyqn.environment import Mode, VignetteEnvironment
from trainer.dyqn.network import LEARNED_OUTPUTS, build_network
from trainer.dyqn.validation import InterviewValidator
from trainer.graph.mixture import Mixture
from trainer.interviews.interviewer import PatientInterviews

CODES = ("cough", "rash", "pain", "collapse")
CARDS = [([1, -3], [0, 0, 3, 0]), ([2], [3, 0, 0, 0])]  # a cough without pain; a rash


@pytest.fixture(scope="module")
def mixture():
    """Everybody with a cough has a collapse, too, everybody with a rash has pain, and nobody anything else."""
    present = np.array([[0.985, 0.015, 0.015, 0.985], [0.015, 0.985, 0.985, 0.015]], np.float32)
    truths = np.array(
        [[0.2, 0.4, 0.9, 0.5, 0.99, 0.9, 0.9, 0.5], [0.9, 0.5, 0.1, 0.1, 0.99, 0.5, 0.1, 0.1]], np.float32
    )
    return Mixture(np.log([0.5, 0.5]).astype(np.float32), present, truths, 1 - present)


@pytest.fixture(scope="module")
def vocabulary():
    return symptoms(*CODES)


@pytest.fixture(scope="module")
def network():
    return build_network(4, NetworkConfig(hidden_sizes=(4,), networks=2, outputs="probabilities"), seed=0)


def _generator():
    return tf.random.Generator.from_seed(0, alg="philox")


def _interviewer(mixture, vocabulary, network, vignettes, whole):
    return PatientInterviews(mixture, vocabulary, whole, 3).begin(vignettes, network, _generator())


def test_whole_patients_lack_what_their_vignettes_do_not_list(mixture, vocabulary, network, vignettes_of):
    interviewer = _interviewer(mixture, vocabulary, network, vignettes_of(CARDS), whole=True)
    answers = interviewer.patients(tf.constant([1, 0], tf.int64))
    assert answers.numpy().tolist() == [[-1, 1, -1, -1], [1, -1, -1, -1]]


def test_what_a_card_leaves_open_is_answered_as_by_patients_with_such_a_card(
    mixture, vocabulary, network, vignettes_of
):
    interviewer = _interviewer(mixture, vocabulary, network, vignettes_of(CARDS), whole=False)
    answers = interviewer.patients(tf.constant([0, 1] * 50, tf.int64)).numpy()
    # The mixture is .985 sure of each answer; what the card lists is never drawn.
    assert (answers[::2, [0, 2]] == [1, -1]).all()
    assert (answers[1::2, 1] == 1).all()
    assert (answers[::2] == [1, -1, -1, 1]).mean() > 0.96
    assert (answers[1::2] == [-1, 1, 1, -1]).mean() > 0.96


def test_what_a_card_leaves_open_agrees_with_its_decisions(vocabulary, network, vignettes_of):
    """Nothing but the decisions tells both classes apart; who has pain is Red in 95 of 100, and who has none Green."""
    present = np.array([[0.5, 0.5, 0.985, 0.5], [0.5, 0.5, 0.015, 0.5]], np.float32)
    safe = [[0.99, 0.05, 0.0, 0.0], [0.99, 0.95, 0.95, 0.0]]
    truths = np.concatenate([np.full([2, 4], 0.5), safe], axis=1).astype(np.float32)
    alike = Mixture(np.log([0.5, 0.5]).astype(np.float32), present, truths, 1 - present)
    cards = vignettes_of([([1], [3, 0, 0, 0]), ([1], [1, 0, 2, 0])])  # a cough; the least urgent decision counts
    patients = _interviewer(alike, vocabulary, network, cards, whole=False).patients(
        tf.constant([0, 1] * 200, tf.int64)
    )
    # Red: .95 to .05, so pain in .95 x .985 + .05 x .015. Green: .01 to .95, so in .0104 x .985 + .9896 x .015.
    assert (patients.numpy()[::2, 2] == 1).mean() == pytest.approx(0.9365, abs=0.06)
    assert (patients.numpy()[1::2, 2] == 1).mean() == pytest.approx(0.0251, abs=0.04)


def test_nothing_known_is_asked_again_however_much_is_explored(mixture, vocabulary, network, vignettes_of):
    interviewer = _interviewer(mixture, vocabulary, network, vignettes_of(CARDS), whole=True)
    states = tf.constant([[1.0, 0, -1, 0], [1, -1, 1, 0], [1, 1, 1, 1]] * 20)
    patients = tf.constant([[1, 1, -1, -1]] * 60, tf.int8)
    for explored in (0.0, 1.0):
        answers = interviewer.answers(states, patients, tf.fill([60], explored)).numpy()
        assert {*answers[0::3, 0].tolist()} <= {2, -4}
        assert (answers[1::3, 0] == -4).all()
        assert not answers[2::3].any()  # nothing is left
        assert not answers[:, 1:].any()  # one code in a question


def _of_a_woman(mixture):
    """The mixture, over a cough, the two sexes and a rash; everybody with a cough is female."""
    present = np.array([[0.985, 0.985, 0.015, 0.015], [0.015, 0.015, 0.985, 0.985]], np.float32)
    return mixture._replace(present=present, denied=1 - present)


@pytest.fixture(scope="module")
def with_sex():
    codes = (("cough", ""), ("sex_male", "sex"), ("sex_female", "sex"), ("rash", ""))
    return Vocabulary(Evidence(code, "symptom", code, f"{code}?", exclusive=group) for code, group in codes)


def test_an_interview_opens_with_age_and_sex_in_one_question(mixture, with_sex, network, vignettes_of):
    """Sex is the only group of this vocabulary; the patient has a cough, is female and has a rash."""
    vignettes = vignettes_of([([1, 3, 4], [1, 0, 0, 0])])
    interviewer = _interviewer(_of_a_woman(mixture), with_sex, network, vignettes, whole=True)
    patient = interviewer.patients(tf.constant([0], tf.int64))
    assert patient.numpy().tolist() == [[1, -1, 1, 1]]

    def asked(state):
        return [code for code in interviewer.answers(tf.constant([state]), patient, tf.zeros([1])).numpy()[0] if code]

    assert asked([1.0, 0, 0, 0]) == [3]
    # Where one sex is known, the other is settled; where one is denied, the group is not opened again.
    assert asked([1.0, 0, 1, 0]) == [4]
    assert asked([1.0, -1, 0, 0]) == [4]
    # The first question of an interview, of which the memory keeps the answer.
    interviews = PatientInterviews(_of_a_woman(mixture), with_sex, True, 2)
    for leader in (network, None):
        assert interviews.interview_states(leader, vignettes)[0].tolist() == [[1, 0, 0, 0], [1, 0, 1, 0], [1, 0, 1, 1]]


def test_red_flags_are_answered_together_and_all_answers_become_known(mixture, network, vignettes_of):
    """A rash and a collapse are flagged; both mark those with a cough, and a collapse, .985 likely, does it most."""
    flagged = Vocabulary(
        Evidence(code, "symptom", code, f"{code}?", red_flag="yes" if code in ("rash", "collapse") else "")
        for code in CODES
    )
    vignettes = vignettes_of([([1, 4], [1, 0, 0, 0])])
    present = np.array([[0.985, 0.9, 0.015, 0.985], [0.015, 0.015, 0.985, 0.015]], np.float32)
    mixture = mixture._replace(present=present, denied=np.full_like(present, 1e-4))
    interviewer = _interviewer(mixture, flagged, network, vignettes, whole=True)
    patient = interviewer.patients(tf.constant([0], tf.int64))
    states = tf.constant([[1.0, 0, 0, 0]])
    assert interviewer.answers(states, patient, tf.zeros([1])).numpy().tolist() == [[4, -2, 0, 0, 0, 0]]
    environment = _environment(vignettes, interviewer, rows=8, card_starts=0.0)
    forced = environment.reset().observation.forced.numpy()
    after = environment.step(tf.constant(np.where(forced, Action.RED, Action.ASK), tf.int32)).observation.state.numpy()
    explored = (after == [1, -1, 0, 1]).all(axis=1)
    assert explored.any()  # the others were asked at random
    assert (np.count_nonzero(after[~explored], axis=1) == 2).all()


def _environment(vignettes, interviewer, rows, **mode):
    settings = Mode(training=True, max_questions=3, any_start=True, **mode)
    return VignetteEnvironment(vignettes, 4, settings, _generator(), rows, interviewer)


def test_asking_reveals_the_answer_to_the_question_that_was_chosen(mixture, vocabulary, network, vignettes_of):
    vignettes = vignettes_of(CARDS)
    interviewer = _interviewer(mixture, vocabulary, network, vignettes, whole=True)
    environment = _environment(vignettes, interviewer, rows=64, card_starts=0.0)
    before = environment.reset()
    truth = np.array([[1, -1, -1, -1], [-1, 1, -1, -1]])
    # Each interview starts with what the patient comes with, the first piece of the vignette.
    first = np.array([[1, 0, 0, 0], [0, 1, 0, 0]])
    drawn = environment.state_variables["vignette"].numpy()
    np.testing.assert_array_equal(before.observation.state, first[drawn])
    forced = before.observation.forced.numpy()
    assert 4 < forced.sum() < 32  # a quarter of the interviews may ask 0 of up to 3 questions
    action = tf.constant(np.where(forced, Action.RED, Action.ASK), tf.int32)
    after = environment.step(action)
    state = after.observation.state.numpy()
    np.testing.assert_array_equal(environment.state_variables["vignette"], drawn)
    assert (np.count_nonzero(state, axis=1) == 2).all()  # where triage is forced, the ask successor
    known = state != 0
    np.testing.assert_array_equal(state[known], truth[drawn][known])
    np.testing.assert_array_equal(after.is_last(), forced)


def test_some_interviews_start_from_a_part_of_the_card(mixture, vocabulary, network, vignettes_of):
    vignettes = vignettes_of(CARDS[:1])
    interviewer = _interviewer(mixture, vocabulary, network, vignettes, whole=True)
    known = _environment(vignettes, interviewer, rows=64, card_starts=1.0).reset().observation.state.numpy()
    starts = {tuple(row) for row in known.astype(int).tolist()}
    assert starts == {(1, 0, 0, 0), (0, 0, -1, 0), (1, 0, -1, 0)}


def test_of_some_cards_the_next_piece_is_read_until_they_end(mixture, vocabulary, network, vignettes_of):
    vignettes = vignettes_of(CARDS[:1])  # a cough, and no rash
    interviewer = _interviewer(mixture, vocabulary, network, vignettes, whole=False)
    environment = _environment(vignettes, interviewer, rows=64, card_starts=1.0, card_reading=1.0, masking=0.9)
    before = environment.reset().observation
    known = np.count_nonzero(before.state, axis=1)
    assert 16 < (known == 2).sum() < 48  # one or two pieces, equally likely: nothing is masked
    np.testing.assert_array_equal(before.forced, known == 2)
    after = environment.step(tf.constant(np.where(before.forced, Action.RED, Action.ASK), tf.int32))
    np.testing.assert_array_equal(after.observation.state, [[1, 0, -1, 0]] * 64)
    np.testing.assert_array_equal(after.observation.forced, [True] * 64)
    np.testing.assert_array_equal(after.is_last(), known == 2)


def test_held_out_patients_are_interviewed_from_what_they_come_with(mixture, vocabulary, network, vignettes_of):
    interviewing = PatientInterviews(mixture, vocabulary, True, 3)
    for leader in (network, None):
        states = interviewing.interview_states(leader, vignettes_of(CARDS))
        assert states.shape == (2, 4, 4)
        assert states[:, 0].tolist() == [[1, 0, 0, 0], [0, 1, 0, 0]]
        assert np.count_nonzero(states, axis=2).tolist() == [[1, 2, 3, 4]] * 2
        assert states[:, 3].tolist() == [[1, -1, -1, -1], [-1, 1, -1, -1]]


@pytest.mark.parametrize("outputs", ["q_values", "probabilities"])
def test_a_network_without_probabilities_leaves_the_questions_to_the_mixture(
    mixture, vocabulary, vignettes_of, outputs
):
    network = build_network(4, NetworkConfig(hidden_sizes=(4,), networks=2, outputs=outputs), seed=0)
    interviewing = PatientInterviews(mixture, vocabulary, False, 3)
    interviewer = interviewing.begin(vignettes_of(CARDS), network, _generator())
    # The probabilities after an imagined answer would be learned from.
    assert (interviewer.imagine is None) == (outputs == "q_values")
    states = tf.constant([[1.0, 0.0, 0.0, 0.0]])
    answers = interviewer.answers(states, tf.constant([[1, -1, -1, 1]], tf.int8), tf.constant([0.0]))
    assert (np.abs(answers.numpy()) > 1).sum() == 1  # one question, and not about the cough
    # Two patients and four states each: before the first question and after each of three.
    held_out = InterviewValidator(interviewing, vignettes_of(CARDS)).settle(network)
    assert held_out.outputs.shape == (8, 5 if outputs == "q_values" else LEARNED_OUTPUTS + 1)
