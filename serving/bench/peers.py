"""The servers that `triage bench serve` compares with: an empty handler, and a straightforward server.

    python -m serving.bench.peers empty --response-bytes N
    python -m serving.bench.peers plain --version-folder DIR

Each prints its port and answers until its standard input ends.
"""

import argparse
import concurrent.futures
import json
import pathlib
import sys
import time
from collections.abc import Mapping
from typing import Any

import grpc
import numpy as np

from triage.v1 import triage_pb2, triage_service_pb2

SERVICE = "triage.v1.TriageService"
MODEL_SECONDS = "ModelSeconds"
"""The method of the plain server that returns how long one run of its model takes."""

_THREADS = 10  # as in gRPC's own first example
_MODEL_CALLS = 200


def main() -> None:
    """Serves until the end of standard input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("empty", "plain"))
    parser.add_argument("--response-bytes", type=int, default=0)
    parser.add_argument("--version-folder", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.kind == "empty":
        server, port = start(empty_handlers(arguments.response_bytes))
    else:
        from serving.engine.engine import run_in_one_thread

        run_in_one_thread()  # as the measured server does
        server, port = start(plain_handlers(arguments.version_folder))
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    sys.stdin.read()
    server.stop(0).wait()


def start(handlers: Mapping[str, grpc.RpcMethodHandler]) -> tuple[grpc.Server, int]:
    """Starts a server with these methods on a free loopback port; returns the server and the port."""
    threads = concurrent.futures.ThreadPoolExecutor(_THREADS)
    server = grpc.server(threads, options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


def empty_handlers(response_bytes: int) -> dict[str, grpc.RpcMethodHandler]:
    """Returns a Triage that answers with constant bytes of a given length, which measures gRPC alone."""
    response = bytes(response_bytes)
    return {"Triage": grpc.unary_unary_rpc_method_handler(lambda request, context: response)}


def plain_handlers(version_folder: pathlib.Path) -> dict[str, grpc.RpcMethodHandler]:
    """Returns a Triage that runs the SavedModel once per request without checks, and a method that times the model.

    The timed model is the one that `triage serve` runs, by default LiteRT's.
    """
    from schemas import features
    from serving.engine.saved_model import SavedModelWithLiteRt  # loads TensorFlow
    from serving.engine.state_tensors import Responses, to_inputs

    engine = SavedModelWithLiteRt(version_folder)
    responses = Responses(engine.info)

    def triage(request: triage_service_pb2.TriageRequest, context: Any) -> triage_pb2.TriageResponse:
        return responses.of(engine.predict(features.SERVING_DEFAULT, to_inputs([request.state])))[0]

    def model_seconds(request: triage_service_pb2.TriageRequest, context: Any) -> bytes:
        return json.dumps(_time_model(engine, request.state)).encode()

    parse = triage_service_pb2.TriageRequest.FromString
    return {
        "Triage": grpc.unary_unary_rpc_method_handler(triage, parse, triage_pb2.TriageResponse.SerializeToString),
        MODEL_SECONDS: grpc.unary_unary_rpc_method_handler(model_seconds, parse),
    }


def _time_model(engine: Any, state: triage_pb2.EvidenceState) -> float:
    """Returns the median duration of a run of the model for one state, in seconds, tensors to tensors."""
    from serving.engine.dense_states import MessageEncoder

    encoded = MessageEncoder(engine.vocabulary).encode([state])
    durations = []
    for _ in range(_MODEL_CALLS):
        begin = time.perf_counter()
        engine.decide(encoded.states, encoded.questions_asked)
        durations.append(time.perf_counter() - begin)
    return float(np.median(durations))


if __name__ == "__main__":
    main()
