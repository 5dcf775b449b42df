"""FHIR R4 and R5: the interview as an adaptive form of Structured Data Capture (SDC), under /fhir.

Nothing is kept between requests: a form holds all that was asked and answered.
"""

import itertools
import json
import re
from typing import Any

import msgspec
from starlette.responses import Response

from schemas.relations import EXHAUSTIVE
from serving.errors import FaultyRequestError, NotFoundError, UnsupportedError
from serving.hospital.fhir_resources import (
    COMPLAINT,
    FHIR_VERSIONS,
    ID,
    R4,
    capability_statement,
    knows_complaint,
    link_of,
    next_form,
    operation_outcome,
    questionnaire,
    read_form,
)
from serving.hospital.fhir_values import Resource
from serving.messages import state_message
from serving.service import TriageService
from serving.wires.http_endpoints import Exchange
from serving.wires.http_problems import BodyError, problem_of
from serving.wires.json_body import read_json
from triage.v1 import triage_pb2, triage_service_pb2

MEDIA_TYPE = "application/fhir+json"
_KEPT = ("allow", "retry-after", "www-authenticate")
_JSON = re.compile(r"json|\*/\*|application/\*")
_VERSION = re.compile(r'fhirVersion\s*=\s*"?([\w.]{1,20})', re.IGNORECASE)


class FhirRoutes:
    """Answers from the typed service, which gRPC calls too; `base` is the public address of `/fhir`."""

    def __init__(self, service: TriageService, base: str):
        self._service, self._base = service, base

    async def next_question(self, exchange: Exchange) -> Response:
        """Answers `Questionnaire/$next-question`: the form with the next question, or completed with the decision.

        The first question is for what the patient comes with; the model chooses the others. Age and sex come together.
        """
        fhir = _version(exchange)
        vocabulary = self._service.vocabulary()
        form = read_form(await self._service.workers.run(read_json, exchange.raw), vocabulary)
        if COMPLAINT not in form.asked and not knows_complaint(form.present, vocabulary):
            return _fhir(next_form(form, [COMPLAINT], None, vocabulary, self._base, fhir), fhir)
        state = state_message(form.present, form.absent, questions_asked=form.questions_asked)
        request = triage_service_pb2.TriageRequest(
            state=state, questions=len(EXHAUSTIVE), not_to_ask=form.not_known, defer_below=0.0
        )
        try:
            answer = await self._service.triage(request, questions_if_able=True)
        except FaultyRequestError as error:
            raise FaultyRequestError([form.place(fault) for fault in error.faults]) from None
        next_asked: list[str] = []
        if answer.next == triage_pb2.NEXT_STEP_ASK:
            if not answer.next_questions and not self._chooses_questions():
                raise UnsupportedError(
                    f"model version {answer.model_version} cannot choose questions: export one that was trained on 100 "
                    "vignettes or more"
                )
            choices = list(itertools.takewhile(lambda question: question.one_of, answer.next_questions))
            next_asked = [link_of(question) for question in choices or answer.next_questions[:1]]
        return _fhir(next_form(form, next_asked, answer, vocabulary, self._base, fhir), fhir)

    def questionnaire(self, exchange: Exchange) -> Response:
        """Answers a read of the form."""
        name, fhir = exchange.request.path_params["name"], _version(exchange)
        if name != ID:
            raise NotFoundError(f"there is no Questionnaire {name[:80]!r}: the form is Questionnaire/{ID}")
        return _fhir(questionnaire(self._base, self._info().model_version, fhir), fhir)

    def metadata(self, exchange: Exchange) -> Response:
        """Answers with the CapabilityStatement."""
        fhir, made = _version(exchange), json.loads(self._info().manifest_json)["created"]
        return _fhir(capability_statement(self._base, made, fhir), fhir)

    def _info(self) -> triage_service_pb2.GetModelInfoResponse:
        return self._service.GetModelInfo(triage_service_pb2.GetModelInfoRequest(), None)

    def _chooses_questions(self) -> bool:
        return json.loads(self._info().manifest_json).get("questions") is not None


def failure_of(error: Exception, name: str) -> tuple[Response, str]:
    """Returns what `http_problems.problem_of` does, as an OperationOutcome."""
    problem, code = problem_of(error, name)
    return as_outcome(problem), code


def as_outcome(problem: Response) -> Response:
    """Returns a problem as an OperationOutcome."""
    headers = {key: value for key, value in problem.headers.items() if key in _KEPT}
    return _fhir(operation_outcome(json.loads(bytes(problem.body))), R4, problem.status_code, headers)


def _version(exchange: Exchange) -> str:
    """Returns the version of FHIR that a request asks for, or is written in; R4 where it says none.

    Raises:
        BodyError: it is another version than the server has, or XML.
    """
    wanted = exchange.request.query_params.get("_format", "")  # in place of Accept
    for header, status in (("accept", 406), ("content-type", 415)):
        media = exchange.request.headers.get(header, "")
        kind = wanted if wanted and header == "accept" else media
        if "xml" in kind and not _JSON.search(kind):
            raise BodyError(status, f"{kind[:80]}: this server reads and writes {MEDIA_TYPE} alone")
        version = _VERSION.search(media)
        if version and version[1] not in FHIR_VERSIONS:
            raise BodyError(status, f"fhirVersion={version[1]}: this server has {' and '.join(FHIR_VERSIONS)}")
        if version:
            return version[1]
    return R4


def _fhir(resource: Resource, fhir: str, status: int = 200, headers: Any = None) -> Response:
    media_type = MEDIA_TYPE if fhir == R4 else f"{MEDIA_TYPE}; fhirVersion={fhir}"
    return Response(msgspec.json.encode(resource), status, headers, media_type)
