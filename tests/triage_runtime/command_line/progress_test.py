import io

import pytest
from rich.console import Console
from rich.table import Table

from triage_runtime.command_line.progress import followed, print_table, progress_bar, say, tracked


def _console(terminal):
    return Console(file=io.StringIO(), force_terminal=terminal, width=100)


@pytest.mark.parametrize(("items", "total"), [("abc", 3), (range(1200), None)])
def test_items_pass_through_in_order_and_are_counted_over_the_width_of_the_terminal(items, total):
    console = _console(terminal=True)
    with progress_bar(console) as bar:
        assert list(tracked(iter(items), bar, "read", total=total, unit="rows")) == list(items)
        assert bar.tasks[0].completed == bar.tasks[0].total == len(items)
    shown = console.file.getvalue()
    assert f"{len(items):,} rows" in shown
    assert max(map(len, shown.splitlines())) >= 100


def test_nothing_is_drawn_where_there_is_no_terminal():
    console = _console(terminal=False)
    with progress_bar(console) as bar:
        list(tracked(range(10), bar, "read"))
    assert console.file.getvalue().strip() == ""


def test_lines_are_printed_as_they_are():
    console = _console(terminal=False)
    say(console, "[bold]:warning: " + "x" * 200)
    assert console.file.getvalue() == "[bold]:warning: " + "x" * 200 + "\n"


def test_on_a_narrow_terminal_no_cell_of_a_table_is_cut(capsys, monkeypatch):
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "30")
    table = Table("name", "figure", box=None, padding=0)
    table.columns[1].no_wrap = True
    table.add_row("abcdefghijklmnopqrstuvwxyz", "0123456789" * 2)
    print_table(table)
    _, *lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 30
    parts = [line.split() for line in lines]
    text = "".join(sorted("".join(part for line in parts for part in line)))
    assert text == "".join(sorted("abcdefghijklmnopqrstuvwxyz" + "0123456789" * 2))


def test_what_takes_long_each_is_counted_to_the_end(monkeypatch, capsys):
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    assert list(followed([3, 1, 2], "play", "orders")) == [3, 1, 2]
    assert "3 orders" in capsys.readouterr().err
