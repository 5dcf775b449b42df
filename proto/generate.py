"""Generates the Python code of the .proto files: `python proto/generate.py [OUT]`, beside them by default.

Run it with the pinned grpcio-tools of the development extra (`make proto`): the generated code demands a protobuf
and a grpcio runtime at least as new as the generator.
"""

import pathlib
import sys

import grpc_tools
from grpc_tools import protoc

ROOT = pathlib.Path(__file__).resolve().parent
MESSAGES = "triage/v1/triage.proto"
SERVICE = "triage/v1/triage_service.proto"


def generate(out: pathlib.Path) -> None:
    """Writes `*_pb2.py`, `*_pb2.pyi` and `*_pb2_grpc.py` of `triage.v1` below `out`.

    Raises:
        RuntimeError: the compiler refused a .proto file; it has printed why.
    """
    well_known = pathlib.Path(grpc_tools.__file__).parent / "_proto"
    include = [f"--proto_path={ROOT}", f"--proto_path={well_known}"]
    for arguments in (
        [f"--python_out={out}", f"--pyi_out={out}", MESSAGES, SERVICE],
        [f"--grpc_python_out={out}", SERVICE],
    ):
        if protoc.main(["protoc", *include, *arguments]) != 0:
            raise RuntimeError(f"protoc failed on {' '.join(arguments)}")


if __name__ == "__main__":
    generate(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
