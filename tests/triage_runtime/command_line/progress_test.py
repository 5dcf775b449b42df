import io

from rich.console import Console
from rich.table import Table

from triage_runtime.command_line.progress import followed, print_table, progress_bar, say, say_result, tracked


def _console(terminal):
    return Console(file=io.StringIO(), force_terminal=terminal, width=100)


def test_items_pass_through_in_order_and_are_counted():
    console = _console(terminal=True)
    with progress_bar(console) as bar:
        assert list(tracked(iter("abc"), bar, "read", total=3, unit="rows")) == ["a", "b", "c"]
        assert bar.tasks[0].completed == bar.tasks[0].total == 3
    assert "3 rows" in console.file.getvalue()


def test_an_unknown_total_is_known_at_the_end():
    with progress_bar(_console(terminal=True)) as bar:
        list(tracked(range(1200), bar, "read"))
        assert (bar.tasks[0].completed, bar.tasks[0].total) == (1200, 1200)


def test_nothing_is_drawn_where_there_is_no_terminal():
    console = _console(terminal=False)
    with progress_bar(console) as bar:
        list(tracked(range(10), bar, "read"))
    assert console.file.getvalue().strip() == ""


def test_lines_are_printed_as_they_are():
    console = _console(terminal=False)
    say(console, "[bold]:warning: " + "x" * 200)
    assert console.file.getvalue() == "[bold]:warning: " + "x" * 200 + "\n"


def test_a_table_is_not_cut_without_a_terminal(capsys):
    table = Table()
    table.add_column("long")
    table.add_row("x" * 150)
    print_table(table)
    assert "x" * 150 in capsys.readouterr().out


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


def test_a_command_ends_with_its_result_and_what_follows():
    console = _console(terminal=False)
    say_result(console, "data", "triage train --data data --job-dir DIR")
    assert console.file.getvalue() == "result in data; next: triage train --data data --job-dir DIR\n"


def test_the_bar_takes_the_width_of_the_terminal():
    console = _console(terminal=True)
    with progress_bar(console) as bar:
        list(tracked(iter("abc"), bar, "read", total=3))
    assert max(len(line) for line in console.file.getvalue().splitlines()) >= 100
