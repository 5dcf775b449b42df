"""The files of deploy/vertex/ as requests of Vertex AI's API, in its own messages, up to a server on the wire."""

import concurrent.futures
import pathlib

import grpc
import pytest
import yaml
from google.cloud.aiplatform_v1 import types

from schemas.errors import InputError
from trainer.cloud.vertex_request import Project, read_request, send

pytestmark = pytest.mark.slow

DEPLOY = pathlib.Path(__file__).resolve().parents[3] / "deploy" / "vertex"
PLACE = Project("clinic", "europe-west4")
VALUES = {"PROJECT": "clinic", "REGION": "europe-west4", "BUCKET": "vignettes"}
KINDS = {
    "custom-job.yaml": (types.CustomJob, "customJobs"),
    "custom-job-prebuilt.yaml": (types.CustomJob, "customJobs"),
    "tuning-job.yaml": (types.HyperparameterTuningJob, "hyperparameterTuningJobs"),
    "model-upload-prebuilt.yaml": (types.Model, "models:upload"),
    "model-upload-tf-serving.yaml": (types.Model, "models:upload"),
}


def _filled(name):
    text = (DEPLOY / name).read_text()
    for key, value in VALUES.items():
        text = text.replace(f"${{{key}}}", value)
    return yaml.safe_load(text)


def _read(name):
    return read_request(DEPLOY / name, PLACE, None, VALUES)


def test_proto_plus_is_what_one_gets_as_proto_though_our_folder_of_that_name_is_on_the_path():
    import proto

    assert issubclass(types.CustomJob, proto.Message)
    assert not (DEPLOY.parents[1] / "proto" / "__init__.py").exists(), "it would hide proto-plus from the Vertex SDK"


@pytest.mark.parametrize("name", KINDS)
def test_a_file_is_a_message_of_the_api_with_all_that_it_says(name):
    message_class, method = KINDS[name]
    request = _read(name)
    assert isinstance(request.message, message_class)
    call = request.to_dict()
    url = f"https://europe-west4-aiplatform.googleapis.com/v1/projects/clinic/locations/europe-west4/{method}"
    assert (call["method"], call["url"]) == ("POST", url)
    said = call["body"]["jobSpec"] if method == "customJobs" else call["body"]
    _assert_said(_filled(name), said)


def _assert_said(given, said):
    """What the file gives came through the message: numbers of 64 bits are texts in protobuf's JSON."""
    if isinstance(given, dict):
        for key, value in given.items():
            _assert_said(value, said[key])
    elif isinstance(given, list):
        assert len(given) == len(said)
        for value, other in zip(given, said, strict=True):
            _assert_said(value, other)
    else:
        assert str(given) == str(said)


def test_training_takes_the_settings_of_the_jobs():
    import argparse

    from trainer import presets, task

    parser = argparse.ArgumentParser()
    task.add_arguments(parser)
    tuning = _read("tuning-job.yaml").message
    specs = [_read(name).message.job_spec for name in ("custom-job.yaml", "custom-job-prebuilt.yaml")]
    for spec in [*specs, tuning.trial_job_spec]:
        [pool] = spec.worker_pool_specs
        flags = [*pool.container_spec.args, *pool.python_package_spec.args]
        assert flags
        presets.from_arguments(parser.parse_args([*flags, "--job-dir", "gs://b/job"]))
    for parameter in _filled("tuning-job.yaml")["studySpec"]["parameters"]:
        [spec] = (spec for key, spec in parameter.items() if key.endswith("ValueSpec"))
        for value in spec.get("values") or spec.values():
            given = [*flags, "--job-dir", "gs://b/job", f"--{parameter['parameterId']}={value}"]
            presets.from_arguments(parser.parse_args(given))


def test_a_name_without_a_value_names_its_flag():
    with pytest.raises(InputError, match=r"custom-job.yaml: \$\{BUCKET\} .*--bucket"):
        read_request(DEPLOY / "custom-job.yaml", PLACE, None, {"PROJECT": "p", "REGION": "r"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workerPoolSpecs: [{replicas: 1}]", 'CustomJob.*"replicas"'),
        ("workerPoolSpecs: [{replicaCount: many}]", "CustomJob"),
        ("studySpec: {metrics: [{metricId: safety, goal: MAX}]}", "HyperparameterTuningJob"),
        ("model: {artefactUri: gs://b/m}", 'Model.*"artefactUri"'),
        ("model:", "model"),
        ("model: 7", "model"),
        ("workerPoolSpecs:", "workerPoolSpecs"),
        ("name: x", "workerPoolSpecs, studySpec, model"),
        ("a: [", "not valid YAML"),
        ("workerPoolSpecs: []\nstudySpec: {}", "workerPoolSpecs, studySpec, model"),
    ],
)
def test_a_faulty_file_is_one_clear_line(tmp_path, text, message):
    (tmp_path / "job.yaml").write_text(text)
    with pytest.raises(InputError, match=message) as raised:
        read_request(tmp_path / "job.yaml", PLACE, None, VALUES)
    assert "\n" not in str(raised.value)


def test_a_job_is_called_as_its_file_unless_it_is_named():
    assert _read("custom-job.yaml").message.display_name == "custom-job"
    assert _read("model-upload-prebuilt.yaml").message.display_name == "triage"
    assert read_request(DEPLOY / "custom-job.yaml", PLACE, "mine", VALUES).message.display_name == "mine"


class _Vertex(grpc.GenericRpcHandler):
    """Answers on the wire as the service would, and keeps what it was asked."""

    ANSWERS = {  # noqa: RUF012  # nobody writes into it
        "CreateCustomJob": types.CustomJob,
        "CreateHyperparameterTuningJob": types.HyperparameterTuningJob,
    }

    def __init__(self):
        self.calls = []
        self.refuses = False

    def service(self, details):
        name = details.method.rpartition("/")[2]

        def answer(request, context):
            self.calls.append((details.method, request))
            if self.refuses:
                context.abort(grpc.StatusCode.PERMISSION_DENIED, "no right to\ncreate jobs")
            kind = self.ANSWERS[name]
            return kind.serialize(kind(name=f"projects/1/locations/europe-west4/made/{name}"))

        return grpc.unary_unary_rpc_method_handler(answer)


@pytest.fixture
def vertex():
    handler = _Vertex()
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2), handlers=[handler])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield handler, channel
    server.stop(None)


@pytest.mark.parametrize(
    ("name", "method", "kind"),
    [
        ("custom-job.yaml", "CreateCustomJob", types.CreateCustomJobRequest),
        ("tuning-job.yaml", "CreateHyperparameterTuningJob", types.CreateHyperparameterTuningJobRequest),
    ],
)
def test_what_is_sent_is_what_the_file_says(vertex, name, method, kind):
    handler, channel = vertex
    request = _read(name)
    assert send(request, channel) == f"projects/1/locations/europe-west4/made/{method}"
    [(path, content)] = handler.calls
    assert path == f"/google.cloud.aiplatform.v1.JobService/{method}"
    sent = kind.deserialize(content)
    assert sent.parent == "projects/clinic/locations/europe-west4"
    assert (sent.custom_job if method == "CreateCustomJob" else sent.hyperparameter_tuning_job) == request.message


def test_a_refusal_is_one_clear_line(vertex):
    handler, channel = vertex
    handler.refuses = True
    with pytest.raises(InputError, match=r"^europe-west4-aiplatform\.googleapis\.com .*403 no right"):
        send(_read("custom-job.yaml"), channel)
