"""Progress bars and messages on the terminal for every command that reads or writes vignettes."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich import progress as bars
from rich.console import Console

_TICK = 500  # records between two updates of the progress bar
_T = TypeVar("_T")


def progress_bar(console: Console) -> bars.Progress:
    """Returns a progress bar over vignettes or rows; it shows nothing if `console` is not a terminal."""
    return bars.Progress(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.TextColumn("{task.completed:,.0f} {task.fields[unit]}, {task.fields[rate]}"),
        bars.TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
    )


def tracked(
    items: Iterable[_T], bar: bars.Progress, description: str, total: int | None = None, unit: str = "vignettes"
) -> Iterator[_T]:
    """Yields `items` and counts them on `bar`."""
    task, count = bar.add_task(description, total=total, rate="", unit=unit), 0
    for count, item in enumerate(items, start=1):
        if count % _TICK == 0:
            bar.update(task, completed=count, rate=f"{bar.tasks[task].speed or 0:,.0f}/s")
        yield item
    bar.update(task, total=count, completed=count)


def say(console: Console, text: str) -> None:
    """Prints text as it is, without markup or wrapping."""
    console.print(text, markup=False, emoji=False, highlight=False, soft_wrap=True)
