import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.csv_table import CsvTable
from schemas.errors import InputError
from schemas.triage import Action
from tests.builders import symptoms
from trainer.data.csv_files import LongTables, WideTable, wide_vocabulary
from trainer.data.source import Accepted, LineReader, Rejected
from trainer.data.vignette import Vignette

VOCABULARY = symptoms("fever", "cough", "chest_pain")
HEADER = "vignette_id,fever,cough,decisions,split,tags\n"
EVIDENCE = "vignette_id,evidence,presence\n"
DECISIONS = "vignette_id,decision,split,tags\n"
GOOD = "v1,fever,present\n"
DECIDED = "v1,Red,,\n"


def written(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return LineReader(path)


def wide(tmp_path, content, name="wide.csv", ignored=()):
    return WideTable(written(tmp_path / name, content), ignored)


def wide_outcomes(tmp_path, content):
    return list(wide(tmp_path, content).read(VOCABULARY))


def wide_outcome(tmp_path, row):
    [outcome] = wide_outcomes(tmp_path, HEADER + row)
    return outcome


def long_tables(tmp_path, evidence, decisions):
    return LongTables(written(tmp_path / "evidence.csv", evidence), written(tmp_path / "decisions.csv", decisions))


def long_outcomes(tmp_path, evidence, decisions):
    """Returns the outcomes of these rows, given below good headers."""
    rows = [content if isinstance(content, bytes) else content.encode() for content in (evidence, decisions)]
    tables = long_tables(tmp_path, EVIDENCE.encode() + rows[0], DECISIONS.encode() + rows[1])
    list(tables.load(collect=True))
    return list(tables.read(VOCABULARY, VOCABULARY.unknown_message))


def long_reject(tmp_path, evidence, decisions):
    [one] = [each for each in long_outcomes(tmp_path, evidence, decisions) if isinstance(each, Rejected)]
    return one.line.file.rpartition("/")[2], one.line.number, one.vignette_id, one.reason


def test_a_wide_row_becomes_a_vignette(tmp_path):
    decisions = (Action.RED, Action.YELLOW, Action.RED)
    expected = Vignette("v1", ("fever",), ("cough",), decisions, "test", ("er", "child"))
    assert wide_outcome(tmp_path, "v1,present,no,Red;YELLOW; red,test,er; child\n").vignette == expected
    assert wide_outcome(tmp_path, "v1,,1,Red,,\n").vignette == Vignette("v1", ("cough",), (), (Action.RED,))


def test_long_rows_become_vignettes_in_the_order_of_first_appearance_wherever_they_stand(tmp_path):
    outcomes = long_outcomes(
        tmp_path, "v2,fever,1\nv1,fever,0\nv2,cough,0\nv1,cough,+\n", "v1,Red,,\nv2,Blue,test,er;a\nv1,green,,\n"
    )
    assert [outcome.vignette for outcome in outcomes] == [
        Vignette("v2", ("fever",), ("cough",), (Action.BLUE,), "test", ("er", "a")),
        Vignette("v1", ("cough",), ("fever",), (Action.RED, Action.GREEN)),
    ]


@pytest.mark.parametrize(
    ("cells", "there"),
    [
        (("present", "Present", "YES", "true", "TRUE", "1", "1.0", "1,0", "+", "ja", "WAHR"), True),
        (("absent", "Absent", "No", "false", "FALSE", "0", "0.0", "0,0", "-", "Nein", "FALSCH"), False),
    ],
)
def test_spellings_of_present_and_absent(tmp_path, cells, there):
    rows = "".join(f'v{n},"{cell}",,Red,,\n' for n, cell in enumerate(cells))
    assert {outcome.vignette.present for outcome in wide_outcomes(tmp_path, HEADER + rows)} == {("fever",) * there}


@pytest.mark.parametrize("cell", ["maybe", "y", "NA", "present?", "\u0131"])
def test_other_words_are_refused_and_point_to_the_option(tmp_path, cell):
    reason = wide_outcome(tmp_path, f"v1,{cell},1,Red,,\n").reason
    assert "fever: " in reason
    assert "--ignore-columns" in reason
    assert reason.isprintable()


def test_all_numbers_of_a_column_without_a_band_have_the_same_fault(tmp_path):
    """So that the list of rejects shows one line for the column."""
    rows = "".join(f'v{n},"{cell}",,Red,,\n' for n, cell in enumerate(("36.9", "38,2", "-4", "120")))
    [reason] = {outcome.reason for outcome in wide_outcomes(tmp_path, HEADER + rows)}
    assert "no band" in reason


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("v1,,,Red,,", "no evidence"),
        ("v1,1,,,,", "at least one"),
        ("v1,1,,Red;Pink,,", "'Pink'"),
        ("v1,1,,Red;,,", "''"),
        ("v1,1,,Red,dev,", "split: .*'dev'"),
        ("v1,1,,Red,,a;;b", "tags: "),
        ("v1,1,,Red,", "6 columns"),
    ],
)
def test_a_bad_wide_row_is_rejected_with_the_reason(tmp_path, row, reason):
    outcome = wide_outcome(tmp_path, row + "\n")
    assert isinstance(outcome, Rejected)
    assert re.search(reason, outcome.reason)
    assert (outcome.line.number, outcome.line.text, outcome.vignette_id) == (2, row, "v1")


@pytest.mark.parametrize(
    ("evidence", "decisions", "place", "reason"),
    [
        (GOOD, "", ("evidence.csv", 2), "no decisions"),
        ("", DECIDED, ("decisions.csv", 2), "no evidence"),
        (GOOD + "v1,fever,absent\n", DECIDED, ("evidence.csv", 3), "evidence: 'fever' .*line 2"),
        (GOOD + "v1,coug,0\n", DECIDED, ("evidence.csv", 3), "evidence: .*'coug'"),
        (GOOD + "v1,cough,\n", DECIDED, ("evidence.csv", 3), "presence of 'cough': "),
        (GOOD + "v1,cough\n", DECIDED, ("evidence.csv", 3), ".*3 columns"),
        (GOOD, DECIDED + "v1,purple,,\n", ("decisions.csv", 3), ".*'purple'"),
        (GOOD, DECIDED + "v1,Red,train,\n", ("decisions.csv", 3), "split: .*line 2"),
        (GOOD, DECIDED + "v1,Red,,x\n", ("decisions.csv", 3), "tags: .*line 2"),
        (GOOD, "v1,Red,,a;a\n", ("evidence.csv", 2), "tags: 'a' .*2 times"),
        ("v1,fi\u00e8vre,1\n".encode("latin-1"), DECIDED, ("evidence.csv", 2), ".*byte 5"),
    ],
)
def test_a_long_vignette_that_cannot_be_built_is_one_reject_at_its_first_bad_row(
    tmp_path, evidence, decisions, place, reason
):
    *found, name, actual = long_reject(tmp_path, evidence, decisions)
    assert (*found, name) == (*place, "v1")
    assert re.match(reason, actual)


def test_all_bad_rows_of_a_vignette_have_their_place_in_the_reason(tmp_path):
    evidence = GOOD + "v1,cough,?\nv2,cough,1\nv1,chest,1\n"
    reason = long_reject(tmp_path, evidence, DECIDED + "v2,Red,,\nv1,purple,,\n")[-1]
    assert reason.startswith("presence of 'cough'")
    assert [reason.count(place) for place in ("2 more", "evidence.csv:5", "decisions.csv:4")] == [1, 1, 1]
    many = long_reject(tmp_path, GOOD * 100, DECIDED)[-1]
    assert [many.count(place) for place in ("98 more", "evidence.csv:8, ...", "evidence.csv:9")] == [1, 1, 0]


@pytest.mark.parametrize(
    ("read", "place"),
    [
        # As spreadsheets write merged cells.
        (lambda path: wide_outcomes(path, HEADER + "v1,1,,Red,,\n,1,,Blue,,\n"), r"wide\.csv: line 3: no vignette_id"),
        (lambda path: long_outcomes(path, GOOD + ",cough,1\n", DECIDED), r"evidence\.csv: line 3: no vignette_id"),
        (lambda path: long_outcomes(path, GOOD, DECIDED + ",Blue,,\n"), r"decisions\.csv: line 3: no vignette_id"),
        (lambda path: long_outcomes(path, GOOD + '"v1', DECIDED), r"evidence\.csv: line 3: .*readable vignette_id"),
    ],
)
def test_a_row_that_may_belong_to_any_vignette_refuses_the_file_as_a_whole(tmp_path, read, place):
    with pytest.raises(InputError, match=place):
        read(tmp_path)


def test_rows_of_empty_cells_are_blank(tmp_path):
    assert wide_outcomes(tmp_path, HEADER + ",,,,,\n\n") == [None, None]
    assert long_outcomes(tmp_path, "\n" + GOOD + ",,\n", DECIDED + ",,,\n").count(None) == 3


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda path: wide(path, "vignette_id,decisions,tags\n"), "piece of evidence"),
        (lambda path: wide(path, "vignette_id,decisions,Tags,fever\n"), "column 3: 'Tags' "),
        (lambda path: long_tables(path, "vignette_id,evidence\n", DECISIONS), "'presence' "),
        (lambda path: long_tables(path, EVIDENCE[:-1] + ",tags\n", DECISIONS), "column 4: .*'tags'"),
        (lambda path: long_tables(path, EVIDENCE, "vignette_id\n"), "'decision' "),
    ],
)
def test_another_header_is_one_error(tmp_path, read, message):
    with pytest.raises(InputError, match=rf"\.csv: line 1: .*{message}"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("headings", "given", "message"),
    [
        ("fevr", VOCABULARY, r"column 3: .*'fevr': .*fever\?$"),
        ("fever,Chest pain", None, "column 4: .*'Chest pain' .*'chest_pain'$"),
        ("a b,ok,c d", None, "column 3: .*'a_b'.* 1 more: column 5 'c d'$"),
        (",".join(f"a {n}" for n in range(9)), None, r"8 more: column 4 'a 1', .*, column 8 'a 5', \.\.\.$"),
    ],
)
def test_headings_that_are_no_codes_are_one_error_that_says_what_to_write(tmp_path, headings, given, message):
    table = wide(tmp_path, f"vignette_id,decisions,{headings}\n")
    with pytest.raises(InputError, match=rf"wide\.csv: line 1: .*{message}"):
        wide_vocabulary([table], given, [])


def test_a_vocabulary_is_derived_from_the_headings_of_all_files_or_the_given_one(tmp_path):
    one = wide(tmp_path, "vignette_id,smoker,fever,decisions\n", "one.csv")
    other = wide(tmp_path, "decisions,fever,cough,vignette_id\n", "other.csv")
    vocabulary = wide_vocabulary([one, other], None, ["smoker"])
    assert vocabulary.codes == ("smoker", "fever", "cough")
    assert [entry.kind for entry in vocabulary] == ["risk_factor", "symptom", "symptom"]
    assert wide_vocabulary([wide(tmp_path, HEADER)], VOCABULARY, []) is VOCABULARY


def test_columns_that_are_not_evidence_are_left_out(tmp_path):
    content = "vignette_id,fever,notes,decisions\nv1,1,came by bus,Red\n"
    [outcome] = wide(tmp_path, content, ignored=["notes"]).read(VOCABULARY)
    assert outcome.vignette.present == ("fever",)
    for column, message in (("note", "has no such column"), ("decisions", "it is required")):
        with pytest.raises(InputError, match=f"--ignore-columns {column}: .*{message}"):
            wide(tmp_path, content, ignored=[column])


IDS = st.sampled_from(["v1", "v2", " v1 ", '"v3"'])
WORDS = st.sampled_from(["fever", "cough", "chest pain", "1", "absent", "Red", "Blue", "train", "a;b", '"', "\x00", ""])
ROWS = st.lists(
    st.tuples(IDS, st.lists(WORDS | st.text(max_size=3), max_size=4)).map(lambda r: ",".join([r[0], *r[1]]))
)
FILES = st.tuples(ROWS, st.binary(max_size=12)).map(
    lambda made: "\n".join(made[0]).encode(errors="surrogatepass") + made[1]
)


@settings(max_examples=150)
@given(FILES, FILES)
def test_whatever_stands_in_long_rows_none_disappears(tmp_path_factory, evidence, decisions):
    directory = tmp_path_factory.mktemp("long")
    try:
        outcomes = long_outcomes(directory, evidence, decisions)
    except InputError as error:
        assert "vignette_id: " in str(error)  # noqa: PT017 - of a row without one
        return
    made = [outcome for outcome in outcomes if outcome is not None]
    assert all(outcome.reason.isprintable() for outcome in made if isinstance(outcome, Rejected))
    files = EVIDENCE.encode() + evidence, DECISIONS.encode() + decisions
    readers = (written(directory / "again.csv", content) for content in files)
    rows = [row for reader in readers for row in CsvTable(reader, "again.csv", ("vignette_id",), others=True)]
    assert outcomes.count(None) == rows.count(None)
    ids = [one.vignette.vignette_id if isinstance(one, Accepted) else one.vignette_id for one in made]
    assert {row.cells[0] for row in rows if row} == set(ids)
    for one in (one for one in made if isinstance(one, Accepted)):
        stated = [row for row in rows if row and row.cells and row.cells[0] == one.vignette.vignette_id]
        assert all(row.fault is None for row in stated)
        assert len(stated) == sum(map(len, (one.vignette.present, one.vignette.absent, one.vignette.decisions)))
