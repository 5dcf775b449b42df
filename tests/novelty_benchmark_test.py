"""The figures of benchmarks/novelty.py: on patients that a score can tell from nonsense, and by its command."""

import json
import pathlib

import numpy as np
import pytest

import triage_cli
from schemas.evidence import Evidence, Vocabulary

ROOT = pathlib.Path(__file__).resolve().parents[1]
GROUPS, SIZE = 4, 10
OTHERS = ("rarity of each piece", "share of pairs never seen", "nearest vignette")


def prepared(folder, count):
    """A data directory of four kinds of patients, each with 3 to 8 pieces of a group of 10, half of them absent."""
    codes = [f"e{cell}" for cell in range(GROUPS * SIZE)]
    Vocabulary(Evidence(code, "symptom", code, f"{code}?") for code in codes).save(folder / "vocabulary.csv")
    generator = np.random.default_rng(0)
    lines = []
    for number in range(count):
        cells = number % GROUPS * SIZE + generator.permutation(SIZE)[: generator.integers(3, 9)]
        vignette = {
            "vignette_id": f"v{number}",
            "present": [codes[cell] for cell in cells if cell % 2],
            "absent": [codes[cell] for cell in cells if not cell % 2],
            "decisions": ["Green"],
            "split": "train" if number % 5 else "test",
        }
        lines.append(json.dumps(vignette) + "\n")
    (folder / "v.jsonl").write_text("".join(lines))
    arguments = ["--vignettes", folder / "v.jsonl", "--vocabulary", folder / "vocabulary.csv", "--out", folder / "data"]
    assert triage_cli.main(["prepare", *map(str, arguments)]) == 0
    return folder / "data"


def measured(python, data, report):
    script = ROOT / "benchmarks" / "novelty.py"
    return python.run(str(script), "--data", str(data), "--json", str(report), timeout=240)


@pytest.fixture
def data(tmp_path):
    return prepared(tmp_path, 500)


@pytest.mark.slow
def test_each_score_is_measured_against_each_kind_of_nonsense(prepared_python, data, tmp_path):
    finished = measured(prepared_python, data, tmp_path / "report.json")
    assert finished.returncode == 0, finished.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["states"] == 1600  # 16 moments of each of 100 test vignettes
    assert set(report["auroc"]) == {"exported", *OTHERS}
    assert all(set(areas) == {"shuffled", "mixed", "uniform"} for areas in report["auroc"].values())
    exported = report["auroc"]["exported"]
    # A quarter of the moments has one or two pieces, which may go together by chance; half of the uniform pieces have a
    # status that no patient has.
    assert exported["shuffled"] > 0.75
    assert exported["uniform"] > 0.9
    # Each piece is as frequent as any other, so that rarity alone tells nothing about shuffled ones.
    assert report["auroc"]["rarity of each piece"]["shuffled"] == pytest.approx(0.5, abs=0.06)
    shares = report["called_novel"]
    assert shares["natural"] < 0.03 < shares["shuffled"] < shares["uniform"]
    assert "called novel, of 1,600 states each" in finished.stdout


@pytest.mark.slow
def test_too_few_vignettes_are_reported(prepared_python, tmp_path):
    finished = measured(prepared_python, prepared(tmp_path, 100), tmp_path / "report.json")
    assert finished.returncode != 0
    assert finished.stderr.endswith("expected at least 100 training vignettes\n")
    assert "Traceback" not in finished.stderr
