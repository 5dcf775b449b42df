"""Frames as data scientists have them: what is read, and what is refused by its row and its argument."""

import dataclasses
import tempfile

import numpy as np
import pandas as pd
import pytest

import dyqn_triage
from schemas.evidence import Vocabulary
from tests.builders import constant_network, network_of, symptoms, trained_agent, write_version

FEVER, *OTHERS = symptoms("fever", "cough", "pain")
VOCABULARY = Vocabulary([dataclasses.replace(FEVER, band="temperature >=38 <45"), *OTHERS])
SAID = pd.DataFrame({"code": VOCABULARY.codes, "kind": "symptom", "name": VOCABULARY.codes, "question": "?"})


@pytest.fixture(scope="module")
def base(without_litert, tmp_path_factory):
    """Version 1 says Red of a fever, and Green of anything else; version 2 always the same, with probabilities."""
    base = tmp_path_factory.mktemp("frames") / "models"
    red_of_fever = network_of(([[2, 0, 0, 0, 0], [0] * 5, [0] * 5], [0, -1, 1, -2, -3]))
    constant = constant_network(3, safe=[1.0, 0.9, 0.5, 0.2], appropriate=[0.3, 0.6, 0.4, 0.2], asking=0.1)
    with without_litert():
        for network in (red_of_fever, constant):
            write_version(base, trained_agent(network, VOCABULARY))
    return base


@pytest.fixture(scope="module")
def model(base):
    with dyqn_triage.Model(base / "1") as model:
        yield model


# The same three rows, a fever without a cough, a cough, and an empty one, as frames come by them.
LISTS = {
    "lists": {"present": [["fever"], ["cough"], []], "absent": [["cough"], [], []]},
    "arrays": {"present": [np.array(["fever"]), np.array(["cough"]), None], "absent": [np.array(["cough"]), "", None]},
    "sets": {"present": [{"fever"}, frozenset({"cough"}), set()], "absent": [{"cough"}, np.nan, pd.NA]},
    "tuples": {"present": [("fever",), pd.Series(["cough"]), ()], "absent": [pd.Categorical(["cough"]), (), None]},
}  # fmt: skip
COLUMNS = {
    "numbers": {"fever": [1, np.nan, np.nan], "cough": [0.0, 1.0, None]},
    "texts": {"fever": ["yes", "", " "], "cough": [" No", "TRUE", None]},
    "objects": {"fever": [True, None, pd.NA], "cough": ["0", 1, np.nan]},
    "categories": {"fever": pd.Categorical(["present", None, None]), "cough": pd.Categorical(["-", "+", None])},
    "nullable": {"fever": pd.array([True, pd.NA, pd.NA], "boolean"), "cough": pd.array([0, 1, pd.NA], "Int64")},
    "never stated": {"fever": [1, None, None], "cough": [0, 1, None], "pain": [np.nan] * 3},
}
FORMS = [pd.DataFrame(cells, index=["a", "b", "c"]) for cells in (*LISTS.values(), *COLUMNS.values())]
every_form = pytest.mark.parametrize("frame", FORMS, ids=[*LISTS, *COLUMNS])


@every_form
def test_every_form_of_a_frame_gets_the_same_answers_with_its_index(model, frame):
    answers = model.predict(frame)
    assert answers.index.tolist() == ["a", "b", "c"]
    assert answers["decision"].fillna("").tolist() == ["Red", "Green", ""]
    assert answers["q_red"].isna().tolist() == [False, False, True]


@every_form
def test_every_form_of_a_frame_is_the_same_data(frame, tmp_path):
    stated = frame.assign(decisions=["Red;Yellow", ["Green"], None])
    data = dyqn_triage.prepare(stated, tmp_path / "data", SAID, test_fraction=0)
    lines = ('{"vignette_id": "a", "present": ["fever"], "absent": ["cough"], "decisions": ["Red", "Yellow"]}',
             '{"vignette_id": "b", "present": ["cough"], "absent": [], "decisions": ["Green"]}')  # fmt: skip
    (tmp_path / "lines.jsonl").write_text("\n".join(lines))
    VOCABULARY.save(tmp_path / "vocabulary.csv")
    same = dyqn_triage.prepare(
        tmp_path / "lines.jsonl", tmp_path / "same", tmp_path / "vocabulary.csv", test_fraction=0
    )
    assert data.stats["data_fingerprint"] == same.stats["data_fingerprint"]
    assert "train 2" in repr(data)


@pytest.mark.parametrize(
    ("cells", "place", "found"),
    [
        ({"present": [["fever"], "cough"]}, "row y: present", "'cough'"),
        ({"present": [["fever"], ["cough", None]]}, "row y: present", "null"),
        ({"present": [["fever"], ["cuogh"]]}, "row y", "cough"),
        ({"present": [["fever"], 0]}, "row y: present", "0"),
        ({"fever": [1, 2]}, "row y: fever", "a number"),
        ({"fever": [1, "perhaps"]}, "row y: fever", "'perhaps'"),
        ({"fever": [1, ["yes"]]}, "row y: fever", "yes"),
        ({"fever": [1, 0], "feverr": [1, 0]}, "column 'feverr'", "mean fever"),
        ({"fever": [1, 0], "Tags": ["", ""]}, "column 'Tags'", "'tags'"),
        ({"fever": [1, 0], 7: [1, 0]}, "column 7", "names"),
        ({"present": [["fever"]] * 2, "patient": [1, 2]}, "column 'patient'", "ignore_columns"),
    ],
)
def test_a_faulty_frame_is_refused_by_the_argument_and_the_row(model, cells, place, found, tmp_path):
    frame = pd.DataFrame(cells, index=["x", "y"])
    stated = frame.assign(decisions="Red")
    for name, call in (
        ("frame", lambda: model.predict(frame)),
        ("vignettes", lambda: dyqn_triage.prepare(stated, tmp_path / "data", SAID)),
    ):
        with pytest.raises(dyqn_triage.InputError) as error:
            call()
        message = str(error.value)
        assert message.startswith(f"{name}: {place}: ")
        assert found in message
        assert "--" not in message
        assert tempfile.gettempdir() not in message


def test_what_is_no_evidence_can_be_left_out_by_name(model):
    frame = pd.DataFrame({"fever": [1], "ward": ["A"]})
    assert model.predict(frame, ignore_columns=["ward"])["decision"].tolist() == ["Red"]
    with pytest.raises(dyqn_triage.InputError, match=r"ignore_columns: .*'bed'"):
        model.predict(frame, ignore_columns=["bed"])
    unknown = pd.DataFrame({"present": [["fever", "gout"]]})
    assert model.predict(unknown, allow_unknown_codes=True)["unknown_codes"].tolist() == [["gout"]]


@pytest.mark.parametrize("frame", [np.zeros([2, 3]), {"fever": [1]}, None, pd.DataFrame({"fever": [None]})])
def test_what_says_nothing_is_refused(model, frame):
    with pytest.raises(dyqn_triage.InputError, match=r"^frame: "):
        model.predict(frame)


def test_a_contradictory_row_is_handed_over_as_in_an_interview(model):
    frame = pd.DataFrame({"present": [["fever"], ["fever"]], "absent": [["fever"], []]})
    assert model.predict(frame)["deferred"].tolist() == ["contradictory", ""]
    for wrong in (2, None, "x", True):
        with pytest.raises(dyqn_triage.InputError, match=r"defer_below: .* 0 to 1"):
            model.predict(frame, defer_below=wrong)


def test_probabilities_have_the_colours_as_columns(base, model):
    frame = pd.DataFrame({"fever": [1, None, 0]}, index=[3, 2, 1])
    probabilities = dyqn_triage.Model(base).predict_proba(frame)
    assert probabilities.index.tolist() == [3, 2, 1]
    assert probabilities.loc[3].to_dict() == pytest.approx({"Red": 0.3, "Yellow": 0.6, "Green": 0.4, "Blue": 0.2})
    assert probabilities.loc[2].isna().all()
    with pytest.raises(dyqn_triage.InputError, match=r"version 1 .*probabilities"):
        model.predict_proba(frame)


def test_models_of_two_versions_answer_side_by_side_and_write_nothing(base, model, capfd, caplog):
    with dyqn_triage.Model(base) as newest:
        assert (model.version, newest.version) == ("1", "2")
        for _ in range(30):
            answers = [each.interview(present=["fever"]).figures["model_version"] for each in (model, newest)]
            assert answers == ["1", "2"]
        assert "version 2, 3 evidence codes" in repr(newest)
        interview = newest.interview(present=["fever"])
    with pytest.raises(dyqn_triage.InputError, match="closed"):
        interview.add(["chest_pain"])
    assert not [record for record in caplog.records if record.name == "asyncio"]
    assert "Traceback" not in capfd.readouterr().err


def test_a_later_number_replaces_the_earlier_one_of_its_measure(model):
    interview = model.interview(present=["temperature=39.5"])
    assert interview.decision == "Red"  # of a fever
    interview.add(["temperature=36.9"])
    assert interview.decision == "Green"
    with pytest.raises(dyqn_triage.InputError, match=r"^'temperature=3[89]': .*twice"):
        interview.add(["temperature=38", "temperature=39"])
    assert interview.decision == "Green"


def test_all_vignettes_of_a_patient_are_in_one_split(tmp_path):
    patients = [f"p{number // 3}" for number in range(60)]
    frame = pd.DataFrame({"patient": patients, "fever": 1, "decisions": "Red"}, index=[f"v{n}" for n in range(60)])
    train, test = dyqn_triage.train_test_split(frame, "patient", test_fraction=0.2, seed=1)
    whose = frame["patient"]
    assert (len(train), len(test)) == (48, 12)
    assert not {*whose[train.index]} & {*whose[test.index]}
    data = dyqn_triage.prepare(pd.concat([train, test]), tmp_path / "data", SAID)
    assert {split: part["vignettes"] for split, part in data.stats["splits"].items()} == {"train": 48, "test": 12}
    frame.loc["v7", "patient"] = None
    with pytest.raises(dyqn_triage.InputError, match=r"^frame: row v7: "):
        dyqn_triage.train_test_split(frame, "patient")


def test_the_faults_of_a_vocabulary_frame_are_named_by_its_rows(tmp_path):
    faulty = SAID.assign(kind=["symptom", "illness", "symptom"]).set_axis(["x", "y", "z"])
    frame = pd.DataFrame({"fever": [1], "decisions": ["Red"]})
    with pytest.raises(dyqn_triage.InputError, match=r"^vocabulary: row y: .*'illness'"):
        dyqn_triage.prepare(frame, tmp_path / "data", faulty)


def test_the_faults_of_vignettes_are_the_commands(tmp_path):
    frame = pd.DataFrame({"present": [["fever"]] * 3, "decisions": "Red"})
    with pytest.raises(dyqn_triage.InputError, match=r"vignettes: row 0: .*'Purple'.* 2 more"):
        dyqn_triage.prepare(frame.assign(decisions="Purple"), tmp_path / "data", SAID)
    with pytest.raises(dyqn_triage.InputError, match="test_share"):
        dyqn_triage.prepare(frame, tmp_path / "other", SAID, test_share=0.5)
    with pytest.raises(dyqn_triage.InputError, match="'decisions'"):
        dyqn_triage.prepare(frame[["present"]], tmp_path / "third", SAID)
