"""The OpenAPI document of the HTTP port."""

import collections
import copy
import http
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response
from starlette.routing import Route

from schemas.evidence import Vocabulary
from serving.config.settings import ServeConfig
from serving.wires import message_json
from serving.wires.http_problems import MEDIA_TYPE
from serving.wires.triage_json import Batch, Instances, Patient, State
from triage.v1 import triage_pb2, triage_service_pb2
from triage_runtime.case import MOST

_JSON = "application/json"
_EXAMPLE = {"present": ["chest_pain"], "absent": ["fever"], "questions_asked": 3}
FLAG = {"type": "boolean"}
TEXT = {"type": "string"}
ANY_OBJECT = {"type": "object"}
_MODEL_NAME = {"name": "model", "in": "query", "schema": TEXT, "description": "by default the server's first model"}


def object_of(properties: dict[str, Any], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """Returns the schema of an object, whose fields are there unless they are `optional`."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def list_of(items: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of a list by that of its items."""
    return {"type": "array", "items": items}


def reference(name: str) -> dict[str, Any]:
    """Returns a schema that refers to a named one of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def content_of(*names: str, media_type: str = _JSON) -> dict[str, Any]:
    """Returns the schema, or the alternatives, of a body or an answer, by its media type."""
    schemas = [reference(name) for name in names]
    return {media_type: schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}


def _requests() -> dict[str, Any]:
    """Returns the schemas of bodies as they are read."""
    kinds = (State, Patient, Batch, Instances)
    whole = {"type": "integer", "minimum": 0, "maximum": MOST}
    _, schemas = msgspec.json.schema_components(
        kinds, schema_hook=lambda _: whole, ref_template="#/components/schemas/{name}"
    )
    for name in ("State", "Patient"):
        schemas[name]["example"] = _EXAMPLE
    return schemas


_MEANINGS = {
    "TriageResponse.action": "ask for more evidence, or triage; after the safety rules",
    "TriageResponse.best_triage": "the best triage decision on what is known",
    "TriageResponse.forced": "asking was not possible",
    "TriageResponse.unknown_codes": "codes that the model does not know, which the decision ignores",
    "TriageResponse.conflicting_codes": "codes that are both present and absent, which the decision ignores, or that "
    "contradict each other",
    "TriageResponse.next": "what comes next: ask a question, decide by best_triage, or hand over to a person",
    "TriageResponse.deferred": "why the case is handed over to a person; only with defer_below",
    "NextQuestion.code": "the evidence that a yes makes present, and a no absent",
    "NextQuestion.question": "to ask a patient",
    "NextQuestion.expected_gain": "in bits",
    "NextQuestion.likely": "the probability of a yes",
    "NextQuestion.worth_asking": "worth more than a question costs",
    "NextQuestion.one_of": "the choices of a question of which exactly one holds; [] for yes or no",
    "NextQuestion.any_of": "red flags in one question, any number of which may be present; [] for others",
    "NextQuestion.rationale": "with explain: the reason of the safety rule that a yes would fire",
    "NextQuestion.rationales": "with explain: the same of each of any_of, an empty text where it would fire none",
    "Explanation.effects": "how much the probabilities change where a piece is left out, the largest first",
    "EvidenceEffect.support": "above 0 it speaks for the decision, below 0 against it; 0 where it is unclear",
    "Explanation.sufficient": "the smallest set of pieces that gives the same decision by itself",
    "Explanation.turning": "answers to the best next questions that would change the decision",
    "VocabularyEntry.synonyms": "what patients say for it; a leading ! marks an emergency term",
    "VocabularyEntry.parent": "the code that it implies, or empty",
    "VocabularyEntry.exclusive": "the group of which at most one is present, or empty",
    "VocabularyEntry.band": "the numbers that it stands for, or empty",
    "VocabularyEntry.instrument": "the instrument that the answer needs, or empty",
    "VocabularyEntry.red_flag": "whether it can be a sign of danger",
}
"""What fields mean; a field that is not here is described by its name and type alone."""

_MESSAGES: dict[str, Any] = {
    "Answer": triage_pb2.TriageResponse,
    "Question": triage_pb2.NextQuestion,
    "Explanation": triage_pb2.Explanation,
    "Vocabulary": triage_service_pb2.GetVocabularyResponse,
    "Model": triage_service_pb2.GetModelInfoResponse,
}
_REFERENCES = {message.DESCRIPTOR.name: f"#/components/schemas/{name}" for name, message in _MESSAGES.items()}

_SCHEMAS: dict[str, Any] = {
    **_requests(),
    **{name: message_json.schema(each.DESCRIPTOR, _MEANINGS, _REFERENCES) for name, each in _MESSAGES.items()},
    "Answers": object_of({"answers": list_of(reference("Answer"))}),
    "Predictions": object_of({"predictions": list_of(reference("Answer"))}),
    "Interview": object_of(
        {
            "done": {**FLAG, "description": "whether the interview is over"},
            "decision": {
                "type": ["string", "null"],
                "description": "the triage decision, null while asking, and where a person takes over (deferred)",
            },
            "questions": {
                **list_of(reference("Question")),
                "description": "what to ask next, the best first; empty where nothing is left to ask, and where the "
                "model leaves that to the caller",
            },
            "answer": reference("Answer"),
        }
    ),
    "Problem": object_of(
        {
            **dict.fromkeys(("type", "title"), TEXT),
            "status": {"type": "integer"},
            "detail": {**TEXT, "description": "what is wrong, and what to do"},
            "error": {**TEXT, "description": "the same, where clients of other servers look"},
            "reason": {**TEXT, "description": "for programs: the same as over gRPC"},
            "request_id": TEXT,
            "retry_after_seconds": {"type": "number"},
            "errors": list_of(
                object_of(
                    {**dict.fromkeys(("field", "description", "reason", "code"), TEXT), "nearest_codes": list_of(TEXT)},
                    ("code", "nearest_codes"),
                )
            ),
        },
        ("reason", "request_id", "retry_after_seconds", "errors"),
    ),
    "Live": object_of({"live": FLAG}),
    "Ready": object_of({"ready": FLAG}),
}
_SCHEMAS["Answer"]["required"].remove("next_questions")  # an interview has them beside its answer


_PROBLEM: Mapping[str, Any] = {MEDIA_TYPE: reference("Problem")}


class Operation(NamedTuple):
    """What a route does.

    Attributes:
        summary: a few words for people.
        answer: schemas of the answer by media type.
        body: schemas of the request's body by media type, None without one.
        parameters: parameters beside those in the path.
        open: whether it takes no token and no place on the server.
        failures: statuses that it has beside those of all others.
        failure: schemas by media type of what comes with them; a page of another origin gets a problem all the same.
    """

    summary: str
    answer: Mapping[str, Any]
    body: Mapping[str, Any] | None = None
    parameters: tuple[dict[str, Any], ...] = ()
    open: bool = False
    failures: tuple[int, ...] = ()
    failure: Mapping[str, Any] = _PROBLEM


class Api(NamedTuple):
    """Paths that a server offers beside its own.

    Attributes:
        routes: each with the name of its operation.
        operations: what the routes do, by their names.
        schemas: those that the operations refer to, by name.
        prefix: what all of the routes begin with, "" where they have nothing in common.
        written: how a problem with another path below `prefix` is written.
        check: raises InputError where the settings do not fit the first model's evidence.
    """

    routes: Sequence[Route]
    operations: Mapping[str, Operation]
    schemas: Mapping[str, Any]
    prefix: str = ""
    written: Callable[[Response], Response] = lambda problem: problem
    check: Callable[[Vocabulary], None] = lambda vocabulary: None


_OPERATIONS = {
    "triage": Operation(
        "Decide on one evidence state, or on several", content_of("Answer", "Answers"), content_of("Patient", "Batch")
    ),
    "interview": Operation(
        "Decide on all that is known so far, or say what to ask next", content_of("Interview"), content_of("Patient")
    ),
    "vocabulary": Operation(
        "List the evidence that the model knows", content_of("Vocabulary"), parameters=(_MODEL_NAME,)
    ),
    "model": Operation("Describe the model that answers", content_of("Model"), parameters=(_MODEL_NAME,)),
    "live": Operation("Say that the process answers", content_of("Live"), open=True),
    "ready": Operation("Say whether each model can answer", content_of("Ready"), open=True),
    "openapi": Operation("Describe the API, as here", {_JSON: ANY_OBJECT}, open=True),
    "vertex-predict": Operation("Answer Vertex AI", content_of("Predictions"), content_of("Instances")),
}
"""The operations by the names of their routes."""
_FAILURES = (400, 401, 403, 404, 429, 500, 501, 503, 504)
_FAILURES_WITH_BODY = (*_FAILURES, 411, 413, 415)
_TOO_MANY_HEADERS = {"description": "There are too many headers, or too long ones", "content": {"text/plain": {}}}


def document(routes: Iterable[Route], config: ServeConfig, others: Sequence[Api] = ()) -> dict[str, Any]:
    """Returns the OpenAPI 3.1 document of a server, of its own routes by the names of operations, and of others."""
    operations, schemas = dict(_OPERATIONS), copy.deepcopy(_SCHEMAS)
    for other in others:
        operations |= other.operations
        schemas |= other.schemas
    paths: dict[str, Any] = {}
    names: collections.Counter[str] = collections.Counter()
    for route in itertools.chain(routes, *(other.routes for other in others)):
        names[route.name] += 1
        number = f"-{names[route.name]}" if names[route.name] > 1 else ""
        [method] = (route.methods or set()) - {"HEAD"}
        described = {"operationId": f"{route.name}{number}", **_described(route, operations[route.name])}
        paths.setdefault(route.path, {}).setdefault(method.lower(), described)  # the first one answers
    for name, field in (("Batch", "states"), ("Instances", "instances")):
        schemas[name]["properties"][field]["maxItems"] = config.max_batch
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Triage",
            "version": "1",
            "description": "Decides whether to ask for more evidence or to triage. Research software, not a medical "
            f"device. A body has at most {config.max_message_bytes} bytes, and a state at most {config.max_evidence} "
            "pieces of evidence, or as many as the vocabulary has if these are more.",
        },
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}] if config.tokens else [],
    }


def _described(route: Route, operation: Operation) -> dict[str, Any]:
    """Returns the operation of a route without its id."""
    variables = [
        {"name": name, "in": "path", "required": True, "schema": {**TEXT, "pattern": "^[^/]+$"}}
        for name in route.param_convertors
    ]
    failures = operation.failures + (_FAILURES_WITH_BODY if operation.body else _FAILURES)
    if operation.open:
        failures = (403, 503)
    responses = {"200": {"description": "OK", "content": _content(operation.answer)}}
    for status in failures:
        content = {**operation.failure, **(_PROBLEM if status == 403 else {})}
        responses[str(status)] = {"description": http.HTTPStatus(status).phrase, "content": _content(content)}
    described: dict[str, Any] = {"summary": operation.summary, "responses": {**responses, "431": _TOO_MANY_HEADERS}}
    if parameters := [*variables, *operation.parameters]:
        described["parameters"] = parameters
    if operation.body:
        described["requestBody"] = {"required": True, "content": _content(operation.body)}
    return {**described, "security": []} if operation.open else described


def _content(schemas: Mapping[str, Any]) -> dict[str, Any]:
    return {media_type: {"schema": schema} for media_type, schema in schemas.items()}
