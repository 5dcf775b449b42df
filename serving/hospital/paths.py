"""The paths of the HTTP port for hospitals, and their descriptions in its OpenAPI document."""

import functools
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from starlette.routing import Route

from schemas import feedback
from serving.config.settings import ServeConfig
from serving.hospital.cds_hooks import CodeMap
from serving.hospital.cds_hooks_routes import CdsHooksRoutes, FeedbackLog
from serving.hospital.fhir_routes import MEDIA_TYPE, FhirRoutes, as_outcome, failure_of
from serving.service import TriageService
from serving.wires.http_endpoints import Endpoints
from serving.wires.openapi import ANY_OBJECT, TEXT, Api, Operation, content_of, list_of, object_of


class _Path(NamedTuple):
    path: str
    method: str
    handler: Callable[..., Any]  # a method of what answers
    recorded: str  # its name in metrics, logs and traces
    name: str  # in the document
    operation: Operation


def hospital_paths(endpoints: Endpoints, service: TriageService, config: ServeConfig) -> Iterator[Api]:
    """Yields FHIR and CDS Hooks, as far as the settings ask for them.

    Raises:
        InputError: the user's map of codes is faulty, or feedback cannot be written.
    """
    if config.fhir:
        route = functools.partial(endpoints.route, failure_of=failure_of)
        answers = FhirRoutes(service, config.fhir.rstrip("/"))
        yield _api(_FHIR, answers, route, _FHIR_SCHEMAS, prefix="/fhir", written=as_outcome)
    if config.cds_codes:
        log = FeedbackLog(pathlib.Path(config.cds_feedback)) if config.cds_feedback else None
        codes = CodeMap.load(pathlib.Path(config.cds_codes))
        cards = CdsHooksRoutes(service, codes, log)
        yield _api(_CDS, cards, endpoints.route, _CDS_SCHEMAS, check=codes.check)


def _api(
    paths: Sequence[_Path], answers: object, route: Callable[..., Any], schemas: Mapping[str, Any], **more: Any
) -> Api:
    routes = [
        Route(
            each.path, route(each.recorded, functools.partial(each.handler, answers)), methods=[each.method],
            name=each.name,
        )
        for each in paths
    ]  # fmt: skip
    return Api(routes, {each.name: each.operation for each in paths}, schemas, **more)


_resource = functools.partial(content_of, media_type=MEDIA_TYPE)
_fhir_operation = functools.partial(Operation, failure=_resource("OperationOutcome"))
_FHIR = (
    _Path(
        "/fhir/metadata", "GET", FhirRoutes.metadata, "fhir/metadata", "fhir-metadata",
        _fhir_operation("Say what the FHIR API offers", _resource("CapabilityStatement"), failures=(406, 415)),
    ),
    _Path(
        "/fhir/Questionnaire/$next-question", "POST", FhirRoutes.next_question, "fhir/next-question",
        "fhir-next-question",
        _fhir_operation(
            "Add the next question to a form, or complete it", _resource("QuestionnaireResponse"),
            _resource("QuestionnaireResponse", "Parameters"), failures=(406,),
        ),
    ),
    _Path(
        "/fhir/Questionnaire/{name}", "GET", FhirRoutes.questionnaire, "fhir/questionnaire", "fhir-questionnaire",
        _fhir_operation("Read the form before it is filled in", _resource("Questionnaire"), failures=(406, 415)),
    ),
)  # fmt: skip
_RESOURCES = ("CapabilityStatement", "OperationOutcome", "Parameters", "Questionnaire", "QuestionnaireResponse")
_FHIR_SCHEMAS = {
    name: {**object_of({"resourceType": TEXT}), "description": f"{name} of FHIR R4 or R5"} for name in _RESOURCES
}

_CDS = (
    _Path(
        "/cds-services", "GET", CdsHooksRoutes.discover, "cds-services", "cds-services",
        Operation("List the services of CDS Hooks", content_of("CdsServices")),
    ),
    _Path(
        "/cds-services/{name}", "POST", CdsHooksRoutes.call, "cds-services/call", "cds-call",
        Operation(
            "Answer a hook with a card (CDS Hooks)", content_of("CdsCards"), content_of("CdsRequest"), failures=(412,)
        ),
    ),
    _Path(
        "/cds-services/{name}/feedback", "POST", CdsHooksRoutes.feedback, "cds-services/feedback", "cds-feedback",
        Operation(
            "Keep clinicians' feedback on cards (CDS Hooks)", content_of("Nothing"), content_of("CdsFeedback")
        ),
    ),
)  # fmt: skip
_SERVICE = object_of({**dict.fromkeys(("hook", "id", "title", "description"), TEXT), "prefetch": ANY_OBJECT})
_OUTCOME = {
    "card": TEXT,
    "outcome": {"enum": list(feedback.OUTCOMES)},
    "outcomeTimestamp": TEXT,
    "overrideReason": ANY_OBJECT,
}
_CONTEXT = object_of({"patientId": TEXT})
_CDS_SCHEMAS = {
    "CdsServices": object_of({"services": list_of(_SERVICE)}),
    "CdsRequest": {
        **object_of({"hook": TEXT, "hookInstance": TEXT, "context": _CONTEXT, "prefetch": ANY_OBJECT}),
        "description": "as CDS Hooks 2.0 has it; the prefetch must be there",
    },
    "CdsCards": object_of({"cards": list_of({"type": "object", "description": "a card of CDS Hooks 2.0"})}),
    "CdsFeedback": object_of({"feedback": list_of(object_of(_OUTCOME, ("overrideReason",)))}),
    "Nothing": object_of({}),
}
