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
        ("{", "not valid JSON at character 2"),
        ("[]", "expected a JSON object, found a list"),
        (GOOD | {"titel": "x"}, "unknown key 'titel': did you mean 'title'?"),
        (GOOD | {"decisions": ["Red"]}, "unknown key 'decisions'"),
        ({key: GOOD[key] for key in GOOD if key != "allowed"}, "the key 'allowed' is missing"),
        (GOOD | {"title": ""}, "title: expected a non-empty string"),
        (GOOD | {"title": "\x1b[2J"}, "title: "),
        (GOOD | {"category": "red"}, "category: expected emergency, urgent, routine, self_care, found 'red'"),
        (GOOD | {"category": ["urgent"]}, "category: expected emergency"),
        (GOOD | {"present": ["chest_pian"]}, "present: unknown evidence code 'chest_pian': did you mean chest_pain"),
        (GOOD | {"present": ["fever"]}, "'fever' is both present and absent"),
        (GOOD | {"present": [], "absent": []}, "no evidence"),
        (GOOD | {"allowed": []}, "allowed: expected a list of colours, at least one"),
        (GOOD | {"allowed": "Red"}, "allowed: expected a list of colours"),
        (GOOD | {"allowed": ["red"]}, "allowed: triage decision 'red' is not one of Red"),
        (GOOD | {"allowed": [["Red"]]}, "allowed: triage decision"),
        (GOOD | {"allowed": ["Red", "Red"]}, "allowed: a colour is listed twice"),
        (GOOD | {"allowed": ["Red", "Green"]}, "allowed: expected neighbouring colours, found Red, Green"),
        (GOOD | {"allowed": ["Yellow"]}, "allowed: a case of the category 'emergency' must allow Red"),
        (GOOD, "vignette_id 'mi' is on line 1 already"),
    ],
)
def test_a_line_that_is_not_a_case_is_refused_with_file_line_and_reason(written, line, reason):
    path = written(GOOD, "", line)
    with pytest.raises(InputError) as raised:
        read_cases(path, VOCABULARY)
    assert str(raised.value).startswith(f"{path}: line 3: {reason}")
    assert "\n" not in str(raised.value)


def test_a_file_without_cases_and_one_that_does_not_exist_are_refused(written, tmp_path):
    with pytest.raises(InputError, match="no textbook cases"):
        read_cases(written(""), VOCABULARY)
    with pytest.raises(InputError, match=r"missing\.jsonl: cannot read"):
        read_cases(tmp_path / "missing.jsonl", VOCABULARY)


def test_the_cases_of_the_package_are_default_and_fit_the_simulators_vocabulary_alone():
    simulated = KnowledgeBase.load().catalogue.vocabulary
    cases = fitting_cases(simulated)
    assert len(cases) == 144
    assert read_cases(pathlib.Path(DEFAULT), simulated) == cases
    assert fitting_cases(VOCABULARY) == ()
    with pytest.raises(InputError, match=r"textbook\.jsonl: line 1: .*unknown evidence code"):
        read_cases(pathlib.Path(DEFAULT), VOCABULARY)
