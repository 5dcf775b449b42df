from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.importing.csv_long import RowGroups
from trainer.vignettes.source import Line


def line(number, content=b"row"):
    return Line("a.csv", number, len(content), content)


def grouped(named_lines):
    groups = RowGroups(("a.csv", "b.csv"))
    for name, source, one in named_lines:
        groups.add(name, source, one)
    return [group for _, group in groups]


def test_lines_of_an_id_come_together_in_the_order_of_first_appearance():
    rows = [("v2", 0, line(2)), ("v1", 0, line(3)), ("v2", 0, line(4)), ("v3", 1, line(2)), ("v1", 1, line(3))]

    groups = grouped(rows)

    assert [[(source, one.file, one.number) for source, one in group] for group in groups] == [
        [(0, "a.csv", 2), (0, "a.csv", 4)],
        [(0, "a.csv", 3), (1, "b.csv", 3)],
        [(1, "b.csv", 2)],
    ]


def test_a_line_comes_back_as_it_was():
    cut = Line("a.csv", 7, 2_000_000, b"\xff\x00,\xc3\xa9")  # longer than what is kept of it

    [[(_, one)]] = grouped([("v1", 0, cut)])

    assert one == cut


def test_no_lines_are_no_groups():
    assert grouped([]) == []


@settings(max_examples=30)
@given(st.lists(st.integers(0, 40).map(str), max_size=200))
def test_grouping_is_that_of_a_dictionary(names):
    expected = {}
    for number, name in enumerate(names):
        expected.setdefault(name, []).append(number)

    groups = grouped([(name, 0, line(n)) for n, name in enumerate(names)])

    assert [[one.number for _, one in group] for group in groups] == list(expected.values())
