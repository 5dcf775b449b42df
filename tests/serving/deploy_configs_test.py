"""The files of TensorFlow Serving are what it reads, and its flags exist."""

import pathlib

import pytest
import yaml
from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "helm" / "triage" / "tensorflow-serving"
# Those of tensorflow_model_server's main.cc that a deployment may want.
FLAGS = {
    "port", "grpc_socket_path", "rest_api_port", "rest_api_num_threads", "rest_api_timeout_in_ms", "enable_batching",
    "allow_version_labels_for_unavailable_models", "batching_parameters_file", "enable_per_model_batching_parameters",
    "model_config_file", "model_config_file_poll_wait_seconds", "num_load_threads", "num_unload_threads",
    "max_num_load_retries", "load_retry_interval_micros", "file_system_poll_wait_seconds", "flush_filesystem_caches",
    "tensorflow_session_parallelism", "tensorflow_intra_op_parallelism", "tensorflow_inter_op_parallelism",
    "ssl_config_file", "grpc_channel_arguments", "grpc_max_threads", "enable_model_warmup", "monitoring_config_file",
    "enable_grpc_healthcheck_service",
}  # fmt: skip


def test_its_models_are_those_that_our_server_would_take_too():
    models = text_format.Parse((FOLDER / "models.config").read_text(), model_server_config_pb2.ModelServerConfig())
    [model] = models.model_config_list.config
    assert (model.name, model.base_path, model.model_platform) == ("triage", "/models", "tensorflow")
    assert "pad_variable_length_inputs: true" in (FOLDER / "batching.config").read_text().splitlines()


@pytest.fixture(params=["compose", "chart"])
def command(request):
    """The command line of TensorFlow Serving."""
    if request.param == "compose":
        service = yaml.safe_load((ROOT / "deploy" / "serving" / "docker-compose.yaml").read_text())["services"]
        return service["model-server"]["entrypoint"] + service["model-server"]["command"]
    render = request.getfixturevalue("rendered")
    spec = render("tensorflowServing.enabled=true")["Deployment"]["spec"]["template"]["spec"]
    return spec["containers"][1]["command"] + spec["containers"][1]["args"]


def test_the_flags_are_tensorflow_servings_and_point_to_its_files(command):
    program, *flags = command
    assert program == "tensorflow_model_server"
    given = dict(flag.removeprefix("--").split("=") for flag in flags)
    assert given.keys() <= FLAGS
    assert given["enable_batching"] == "true"  # without it the parameters are ignored
    assert int(given["rest_api_port"]) != int(given["port"])  # without it there are no metrics
    for name in ("model_config_file", "batching_parameters_file", "monitoring_config_file"):
        folder, _, file = given[name].rpartition("/")
        assert folder == "/etc/tensorflow-serving"
        assert (FOLDER / file).is_file()
