import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import InputError
from schemas.triage import Action
from tests.builders import symptoms
from trainer.importing.csv_wide import WideTable, wide_vocabulary
from trainer.vignettes.source import Accepted, LineReader, Rejected
from trainer.vignettes.vignette import Vignette

VOCABULARY = symptoms("fever", "cough", "chest_pain")
HEADER = "vignette_id,fever,cough,decisions,split,tags\n"


def table_of(tmp_path, content, name="wide.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return WideTable(LineReader(path))


def outcomes_of(tmp_path, content):
    return list(table_of(tmp_path, content).read(VOCABULARY))


def outcome_of(tmp_path, row):
    [outcome] = outcomes_of(tmp_path, HEADER + row)
    return outcome


def test_a_row_becomes_a_vignette(tmp_path):
    outcome = outcome_of(tmp_path, "v1,present,no,Red;Yellow;Red,test,er; child\n")

    assert isinstance(outcome, Accepted)
    assert outcome.vignette == Vignette(
        "v1", ("fever",), ("cough",), (Action.RED, Action.YELLOW, Action.RED), "test", ("er", "child")
    )


def test_empty_cells_are_unknown_and_state_nothing(tmp_path):
    assert outcome_of(tmp_path, "v1,,1,Red,,\n").vignette == Vignette("v1", ("cough",), (), (Action.RED,))


def test_a_list_is_quoted_where_the_delimiter_is_a_semicolon(tmp_path):
    [outcome] = outcomes_of(tmp_path, 'decisions;fever;vignette_id\n"Red;Blue";yes;v1\n')

    assert outcome.vignette == Vignette("v1", ("fever",), (), (Action.RED, Action.BLUE))


@pytest.mark.parametrize(
    ("row", "vignette_id", "reason"),
    [
        ("v1,,,Red,,", "v1", "no evidence: expected at least one code"),
        ("v1,1,,,,", "v1", "decisions: expected at least one triage decision"),
        ("v1,1,,Red;Pink,,", "v1", "triage decision 'Pink' is not one of Red, Yellow, Green, Blue"),
        ("v1,1,,purple,,", "v1", "triage decision 'purple' is not one of"),
        ("v1,1,,Red;,,", "v1", "triage decision '' is not one of"),
        ("v1,1,,Red,dev,", "v1", "split: expected train or test, found 'dev'"),
        ("v1,1,,Red,,a;a", "v1", "tags: 'a' is listed 2 times"),
        ("v1,1,,Red,,a;;b", "v1", "tags: expected a non-empty string"),
        (
            "v1,1,NA,Red,,",
            "v1",
            "cough: expected present or absent (or 1/0, yes/no, true/false, +/-), found 'NA'; leave",
        ),
        ("v1,1,,Red,", "v1", "expected 6 columns (vignette_id, fever, cough, decisions, split, tags), found 5"),
        ("v1,1,,Red,,,x", "v1", "expected 6 columns"),
        ('v1,1,,Red,,"a', "v1", "a quoted cell does not end on its line"),
        ("v" * 257 + ",1,,Red,,", "v" * 257, "is longer than 256 characters"),
    ],
)
def test_a_bad_row_is_rejected_with_the_reason(tmp_path, row, vignette_id, reason):
    outcome = outcome_of(tmp_path, row + "\n")

    assert isinstance(outcome, Rejected)
    assert reason in outcome.reason
    assert (outcome.line.number, outcome.line.text, outcome.vignette_id) == (2, row, vignette_id)


def test_a_file_with_merged_id_cells_is_refused_as_a_whole(tmp_path):
    with pytest.raises(InputError, match=r"wide\.csv: line 3: no vignette_id"):
        outcomes_of(tmp_path, HEADER + "v1,1,,Red,,\n,1,,Blue,,\n")


def test_rows_of_empty_cells_are_blank(tmp_path):
    assert outcomes_of(tmp_path, HEADER + ",,,,,\n\n") == [None, None]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("vignette_id,decisions,tags", "expected a column for each piece of evidence, with its code as the heading"),
        ("vignette_id,decisions,Tags,fever", "column 3: 'Tags' is not evidence: write 'tags'"),
    ],
)
def test_another_header_is_one_error(tmp_path, header, message):
    with pytest.raises(InputError, match=rf"wide\.csv: line 1: .*{message}"):
        table_of(tmp_path, header + "\n")


@pytest.mark.parametrize(
    ("headings", "given", "message"),
    [
        ("fevr", VOCABULARY, r"column 3: unknown evidence code 'fevr': did you mean fever\?$"),
        ("Chest pain", VOCABULARY, r"column 3: unknown evidence code 'Chest pain': did you mean chest_pain\?$"),
        ("fever,Chest pain", None, "column 4: evidence code 'Chest pain' is malformed: .*; write 'chest_pain'$"),
        ("a b,ok,c d", None, "column 3: .*; write 'a_b'; the same applies to 1 more: column 5 'c d'$"),
        (
            ",".join(f"a {n}" for n in range(9)),
            None,
            r"column 3: .*; the same applies to 8 more: column 4 'a 1', .*, column 8 'a 5', \.\.\.$",
        ),
        ("code", None, "column 3: evidence code 'code' is reserved"),
    ],
)
def test_headings_that_are_no_codes_are_one_error_that_says_what_to_write(tmp_path, headings, given, message):
    table = table_of(tmp_path, f"vignette_id,decisions,{headings}\n")

    with pytest.raises(InputError, match=rf"wide\.csv: line 1: {message}"):
        wide_vocabulary([table], given, [])


def test_a_vocabulary_is_derived_from_the_headings_of_all_files(tmp_path):
    one = table_of(tmp_path, "vignette_id,smoker,fever,decisions\n", "one.csv")
    other = table_of(tmp_path, "decisions,fever,cough,vignette_id\n", "other.csv")

    vocabulary = wide_vocabulary([one, other], None, ["smoker"])

    assert vocabulary.codes == ("smoker", "fever", "cough")
    assert [entry.kind for entry in vocabulary] == ["risk_factor", "symptom", "symptom"]


def test_a_vocabulary_that_is_given_stays_as_it_is(tmp_path):
    assert wide_vocabulary([table_of(tmp_path, HEADER)], VOCABULARY, []) is VOCABULARY


def test_rows_come_one_at_a_time(tmp_path):
    table = table_of(tmp_path, HEADER + "".join(f"v{n},1,,Red,,\n" for n in range(50_000)))

    first = list(itertools.islice(table.read(VOCABULARY), 3))

    assert [outcome.line.number for outcome in first] == [2, 3, 4]


CELLS = st.sampled_from(["", "1", "absent", "Red", "Red;Blue", "v1", "test", '"', "x y", "\x00", "\r"]) | st.text()


@given(st.lists(st.lists(CELLS, max_size=8).map(",".join), max_size=6), st.binary(max_size=20))
def test_whatever_stands_in_the_rows_each_is_accepted_rejected_or_blank(tmp_path_factory, rows, junk):
    content = "\n".join(rows).encode(errors="surrogatepass") + b"\n" + junk

    try:
        outcomes = outcomes_of(tmp_path_factory.mktemp("wide"), HEADER.encode() + content)
    except InputError as error:
        assert "no vignette_id" in str(error)  # noqa: PT017
        return
    assert len(outcomes) == content.count(b"\n") + (content[-1:] != b"\n")
    assert all(outcome is None or isinstance(outcome, Accepted | Rejected) for outcome in outcomes)
    assert all(outcome.reason.isprintable() for outcome in outcomes if isinstance(outcome, Rejected))


def test_columns_that_are_not_evidence_are_left_out(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text("vignette_id,fever,notes,decisions\nv1,1,came by bus,Red\n")
    table = WideTable(LineReader(path), ["notes"])

    assert table.codes == ("fever",)
    [outcome] = table.read(VOCABULARY)
    assert outcome.vignette.present == ("fever",)


@pytest.mark.parametrize(("column", "message"), [("note", "has no such column"), ("decisions", "it is required")])
def test_a_column_that_cannot_be_left_out_is_an_error(tmp_path, column, message):
    path = tmp_path / "wide.csv"
    path.write_text("vignette_id,fever,decisions\n")

    with pytest.raises(InputError, match=f"--ignore-columns {column}: .*{message}"):
        WideTable(LineReader(path), [column])


def test_a_cell_that_is_not_presence_points_to_the_option(tmp_path):
    [outcome] = outcomes_of(tmp_path, HEADER + "v1,45,1,Red,,\n")
    assert "or the column out with --ignore-columns if it is not evidence" in outcome.reason
