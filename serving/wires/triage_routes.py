"""Our own API: /v1/triage, /v1/interview, /v1/vocabulary, /v1/model; and Vertex AI's predictions, which are the same.

Nothing is kept between requests: an interview sends all that is known each time.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import UnsetType

from serving.admission import Cost
from serving.call import PARSE, current
from serving.errors import Fault, FaultyRequestError
from serving.service import TriageService, vocabulary_message
from serving.wires.http_endpoints import Exchange
from serving.wires.json_body import given, reader
from serving.wires.message_json import message_figures
from serving.wires.triage_json import Batch, Instances, Parameters, Patient, State, in_json, to_message
from triage.v1 import triage_pb2, triage_service_pb2

_MODEL = "model"
_OPTIONS = Parameters.__struct_fields__
_Body = TypeVar("_Body")
_Result = TypeVar("_Result")
_read_patient = reader(Patient)
_read_batch, _read_instances = reader(Batch, "states", State), reader(Instances, "instances", State)


class TriageRoutes:
    """Answers from the typed service, which gRPC calls too."""

    def __init__(self, service: TriageService):
        self._service = service

    async def triage(self, exchange: Exchange) -> Any:
        """Answers one state, or those in `states`."""
        body = await self._body(exchange, _read_one_or_several)
        if isinstance(body, Patient):
            return message_figures(await self._decide(exchange, body))
        return {"answers": await self._many(exchange, body.states, "states", body)}

    async def interview(self, exchange: Exchange) -> Any:
        """Answers all that is known so far: a decision, or what to ask next."""
        body = await self._body(exchange, _read_patient)
        response = await self._decide(exchange, body, suggested=1)
        answer = message_figures(response)
        questions = answer.pop("next_questions")
        asks = response.next == triage_pb2.NEXT_STEP_ASK
        decided = response.next == triage_pb2.NEXT_STEP_DECIDE
        return {
            "done": not asks,
            "decision": answer["best_triage"] if decided else None,
            "questions": questions if asks else [],
            "answer": answer,
        }

    async def predictions(self, exchange: Exchange) -> Any:
        """Answers a prediction request of Vertex AI, whose instances are states."""
        body = await self._body(exchange, _read_instances)
        return {"predictions": await self._many(exchange, body.instances, "instances", body.parameters)}

    def vocabulary(self, exchange: Exchange) -> Any:
        """Lists the evidence that the model knows."""
        return message_figures(vocabulary_message(self._service.vocabulary(_model(exchange))))

    def model(self, exchange: Exchange) -> Any:
        """Describes the model that answers."""
        request = triage_service_pb2.GetModelInfoRequest(model=_model(exchange))
        return message_figures(self._service.GetModelInfo(request, None))

    async def _body(self, exchange: Exchange, read: Callable[[bytes], _Body]) -> _Body:
        _query(exchange, {})
        call = current()
        if call.large:
            return await self._service.workers.run(read, exchange.raw)
        with call.timed(PARSE):
            return read(exchange.raw)

    async def _decide(self, exchange: Exchange, body: Patient, suggested: int = 0) -> triage_pb2.TriageResponse:
        """Answers one state, with so many `suggested` questions where the body names no number and the model can."""
        fields = given(body)
        options = {name: fields[name] for name in fields if name not in State.__struct_fields__}
        request = triage_service_pb2.TriageRequest(state=to_message(body), **{"questions": suggested, **options})
        try:
            return await self._service.triage(request, questions_if_able="questions" not in options)
        except FaultyRequestError as error:
            raise in_json(error, [body], "") from None

    async def _many(
        self, exchange: Exchange, states: Sequence[State], name: str, parameters: Parameters | UnsetType | None
    ) -> list[dict[str, Any]]:
        """Answers the states in the list `name`."""
        self._service.check_number(len(states), name)

        def read() -> triage_service_pb2.BatchTriageRequest:
            options = {name: value for name, value in given(parameters).items() if name in _OPTIONS}
            return triage_service_pb2.BatchTriageRequest(states=map(to_message, states), **options)

        request = await self._run(read)
        try:
            answers = await self._service.BatchTriage(request, None)
        except FaultyRequestError as error:
            raise in_json(error, states, name) from None

        def write() -> list[dict[str, Any]]:
            return [message_figures(response) for response in answers.responses]

        return await self._run(write)

    async def _run(self, function: Callable[[], _Result]) -> _Result:
        """Calls a function, in a thread where the call is large."""
        return await self._service.workers.run(function) if current().large else function()


def cost_of(exchange: Exchange) -> Cost:
    """Returns what a short body may cost: as many states as it has room for commas between objects."""
    return Cost(exchange.raw.count(b"{") - 1, len(exchange.raw))


def _read_one_or_several(content: bytes) -> Patient | Batch:
    try:
        return _read_patient(content)
    except FaultyRequestError as error:
        if error.faults[0].field != "states":
            raise
    return _read_batch(content)


def _model(exchange: Exchange) -> str:
    """Returns the model that a request without a body names, "" for none."""
    return _query(exchange, {_MODEL: ""})[_MODEL]


def _query(exchange: Exchange, taken: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the query parameters, or the values in `taken` of those that are missing."""
    query = exchange.request.query_params
    for name in query.keys() - taken.keys():
        raise FaultyRequestError([Fault(name[:200], "no query parameter: give it in the body", "UNKNOWN_FIELD")])
    return {**taken, **query}
