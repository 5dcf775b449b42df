"""Files of textbook cases: what a line may say, and how one that is wrong is refused."""

import json
import pathlib

import pytest

from schemas.errors import InputError
from schemas.triage import Action
from tests.builders import symptoms
from trainer.data.textbook_case import DEFAULT, TextbookCase, fitting_cases, read_cases
from trainer.simulation.knowledge_base import KnowledgeBase

VOCABULARY = symptoms("fever", "chest_pain", "cough")
GOOD = {
    "vignette_id": "mi",
    "title": "Heart attack",
    "category": "emergency",
    "allowed": ["Red"],
    "present": ["chest_pain"],
    "absent": ["fever", "cough"],
}


@pytest.fixture
def written(tmp_path):
    def write(*lines):
        path = tmp_path / "cases.jsonl"
        path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
        return path

    return write


def test_a_line_becomes_a_case_whose_codes_keep_the_order_of_the_file(written):
    path = written(GOOD, "", GOOD | {"vignette_id": "cold", "category": "self_care", "allowed": ["Blue", "Green"]})
    heart_attack, cold = read_cases(path, VOCABULARY)
    assert heart_attack == TextbookCase(
        "mi", "Heart attack", "emergency", (Action.RED,), ("chest_pain",), ("fever", "cough")
    )
    assert heart_attack.codes == ("chest_pain", "fever", "cough")
    assert cold.allowed == (Action.GREEN, Action.BLUE)  # most urgent first, whatever the file's order


def test_tags_may_stand_in_a_case(written):
    assert len(read_cases(written(GOOD | {"tags": ["system=cardiovascular"]}), VOCABULARY)) == 1


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not valid JSON"),
        ("[]", ".*found a list"),
        (GOOD | {"titel": "x"}, ".*'titel': .*'title'"),
        (GOOD | {"decisions": ["Red"]}, ".*'decisions'"),
        ({key: GOOD[key] for key in GOOD if key != "allowed"}, ".*'allowed' .*missing"),
        (GOOD | {"title": ""}, "title: "),
        (GOOD | {"title": "\x1b[2J"}, "title: "),
        (GOOD | {"category": "red"}, "category: .*emergency, urgent, routine, self_care, found 'red'"),
        (GOOD | {"category": ["urgent"]}, "category: "),
        (GOOD | {"present": ["chest_pian"]}, "present: .*'chest_pian': .*chest_pain"),
        (GOOD | {"present": ["fever"]}, "'fever' .*absent"),
        (GOOD | {"present": [], "absent": []}, "no evidence"),
        (GOOD | {"allowed": []}, "allowed: .*at least one"),
        (GOOD | {"allowed": "Red"}, "allowed: .*list"),
        (GOOD | {"allowed": ["red"]}, "allowed: .*'red' .*Red"),
        (GOOD | {"allowed": [["Red"]]}, "allowed: "),
        (GOOD | {"allowed": ["Red", "Red"]}, "allowed: .*twice"),
        (GOOD | {"allowed": ["Red", "Green"]}, "allowed: .*found Red, Green"),
        (GOOD | {"allowed": ["Yellow"]}, "allowed: .*'emergency' .*Red"),
        (GOOD, "vignette_id 'mi' .*line 1"),
    ],
)
def test_a_line_that_is_not_a_case_is_refused_with_file_line_and_reason(written, line, reason):
    path = written(GOOD, "", line)
    with pytest.raises(InputError, match=f"^{path}: line 3: {reason}") as raised:
        read_cases(path, VOCABULARY)
    assert "\n" not in str(raised.value)


def test_a_file_without_cases_and_one_that_does_not_exist_are_refused(written, tmp_path):
    with pytest.raises(InputError, match="no textbook cases"):
        read_cases(written(""), VOCABULARY)
    with pytest.raises(InputError, match=r"missing\.jsonl: "):
        read_cases(tmp_path / "missing.jsonl", VOCABULARY)


def test_the_cases_of_the_package_are_default_and_fit_the_simulators_vocabulary_alone():
    simulated = KnowledgeBase.load().catalogue.vocabulary
    cases = fitting_cases(simulated)
    assert len(cases) == 144
    assert read_cases(pathlib.Path(DEFAULT), simulated) == cases
    assert fitting_cases(VOCABULARY) == ()
    with pytest.raises(InputError, match=r"textbook\.jsonl: line 1: "):
        read_cases(pathlib.Path(DEFAULT), VOCABULARY)
