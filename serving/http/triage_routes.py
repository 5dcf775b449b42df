"""Our own API: /v1/triage, /v1/interview, /v1/vocabulary, /v1/model; and Vertex AI's predictions, which are the same.

Nothing is kept between requests: an interview sends all that is known each time.
"""

from collections.abc import Mapping
from typing import Any

from serving.call import PARSE, current
from serving.calls import Cost
from serving.errors import Fault, FaultyRequestError
from serving.http.door import Exchange
from serving.http.triage_json import check_fields, in_json, read_codes, read_flag, read_number, read_state, read_text
from serving.messages import EVIDENCE_KINDS, answer_figures, goes_on
from serving.triage import TriageService
from triage.v1 import triage_pb2, triage_service_pb2

_UNKNOWN, _QUESTIONS, _NOT_TO_ASK, _EXPLAIN = "allow_unknown_codes", "questions", "not_to_ask", "explain"
_MODEL = "model"
_OF_ALL = (_UNKNOWN, _QUESTIONS, _MODEL)
"""Fields beside `states`."""
_OF_ONE = (*_OF_ALL, _NOT_TO_ASK, _EXPLAIN)
"""Fields beside those of a single state."""


class TriageRoutes:
    """Answers from the typed service, which gRPC calls too."""

    def __init__(self, service: TriageService):
        self._service = service

    async def triage(self, exchange: Exchange) -> Any:
        """Answers one state, or those in `states`."""
        body = await self._body(exchange)
        if not (isinstance(body, dict) and "states" in body):
            return await self._one(exchange, body)
        fields = check_fields(body, ("states", *_OF_ALL))
        return {"answers": await self._many(exchange, fields["states"], "states", fields)}

    async def interview(self, exchange: Exchange) -> Any:
        """Answers all that is known so far: a decision, or what to ask next; see `serving.messages.goes_on`."""
        body = await self._body(exchange)
        response = await self._decide(exchange, body, suggested=1)
        answer = answer_figures(response)
        questions = answer.pop("next_questions")
        asks = goes_on(response)
        nothing_known = response.forced and response.action == triage_pb2.TRIAGE_ACTION_ASK
        return {
            "done": not asks,
            "decision": None if asks or nothing_known else answer["best_triage"],
            "questions": questions if asks else [],
            "answer": answer,
        }

    async def predictions(self, exchange: Exchange) -> Any:
        """Answers a prediction request of Vertex AI, whose instances are states."""
        fields = check_fields(await self._body(exchange), ("instances", "parameters"))
        if "instances" not in fields:
            raise FaultyRequestError([Fault("instances", "missing: set the list of evidence states", "MISSING_STATE")])
        parameters = check_fields(fields.get("parameters") or {}, _OF_ALL, "parameters")
        answers = await self._many(exchange, fields["instances"], "instances", parameters, "parameters.")
        return {"predictions": answers}

    def vocabulary(self, exchange: Exchange) -> Any:
        """Lists the evidence that the model knows."""
        vocabulary = self._service.GetVocabulary(
            triage_service_pb2.GetVocabularyRequest(model=_model(exchange)), exchange.context
        )
        return {
            "vocabulary_fingerprint": vocabulary.vocabulary_fingerprint,
            "entries": [
                {
                    "code": entry.code,
                    "kind": EVIDENCE_KINDS[entry.kind],
                    "name": entry.name,
                    "question": entry.question,
                    "synonyms": list(entry.synonyms),
                }
                for entry in vocabulary.entries
            ],
        }

    def model(self, exchange: Exchange) -> Any:
        """Describes the model that answers."""
        info = self._service.GetModelInfo(
            triage_service_pb2.GetModelInfoRequest(model=_model(exchange)), exchange.context
        )
        return {
            "model_version": info.model_version,
            "vocabulary_fingerprint": info.vocabulary_fingerprint,
            "data_fingerprint": info.data_fingerprint,
            "evidence_count": info.evidence_count,
            "max_questions": info.max_questions,
            "rules": [{"rule_id": rule.rule_id, "reason": rule.reason} for rule in info.rules],
            "novelty_threshold": info.novelty_threshold if info.HasField("novelty_threshold") else None,
        }

    @staticmethod
    def cost_of(exchange: Exchange) -> Cost:
        """Returns what a short body may cost: as many states as it has room for commas between objects."""
        return Cost(exchange.raw.count(b"{") - 1, len(exchange.raw))

    async def _body(self, exchange: Exchange) -> Any:
        call = current()
        if call.large:
            return await self._service.workers.run(exchange.json)
        with call.timed(PARSE):
            return exchange.json()

    async def _one(self, exchange: Exchange, body: Any) -> dict[str, Any]:
        return answer_figures(await self._decide(exchange, body))

    async def _decide(self, exchange: Exchange, body: Any, suggested: int = 0) -> triage_pb2.TriageResponse:
        """Answers one state, with so many `suggested` questions where the body names no number and the model can."""
        state = read_state(body, more_fields=_OF_ONE)
        request = triage_service_pb2.TriageRequest(
            state=state,
            allow_unknown_codes=read_flag(body, _UNKNOWN),
            questions=read_number(body, _QUESTIONS) if _QUESTIONS in body else suggested,
            not_to_ask=read_codes(body, _NOT_TO_ASK),
            explain=read_flag(body, _EXPLAIN),
            model=read_text(body, _MODEL),
        )
        try:
            return await self._service.triage(request, exchange.context, questions_if_able=_QUESTIONS not in body)
        except FaultyRequestError as error:
            raise in_json(error, [body], "") from None

    async def _many(
        self, exchange: Exchange, bodies: Any, name: str, fields: Mapping[str, Any], begin: str = ""
    ) -> list[dict[str, Any]]:
        """Answers the states `bodies` in the list `name`; `fields` are those beside it, at the path `begin`."""
        if not isinstance(bodies, list):
            raise FaultyRequestError([Fault(name, "expected a list of evidence states", "WRONG_TYPE")])
        allowed, questions = read_flag(fields, _UNKNOWN, begin), read_number(fields, _QUESTIONS, begin)
        model = read_text(fields, _MODEL, begin)

        def read() -> triage_service_pb2.BatchTriageRequest:
            states = [read_state(body, f"{name}[{number}]") for number, body in enumerate(bodies)]
            return triage_service_pb2.BatchTriageRequest(
                states=states, allow_unknown_codes=allowed, questions=questions, model=model
            )

        large = current().large
        request = await self._service.workers.run(read) if large else read()
        try:
            answers = await self._service.BatchTriage(request, exchange.context)
        except FaultyRequestError as error:
            raise in_json(error, bodies, name) from None

        def write() -> list[dict[str, Any]]:
            return [answer_figures(response) for response in answers.responses]

        return await self._service.workers.run(write) if large else write()


def _model(exchange: Exchange) -> str:
    """Returns the model that a request without a body names, "" for none."""
    return exchange.request.query_params.get(_MODEL, "")
