"""`inference.GRPCInferenceService`, the Open Inference Protocol over gRPC."""

from typing import Any

from schemas.errors import InputError
from serving.admission import Cost, costs
from serving.wires.open_inference_models import SIGNATURE, Answer, OpenModels, described_server
from serving.wires.open_inference_tensors import Given, contents, datatype_of_array, from_contents, to_raw
from triage.open_inference import inference_pb2, inference_pb2_grpc

SERVICE = inference_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].full_name
_MANY = 2**40


def cost_of(request: inference_pb2.ModelInferRequest) -> Cost:
    """Returns what the inputs of a request hold."""
    states = max((each.shape[0] for each in request.inputs if each.shape), default=0)
    return Cost(min(max(states, 0), _MANY), request.ByteSize())


# The method names are those of the .proto file, not snake case (N802).
class InferenceService(inference_pb2_grpc.GRPCInferenceServiceServicer):
    """Answers from the models of this server."""

    def __init__(self, models: OpenModels):
        self._models = models

    async def ServerLive(  # noqa: N802
        self, request: inference_pb2.ServerLiveRequest, context: Any
    ) -> inference_pb2.ServerLiveResponse:
        """Reports that the server takes requests."""
        return inference_pb2.ServerLiveResponse(live=True)

    async def ServerReady(  # noqa: N802
        self, request: inference_pb2.ServerReadyRequest, context: Any
    ) -> inference_pb2.ServerReadyResponse:
        """Reports whether a version can answer."""
        return inference_pb2.ServerReadyResponse(ready=self._models.ready)

    async def ModelReady(  # noqa: N802
        self, request: inference_pb2.ModelReadyRequest, context: Any
    ) -> inference_pb2.ModelReadyResponse:
        """Reports whether a version of a model can answer."""
        return inference_pb2.ModelReadyResponse(ready=self._models.is_ready(request.name, request.version))

    async def ServerMetadata(  # noqa: N802
        self, request: inference_pb2.ServerMetadataRequest, context: Any
    ) -> inference_pb2.ServerMetadataResponse:
        """Describes the server."""
        return inference_pb2.ServerMetadataResponse(**described_server())

    async def ModelMetadata(  # noqa: N802
        self, request: inference_pb2.ModelMetadataRequest, context: Any
    ) -> inference_pb2.ModelMetadataResponse:
        """Describes a model."""
        model = self._models.metadata(request.name, request.version)
        response = inference_pb2.ModelMetadataResponse(
            name=model.name, versions=model.versions, platform=model.platform
        )
        for field, tensors in ((response.inputs, model.inputs), (response.outputs, model.outputs)):
            for tensor in tensors:
                field.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        return response

    @costs(cost_of)
    def ModelInfer(  # noqa: N802
        self, request: inference_pb2.ModelInferRequest, context: Any
    ) -> inference_pb2.ModelInferResponse:
        """Runs a signature. Outputs are raw bytes if the inputs are."""
        raw = bool(request.raw_input_contents)
        answer = self._models.infer(
            request.model_name,
            request.model_version,
            request.parameters[SIGNATURE].string_param if SIGNATURE in request.parameters else "",
            _given(request),
            [output.name for output in request.outputs],
        )
        return _response(answer, request.id, raw)


def _given(request: inference_pb2.ModelInferRequest) -> list[Given]:
    """Returns the inputs.

    Raises:
        InputError: some are raw and others are not, or they have parameters.
    """
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise InputError(
            f"raw_input_contents: expected one for each of the {len(request.inputs)} inputs, got {len(raw)}"
        )
    given = []
    for number, each in enumerate(request.inputs):
        if each.parameters:
            raise InputError(f"{each.name[:80]}: expected no parameters, got {', '.join(sorted(each.parameters))[:80]}")
        if raw and each.HasField("contents"):
            raise InputError(f"{each.name[:80]}: expected either contents or raw_input_contents")
        values = raw[number] if raw else from_contents(each.contents, each.datatype)
        given.append(Given(each.name, each.datatype, each.shape, values))
    return given


def _response(answer: Answer, request_id: str, raw: bool) -> inference_pb2.ModelInferResponse:
    response = inference_pb2.ModelInferResponse(
        model_name=answer.model_name, model_version=answer.model_version, id=request_id
    )
    for name, values in answer.outputs.items():
        output = response.outputs.add(name=name, datatype=datatype_of_array(values), shape=values.shape)
        if raw:
            response.raw_output_contents.append(to_raw(values))
        else:
            output.contents.CopyFrom(contents(values))
    return response
