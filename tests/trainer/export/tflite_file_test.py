"""The file that an app ships: readable by any ZIP reader, run by LiteRT, whole or not there."""

import hashlib
import json

import pytest

from tests.builders import description_in
from trainer.export import tflite_file
from trainer.export.conversion import convert
from trainer.export.tflite_file import Parity
from triage_runtime.litert import LiteRtModel

PARITY = Parity(10, 0, 1e-4, 1e-7, 1e-8, 0.0, 0.0, 0.0)


@pytest.fixture(scope="module")
def content(version):
    return convert(version, "none")


@pytest.fixture(scope="module")
def description(version, content):
    return tflite_file.describe(version, LiteRtModel(content), "none", PARITY, None)


@pytest.fixture
def written(tmp_path, content, description):
    path = tmp_path / "triage.tflite"
    tflite_file.write(path, content, description)
    return path


def test_the_description_has_what_an_app_needs(version, description):
    assert description["model_version"] == "1"
    assert description["max_questions"] == 5
    assert description["actions"] == ["Red", "Yellow", "Green", "Blue", "ask"]
    assert description["signature"]["name"] == "state"
    assert description["signature"]["inputs"]["states"] == {"dtype": "float32", "shape": [1, 12]}
    assert [entry["code"] for entry in description["vocabulary"]] == list(version.vocabulary.codes)
    of_question = {"code": "e3", "kind": "symptom", "name": "e3", "question": "e3?"}
    assert description["vocabulary"][3] == of_question | {"parent": "", "exclusive": "", "instrument": ""}
    assert description["parity"]["statement"].startswith("In none of 10 ")
    assert description["manifest"]["data_fingerprint"] == "sha256:data"


def test_description_and_sidecar_agree(written, content, description):
    assert description_in(written) == json.loads(json.dumps(description))
    sidecar = json.loads((written.parent / "triage.tflite.json").read_text(encoding="utf-8"))
    file = sidecar.pop("file")
    assert sidecar == json.loads(json.dumps(description))
    whole = written.read_bytes()
    assert whole.startswith(content)
    assert LiteRtModel(whole).tensors == LiteRtModel(content).tensors  # what is appended, interpreters ignore
    assert file == {"name": "triage.tflite", "bytes": len(whole), "sha256": hashlib.sha256(whole).hexdigest()}
