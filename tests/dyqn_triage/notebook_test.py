"""The notebook in examples/ and the lines of docs/notebook.md run in a kernel, as somebody would run them."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow
nbclient = pytest.importorskip("nbclient", reason="make test-all installs it")
nbformat = pytest.importorskip("nbformat", reason="make test-all installs it")

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


def test_the_notebook_goes_from_a_data_frame_to_a_decision(tmp_path, monkeypatch):
    (temporary := tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    for name in ("vignettes.jsonl", "vocabulary.csv", "rules.toml"):
        shutil.copy(EXAMPLES / name, tmp_path / name)
    notebook = nbformat.read(EXAMPLES / "notebook.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "is kept without outputs"
    nbclient.NotebookClient(notebook, timeout=500, resources={"metadata": {"path": str(tmp_path)}}).execute()
    results = [output for cell in notebook.cells for output in cell.get("outputs", []) if "data" in output]
    texts = [output.data["text/plain"] for output in results]
    assert any("<td>" in (html := output.data.get("text/html", "")) and "safety" in html for output in results)
    assert any(text.startswith(("Red, decided", "Yellow, decided")) for text in texts)
    assert any("speaks" in text for text in texts)
    assert re.search(r"^a +(Red|Yellow) ", next(text for text in texts if "deferred" in text), re.MULTILINE)
    assert re.fullmatch(r"array\(\[[01]\.\d* *(, [01]\.\d* *){2}\]\)", texts[-1])  # of three folds
    printed = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []))
    texts += [re.sub("UserWarning: the agent learns from .. of .. training", "", printed)]  # two thirds of 120 are few
    assert not any(word in text for text in texts for word in ("Warning", "INFO:", "absl"))
    assert str(temporary) not in printed, "names a folder that is gone"
    assert (tmp_path / "report.html").exists()


def test_the_lines_of_the_page_go_from_a_data_frame_to_a_decision(tmp_path):
    (tmp_path / "examples").symlink_to(EXAMPLES)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "notebook.md").read_text(encoding="utf-8"), re.DOTALL)
    notebook = nbformat.v4.new_notebook(cells=[*map(nbformat.v4.new_code_cell, blocks)])
    nbclient.NotebookClient(notebook, timeout=500, resources={"metadata": {"path": str(tmp_path)}}).execute()
    for cell in notebook.cells[:2]:
        assert cell.outputs[-1].data["text/plain"] in ("'Red'", "'Yellow'", "'Green'", "'Blue'")
    script = "import dyqn_triage; model = dyqn_triage.Model('own-models')"  # which ends with the model open
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True
    )
    assert ended.returncode == 0
    assert b"Traceback" not in ended.stderr
