"""ModelService through the wire, with the stubs of tensorflow-serving-api."""

import shutil

import grpc
import pytest
from tensorflow_serving.apis import get_model_status_pb2, model_management_pb2, model_service_pb2_grpc

from schemas.errors import InputError
from serving.engine.served_models import ServedModels
from serving.wires.model_service import ModelService, read_config
from tests.builders import channel_to, model_spec, served, watching

AVAILABLE = get_model_status_pb2.ModelVersionStatus.AVAILABLE
END = get_model_status_pb2.ModelVersionStatus.END


@pytest.fixture
def stub(channel):
    return model_service_pb2_grpc.ModelServiceStub(channel)


def request(*named, **version):
    return get_model_status_pb2.GetModelStatusRequest(model_spec=model_spec(*named, **version))


@pytest.mark.parametrize("message", [request(), request(version=3), request(label="stable")])
def test_a_loaded_version_is_available(stub, message):
    (status,) = stub.GetModelStatus(message, timeout=30).model_version_status
    assert (status.version, status.state) == (3, AVAILABLE)
    assert status.HasField("status")
    assert (status.status.error_code, status.status.error_message) == (0, "")


@pytest.fixture
def own(model_base_path, tmp_path):
    """A server of versions 3 and 5 that a test may reconfigure: its address's stub, and its base path."""
    base = tmp_path / "models"
    for number in ("3", "5"):
        shutil.copytree(model_base_path / "3", base / number)
    watcher = watching(base)
    with served(watcher) as server, channel_to(server.address) as channel:
        yield model_service_pb2_grpc.ModelServiceStub(channel), base, watcher.versions


def reload_request(base, versions, labels, name="triage"):
    message = model_management_pb2.ReloadConfigRequest()
    config = message.config.model_config_list.config.add(name=name, base_path=str(base), model_platform="tensorflow")
    config.model_version_policy.specific.versions.extend(versions)
    config.version_labels.update(labels)
    return message


def test_a_reload_loads_versions_and_labels_them_when_they_are_loaded(own):
    stub, base, versions = own
    assert versions.loaded == {5}
    with pytest.raises(grpc.RpcError) as error:
        stub.HandleReloadConfigRequest(reload_request(base, [3, 5], {"stable": 3}), timeout=60)
    assert error.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "label to version 3 of model triage" in error.value.details()
    stub.HandleReloadConfigRequest(reload_request(base, [3, 5], {}), timeout=60)
    answer = stub.HandleReloadConfigRequest(reload_request(base, [3, 5], {"stable": 3, "candidate": 5}), timeout=60)
    assert answer.status.error_code == 0
    (status,) = stub.GetModelStatus(request(label="stable"), timeout=30).model_version_status
    assert (status.version, status.state) == (3, AVAILABLE)
    stub.HandleReloadConfigRequest(reload_request(base, [3], {}), timeout=60)
    assert (versions.default, versions.loaded) == (3, {3})


def test_a_reload_adds_models_and_removes_those_that_it_leaves_out(own):
    stub, base, _ = own
    both = reload_request(base, [5], {})
    both.MergeFrom(reload_request(base, [3], {}, "other"))
    stub.HandleReloadConfigRequest(both, timeout=60)
    (status,) = stub.GetModelStatus(request("other"), timeout=30).model_version_status
    assert (status.version, status.state) == (3, AVAILABLE)
    stub.HandleReloadConfigRequest(reload_request(base, [3], {}, "other"), timeout=60)
    with pytest.raises(grpc.RpcError) as error:
        stub.GetModelStatus(request(), timeout=30)
    assert error.value.code() is grpc.StatusCode.NOT_FOUND


def test_a_broken_version_has_its_error_in_the_status(model_base_path, tmp_path):
    shutil.copytree(model_base_path / "3", tmp_path / "3")
    shutil.copytree(model_base_path / "3", tmp_path / "4")
    (tmp_path / "4" / "manifest.json").write_text("{")
    watcher = watching(tmp_path)
    entries = ModelService(ServedModels([watcher])).GetModelStatus(request(), None).model_version_status
    assert [(entry.version, entry.state) for entry in entries] == [(3, AVAILABLE), (4, END)]
    assert entries[1].status.error_code == 3  # INVALID_ARGUMENT
    assert "manifest.json" in entries[1].status.error_message


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (model_management_pb2.ReloadConfigRequest(), "only a model_config_list is supported"),
        (reload_request("gs://bucket/models", [3], {}), "base_path gs://bucket/models"),
    ],
)
def test_a_configuration_that_does_not_fit_the_server_is_refused(watcher, message, complaint):
    with pytest.raises(InputError, match=complaint):
        read_config(message.config, ServedModels([watcher]))
