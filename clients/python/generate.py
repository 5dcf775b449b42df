"""Generates triage_client/v1 from proto/: `python clients/python/generate.py [OUT]`, into the package by default.

`make proto` runs it. The code is the compiler's, except that it is in this package and uses its own descriptor pool.
"""

import pathlib
import runpy
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
GENERATE = HERE.parents[1] / "proto" / "generate.py"
REPLACED = (
    ("from triage.v1 import ", "from triage_client.v1 import "),
    ("'triage.v1.triage_pb2'", "'triage_client.v1.triage_pb2'"),
    ("'triage.v1.triage_service_pb2'", "'triage_client.v1.triage_service_pb2'"),
    ("from google.protobuf import descriptor_pool as _descriptor_pool\n", "from triage_client.v1 import _pool\n"),
    ("_descriptor_pool.Default()", "_pool.POOL"),
)


def generate(out: pathlib.Path) -> None:
    """Writes `*_pb2.py`, `*_pb2.pyi` and `*_pb2_grpc.py` into `out`.

    Raises:
        RuntimeError: the compiler refused a .proto file; it has printed the reason.
    """
    with tempfile.TemporaryDirectory() as folder:
        runpy.run_path(str(GENERATE))["generate"](pathlib.Path(folder))
        for path in pathlib.Path(folder).rglob("*_pb2*"):
            text = path.read_text(encoding="utf-8")
            for old, new in REPLACED:
                text = text.replace(old, new)
            (out / path.name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    generate(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "triage_client" / "v1")
