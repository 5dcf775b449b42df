"""The progress bar of `triage score` says how far it is, with and without a runner."""

import io

import pytest
from rich.console import Console

from serving.scoring.bar import bar_over, following
from serving.scoring.outcomes import outcome_location
from serving.scoring.shards import Shard

pytest.importorskip("apache_beam", reason="needs the extra `beam`")


@pytest.fixture
def shards(tmp_path):
    """An input of 30 bytes and one of 10."""
    return [Shard(f"/in/{name}", str(tmp_path / name), size, 1.0) for name, size in (("a.csv", 30), ("b.csv", 10))]


def _terminal():
    return Console(file=io.StringIO(), force_terminal=True, width=80, color_system=None)


def _last(console):
    """The bar as it stays."""
    return console.file.getvalue().splitlines()[-2]  # before the cursor is shown again


def test_a_bar_is_over_bytes_and_names_what_is_done(shards):
    console = _terminal()
    bar, task = bar_over(console, shards)
    with bar:
        bar.update(task, completed=30, done="7 cases of a.csv")
    assert bar.tasks[task].percentage == 75
    assert "7 cases of a.csv" in _last(console)


def test_the_files_that_have_an_outcome_are_counted(shards, tmp_path):
    console = _terminal()
    with following(console, shards, str(tmp_path / "scratch")):
        (tmp_path / "scratch").mkdir()
        for name in (outcome_location(shards[0], str(tmp_path / "scratch")), tmp_path / "scratch" / "x.unfinished"):
            with open(name, "w"):
                pass
    assert "1 of 2 files" in _last(console)


def test_nothing_is_shown_where_there_is_no_terminal(shards, tmp_path):
    console = Console(file=io.StringIO())
    with following(console, shards, str(tmp_path)):
        pass
    assert console.file.getvalue() == ""
