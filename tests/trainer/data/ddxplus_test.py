import copy
import json

import pytest

from schemas.errors import InputError
from schemas.triage import Action
from trainer.data.ddxplus import age_code, read_release

DEMOGRAPHIC_CODES = [
    "age_under_1", "age_1_4", "age_5_14", "age_15_29", "age_30_44", "age_45_59", "age_60_74", "age_75_plus",
    "sex_female", "sex_male",
]  # fmt: skip


def evidence(kind, english, antecedent=False, default=0, values=(), meanings=None):
    return {
        "question_en": english,
        "question_fr": f"{english} (fr)",
        "is_antecedent": antecedent,
        "default_value": default,
        "value_meaning": meanings or {},
        "possible-values": list(values),
        "data_type": kind,
    }


# A release of two conditions in the published format, its content made up.
EVIDENCES = {
    "hot": evidence("B", "Do you feel hot?"),
    "face faible": evidence("B", "Is your face  weak?"),
    "smokes": evidence("B", "Do you smoke?", antecedent=True),
    "ache": evidence("C", "How bad is the ache?", values=[0, 1, 2]),
    "where": evidence(
        "M", "Where is it:", default="V_0", values=["V_0", "V_1"],
        meanings={"V_0": {"en": "nowhere", "fr": "nulle part"}, "V_1": {"en": "left arm", "fr": "bras gauche"}},
    ),
}  # fmt: skip
CONDITIONS = {
    "Rhume": {
        "condition_name": "Rhume",
        "cond-name-fr": "Rhume",
        "cond-name-eng": "Cold",
        "symptoms": {"hot": {}, "ache": {}, "face faible": {}},
        "antecedents": {"smokes": {}, "hot": {}},
        "severity": 5,
    },
    "Orage": {"condition_name": "Orage", "cond-name-eng": "Storm", "symptoms": {}, "antecedents": {}, "severity": 1},
}


def read(tmp_path, conditions=CONDITIONS, evidences=EVIDENCES):
    for name, content in (("conditions.json", conditions), ("evidences.json", evidences)):
        text = content if isinstance(content, str) else json.dumps(content)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return read_release(tmp_path / "conditions.json", tmp_path / "evidences.json")


def test_each_answer_but_the_default_becomes_a_code(tmp_path):
    assert list(read(tmp_path).vocabulary.codes) == [
        "hot",
        "face_faible",
        "smokes",
        "ache_@_1",
        "ache_@_2",
        "where_@_V_1",
        *DEMOGRAPHIC_CODES,
    ]


def test_names_questions_and_kinds_are_the_english_ones_of_the_release(tmp_path):
    vocabulary = read(tmp_path).vocabulary

    assert [(e.kind, e.name, e.question) for e in list(vocabulary)[1:6]] == [
        ("symptom", "Is your face weak", "Is your face weak?"),
        ("risk_factor", "Do you smoke", "Do you smoke?"),
        ("symptom", "How bad is the ache: 1", "How bad is the ache? 1?"),
        ("symptom", "How bad is the ache: 2", "How bad is the ache? 2?"),
        ("symptom", "Where is it: left arm", "Where is it: left arm?"),
    ]
    assert {entry.kind for entry in vocabulary if entry.code in DEMOGRAPHIC_CODES} == {"risk_factor"}
    assert [e.question for e in list(vocabulary)[6:8]] == ["Is your age under 1?", "Is your age 1 to 4?"]


def test_patients_spelling_maps_to_codes_and_the_default_to_nothing(tmp_path):
    assert read(tmp_path).codes == {
        "hot": "hot",
        "face faible": "face_faible",
        "smokes": "smokes",
        "ache_@_0": None,
        "ache_@_1": "ache_@_1",
        "ache_@_2": "ache_@_2",
        "where_@_V_0": None,
        "where_@_V_1": "where_@_V_1",
    }


def test_a_condition_is_found_by_each_of_its_names(tmp_path):
    conditions = read(tmp_path).conditions

    assert sorted(conditions) == ["Cold", "Orage", "Rhume", "Storm"]
    assert conditions["Cold"] is conditions["Rhume"]
    assert conditions["Storm"].urgency is Action.RED
    assert conditions["Cold"].urgency is Action.BLUE
    assert conditions["Cold"].findings == ("hot", "face_faible", "smokes")  # yes-or-no evidence, each once


@pytest.mark.parametrize(
    ("age", "code"),
    [
        (0, "age_under_1"), (1, "age_1_4"), (4, "age_1_4"), (5, "age_5_14"), (74, "age_60_74"), (75, "age_75_plus"),
    ],
)  # fmt: skip
def test_age_bands_include_their_first_and_last_year(age, code):
    assert age_code(age) == code


def changed(content, key, **fields):
    content = copy.deepcopy(content)
    content[key].update(fields)
    return content


@pytest.mark.parametrize(
    ("evidences", "message"),
    [
        ("{", "not valid JSON"),
        ("[" * 100_000, "nested"),
        ("{}", "with an entry"),
        ({"hot": 3}, "'hot': .*found 3"),
        (changed(EVIDENCES, "hot", data_type="X"), "'hot': data_type: .*B, C or M, found 'X'"),
        (changed(EVIDENCES, "hot", question_en=None), "'hot': question_en: .*str, found None"),
        (changed(EVIDENCES, "hot", is_antecedent=1), "'hot': is_antecedent: .*bool, found 1"),
        (changed(EVIDENCES, "ache", **{"possible-values": [1.5]}), "'ache': possible-values: "),
        (changed(EVIDENCES, "where", value_meaning={"V_1": {}}), "'where': value_meaning 'V_1': en: "),
        (EVIDENCES | {"face_faible": evidence("B", "Twice?")}, "'face_faible' .*duplicate"),
        (EVIDENCES | {"sex_male": evidence("B", "Twice?")}, "'sex_male' .*duplicate"),
        (EVIDENCES | {"a,b": evidence("B", "Comma?")}, "'a,b' .*malformed"),
    ],
)
def test_a_bad_evidences_file_is_one_error_with_file_and_key(tmp_path, evidences, message):
    with pytest.raises(InputError, match=rf"evidences\.json: .*{message}"):
        read(tmp_path, evidences=evidences)


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        (changed(CONDITIONS, "Orage", severity=0), "severity: .*1 to 5, found 0"),
        (changed(CONDITIONS, "Orage", severity=True), "severity: .*int"),
        (changed(CONDITIONS, "Orage", symptoms=None), "symptoms: .*dict"),
        (changed(CONDITIONS, "Orage", symptoms={"cold": {}}), "'cold' .*evidences"),
        (changed(CONDITIONS, "Orage", **{"cond-name-eng": "Cold"}), "'Cold' .*another"),
    ],
)
def test_a_bad_conditions_file_is_one_error_with_file_and_key(tmp_path, conditions, message):
    with pytest.raises(InputError, match=rf"conditions\.json: 'Orage': .*{message}"):
        read(tmp_path, conditions=conditions)


def test_a_file_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.json: .*No such file"):
        read_release(tmp_path / "c.json", tmp_path / "none.json")
