"""The wire contract: generated code is what the .proto files say, and the files are in order."""

import pathlib
import shutil
import subprocess
import sys

import pytest

from schemas.triage import WIRE_NUMBERS, Action
from triage.v1 import triage_pb2

ROOT = pathlib.Path(__file__).parents[1]
PROTO = ROOT / "proto"


@pytest.fixture(scope="module")
def regenerated(tmp_path_factory):
    out = tmp_path_factory.mktemp("generated")
    # In a process of its own: the compiler and TensorFlow each bring a protobuf in C++, and together they crash.
    subprocess.run([sys.executable, PROTO / "generate.py", out], check=True, timeout=60)
    return out


def generated_files(root):
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*_pb2*.py*") if path.is_file()}


def committed_files():
    return {name: content for name, content in generated_files(PROTO).items() if "__pycache__" not in name}


def test_the_generated_code_is_not_stale(regenerated):
    fresh, committed = generated_files(regenerated), committed_files()
    assert sorted(fresh) == sorted(committed)
    stale = [name for name, content in fresh.items() if content != committed[name]]
    assert not stale, f"run `make proto`: {stale} differ from what the .proto files give"


def test_the_messages_need_no_grpc():
    assert not [
        name for name, content in committed_files().items() if b"import grpc" in content and "_grpc" not in name
    ]


def test_the_proto_files_pass_buf_lint():
    buf = shutil.which("buf", path=str(pathlib.Path(sys.executable).parent)) or shutil.which("buf")
    assert buf, "buf is part of the development extra: pip install -e .[dev]"
    result = subprocess.run([buf, "lint"], cwd=PROTO, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_action_has_the_number_of_its_name_on_the_wire():
    numbers = {value.name: value.number for value in triage_pb2.TriageAction.DESCRIPTOR.values}
    assert numbers == {"TRIAGE_ACTION_UNSPECIFIED": 0} | {f"TRIAGE_ACTION_{a.name}": WIRE_NUMBERS[a] for a in Action}
    assert list(WIRE_NUMBERS) == list(Action)
