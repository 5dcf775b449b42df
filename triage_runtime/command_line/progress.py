"""Progress bars and messages on the terminal for every command that reads or writes vignettes."""

from collections.abc import Collection, Iterable, Iterator
from typing import TypeVar

from rich import progress as bars
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

_WIDEST = 1_000  # characters
_TICK = 500  # records between two updates of the progress bar
_COUNT = "{task.completed:,.0f} {task.fields[unit]}{task.fields[remark]}"
_T = TypeVar("_T")


def progress_bar(console: Console, text: str = _COUNT) -> bars.Progress:
    """Returns a progress bar with a text behind it; it shows nothing if `console` is not a terminal."""
    return bars.Progress(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(bar_width=None),
        bars.TextColumn(text),
        bars.TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
        expand=True,
    )


def tracked(
    items: Iterable[_T], bar: bars.Progress, description: str, total: int | None = None, unit: str = "vignettes"
) -> Iterator[_T]:
    """Yields `items` and counts them on `bar`."""
    task, count = bar.add_task(description, total=total, remark="", unit=unit), 0
    for count, item in enumerate(items, start=1):
        if count % _TICK == 0:
            bar.update(task, completed=count, remark=f", {bar.tasks[task].speed or 0:,.0f}/s")
        yield item
    bar.update(task, total=count, completed=count)


def followed(items: Collection[_T], description: str, unit: str) -> Iterator[_T]:
    """Yields `items`, each of which takes a while, and counts them on a bar of its own on standard error."""
    with progress_bar(Console(stderr=True)) as bar:
        task = bar.add_task(description, total=len(items), remark="", unit=unit)
        for count, item in enumerate(items):
            if count % max(len(items) // 100, 1) == 0:
                bar.update(task, completed=count)
            yield item
        bar.update(task, completed=len(items))


def print_table(table: Table) -> None:
    """Prints a table on standard output: as wide as the terminal, or, without one, as wide as the table.

    Where the terminal is narrow, cells continue on further lines, and nothing is cut.
    """
    for column in table.columns:
        column.overflow, column.no_wrap = "fold", False
    console = Console()
    if not console.is_terminal:
        widest = console.options.update(width=_WIDEST)
        console = Console(width=max(console.width, Measurement.get(console, widest, table).maximum))
    console.print(table)


def say_result(console: Console, result: object, following: str) -> None:
    """Prints where the result of a command is and the command that usually follows."""
    say(console, f"result in {result}; next: {following}")


def say(console: Console, text: str) -> None:
    """Prints text as it is, without markup or wrapping."""
    if console.is_jupyter:  # a display, which redirected streams would not catch
        console.file.write(f"{text}\n")
    else:
        console.print(text, markup=False, emoji=False, highlight=False, soft_wrap=True)
