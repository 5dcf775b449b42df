"""benchmarks/tune.py, which compares settings on many training sets."""

import json
import pathlib
import runpy
import types

import numpy as np
import pytest

import triage_cli
from schemas.errors import InputError
from trainer import presets

ROOT = pathlib.Path(__file__).resolve().parents[1]
tune = types.SimpleNamespace(**runpy.run_path(str(ROOT / "benchmarks" / "tune.py")))


def set_options(**given):
    defaults = {"data": None, "folds": 5, "report": False, "seeds": None, "sizes": [1248], "test": 10_000}
    return tune.SetOptions(**(defaults | given))


def run_of(row, seed, **figures):
    return {"train_vignettes": 300, "seed": seed, "settings": row.settings, "figures": figures}


@pytest.fixture(scope="module")
def tiny_set(tmp_path_factory):
    path = tmp_path_factory.mktemp("sets") / "data"
    command = ["simulate", "--vignettes", "180", "--test-fraction", "1/3", "--seed", "3", "--out", str(path)]
    assert triage_cli.main(command) == 0
    return path


def test_a_row_is_a_preset_a_file_or_options_over_a_preset(tmp_path):
    settings = tmp_path / "mine.json"
    settings.write_text(json.dumps({"network": {"dropout": 0.1}}))
    rows = [tune.read_row(text) for text in ("paper", "own words: preset=paper hidden_sizes=8,4", str(settings))]
    assert [row.name for row in rows] == ["paper", "own words", "mine"]
    paper, own, mine = (row.settings["config"] for row in rows)
    assert paper["network"] == presets.preset("paper").to_dict()["network"]
    assert own["network"] == paper["network"] | {"hidden_sizes": [8, 4]}
    assert mine["network"] == presets.preset("default").to_dict()["network"] | {"dropout": 0.1}


@pytest.mark.parametrize(("seeds", "report"), [([0, 1000], False), ([1000], False), ([0, 1], True)])
def test_nothing_is_chosen_by_the_seeds_that_are_reported(seeds, report):
    with pytest.raises(InputError, match=r"--seeds: .*1000"):
        tune.training_sets(set_options(seeds=seeds, report=report))


def test_differences_are_paired_and_their_interval_is_that_of_t():
    first, other = tune.Row("first", {"baseline": "forest"}), tune.Row("other", {"baseline": "clinicians"})
    runs = [run_of(first, seed, safety=value) for seed, value in enumerate((0.7, 0.8, 0.9, 0.1))]
    runs += [run_of(other, seed, safety=value) for seed, value in enumerate((0.71, 0.82, 0.93))]
    _, row = tune.compare([first, other], runs)["rows"]
    # On the three sets that both have: .01, .02 and .03, whose mean has a standard error of .01 / sqrt(3); with two
    # degrees of freedom 95% lie within 4.303 of them.
    assert row["differences"]["safety"] == pytest.approx(
        {"mean": 0.02, "low": 0.02 - 4.3027 * 0.01 / 3**0.5, "high": 0.02 + 4.3027 * 0.01 / 3**0.5}, abs=1e-5
    )
    assert row["figures"]["appropriateness"] is None, "what no run has is no figure"


def test_runs_are_added_one_by_one_and_not_repeated(tiny_set, tmp_path):
    results = tmp_path / "results.jsonl"
    rows = [tune.read_row(name) for name in ("forest", "clinicians")]
    key = {"data": "simulated", "train_vignettes": 120, "test_vignettes": 60, "seed": 3}

    def write(path):
        path.symlink_to(tiny_set)

    tune.run_rows(rows[:1], tune.TrainingSet(key, write), results)
    [line] = results.read_text().splitlines()
    results.write_text(line + "\n" + '{"cut off by a kill\n')
    tune.run_rows(rows, tune.TrainingSet(key, write), results)
    assert [run["row"] for run in tune.read(results)] == ["forest", "clinicians"]
    never = tune.TrainingSet(key, lambda path: pytest.fail("nothing is left to run"))
    tune.run_rows(rows, never, results)


def test_red_sensitivity_of_agents_and_clinicians_is_by_all_clinicians_but_one():
    # The others of {Red, Red, Green, Green} say Red by majority where a Green one is left out, half of the time; there,
    # the agent and the one left out both say Green. Those of {Red, Red, Red} always do, and both say Red: 1 of 1.5.
    counts = np.array([[2, 0, 2, 0], [3, 0, 0, 0]], np.uint8)
    test = types.SimpleNamespace(decision_counts=counts)
    for figures in (tune.decision_figures(np.array([[2, 0]]), counts), tune.clinician_figures(test)):
        assert figures["red_sensitivity_as_clinicians"] == pytest.approx(2 / 3)


@pytest.mark.slow
def test_an_agent_is_trained_as_the_command_trains_it(tiny_set):
    row = tune.read_row("small: hidden_sizes=8 networks=1 steps=30 burn_in_steps=5")
    test = tune.DataDirectory.open(tiny_set).read("test")
    figures = tune.agent_figures(row.settings["config"], tiny_set, test, seed=0)
    assert figures["steps"] <= 30
    assert 0 < figures["evidence_share"] <= 1
    assert set(tune.SHOWN) <= set(figures)
