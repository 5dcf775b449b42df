"""The client's generated code: current, and without conflict with the server's in one process."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow  # runs other programs

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLIENT = ROOT / "clients" / "python"


def test_the_generated_code_is_not_stale(tmp_path):
    # In a separate process: the compiler and TensorFlow each bring a protobuf in C++, and together they crash.
    subprocess.run([sys.executable, CLIENT / "generate.py", tmp_path], check=True, timeout=60)
    committed = CLIENT / "triage_client" / "v1"
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == sorted(path.name for path in committed.glob("*_pb2*.py*"))
    stale = [name for name in names if (tmp_path / name).read_bytes() != (committed / name).read_bytes()]
    assert not stale, f"run `make proto`: {stale} differ from what the .proto files give"


def test_the_requirements_are_at_least_what_the_code_was_generated_with():
    v1 = CLIENT / "triage_client" / "v1"
    grpcio = re.search(r"GRPC_GENERATED_VERSION = '(.+)'", (v1 / "triage_service_pb2_grpc.py").read_text())[1]
    protobuf = re.search(r"Protobuf Python Version: (.+)", (v1 / "triage_pb2.py").read_text())[1]
    assert (
        f'dependencies = ["grpcio>={grpcio},<2", "protobuf>={protobuf},<8"]' in (CLIENT / "pyproject.toml").read_text()
    )


# The server's package of another version: its EvidenceState has one field more.
ANOTHER_VERSION = """
from google.protobuf import descriptor_pb2, descriptor_pool
from {first} import triage_pb2
file = descriptor_pb2.FileDescriptorProto()
triage_pb2.DESCRIPTOR.CopyToProto(file)
[state] = [each for each in file.message_type if each.name == "EvidenceState"]
state.field.add(name="new", number=99, type=9, label=1)
descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
import triage_client
assert "new" not in triage_client.EvidenceState.DESCRIPTOR.fields_by_name
"""
BOTH = """
import {first}.triage_pb2, {first}.triage_service_pb2_grpc
import {second}.triage_pb2, {second}.triage_service_pb2_grpc
from triage.v1 import triage_pb2 as server
from triage_client import evidence_state
state = evidence_state(["fever"], max_questions=3)
copy = server.EvidenceState.FromString(state.SerializeToString())
assert (copy.evidence[0].code, copy.max_questions) == ("fever", 3)
"""


@pytest.mark.parametrize("implementation", ["upb", "python"])
@pytest.mark.parametrize(
    "script",
    [
        BOTH.format(first="triage.v1", second="triage_client.v1"),
        BOTH.format(first="triage_client.v1", second="triage.v1"),
        ANOTHER_VERSION.format(first="triage_client.v1"),
    ],
    ids=["server first", "client first", "server of another version"],
)
def test_the_package_of_the_server_may_be_loaded_beside_it(script, implementation):
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "proto"), str(CLIENT)]),
        "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": implementation,
    }
    result = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
