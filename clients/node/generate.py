"""Generates src/generated from proto/: `python clients/node/generate.py [OUT]`, into the package by default.

Needs the pinned grpcio-tools of the development extra, and `npm ci` in this folder for ts-proto. Besides triage.v1 it
generates error_details.proto, in which a server says which field of a request is wrong.
"""

import pathlib
import shutil
import sys

import grpc_tools
from grpc_tools import protoc

HERE = pathlib.Path(__file__).resolve().parent
PROTO = HERE.parents[1] / "proto"
FILES = ("triage/v1/triage.proto", "triage/v1/triage_service.proto", "error_details.proto")
OPTIONS = "outputServices=grpc-js,esModuleInterop=true,importSuffix=.js,env=node,forceLong=number,useExactTypes=false"


def generate(out: pathlib.Path) -> None:
    """Writes a TypeScript module for each .proto file below `out`, in place of what is there.

    Raises:
        RuntimeError: ts-proto is not installed, or the compiler refused a .proto file; it has printed why.
    """
    plugin = HERE / "node_modules" / ".bin" / "protoc-gen-ts_proto"
    if not plugin.exists():
        raise RuntimeError(f"{plugin} is not there: run `npm ci` in {HERE}")
    include = [PROTO, HERE, pathlib.Path(grpc_tools.__file__).parent / "_proto"]
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    arguments = [
        "protoc",
        *(f"--proto_path={folder}" for folder in include),
        f"--plugin=protoc-gen-ts_proto={plugin}",
        f"--ts_proto_out={out}",
        f"--ts_proto_opt={OPTIONS}",
        *FILES,
    ]
    if protoc.main(arguments) != 0:
        raise RuntimeError(f"protoc failed on {' '.join(FILES)}")


if __name__ == "__main__":
    generate(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "src" / "generated")
