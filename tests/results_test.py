"""docs/results.md and the results in README.md and docs/speed.md are those of the records in benchmarks/results."""

import json
import re

import numpy as np
import pytest

from benchmarks import page, quality, records
from schemas.triage import Action
from tests.builders import symptoms
from trainer.data.textbook_case import TextbookCase
from trainer.evaluation.estimates import Estimate
from trainer.reports import numbers

CODE = re.compile(r"```.*?```|`[^`]*`|\(https?:[^)]*\)", re.DOTALL)
JINJA = re.compile(r"\{[{%].*?[%}]\}", re.DOTALL)
NAMES = ("95% interval", "1.96 standard errors", "p50 ms", "p99 ms",
         "Python 3.10 or 3.11", "learned from 4,992 simulated vignettes", "arXiv:2003.12828", "Apache-2.0")  # fmt: skip
"""Figures that are not results. Another test compares the number of vignettes with the demo."""


@pytest.fixture(scope="module")
def pages():
    return page.pages()


def test_the_pages_are_those_of_the_records(pages):
    plots = {path: text for path, text in pages.items() if path.suffix == ".svg"}
    old = [path.name for path, text in pages.items() if path not in plots and path.read_text() != text]
    # A plot says what it draws; its lines are as exact as Matplotlib's version.
    drawn = re.compile(r"<title>.*</desc>", re.DOTALL)
    old += [path.name for path, text in plots.items() if drawn.search(path.read_text())[0] != drawn.search(text)[0]]
    assert old == [], "make results"


def test_the_templates_and_the_rest_of_the_readme_hold_no_figures_of_their_own():
    texts = {path.name: JINJA.sub("", path.read_text()) for path in page.TEMPLATES.iterdir()}
    readme = page.BLOCK.sub("", (page.ROOT / "README.md").read_text())
    texts["README.md"] = re.sub(r"^    .*$", "", readme, flags=re.MULTILINE)  # without what the demo prints
    for path, text in texts.items():
        text = CODE.sub("", text)
        for name in NAMES:
            text = text.replace(name, "")
        assert re.findall(r"\d[\d.,]*", text) == [], path


def test_every_record_says_how_it_was_made():
    for path in records.RESULTS.glob("*.json"):
        record = json.loads(path.read_text())
        assert {"command", "seed", "versions", "machine", "date", "figures"} <= record.keys(), path.name
        assert {"python", "tensorflow", "dyqn_triage"} <= record["versions"].keys(), path.name


def test_an_interval_over_seeds_is_the_wider_of_patients_and_seeds():
    def run(mean, error):
        return {"mean": mean, "low": mean - 1.96 * error, "high": mean + 1.96 * error, "vignettes": 100}

    # Of two seeds alike, the standard error is .01 / sqrt(2); of .8 and .9, whose SD is .0707, it is .05.
    alike, apart = (page.pooled([run(0.8, 0.01), run(other, 0.01)]) for other in (0.8, 0.9))
    assert alike == pytest.approx(Estimate(0.8, 0.8 - 1.96 * 0.00707, 0.8 + 1.96 * 0.00707, 200), abs=1e-4)
    assert apart == pytest.approx(Estimate(0.85, 0.85 - 1.96 * 0.05, 0.85 + 1.96 * 0.05, 200), abs=1e-4)


def test_figures_of_seeds_are_pooled_in_their_shape():
    runs = [{"late": {"with": 3}, "curve": [1.0, 2.0]}, {"late": {"with": 5}, "curve": [3.0, 6.0]}]
    found = page.pooled(runs)
    assert found["late"]["with"] == page.Number(4, 3, 5)
    assert [number.mean for number in found["curve"]] == [2.0, 4.0]
    assert page.cases(found["late"]["with"]) == f"4.0 (3{numbers.NONE}5)"
    assert page.spread([0.25, None, 0.5]) == f"37.5 (25.0{numbers.NONE}50.0)"
    assert [page.spread([0.5, 0.5]), page.spread([None, None])] == ["50.0", numbers.NONE]


def test_red_found_is_compared_at_the_same_over_triage():
    def at(over_triage, red):
        return {"over_triage": {"mean": over_triage}, "red_sensitivity": {"mean": red}}

    curve = {"forest": [at(0.04, 0.3), at(0.08, 0.7), at(0.2, 0.9)]}
    runs = [{"agent": at(over_triage, 0.5), "by_share_of_red": curve} for over_triage in (0.05, 0.14)]
    # A quarter of the way from .3 to .7, and half of that from .7 to .9.
    assert page.forest_red(runs) == pytest.approx(page.Number(0.6, 0.4, 0.8))


def test_a_record_that_is_a_placeholder_is_measured_again(tmp_path):
    folder = tmp_path / "made" / "with it"
    records.write(folder, "cards-1000", {"safety": Estimate(0.9123456, 0.9, 0.92)}, 1000)
    assert records.finished(folder, "cards-1000")
    [record] = records.read(folder, "cards")
    assert record["figures"]["safety"]["mean"] == 0.91235
    assert not records.finished(folder, "cards-1001")
    (folder / "cards-1000.json").write_text(json.dumps(record | {records.PLACEHOLDER: "another version"}))
    assert not records.finished(folder, "cards-1000")


def test_a_growing_share_is_called_red_the_likeliest_first():
    values = np.array([[0.9, 0.1, 0.1, 0.1], [0.2, 0.1, 0.8, 0.1], [0.3, 0.4, 0.1, 0.1]] + [[0.0, 0.1, 0.2, 0.9]] * 97)
    decisions = quality.called_red(values)
    shares = (decisions == Action.RED).mean(axis=1)
    assert shares[0] == pytest.approx(0.02)
    assert decisions[0, :3].tolist() == [Action.RED, Action.GREEN, Action.RED]
    assert (np.diff(shares) >= 0).all()


def test_a_case_begins_with_each_of_its_symptoms():
    case = TextbookCase("c", "C", "emergency", (Action.RED,), ("a", "b"), ("c",))
    begun = quality.from_each_complaint(case, symptoms("a", "b", "c"))
    assert [each.present for each in begun] == [("a", "b"), ("b", "a")]
    assert all(each.absent == ("c",) for each in begun)


@pytest.mark.slow
def test_an_agent_is_measured_once_and_an_interrupted_run_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(quality, "TRAIN", 300)
    monkeypatch.setattr(quality, "TEST", 100)
    command = ["--work", str(tmp_path), "--results", str(tmp_path), "--seeds", "3", "--parts", "cards"]
    quality.main(command)
    [record] = records.read(tmp_path, "cards")
    measured = record["figures"]
    assert measured["vignettes"] == {"learned_from": 300, "judged": 100}
    assert len(measured["interviews"]["by_questions"]) == quality.QUESTIONS + 1
    late = measured["cases"]["textbook"]["too_late"]
    assert all(0 <= each["with_rules"] <= each["without_rules"] <= 261 for each in late.values())
    monkeypatch.setitem(quality.PARTS, "cards", lambda *_: pytest.fail("nothing is left to measure"))
    quality.main(command)
