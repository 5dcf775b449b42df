import io

from rich.console import Console

from trainer.progress import progress_bar, say, tracked


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
