"""The model behind the console."""

from serving.client.channel import ConnectionOptions
from serving.console.case import ABSENT, NOT_KNOWN, PRESENT, Case, Statement
from serving.console.served_model import ServedModel
from tests.builders import served, watching

FEVER = Case((Statement("fever", PRESENT, False),))


def test_a_model_that_cannot_choose_questions_gets_those_of_the_vocabulary_to_its_end(served_model):
    # Fever alone makes the hand-set model ask; the vocabulary is chest_pain, fever, smoker.
    answer = served_model.answer(FEVER)
    assert (answer.asks, answer.question, answer.chosen) == (True, "chest_pain", None)
    asked = FEVER.after(Statement("chest_pain", NOT_KNOWN, True))
    assert served_model.answer(asked).question == "smoker"
    # Where no question is left, or nobody can say more, the decision is final, and handed over where it must be.
    for case in (asked.after(Statement("smoker", NOT_KNOWN, True)), FEVER.ending()):
        answer = served_model.answer(case)
        assert (answer.asks, answer.question, answer.response.forced) == (False, "", True)


def test_an_answer_counts_the_questions(served_model, hand_set):
    # With fever the model asks, up to its limit of ten questions.
    many = [Statement("chest_pain", NOT_KNOWN, True, turn) for turn in range(hand_set.max_questions)]
    assert served_model.answer(Case((*FEVER.statements, *many[:-1]))).asks
    assert served_model.answer(Case((*FEVER.statements, *many))).response.forced


def test_answers_explain_themselves(served_model):
    answer = served_model.answer(Case((Statement("chest_pain", PRESENT, False), Statement("fever", ABSENT, False))))
    assert {effect.evidence.code for effect in answer.response.explanation.effects} == {"chest_pain", "fever"}


def test_a_newer_version_is_noticed_with_its_first_answer(model_base_path, contrary_version, tmp_path):
    (tmp_path / "3").symlink_to(model_base_path / "3")
    watcher = watching(tmp_path)
    pain = Case((Statement("chest_pain", PRESENT, False),))
    with served(watcher) as server, ServedModel(ConnectionOptions(server.address, timeout=30.0)) as served_model:
        assert served_model.answer(pain).model.info.model_version == "3"
        (tmp_path / "6").symlink_to(contrary_version)
        watcher.look()
        assert served_model.answer(pain).model.info.model_version == "6"
        assert served_model.version().info.model_version == "6"
