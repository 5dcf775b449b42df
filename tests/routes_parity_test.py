"""The same states get the same answers by all routes: typed and by tensors, over gRPC and HTTP."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from schemas.triage import ACTION_LABELS
from serving.messages import action_label
from tests.builders import channel_to, http_to, random_network, served, symptoms, trained_agent
from trainer.export import saved_model
from triage.open_inference import inference_pb2, inference_pb2_grpc
from triage_client import TriageClient, evidence_state

STATES, EVIDENCE, MAX_QUESTIONS = 1000, 40, 23
VOCABULARY = symptoms(*(f"e{cell}" for cell in range(EVIDENCE)))


@pytest.fixture(scope="module")
def cases():
    """A thousand states of 1 to 12 pieces of evidence, as (present, absent, questions asked)."""
    generator = np.random.default_rng(7)
    made = []
    for _ in range(STATES):
        codes = [VOCABULARY.codes[cell] for cell in generator.permutation(EVIDENCE)[: generator.integers(1, 13)]]
        cut = generator.integers(0, len(codes) + 1)
        made.append((codes[:cut], codes[cut:], int(generator.integers(0, MAX_QUESTIONS + 5))))
    return made


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A network whose every weight is drawn at random, so that no two cells or actions are alike."""
    base = tmp_path_factory.mktemp("models")
    network = random_network(EVIDENCE, (32, 16), spread=0.2)
    saved_model.write_version(base, trained_agent(network, VOCABULARY, MAX_QUESTIONS))
    with served(base, http_port=0) as server:
        yield server


@pytest.fixture(scope="module")
def routes(server):
    """Each route as a function from cases to actions and Q-values."""
    with (
        TriageClient(server.address, timeout_seconds=120) as client,
        http_to(server) as http,
        channel_to(server.address) as channel,
    ):
        yield {
            "Triage": lambda cases: messages([client.triage(state) for state in states(cases)]),
            "BatchTriage": lambda cases: messages(client.batch_triage(states(cases))),
            "/v1/triage": lambda cases: typed_http(http, cases),
            "Predict": lambda cases: predict(channel, cases),
            "TensorFlow Serving's REST API": lambda cases: rest(http, cases),
            "ModelInfer": lambda cases: model_infer(channel, cases),
            "/v2": lambda cases: infer(http, cases),
        }


def states(cases):
    return [evidence_state(present, absent, questions_asked=asked) for present, absent, asked in cases]


def messages(responses):
    q_values = [[q_value.value for q_value in response.q_values] for response in responses]
    return [action_label(response.action) for response in responses], np.float32(q_values)


def typed_http(http, cases):
    given = [{"present": present, "absent": absent, "questions_asked": asked} for present, absent, asked in cases]
    answers = http.post("/v1/triage", json={"states": given}).json()["answers"]
    q_values = [[answer["q_values"][label] for label in ACTION_LABELS] for answer in answers]
    return [answer["action"] for answer in answers], np.float32(q_values)


def columns(cases):
    """The inputs of `serving_default`: rows of codes of one length, and the numbers of questions."""
    present, absent = ([row[number] + [""] * (12 - len(row[number])) for row in cases] for number in (0, 1))
    return {"present": present, "absent": absent, "questions_asked": [asked for _, _, asked in cases]}


def tensors(cases):
    kinds = {"present": object, "absent": object, "questions_asked": np.int32}
    return {name: np.array(rows, kinds[name]) for name, rows in columns(cases).items()}


def labels(actions):
    return [action.decode() if isinstance(action, bytes) else action for action in actions]


def predict(channel, cases):
    request = predict_pb2.PredictRequest(model_spec={"name": "triage"})
    for name, values in tensors(cases).items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(values))
    response = prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict(request, timeout=120)
    actions, q_values = (tf.make_ndarray(response.outputs[name]) for name in ("action_label", "q_values"))
    return labels(actions), q_values


def rest(http, cases):
    outputs = http.post("/v1/models/triage:predict", json={"inputs": columns(cases)}).json()["outputs"]
    return outputs["action_label"], np.float32(outputs["q_values"])


def model_infer(channel, cases):
    request = inference_pb2.ModelInferRequest(model_name="triage")
    for name, values in tensors(cases).items():
        if values.dtype == object:
            contents = {"bytes_contents": [code.encode() for code in values.ravel()]}
        else:
            contents = {"int_contents": values}
        datatype = "BYTES" if values.dtype == object else "INT32"
        request.inputs.add(name=name, datatype=datatype, shape=values.shape, contents=contents)
    response = inference_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=120)
    outputs = {output.name: output.contents for output in response.outputs}
    return labels(outputs["action_label"].bytes_contents), np.reshape(outputs["q_values"].fp32_contents, [-1, 5])


def infer(http, cases):
    inputs = [
        {"name": name, "datatype": "INT32" if name == "questions_asked" else "BYTES",
         "shape": np.shape(rows), "data": rows}
        for name, rows in columns(cases).items()
    ]  # fmt: skip
    answer = http.post("/v2/models/triage/infer", json={"inputs": inputs}).json()
    outputs = {output["name"]: output["data"] for output in answer["outputs"]}
    return outputs["action_label"], np.reshape(outputs["q_values"], [-1, 5])


def test_the_same_thousand_states_get_the_same_answers_by_all_routes(routes, cases):
    answers = {name: route(cases) for name, route in routes.items()}
    actions, q_values = answers.pop("BatchTriage")
    # A test of parity is worth what it compares: all actions, and no row in which rounding could decide.
    assert (set(actions), len(actions)) == (set(ACTION_LABELS), STATES)
    ranked = np.sort(q_values, axis=1)
    assert q_values.std(axis=0).min() > 0.05
    assert (ranked[:, 1:] - ranked[:, :-1]).min() > 2e-6
    for name, (found, values) in answers.items():
        assert found == actions, name
        np.testing.assert_allclose(values, q_values, atol=1e-6, rtol=0, err_msg=name)
