"""LiteRT runs the file of a version, in several threads, or says what is wrong with it."""

import concurrent.futures
import hashlib
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from schemas.errors import InputError
from serving import litert_model
from serving.litert_model import LiteRtModel, read_litert_model
from serving.model_directory import read_version

STATES = np.array([[1, 0, 0], [0, 1, 0], [0, 0, -1], [0, 0, 0]], np.float32)


@pytest.fixture(scope="module")
def content(model_base_path):
    return (model_base_path / "3" / "assets.extra" / "state.tflite").read_bytes()


@pytest.fixture
def version(model_base_path, tmp_path):
    return shutil.copytree(model_base_path / "3", tmp_path / "3")


def read(folder):
    return read_litert_model(folder, read_version(folder)[0])


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_any_number_of_states_is_answered(version, hand_set, rows):
    found = read(version).run(STATES[:rows], np.array([0, 0, 10, 0], np.int32)[:rows])
    expected = [hand_set.chest_pain_q, hand_set.fever_q, hand_set.no_smoker_q, [0.5] * 5]
    np.testing.assert_allclose(found["q_values"], expected[:rows], atol=1e-6)
    assert found["action"].tolist() == [0, 4, 3, 4][:rows]  # Red; ask; Blue, as asking is not possible; ask
    assert found["forced"].tolist() == [False, False, True, False][:rows]


def test_threads_get_their_own_answers(content, hand_set):
    model = LiteRtModel(content, interpreters=3)

    def ask(row):
        answers = [model.run(STATES[row : row + 1], np.zeros(1, np.int32)) for _ in range(200)]
        return row, [answer["q_values"][0] for answer in answers if answer is not None]

    with concurrent.futures.ThreadPoolExecutor(6) as threads:
        results = list(threads.map(ask, [0, 1, 2] * 2))
    expected = (hand_set.chest_pain_q, hand_set.fever_q, hand_set.no_smoker_q)
    assert sum(len(found) for _, found in results) >= 200
    for row, found in results:
        for q_values in found:
            np.testing.assert_allclose(q_values, expected[row], atol=1e-6)


def test_interpreters_are_made_when_needed_and_no_more_than_allowed(content):
    model = LiteRtModel(content, interpreters=2)
    made, meanwhile = [], []

    def count():
        made.append(len(made))

        def runner(**inputs):  # while it runs, others ask
            meanwhile.append(model.run(STATES, np.zeros(4, np.int32)) if len(meanwhile) < 2 else None)
            return inputs

        return runner

    model._idle, model._made = [None, None], count
    assert model.run(STATES, np.zeros(4, np.int32)) is not None
    assert made == [0, 1]
    # The innermost call came while both were at work, the one around it while one was.
    assert [answer is None for answer in meanwhile] == [True, False]
    assert model.run(STATES, np.zeros(4, np.int32)) is not None
    assert made == [0, 1]


def test_an_interpreter_that_failed_is_not_used_again(content, hand_set):
    model = LiteRtModel(content, interpreters=1)
    with pytest.raises(InputError, match="LiteRT cannot run the file"):
        model.run(np.zeros([1, 7], np.float32), np.zeros(1, np.int32))  # of another width
    (answer,) = model.run(STATES[:1], np.zeros(1, np.int32))["q_values"]
    np.testing.assert_allclose(answer, hand_set.chest_pain_q, atol=1e-6)


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="the line stays there")
def test_litert_greets_nobody_and_what_others_say_meanwhile_is_not_lost(content, tmp_path):
    path = tmp_path / "state.tflite"
    path.write_bytes(content)
    script = (
        "import os, pathlib, sys\n"
        "from serving.litert_model import Interpreter, LiteRtModel\n"
        "allocate = Interpreter.allocate_tensors\n"
        "say = lambda text: os.write(2, text.encode() + b'\\n')\n"
        "Interpreter.allocate_tensors = lambda self: (say('before'), allocate(self), say('after'))\n"
        "LiteRtModel(pathlib.Path(sys.argv[1]).read_bytes())\n"
        "print('at the end', file=sys.stderr)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-c", script, str(path)]
    found = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, timeout=120, check=True)
    assert found.stderr.splitlines()[-3:] == ["before", "after", "at the end"]


def test_where_nothing_can_be_held_back_litert_answers_all_the_same(content, monkeypatch):
    def refuse(name):
        raise PermissionError(name)

    monkeypatch.setattr(os, "memfd_create", refuse, raising=False)
    assert LiteRtModel(content).run(STATES, np.zeros(4, np.int32)) is not None


def test_a_version_of_before_has_no_file(version):
    path = version / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["litert"]
    path.write_text(json.dumps(manifest))
    assert read(version) is None


def test_a_file_that_is_not_the_exported_one_is_not_run(version, content):
    path = version / "assets.extra" / "state.tflite"
    for damaged in (b"", content[:-1], content[:500] + b"\xff" + content[501:]):
        path.write_bytes(damaged)
        with pytest.raises(
            InputError, match=r"state\.tflite: is damaged: its SHA-256 is not the one in manifest\.json"
        ):
            read(version)


def test_a_file_that_is_gone_is_told(version):
    (version / "assets.extra" / "state.tflite").unlink()
    with pytest.raises(InputError, match=r"state\.tflite: cannot read: No such file"):
        read(version)


def test_a_file_that_litert_does_not_take_is_told(version):
    (version / "assets.extra" / "state.tflite").write_bytes(b"something else")
    path = version / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["litert"]["sha256"] = hashlib.sha256(b"something else").hexdigest()
    path.write_text(json.dumps(manifest))
    with pytest.raises(InputError, match=r"state\.tflite: LiteRT cannot run the file"):
        read(version)


def test_an_installation_without_litert_is_told(content, monkeypatch):
    monkeypatch.setattr(litert_model, "Interpreter", None)
    with pytest.raises(InputError, match="LiteRT is not installed"):
        LiteRtModel(content)
