"""The model behind the console."""

import pytest

from serving.client.channel import Connection
from serving.console.agent import Agent, AgentError
from serving.console.case import ABSENT, NOT_KNOWN, PRESENT, Case, Said
from tests.builders import served, watching


def test_a_model_that_cannot_choose_questions_gets_those_of_the_vocabulary_in_its_order(agent):
    # Fever alone makes the hand-set model ask; the vocabulary is chest_pain, fever, smoker.
    fever = Case((Said("fever", PRESENT, False),))
    answer = agent.answer(fever)
    assert (answer.goes_on, answer.question, answer.chosen) == (True, "chest_pain", None)
    assert agent.answer(fever.after(Said("chest_pain", NOT_KNOWN, True))).question == "smoker"


def test_the_interview_ends_where_no_question_is_left(agent):
    said = (Said("fever", PRESENT, False), Said("chest_pain", NOT_KNOWN, True), Said("smoker", NOT_KNOWN, True))
    answer = agent.answer(Case(said))
    assert (answer.goes_on, answer.question) == (False, "")
    assert answer.response.forced  # so the decision is final, and handed over where it must be


def test_nobody_is_asked_after_the_end(agent):
    answer = agent.answer(Case((Said("fever", PRESENT, False),), ended=True))
    assert (answer.goes_on, answer.question, answer.response.forced) == (False, "", True)


def test_an_answer_counts_the_questions(agent, hand_set):
    # With fever the model asks, up to its limit of ten questions.
    many = [Said("chest_pain", NOT_KNOWN, True, turn) for turn in range(hand_set.max_questions)]
    assert agent.answer(Case((Said("fever", PRESENT, False), *many[:-1]))).goes_on
    assert agent.answer(Case((Said("fever", PRESENT, False), *many))).response.forced


def test_answers_explain_themselves(agent):
    answer = agent.answer(Case((Said("chest_pain", PRESENT, False), Said("fever", ABSENT, False))))
    assert {effect.evidence.code for effect in answer.response.explanation.effects} == {"chest_pain", "fever"}


def test_what_the_server_refuses_is_one_line(agent):
    with pytest.raises(AgentError, match="unknown evidence code 'gout'"):
        agent.answer(Case((Said("gout", PRESENT, False),)))


def test_a_server_that_is_not_there_is_named():
    with Agent(Connection("127.0.0.1:1", timeout=1.0)) as agent, pytest.raises(AgentError, match="no server at 127"):
        agent.model()


def test_a_newer_version_is_noticed_with_its_first_answer(model_base_path, contrary_version, tmp_path):
    (tmp_path / "3").symlink_to(model_base_path / "3")
    watcher = watching(tmp_path)
    pain = Case((Said("chest_pain", PRESENT, False),))
    with served(watcher) as server, Agent(Connection(server.address, timeout=30.0)) as agent:
        assert agent.answer(pain).model.info.model_version == "3"
        (tmp_path / "6").symlink_to(contrary_version)
        watcher.look()
        assert agent.answer(pain).model.info.model_version == "6"
        assert agent.model().info.model_version == "6"
