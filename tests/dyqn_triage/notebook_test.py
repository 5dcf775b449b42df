"""The notebook in examples/ runs from its first cell to its last in a kernel, as somebody would run it."""

import pathlib
import shutil

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.slow
def test_the_notebook_goes_from_a_data_frame_to_a_decision(tmp_path):
    for name in ("vignettes.jsonl", "vocabulary.csv", "rules.toml"):
        shutil.copy(EXAMPLES / name, tmp_path / name)
    notebook = nbformat.read(EXAMPLES / "notebook.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "is kept without outputs"
    NotebookClient(notebook, timeout=500, resources={"metadata": {"path": str(tmp_path)}}).execute()
    results = [output for cell in notebook.cells for output in cell.get("outputs", []) if "data" in output]
    texts = [output.data["text/plain"] for output in results]
    assert any("Not shown: " in output.data.get("text/html", "") for output in results)  # too few vignettes
    assert any(text.startswith(("Red, decided", "Yellow, decided")) for text in texts)
    assert "speaks" in texts[-2]
    printed = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []))
    texts += [printed]
    assert not any(word in text for text in texts for word in ("Warning", "INFO:", "absl"))
    assert (tmp_path / "report.html").exists()
