"""`triage tflite`, from a model base path to a file and its sidecar."""

import json
import shutil

import pytest

import triage_cli
from tests.builders import description_in
from trainer.export import conversion


def run(capsys, *arguments):
    """Returns exit code, standard output and standard error of `triage tflite`."""
    capsys.readouterr()
    code = triage_cli.main(["tflite", *map(str, arguments), "--states", "300"])
    return code, *capsys.readouterr()


@pytest.mark.parametrize(
    "quantization",
    [pytest.param(each, marks=[pytest.mark.slow] * (each != "int8")) for each in conversion.QUANTIZATIONS],
)
def test_each_quantisation_writes_a_file_with_its_parity(version_base, data_directory, tmp_path, capfd, quantization):
    out = tmp_path / "triage.tflite"
    data = ["--data", data_directory] if quantization == "int8" else []
    code, printed, said = run(
        capfd, "--model", version_base, "--out", out, "--quantize", quantization, *data, "--json", "-"
    )
    assert code == 0
    assert f"result in {out}; next: " in said
    assert not any(noise in said for noise in ("XNNPACK", "fully_quantize"))
    report = json.loads(printed)
    description = description_in(out)
    assert report["parity"] == description["parity"]
    assert report["bytes"] == out.stat().st_size
    assert (description["quantization"], description["parity"]["states"]) == (quantization, 300)
    assert description["parity"]["largest_q_difference"] > 0
    assert description["parity"]["decision_changed"] < 0.1
    changed = description["parity"]["decision_changed"] + description["parity"]["best_triage_changed"] > 0
    assert description["parity"]["statement"].startswith("WARNING: ") == changed
    assert (description["calibration"] is not None) == (quantization == "int8")


def test_a_version_can_be_given_itself_and_a_base_path_means_its_highest(version_base, tmp_path, capsys):
    shutil.copytree(version_base / "1", tmp_path / "models" / "9")
    manifest = json.loads((version_base / "1" / "manifest.json").read_text())
    (tmp_path / "models" / "9" / "manifest.json").write_text(json.dumps(manifest | {"model_version": "9"}))
    shutil.copytree(version_base / "1", tmp_path / "models" / "8")
    for model, expected in ((tmp_path / "models", "9"), (tmp_path / "models" / "8", "1")):
        code, printed, _ = run(capsys, "--model", model, "--out", tmp_path / "f.tflite")
        assert code == 0
        assert printed.startswith(f"wrote version {expected} (none, ")
        assert f"to {tmp_path}/f.tflite and {tmp_path}/f.tflite.json\n" in printed
        assert description_in(tmp_path / "f.tflite")["model_version"] == expected
