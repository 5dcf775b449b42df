"""The progress bar of `triage score`."""

import contextlib
from collections.abc import Iterator, Sequence

from rich import progress as bars
from rich.console import Console

from serving.scoring.outcomes import outcome_location
from serving.scoring.shards import Shard
from triage_runtime.beam.watch import watching
from triage_runtime.command_line.progress import progress_bar
from triage_runtime.storage import files


def bar_over(console: Console, shards: Sequence[Shard]) -> tuple[bars.Progress, bars.TaskID]:
    """Returns a bar over the bytes of input files, and its task; it shows nothing where there is no terminal.

    The task's field `done` is the text behind the bar.
    """
    bar = progress_bar(console, "{task.fields[done]}")
    return bar, bar.add_task("scoring", total=sum(shard.size for shard in shards), done="")


@contextlib.contextmanager
def following(console: Console, shards: Sequence[Shard], scratch: str) -> Iterator[None]:
    """Shows how many files have an outcome while the block runs.

    Args:
        console: the terminal.
        shards: what is being scored.
        scratch: the folder of the outcomes.
    """
    bar, task = bar_over(console, shards)
    sizes = {outcome_location(shard, scratch): shard.size for shard in shards}

    def look() -> None:
        done = [sizes[entry.location] for entry in files.entries(f"{scratch}/*") if entry.location in sizes]
        bar.update(task, completed=sum(done), done=f"{len(done):,} of {len(sizes):,} files")

    with bar, contextlib.nullcontext() if bar.disable else watching(look):
        yield
