import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import InputError
from schemas.triage import Action
from tests.builders import symptoms
from trainer.importing.csv_long import LongTables, RowGroups
from trainer.vignettes.source import Accepted, LineReader, Rejected
from trainer.vignettes.vignette import Vignette

VOCABULARY = symptoms("fever", "cough", "chest_pain")
EVIDENCE = "vignette_id,evidence,presence\n"
SAME = "differs from line 2: expected the same on each row of a vignette"
DECISIONS = "vignette_id,decision,split,tags\n"
GOOD = "v1,fever,present\n"
DECIDED = "v1,Red,,\n"


def tables_of(directory, evidence, decisions):
    paths = directory / "evidence.csv", directory / "decisions.csv"
    for path, content in zip(paths, (evidence, decisions), strict=True):
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return LongTables(*map(LineReader, paths)), tuple(path.name for path in paths)


def outcomes_of(directory, evidence, decisions):
    """Returns the outcomes of these rows, given below good headers."""
    rows = [content if isinstance(content, bytes) else content.encode() for content in (evidence, decisions)]
    tables, names = tables_of(directory, EVIDENCE.encode() + rows[0], DECISIONS.encode() + rows[1])
    groups = RowGroups(names)
    for _ in tables.load(groups, collect=True):
        pass
    return list(tables.read(groups, VOCABULARY, VOCABULARY.unknown_message))


def rejects_of(directory, evidence, decisions):
    return [
        (one.line.file, one.line.number, one.vignette_id, one.reason)
        for one in outcomes_of(directory, evidence, decisions)
        if isinstance(one, Rejected)
    ]


def test_rows_become_a_vignette(tmp_path):
    [outcome] = outcomes_of(
        tmp_path, "v1,fever,present\nv1,cough,0\nv1,chest_pain,+\n", "v1,Red,test,er;child\nv1,Blue,test,er; child\n"
    )

    assert isinstance(outcome, Accepted)
    assert outcome.vignette == Vignette(
        "v1", ("fever", "chest_pain"), ("cough",), (Action.RED, Action.BLUE), "test", ("er", "child")
    )


def test_vignettes_come_in_the_order_of_first_appearance_wherever_their_rows_stand(tmp_path):
    outcomes = outcomes_of(
        tmp_path, "v2,fever,1\nv1,fever,0\nv2,cough,0\nv1,cough,0\n", "v1,Red,,\nv2,Blue,,\nv1,Green,,\n"
    )

    assert [outcome.vignette for outcome in outcomes] == [
        Vignette("v2", ("fever",), ("cough",), (Action.BLUE,)),
        Vignette("v1", (), ("fever", "cough"), (Action.RED, Action.GREEN)),
    ]


@pytest.mark.parametrize(
    ("evidence", "decisions", "place", "reason"),
    [
        (GOOD, "", ("evidence.csv", 2), "no decisions: no row of {decisions} has this vignette_id"),
        ("", DECIDED, ("decisions.csv", 2), "no evidence: no row of {evidence} has this vignette_id"),
        (
            GOOD + "v1,fever,absent\n", DECIDED, ("evidence.csv", 3),
            "evidence: 'fever' is present on line 2 already: delete one of the rows",
        ),
        (
            GOOD + GOOD, DECIDED, ("evidence.csv", 3),
            "evidence: 'fever' is present on line 2 already: delete one of the rows",
        ),
        (
            GOOD + "v1,coug,0\n", DECIDED, ("evidence.csv", 3),
            "evidence: unknown evidence code 'coug': did you mean cough?",
        ),
        (
            GOOD + "v1,cough,\n", DECIDED, ("evidence.csv", 3),
            "presence of 'cough': expected present or absent (or 1/0, yes/no, true/false, +/-), found ''; delete the "
            "row if it is not known",
        ),
        (
            GOOD + "v1,cough\n", DECIDED, ("evidence.csv", 3),
            "expected 3 columns (vignette_id, evidence, presence), found 2",
        ),
        (GOOD, DECIDED + "v1,purple,,\n", ("decisions.csv", 3), "triage decision 'purple' is not one of {labels}"),
        (GOOD, DECIDED + "v1,Red,train,\n", ("decisions.csv", 3), "split: {same}"),
        (GOOD, DECIDED + "v1,Red,,x\n", ("decisions.csv", 3), "tags: {same}"),
        (GOOD, "v1,Red,dev,\n", ("evidence.csv", 2), "split: expected train or test, found 'dev'"),
        (GOOD, "v1,Red,,a;a\n", ("evidence.csv", 2), "tags: 'a' is listed 2 times"),
        (GOOD, DECIDED * 256, ("evidence.csv", 2), "decisions: Red is listed 256 times, expected at most 255"),
    ],
)  # fmt: skip
def test_a_vignette_that_cannot_be_built_is_one_reject_at_its_first_bad_row(
    tmp_path, evidence, decisions, place, reason
):
    [(file, number, vignette_id, actual)] = rejects_of(tmp_path, evidence, decisions)

    names = {name: tmp_path / f"{name}.csv" for name in ("evidence", "decisions")}
    assert (file, number, vignette_id) == (*place, "v1")
    assert actual == reason.format(**names, same=SAME, labels="Red, Yellow, Green, Blue")


def test_all_bad_rows_of_a_vignette_have_their_place_in_the_reason(tmp_path):
    evidence = GOOD + "v1,cough,?\nv2,cough,1\nv1,chest,1\n"

    [(_, number, _, reason)] = [r for r in rejects_of(tmp_path, evidence, DECIDED + "v2,Red,,\nv1,purple,,\n") if r]

    assert number == 3
    assert reason.startswith("presence of 'cough': expected present or absent")
    assert reason.endswith("; 2 more of its rows are faulty: evidence.csv:5, decisions.csv:4")


def test_of_many_bad_rows_the_first_places_are_given(tmp_path):
    [(_, _, _, reason)] = rejects_of(tmp_path, GOOD * 100, DECIDED)

    assert "; 98 more of its rows are faulty: evidence.csv:4, evidence.csv:5, " in reason
    assert reason.endswith("evidence.csv:8, ...")


@pytest.mark.parametrize(
    ("vignette_id", "reason"),
    [("v" * 257, "is longer than 256 characters"), ("v\x01", "contains a control character")],
)
def test_a_vignette_with_another_id_is_one_reject(tmp_path, vignette_id, reason):
    evidence, decisions = f"{GOOD}{vignette_id},fever,1\n{vignette_id},cough,1\n", f"{DECIDED}{vignette_id},Red,,\n"

    [(_, number, name, why)] = rejects_of(tmp_path, evidence, decisions)

    assert (number, name) == (3, vignette_id)
    assert reason in why


@pytest.mark.parametrize(
    ("evidence", "decisions", "place"),
    [
        (GOOD + ",cough,1\n", DECIDED, r"evidence\.csv: line 3: no vignette_id"),  # merged cells
        (GOOD, DECIDED + ",Blue,,\n", r"decisions\.csv: line 3: no vignette_id"),
        (GOOD + '"v1', DECIDED, r"evidence\.csv: line 3: no readable vignette_id: a quoted cell"),
    ],
)
def test_a_row_that_may_belong_to_any_vignette_refuses_the_file_as_a_whole(tmp_path, evidence, decisions, place):
    with pytest.raises(InputError, match=place):
        outcomes_of(tmp_path, evidence, decisions)


def test_a_row_that_cannot_be_read_costs_its_vignette(tmp_path):
    latin = "v1,fi\u00e8vre,1\n".encode("latin-1")

    [(file, number, vignette_id, reason)] = rejects_of(tmp_path, latin + GOOD.encode(), DECIDED)

    assert (file, number, vignette_id) == ("evidence.csv", 2, "v1")
    assert reason.startswith("not UTF-8 at byte 5 of the line: ")


def test_blank_rows_of_both_files_are_counted(tmp_path):
    outcomes = outcomes_of(tmp_path, "\n" + GOOD + ",,\n", DECIDED + ",,,\n")

    assert outcomes.count(None) == 3
    assert len(outcomes) == 4


@pytest.mark.parametrize(
    ("evidence", "decisions", "message"),
    [
        ("vignette_id,evidence\n", DECISIONS, r"evidence\.csv: line 1: .*'presence' is missing"),
        ("vignette_id,evidence,presence,tags\n", DECISIONS, r"evidence\.csv: line 1: column 4: unknown column 'tags'"),
        (EVIDENCE, "vignette_id\n", r"decisions\.csv: line 1: .*'decision' is missing"),
        (EVIDENCE, "vignette_id,decision,tag\n", r"decisions\.csv: line 1: .*'tag': did you mean 'tags'\?"),
    ],
)
def test_another_header_is_one_error(tmp_path, evidence, decisions, message):
    with pytest.raises(InputError, match=message):
        tables_of(tmp_path, evidence, decisions)


def test_codes_are_collected_in_the_order_of_first_appearance(tmp_path):
    tables, names = tables_of(tmp_path, EVIDENCE + "v1,b,1\nv1,a,?\nv2,b,0\nv2,c d,1\nv3,e\n", DECISIONS)
    groups = RowGroups(names)

    assert len(list(tables.load(groups, collect=True))) == 5
    assert tables.collected.vocabulary([], "evidence.csv").codes == ("b", "a")


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
def test_whatever_stands_in_the_rows_none_disappears(tmp_path_factory, evidence, decisions):
    directory = tmp_path_factory.mktemp("long")

    try:
        outcomes = outcomes_of(directory, evidence, decisions)
    except InputError as error:
        assert "vignette_id: " in str(error)  # noqa: PT017 - of a row without one
        return
    made = [outcome for outcome in outcomes if outcome is not None]
    assert all(outcome.reason.isprintable() for outcome in made if isinstance(outcome, Rejected))
    ids = [one.vignette.vignette_id if isinstance(one, Accepted) else one.vignette_id for one in made]
    tables, _ = tables_of(directory, EVIDENCE.encode() + evidence, DECISIONS.encode() + decisions)
    rows = [row for table in tables.tables for row in table]
    assert outcomes.count(None) == rows.count(None)
    assert {row.cells[0] for row in rows if row} == set(ids)
    for one in (one for one in made if isinstance(one, Accepted)):
        stated = [row for row in rows if row and row.cells and row.cells[0] == one.vignette.vignette_id]
        assert all(row.fault is None for row in stated)
        parts = one.vignette.present, one.vignette.absent, one.vignette.decisions
        assert len(stated) == sum(map(len, parts))
