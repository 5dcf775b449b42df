import csv
import io
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import InputError
from schemas.evidence import Evidence, Vocabulary
from schemas.triage import Action
from trainer.data.ddxplus import Diagnosis, PatientOptions, Release, demographics, read_patients
from trainer.data.source import Accepted, LineReader, Rejected

CODES = ("hot", "cough", "smokes", "weak_face", "ache_@_1")
RELEASE = Release(
    vocabulary=Vocabulary([*(Evidence(code, "symptom", code, code) for code in CODES), *demographics()]),
    conditions={
        "Cold": Diagnosis(Action.BLUE, ("hot", "cough", "smokes")),
        "Storm": Diagnosis(Action.RED, ("hot", "weak_face")),
        "Flu": Diagnosis(Action.GREEN, ()),
    },
    codes={"hot": "hot", "cough": "cough", "smokes": "smokes", "weak face": "weak_face", "ache_@_1": "ache_@_1"}
    | {"ache_@_0": None},
)
HEADER = ("AGE", "DIFFERENTIAL_DIAGNOSIS", "SEX", "PATHOLOGY", "EVIDENCES", "INITIAL_EVIDENCE")
GOOD = {
    "AGE": "53",
    "DIFFERENTIAL_DIAGNOSIS": "[['Cold', 0.7], ['Storm', 0.3]]",
    "SEX": "F",
    "PATHOLOGY": "Cold",
    "EVIDENCES": "['hot', 'weak face', 'ache_@_1', 'ache_@_0']",
    "INITIAL_EVIDENCE": "hot",
}


def csv_text(*rows, header=HEADER):
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(header)
    writer.writerows([[row[column] for column in header] for row in rows])
    return text.getvalue()


def outcomes_of(tmp_path, content, options=PatientOptions(), **more):  # noqa: B008
    path = tmp_path / "people.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(read_patients(LineReader(path), RELEASE, options, **more))


def vignette_of(tmp_path, options=PatientOptions(), **change):  # noqa: B008
    [outcome] = outcomes_of(tmp_path, csv_text(GOOD | change), options)
    assert isinstance(outcome, Accepted), outcome
    return outcome.vignette


def test_a_patient_becomes_a_vignette(tmp_path):
    vignette = vignette_of(tmp_path)

    assert vignette.vignette_id == "people-1"
    assert vignette.present == ("hot", "weak_face", "ache_@_1", "age_45_59", "sex_female")
    # findings of both conditions: hot, cough, smokes, weak_face; those not present: cough, smokes
    assert set(vignette.absent) == {"cough", "smokes"}
    # 5 decisions: Blue 3.5, Red 1.5: floors 3 and 1, one left; equal remainders: the more urgent
    assert vignette.decisions == (Action.RED, Action.RED, Action.BLUE, Action.BLUE, Action.BLUE)
    assert vignette.split is None


@pytest.mark.parametrize("initial", ["hot", "weak face", "ache_@_1", "smokes", "nonsense", ""])
def test_what_the_patient_comes_with_stands_first(tmp_path, initial):
    present = vignette_of(tmp_path, INITIAL_EVIDENCE=initial).present
    listed = ["hot", "weak_face", "ache_@_1"]
    first = [code for code in listed if code == initial.replace(" ", "_")]  # none where it is not listed
    assert present[:3] == (*first, *(code for code in listed if code not in first))


def test_a_file_without_initial_evidence_keeps_the_order_of_its_evidence(tmp_path):
    [outcome] = outcomes_of(tmp_path, csv_text(GOOD, header=HEADER[:-1]))
    assert outcome.vignette.present[:2] == ("hot", "weak_face")


@pytest.mark.parametrize(
    ("differential", "decisions", "counts"),
    [
        ("[['Flu', 0.5], ['Cold', 0.5]]", 4, (0, 0, 2, 2)),
        ("[['Flu', 0.2], ['Cold', 0.1]]", 3, (0, 0, 2, 1)),  # normalised: 2/3 and 1/3
        ("[['Cold', 1]]", 7, (0, 0, 0, 7)),
        ("[('Storm', 0.4), ('Storm', 0.4), ('Flu', 0.2)]", 5, (4, 0, 1, 0)),  # one urgency's shares add up
        ("", 5, (0, 0, 0, 5)),  # none: the pathology is certain
        ("[]", 5, (0, 0, 0, 5)),
    ],
)
def test_decisions_are_apportioned_to_the_urgencies(tmp_path, differential, decisions, counts):
    vignette = vignette_of(
        tmp_path, PatientOptions(decisions_per_vignette=decisions), DIFFERENTIAL_DIAGNOSIS=differential
    )

    assert vignette.decision_counts == counts


def test_absent_evidence_is_drawn_from_the_differential_by_seed_and_row(tmp_path):
    rows = [GOOD] * 40
    drawn = {
        seed: [o.vignette.absent for o in outcomes_of(tmp_path, csv_text(*rows), PatientOptions(seed, 1))]
        for seed in (0, 1)
    }

    assert {absent for absents in drawn.values() for absent in absents} == {("cough",), ("smokes",)}
    assert drawn[0] != drawn[1]
    # A row's draw does not depend on the rows before it.
    bad = csv_text(GOOD | {"SEX": "?"}, *rows[1:])
    again = outcomes_of(tmp_path, bad, PatientOptions(0, 1))[1:]
    assert [o.vignette.absent for o in again] == drawn[0][1:]


def test_absent_evidence_may_be_drawn_from_all_conditions(tmp_path):
    """Of a patient whose differential has no yes-or-no evidence: what the other conditions have and he has not."""
    change = {"DIFFERENTIAL_DIAGNOSIS": "[['Flu', 1.0]]", "EVIDENCES": "['hot', 'ache_@_1']"}
    assert vignette_of(tmp_path, PatientOptions(absent_evidence=5), **change).absent == ()
    drawn = vignette_of(tmp_path, PatientOptions(absent_evidence=5, absent_from="release"), **change).absent
    assert sorted(drawn) == ["cough", "smokes", "weak_face"]


def test_ids_are_row_numbers_whatever_stands_between(tmp_path):
    header, row = csv_text(GOOD).splitlines()
    first, blank, bad, last = outcomes_of(tmp_path, f"{header}\n{row}\n\n{row},more\n{row}\n")

    assert first.vignette.vignette_id == "people-1"
    assert blank is None
    assert bad.vignette_id == "people-3"
    assert bad.reason.startswith("expected 6 columns")
    assert last.vignette.vignette_id == "people-4"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"AGE": "53.5"}, "AGE: .*0 to 120, found '53.5'"),
        ({"AGE": "121"}, "AGE: "),
        ({"AGE": "٣"}, "AGE: "),
        ({"SEX": "f"}, "SEX: .*F or M, found 'f'"),
        ({"PATHOLOGY": "Coldd"}, "PATHOLOGY: 'Coldd' "),
        ({"EVIDENCES": "['hott']"}, "EVIDENCES: .*'hott': .*hot"),
        ({"EVIDENCES": "['ache']"}, "'ache' .*ache_@_VALUE"),
        ({"EVIDENCES": "['ache_@_9']"}, "EVIDENCES: .*'ache_@_9': .*ache_@_1"),
        ({"EVIDENCES": "['hot_@_1']"}, "'hot' .*no value"),
        ({"EVIDENCES": "['hot', 'hot']"}, "EVIDENCES: 'hot' .*2 times"),
        ({"EVIDENCES": "'hot'"}, "EVIDENCES: .*list, found"),
        ({"EVIDENCES": "['hot'"}, "EVIDENCES: not a Python list"),
        ({"EVIDENCES": "[" * 90_000}, "EVIDENCES: not a Python list"),
        ({"EVIDENCES": "['" + "a" * 100_000 + "']"}, "EVIDENCES: .*100,000"),
        ({"EVIDENCES": "['\\x00', '\\d']"}, "EVIDENCES: unknown"),
        ({"DIFFERENTIAL_DIAGNOSIS": "[['Coldd', 1.0]]"}, "DIFFERENTIAL_DIAGNOSIS: 'Coldd' "),
        ({"DIFFERENTIAL_DIAGNOSIS": "[['Cold']]"}, r"found \['Cold'\]"),
        ({"DIFFERENTIAL_DIAGNOSIS": "[['Cold', '1']]"}, "0 to 1, found '1'"),
        ({"DIFFERENTIAL_DIAGNOSIS": "[['Cold', True]]"}, "0 to 1, found True"),
        ({"DIFFERENTIAL_DIAGNOSIS": "[['Cold', -0.1]]"}, "0 to 1, found -0.1"),
        ({"DIFFERENTIAL_DIAGNOSIS": "[['Cold', 1e999]]"}, "0 to 1, found inf"),
        ({"DIFFERENTIAL_DIAGNOSIS": "[['Cold', 0.0]]"}, "probabilities are 0"),
    ],
)
def test_a_bad_row_is_rejected_with_the_reason(tmp_path, change, reason):
    [outcome] = outcomes_of(tmp_path, csv_text(GOOD | change))

    assert not isinstance(outcome, Accepted)
    assert re.search(reason, outcome.reason)
    assert outcome.reason.isprintable()
    assert (outcome.vignette_id, outcome.line.number) == ("people-1", 2)


def test_a_stray_quote_or_byte_costs_its_own_line_only(tmp_path):
    header, row = csv_text(GOOD).encode().splitlines()
    broken, latin, good = outcomes_of(tmp_path, b"\n".join([header, b'5,"[', b"\xe9,", row]))

    assert "quoted cell" in broken.reason
    assert "byte 0" in latin.reason
    assert good.vignette.vignette_id == "people-3"


@pytest.mark.parametrize("number", ["9" * 5_000, "0x" + "f" * 5_000])
def test_a_number_of_thousands_of_digits_is_rejected(tmp_path, number):
    change = {"EVIDENCES": f"[{number}]"}, {"DIFFERENTIAL_DIAGNOSIS": f"[['Cold', {number}]]"}
    outcomes = outcomes_of(tmp_path, csv_text(*(GOOD | fields for fields in change)))

    assert [outcome.reason.split(":")[0] for outcome in outcomes] == ["EVIDENCES", "DIFFERENTIAL_DIAGNOSIS"]


LITERALS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.sampled_from(["hot", "Cold"]),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
).map(repr)


@settings(deadline=None)
@given(st.fixed_dictionaries({key: st.just(GOOD[key]) | LITERALS | st.text() for key in GOOD}))
def test_whatever_stands_in_the_cells_the_row_is_accepted_or_rejected(tmp_path_factory, row):
    content = csv_text(row).encode(errors="replace")

    outcomes = outcomes_of(tmp_path_factory.mktemp("rows"), content)

    assert outcomes
    assert all(outcome is None or isinstance(outcome, (Accepted, Rejected)) for outcome in outcomes)
    assert all(outcome.reason.isprintable() for outcome in outcomes if isinstance(outcome, Rejected))


def test_a_file_name_that_makes_no_id_is_refused(tmp_path):
    path = tmp_path / "a\nb.csv"
    path.write_text(csv_text(GOOD))

    with pytest.raises(InputError, match=r"name .*vignette ids"):
        list(read_patients(LineReader(path), RELEASE, PatientOptions()))
