"""The Open Inference Protocol over HTTP: tensors in JSON, or as bytes behind the JSON (`binary_tensor_data`)."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from starlette.responses import Response

from schemas import features
from schemas.errors import InputError
from serving.admission import Cost
from serving.errors import NotFoundError
from serving.wires.http_endpoints import Exchange
from serving.wires.json_body import read_json
from serving.wires.open_inference_models import Answer, OpenModels, described_server
from serving.wires.open_inference_tensors import Given, datatype_of_array, dtype_of, to_raw
from serving.wires.tensor_json import to_flat_array

HEADER_LENGTH = "inference-header-content-length"
"""The header that tells the length of the JSON, where bytes of tensors follow it."""
BINARY = "application/octet-stream"
_MANY = 2**40


class OpenInferenceRoutes:
    """Answers from the models of this server."""

    def __init__(self, models: OpenModels):
        self._models = models

    def server(self, exchange: Exchange) -> Any:
        """Describes the server."""
        return described_server()

    def is_ready(self, exchange: Exchange) -> Any:
        """Reports that a version of a model can answer.

        Raises:
            NotFoundError: it cannot.
        """
        name, version = _model(exchange)
        if not self._models.is_ready(name, version):
            raise NotFoundError(f"model {name!r}{f', version {version}' if version else ''}: not ready")
        return {"name": name, "ready": True}

    def metadata(self, exchange: Exchange) -> Any:
        """Describes a model."""
        model = self._models.metadata(*_model(exchange))
        tensors = {"inputs": model.inputs, "outputs": model.outputs}
        return {**model._asdict(), **{key: [each._asdict() for each in value] for key, value in tensors.items()}}

    def infer(self, exchange: Exchange) -> Any:
        """Runs a signature."""
        body, tail = _body(exchange)
        parameters = _object(body, "parameters")
        signature = parameters.get("signature_name", "")
        if not isinstance(signature, str):
            raise InputError("parameters.signature_name: expected a string")
        wanted = {_name(output): _object(output, "parameters") for output in _objects(body, "outputs")}
        _check_settings(wanted, ("binary_data",))
        answer = self._models.infer(*_model(exchange), signature, list(_given(body, tail)), list(wanted))
        everything = parameters.get("binary_data_output") is True
        binary = {name for name in answer.outputs if wanted.get(name, {}).get("binary_data", everything) is True}
        return _response(answer, body.get("id"), binary)

    @staticmethod
    def cost_of(exchange: Exchange) -> Cost:
        """Returns what a short body may cost: as many states as its inputs say."""
        body, _ = _body(exchange)
        shapes = [each.get("shape") for each in _objects(body, "inputs")]
        sizes = [shape[0] for shape in shapes if isinstance(shape, list) and shape and type(shape[0]) is int]
        return Cost(min(max(sizes, default=0), _MANY), len(exchange.raw))


def _model(exchange: Exchange) -> tuple[str, str]:
    """Returns the model and version of a path, "" for no version."""
    place = exchange.request.path_params
    return place["model"], place.get("version", "")


def _body(exchange: Exchange) -> tuple[dict[str, Any], bytes]:
    """Returns the JSON of a request, and the bytes behind it.

    Raises:
        InputError: it is no object, or shorter than the header says.
    """
    length = exchange.request.headers.get(HEADER_LENGTH)
    if length is None:
        size = len(exchange.raw)
    elif length.isascii() and length.isdecimal() and int(length[:20]) <= len(exchange.raw):
        size = int(length)
    else:
        raise InputError(f"{HEADER_LENGTH}: expected the length of the JSON, at most that of the body")
    body = read_json(exchange.raw[:size])
    if not isinstance(body, dict):
        raise InputError("expected an object with inputs")
    if body.get("id") is not None and not isinstance(body["id"], str):
        raise InputError("id: expected a string")
    return body, exchange.raw[size:]


def _object(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = body.get(name, {})
    if not isinstance(value, dict):
        raise InputError(f"{name}: expected an object")
    return value


def _objects(body: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    value = body.get(name, [])
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise InputError(f"{name}: expected a list of objects")
    return value


def _name(tensor: Mapping[str, Any]) -> str:
    name = tensor.get("name")
    if not isinstance(name, str):
        raise InputError("expected a name for each input and output")
    return name


def _check_settings(settings: Mapping[str, Mapping[str, Any]], known: tuple[str, ...]) -> None:
    for name, parameters in settings.items():
        if not set(parameters) <= set(known):
            raise InputError(f"{name[:80]}: expected no other parameters than {', '.join(known)}")


def _given(body: Mapping[str, Any], tail: bytes) -> Iterator[Given]:
    """Yields the inputs.

    Raises:
        InputError: one is malformed, or the bytes behind the JSON are not those of the inputs.
    """
    place = 0
    for tensor in _objects(body, "inputs"):
        name, shape, datatype = _name(tensor), tensor.get("shape"), tensor.get("datatype")
        if not isinstance(shape, list) or not all(type(size) is int for size in shape):
            raise InputError(f"{name[:80]}: shape: expected a list of whole numbers")
        if not isinstance(datatype, str):
            raise InputError(f"{name[:80]}: datatype: expected a string")
        parameters = _object(tensor, "parameters")
        _check_settings({name: parameters}, ("binary_data_size",))
        if "binary_data_size" not in parameters:
            dtype = dtype_of(datatype)
            values = [] if dtype is None else to_flat_array(name[:80], tensor.get("data"), dtype)
            yield Given(name, datatype, shape, values)
            continue
        size = parameters["binary_data_size"]
        if type(size) is not int or not 0 <= size <= len(tail) - place or "data" in tensor:
            raise InputError(f"{name[:80]}: binary_data_size: expected the number of its bytes behind the JSON")
        yield Given(name, datatype, shape, tail[place : place + size])
        place += size
    if place != len(tail):
        raise InputError(f"{len(tail) - place} bytes behind the JSON belong to no input")


def _response(answer: Answer, request_id: str | None, binary: set[str]) -> Any:
    outputs, tail = [], []
    for name, values in answer.outputs.items():
        output: dict[str, Any] = {"name": name, "datatype": datatype_of_array(values), "shape": list(values.shape)}
        if name in binary:
            tail.append(to_raw(values))
            output["parameters"] = {"binary_data_size": len(tail[-1])}
        else:
            output["data"] = _listed(name, values)
        outputs.append(output)
    content: dict[str, Any] = {"model_name": answer.model_name, "model_version": answer.model_version}
    if request_id is not None:
        content["id"] = request_id
    content["outputs"] = outputs
    if not binary:
        return content
    header = json.dumps(content).encode()
    return Response(b"".join([header, *tail]), 200, {HEADER_LENGTH: str(len(header))}, BINARY)


def _listed(name: str, values: np.ndarray) -> list[Any]:
    if name == features.TRIAGE_RESPONSES:
        raise InputError(f"{name}: bytes that JSON cannot hold: ask for it with the parameter binary_data")
    listed = values.ravel().tolist()
    return [piece.decode(errors="replace") for piece in listed] if values.dtype == object else listed
