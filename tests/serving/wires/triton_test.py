"""tritonclient, in an environment of its own: its protobuf does not fit beside TensorFlow's."""

import json
import subprocess

import pytest

CALLS = """
import json, sys
import numpy as np
import tritonclient.grpc, tritonclient.http
from tritonclient.utils import InferenceServerException

TENSORS = {
    "present": (np.array([["fever", "gout"], ["chest_pain", ""]], object), "BYTES"),
    "absent": (np.array([["smoker"], [""]], object), "BYTES"),
    "questions_asked": (np.array([0, 10], np.int32), "INT32"),
}

def calls(module, address, plain):
    client = module.InferenceServerClient(address)
    inputs = []
    for name, (values, datatype) in TENSORS.items():
        given = module.InferInput(name, list(values.shape), datatype)
        given.set_data_from_numpy(values, **plain)
        inputs.append(given)
    metadata = client.get_model_metadata("triage")
    names = metadata["inputs"] if isinstance(metadata, dict) else [{"name": each.name} for each in metadata.inputs]
    outputs = [module.InferRequestedOutput(name, **plain) for name in ("action", "forced")]
    whole = client.infer("triage", inputs, request_id="r-1")
    some = client.infer("triage", inputs, model_version="3", outputs=outputs)
    def refusal(ask, *arguments, **options):
        try:
            ask(*arguments, **options)
        except InferenceServerException as error:
            return error.message()

    compressed = {"compression_algorithm" if module is tritonclient.grpc else "request_compression_algorithm": "gzip"}
    return {
        "live": client.is_server_live(), "ready": client.is_server_ready(),
        "model ready": [client.is_model_ready("triage"), client.is_model_ready("triage", "4")],
        "inputs": [each["name"] for each in names],
        "labels": [each.decode() if isinstance(each, bytes) else each for each in whole.as_numpy("action_label")],
        "q_values": whole.as_numpy("q_values").tolist(),
        "some": [some.as_numpy("action").tolist(), some.as_numpy("forced").tolist()],
        "refusal": refusal(client.infer, "triage", inputs[:2]),
        "compressed": refusal(client.infer, "triage", inputs, **compressed),
        "extensions": [
            refusal(client.get_model_config, "triage"), refusal(client.get_inference_statistics, "triage"),
            refusal(client.get_model_repository_index),
        ],
    }

print(json.dumps([
    calls(tritonclient.grpc, sys.argv[1], {}),
    calls(tritonclient.http, sys.argv[2], {}),
    calls(tritonclient.http, sys.argv[2], {"binary_data": False}),
]))
"""


@pytest.mark.slow
def test_tritonclient_gets_the_hand_set_answers_over_grpc_and_http(environment_of, http_server, hand_set):
    python = environment_of("tritonclient", "tritonclient[grpc,http]==2.73.0")
    command = [python, "-c", CALLS, http_server.address, http_server.http.url.removeprefix("http://")]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert finished.returncode == 0, finished.stderr
    for answer in json.loads(finished.stdout):
        assert (answer["live"], answer["ready"], answer["model ready"]) == (True, True, [True, False])
        assert answer["inputs"] == ["absent", "present", "questions_asked"]
        assert answer["labels"] == ["ask", "Red"]
        assert answer["q_values"][1] == pytest.approx(hand_set.chest_pain_q, abs=1e-6)
        assert answer["some"] == [[4, 0], [False, True]]
        assert "Missing but required: {questions_asked}" in answer["refusal"]
        assert "compress" in answer["compressed"].lower()
        assert all(refusal.startswith("there is no ") for refusal in answer["extensions"])
