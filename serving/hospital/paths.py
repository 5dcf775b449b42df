"""The paths of the HTTP port for hospitals, and what its OpenAPI document says of them."""

import functools
import pathlib
from collections.abc import Iterator

from starlette.routing import Route

from schemas import feedback
from serving.config.settings import ServeConfig
from serving.hospital.cds_hooks import CodeMap
from serving.hospital.cds_hooks_routes import CdsHooksRoutes, FeedbackLog
from serving.hospital.fhir_routes import MEDIA_TYPE, FhirRoutes, failure_of
from serving.service import TriageService
from serving.wires.http_endpoints import Endpoints
from serving.wires.openapi import (
    ANY_OBJECT,
    TEXT,
    Api,
    Operation,
    content_of,
    list_of,
    object_of,
)


def hospital_paths(endpoints: Endpoints, service: TriageService, config: ServeConfig) -> Iterator[Api]:
    """Yields FHIR and CDS Hooks, as far as the settings ask for them.

    Raises:
        InputError: the user's map of codes is faulty, or feedback cannot be written.
    """
    if config.fhir:
        yield Api(_fhir(endpoints, FhirRoutes(service, config.fhir.rstrip("/"))), _FHIR_OPERATIONS, _FHIR_SCHEMAS)
    if config.cds_codes:
        log = FeedbackLog(pathlib.Path(config.cds_feedback)) if config.cds_feedback else None
        codes = CodeMap.load(pathlib.Path(config.cds_codes))
        routes = CdsHooksRoutes(service, codes, log, config.cds_link)
        yield Api(_cds_hooks(endpoints, routes), _CDS_OPERATIONS, _CDS_SCHEMAS)


def _fhir(endpoints: Endpoints, routes: FhirRoutes) -> list[Route]:
    paths = (
        ("/metadata", "GET", routes.metadata, "metadata"),
        ("/Questionnaire/$next-question", "POST", routes.next_question, "next-question"),
        ("/Questionnaire/{name}", "GET", routes.questionnaire, "questionnaire"),
    )
    return [
        Route(
            f"/fhir{path}", endpoints.route(f"fhir/{name}", handler, failure_of=failure_of), methods=[method],
            name=f"fhir-{name}",
        )
        for path, method, handler, name in paths
    ]  # fmt: skip


def _cds_hooks(endpoints: Endpoints, routes: CdsHooksRoutes) -> list[Route]:
    paths = (
        ("/cds-services", "GET", routes.discover, "cds-services", "services"),
        ("/cds-services/{name}", "POST", routes.call, "cds-services/call", "call"),
        ("/cds-services/{name}/feedback", "POST", routes.feedback, "cds-services/feedback", "feedback"),
    )
    return [
        Route(path, endpoints.route(recorded, handler), methods=[method], name=f"cds-{name}")
        for path, method, handler, recorded, name in paths
    ]


_FHIR_SCHEMAS = {
    name: {**object_of({"resourceType": TEXT}), "description": f"{article} {name} of FHIR R4 or R5"}
    for article, name in (
        ("a", "CapabilityStatement"), ("a", "OperationOutcome"), ("a", "Questionnaire"), ("a", "QuestionnaireResponse"),
        ("the", "Parameters"),
    )
}  # fmt: skip


_resource = functools.partial(content_of, media_type=MEDIA_TYPE)
_FHIR_OPERATIONS = {
    "fhir-metadata": Operation(
        "Say what the FHIR API offers", _resource("CapabilityStatement"), failures=(406, 415),
        failure=_resource("OperationOutcome"),
    ),
    "fhir-questionnaire": Operation(
        "Read the form before it is filled in", _resource("Questionnaire"), failures=(406, 415),
        failure=_resource("OperationOutcome"),
    ),
    "fhir-next-question": Operation(
        "Add the next question to a form, or complete it",
        _resource("QuestionnaireResponse"),
        _resource("QuestionnaireResponse", "Parameters"),
        failures=(406,),
        failure=_resource("OperationOutcome"),
    ),
}  # fmt: skip

_SERVICE = object_of({**dict.fromkeys(("hook", "id", "title", "description"), TEXT), "prefetch": ANY_OBJECT})
_OUTCOME = object_of(
    {
        "card": TEXT,
        "outcome": {"enum": list(feedback.OUTCOMES)},
        "outcomeTimestamp": TEXT,
        "overrideReason": ANY_OBJECT,
    },
    ("overrideReason",),
)
_CDS_SCHEMAS = {
    "CdsServices": object_of({"services": list_of(_SERVICE)}),
    "CdsRequest": {
        **object_of({"hook": TEXT, "hookInstance": TEXT, "context": ANY_OBJECT, "prefetch": ANY_OBJECT}),
        "description": "as CDS Hooks 2.0 has it; the prefetch must be there",
    },
    "CdsCards": object_of({"cards": list_of({"type": "object", "description": "a card of CDS Hooks 2.0"})}),
    "CdsFeedback": object_of({"feedback": list_of(_OUTCOME)}),
    "Nothing": object_of({}),
}
_CDS_OPERATIONS = {
    "cds-services": Operation("List the services of CDS Hooks", content_of("CdsServices")),
    "cds-call": Operation(
        "Answer a hook with a card (CDS Hooks)", content_of("CdsCards"), content_of("CdsRequest"), failures=(412,)
    ),
    "cds-feedback": Operation(
        "Keep what clinicians made of cards (CDS Hooks)", content_of("Nothing"), content_of("CdsFeedback")
    ),
}
