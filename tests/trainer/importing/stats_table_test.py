import io
import json
import math

from rich.console import Console

from trainer.importing.stats_table import statistics_table, to_json
from trainer.importing.vignette_statistics import PAPER, PAPER_DECISIONS, Moments

NOTHING = {name: Moments(math.nan, math.nan, 0) for name in PAPER}


def lines(moments, decisions, width=80):
    console = Console(file=io.StringIO(), width=width)
    console.print(statistics_table(moments, decisions))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def row(printed, start):
    return next(line.split() for line in printed if line.strip().startswith(start))


def test_each_figure_is_beside_that_of_the_paper():
    moments = {**NOTHING, "symptoms": Moments(5.0, 1.254, 1_000_000), "share_Blue": Moments(0.125, math.nan, 1)}
    printed = lines(moments, (2, 7))
    assert row(printed, "symptoms") == ["symptoms", "5.00", "(1.25)", "1,000,000", "6.15", "(2.60)", "1,374"]
    assert row(printed, "Blue") == ["Blue", "0.12", "1", "0.09", "(0.22)", "1,374"]
    assert row(printed, "fewest") == ["fewest", "-", "most", "2", "-", "7", "1", "-", "11"]
    assert row(printed, "Red") == ["Red", "-", "0", "0.09", "(0.24)", "1,374"]


def test_fits_a_terminal_of_80_columns():
    million = dict.fromkeys(PAPER, Moments(10.0, 10.0, 1_000_000))
    assert not any("…" in line for line in lines(million, (1, 255)))


def test_rows_are_grouped_as_in_the_paper():
    labels = [line[1:28].rstrip() for line in lines(PAPER, PAPER_DECISIONS)]
    start = labels.index("Evidence")
    assert labels[start : start + 7] == [
        "Evidence",
        "  symptoms",
        "    present",
        "    absent",
        "  risk factors",
        "    present",
        "    absent",
    ]


def test_every_figure_of_the_paper_has_a_row():
    marked = {name: Moments(1000.0 + number, 0.5, 1) for number, name in enumerate(PAPER)}
    text = "\n".join(lines(marked, (1, 1)))
    assert [name for name, moments in marked.items() if f"{moments.mean:.2f} (0.50)" not in text] == []


def test_json_has_null_for_what_there_is_not():
    values = json.loads(json.dumps(to_json(NOTHING, None), allow_nan=False))
    assert values["figures"]["symptoms"] == {"mean": None, "sd": None, "vignettes": 0}
    assert (values["fewest_decisions"], values["most_decisions"]) == (None, None)
    paper = to_json(PAPER, PAPER_DECISIONS)
    assert paper["figures"]["always_green_safety"] == {"mean": 0.75, "sd": None, "vignettes": 126}
    assert (paper["fewest_decisions"], paper["most_decisions"]) == (1, 11)
