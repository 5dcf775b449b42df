import json
import re
import shutil

import numpy as np
import pytest

import triage_cli
from schemas.evidence import Evidence, Vocabulary
from schemas.triage import Action
from tests.builders import data_directory_of
from trainer.data.vignette import Vignette
from trainer.evaluation.vignette_statistics import PAPER

SYMPTOMS = [Evidence(code, "symptom", f"Symptom {code}", f"{code}?") for code in "abcd"]
VOCABULARY = Vocabulary([*SYMPTOMS, Evidence("r", "risk_factor", "Smoker", "r?")])
RED, YELLOW, GREEN = Action.RED, Action.YELLOW, Action.GREEN
TRAIN = [
    Vignette("v1", ("a", "b", "r"), ("c",), (RED, RED, YELLOW)),  # 3 symptoms, 3 decisions
    Vignette("v2", ("a",), (), (GREEN,)),  # 1 symptom, 1 decision
]
TEST = [Vignette("v3", ("a", "b", "d"), ("c", "r"), (YELLOW, YELLOW, GREEN, GREEN, GREEN))]  # 4 symptoms, 5 decisions


@pytest.fixture
def directory(tmp_path):
    return data_directory_of(tmp_path / "data", VOCABULARY, TRAIN, TEST, shard_size=1)


def stats(*arguments):
    return triage_cli.main(["stats", *map(str, arguments)])


def report(capsys, *arguments):
    assert stats(*arguments, "--json", "-") == 0
    return json.loads(capsys.readouterr().out)


def test_figures_are_of_all_vignettes(directory, capsys, tmp_path):
    both = report(capsys, directory)
    assert both["figures"]["symptoms"] == {
        "mean": pytest.approx(8 / 3),  # 3, 1, 4
        "sd": pytest.approx(np.sqrt(7 / 3)),  # (1/9 + 25/9 + 16/9) / 2
        "vignettes": 3,
    }
    assert both["figures"]["risk_factors_absent"]["mean"] == pytest.approx(1 / 3)
    assert both["figures"]["decisions_per_vignette"]["mean"] == 3.0
    assert (both["fewest_decisions"], both["most_decisions"]) == (1, 5)
    assert both["figures"]["inter_expert_safety"]["vignettes"] == 2
    assert both["splits"] == ["train", "test"]
    assert both["paper"]["figures"]["symptoms"] == PAPER.figures["symptoms"]._asdict()
    assert stats(directory, "--json", tmp_path / "figures.json") == 0
    assert re.search(r"2\.67 \(1\.53\) .*6\.15 \(2\.60\)", capsys.readouterr().out)
    assert json.loads((tmp_path / "figures.json").read_text()) == both


def test_no_vignettes_have_no_figures(tmp_path, capsys):
    path = data_directory_of(tmp_path / "empty", VOCABULARY, [], [])
    assert report(capsys, path)["figures"]["symptoms"]["mean"] is None
    assert stats(path) == 0


def test_shows_vignettes_as_text(tmp_path, capsys):
    assert stats(data_directory_of(tmp_path / "data", VOCABULARY, [], TEST), "--show", "1") == 0
    assert capsys.readouterr().out == (
        "Patient without: Smoker\n"
        "Present: Symptom a, Symptom b, Symptom d\n"
        "Absent: Symptom c\n"
        "5 clinicians: Yellow, Yellow, Green, Green, Green (vignette v3)\n"
    )


def test_the_seed_chooses_the_vignettes_and_all_are_shown_where_more_are_wanted(directory, capsys):
    def shown(*arguments):
        return [entry["vignette_id"] for entry in report(capsys, directory, *arguments)["vignettes"]]

    assert shown("--show", "9") == ["v1", "v2", "v3"]
    drawn = {tuple(shown("--show", "1", "--seed", seed)) for seed in range(6)}
    assert drawn == {("v1",), ("v2",), ("v3",)}
    assert shown("--show", "2", "--seed", "4") == shown("--show", "2", "--seed", "4")


def test_validation_exits_with_1_only_where_there_are_errors(directory, capsys, tmp_path):
    assert stats(directory, "--validate") == 0  # the test split is small
    assert capsys.readouterr().out.splitlines()[-1] == "train 2, test 1 vignettes: 0 errors, 1 warning"
    shard = directory / "test-00000-of-00001.tfrecord"
    shutil.copy(directory / "train-00000-of-00002.tfrecord", shard)
    assert stats(directory, "--validate", "--json", tmp_path / "report.json") == 1
    written = json.loads((tmp_path / "report.json").read_text())
    assert written["vignettes"] == {"train": 2, "test": 1}
    assert [anomaly["name"] for anomaly in written["anomalies"] if anomaly["severity"] == "error"] == [
        "duplicate vignette id"
    ]
