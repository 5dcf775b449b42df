"""The tables of a study as Markdown. All figures here are made up."""

import re

import pytest

from trainer.reports.markdown import results_markdown


def estimate(mean, low=None, high=None, spread=None):
    return {"mean": mean, "low": low, "high": high, "sd_over_seeds": spread}


@pytest.fixture
def results():
    return {
        "provenance": {"command": "triage reproduce --data d --out o",
                       "seconds": 3720, "task_seconds": 7020, "cores": 2},
        "settings": {"seeds": 3, "folds": 10, "fold_seeds": 3, "train": {"loop": {"steps": 6000, "seed": 0}}},
        "data": {"simulated": True, "vignettes": {"train": 1248, "test": 126}},
        "agents": {
            "dyqn_or": {
                "label": "DyQN, OR query",
                "learns": True,
                "metrics": {"appropriateness": estimate(0.842, 0.78, 0.9, 0.023), "questions": estimate(11.0)},
                "paper": {"appropriateness": 0.85, "safety": 0.93, "questions": 13.34},
            }
        },
        "claims": [{"claim": "It | works", "paper": ".9", "outcome": "fails", "numbers": "a*b"}],
        "k_fold": {
            "runs": [{"appropriateness": share, "safety": 0.9, "questions": 12.0} for share in (0.7, 0.8, 0.9, 0.8)],
            "paper": {"appropriateness": 0.81, "safety": 0.90, "questions": 13.14},
            "mean": {"appropriateness": estimate(0.8, 0.75, 0.85)},
            "repetitions": 2,
        },
        "by_evidence": {
            "dyqn_or": [{"pieces": 2, "states": 120, "appropriateness": 0.75, "safety": 0.8}],
            "calibrated": [{"pieces": 1, "states": 126, "appropriateness": 0.7, "safety": 0.75}],
            "uncalibrated": [],
        },
        "ablations": [{"name": "default", "metrics": {"safety": estimate(0.9, spread=0.01)}}],
        "unseen": None,
        "agreement": None,
        "failures": [],
    }  # fmt: skip


def rows_of(page, heading):
    """Returns the cells of the table below a heading, its two head lines left out."""
    section = page.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def test_an_agent_has_mean_interval_spread_and_the_papers_figure_in_one_cell(results):
    ((label, appropriateness, safety, _, _, questions, *_),) = rows_of(results_markdown(results), "The agents")
    assert label == "DyQN, OR query"
    assert appropriateness == "84.2% (78.0\u201390.0%) SD 2.3 \\[85.0%\\]"
    assert safety == "\u2013 \\[93.0%\\]"
    assert questions == "11.00 \\[13.34\\]"


def test_what_markdown_would_read_as_more_than_a_letter_is_escaped(results):
    assert rows_of(results_markdown(results), "The claims") == [["It \\| works", ".9", "fails", "a\\*b"]]
    results["agents"]["dyqn_or"]["label"] = "<b>a|b</b>\n# c"
    page = results_markdown(results)
    assert rows_of(page, "The agents")[0][0] == "\\<b\\>a\\|b\\</b\\> \\# c"


def test_cross_validation_has_mean_and_range_over_folds(results):
    # (.7 + .8 + .9 + .8) / 4 = .8
    page = results_markdown(results)
    first, *_ = rows_of(page, "Cross-validation")
    assert "Mean of 4 folds in 2 repetitions" in page
    assert first == ["Appropriateness", "80.0% (75.0\u201385.0%)", "70.0% to 90.0%", "84.2%", "81.0%"]


def test_evidence_curves_are_joined_by_number_of_pieces(results):
    page = results_markdown(results)
    assert "uncalibrated" not in page.split("pieces of evidence")[1].split("## ")[0]  # it was not measured
    assert rows_of(page, "Decisions forced after a number of pieces of evidence") == [
        ["1", "126", "\u2013 / \u2013", "70.0% / 75.0%"],
        ["2", "120", "75.0% / 80.0%", "\u2013 / \u2013"],
    ]


def test_facts_say_how_to_run_it_again(results):
    page = results_markdown(results)
    assert "    triage reproduce --data d --out o" in page
    facts = dict(rows_of(page, "How it was run"))
    assert facts["Duration"] == "1 h 2 min on 2 cores since the last start"
    assert facts["Duration of all tasks together"] == "1 h 57 min, each in one process"
    assert facts["Steps of a training"] == "6,000"
    assert facts["Platform"] == "\u2013"


def test_what_the_study_did_not_run_is_left_out_and_what_failed_is_named(results):
    results |= {"claims": [], "k_fold": None, "by_evidence": {}, "ablations": []}
    page = results_markdown(results)
    for heading in ("The claims", "Cross-validation", "Decisions forced", "Ablations", "Conditions", "Failed tasks"):
        assert f"## {heading}" not in page
    failed = results_markdown({**results, "failures": [{"task": "dyqn_or-seed-0", "error": "no room"}]})
    assert rows_of(failed, "Failed tasks") == [["dyqn\\_or-seed-0", "no room"]]


def test_limits_are_on_every_page(results):
    page = results_markdown(results)
    assert "No figure here comes from use with patients." in page
    assert "## Limits" in page


def test_a_paragraph_continues_at_the_margin_and_a_list_item_does_not(results):
    page = results_markdown(results)
    first, _ = page.split("\n\n", 1)
    assert len(first.splitlines()) > 1
    assert all(not line.startswith(" ") for line in first.splitlines())
    limits = page.split("## Limits\n\n")[1].splitlines()
    assert all(line.startswith(("- ", "  ")) for line in limits)
