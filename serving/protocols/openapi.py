"""The OpenAPI document of the HTTP port, and a page that shows it and loads nothing from elsewhere."""

import collections
import copy
import html
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from starlette.routing import Route

from schemas import feedback
from schemas.features import MOST_QUESTIONS
from serving import message_json
from serving.config.settings import ServeConfig
from serving.protocols.http_problems import MEDIA_TYPE, TITLES
from serving.protocols.triage_json import Batch, Instances, Patient, State
from triage.v1 import triage_pb2, triage_service_pb2

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""The page's content security policy: it loads nothing, not even from here."""

_JSON, _FHIR, _BINARY = "application/json", "application/fhir+json", "application/octet-stream"
_NUMBER = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
_WHOLE = {"type": "integer"}
_FLAG = {"type": "boolean"}
_EXAMPLE = {"present": ["chest_pain"], "absent": ["fever"], "questions_asked": 3}
_TEXT = {"type": "string"}
_ANY_OBJECT = {"type": "object"}
_VALUE = {"type": "number"}
_BYTES = {"type": "string", "contentMediaType": _BINARY}
_MODEL_NAME = {"name": "model", "in": "query", "schema": _TEXT, "description": "by default the server's first model"}


def _object(properties: dict[str, Any], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _requests() -> dict[str, Any]:
    """Returns the schemas of bodies as they are read."""
    kinds = (State, Patient, Batch, Instances)
    _, schemas = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    for schema in schemas.values():
        for name, field in schema["properties"].items():
            if field.get("type") == "integer":  # a body may have others, which are refused with what they mean
                field["minimum"] = 0
                field["maximum"] = MOST_QUESTIONS if name == "questions" else field["maximum"]
    for name in ("State", "Patient"):
        schemas[name]["example"] = _EXAMPLE
    return schemas


_REFERENCES = {"NextQuestion": "#/components/schemas/Question", "Explanation": "#/components/schemas/Explanation"}
_MEANINGS = {
    "TriageResponse.action": "ask for more evidence, or triage; after the safety rules",
    "TriageResponse.best_triage": "the best triage decision on what is known",
    "TriageResponse.forced": "asking was not possible",
    "TriageResponse.unknown_codes": "codes that the model does not know: they had no part in the decision",
    "TriageResponse.conflicting_codes": "codes that contradict themselves, without part in the decision, or each other",
    "TriageResponse.deferred": "why the case is handed over to a person, with defer_below alone",
    "NextQuestion.code": "the answer is this evidence, present or absent",
    "NextQuestion.question": "to ask a patient, in the language of Accept-Language where the vocabulary has it",
    "NextQuestion.expected_gain": "in bits",
    "NextQuestion.likely": "the probability of a yes",
    "NextQuestion.worth_asking": "worth more than a question costs",
    "NextQuestion.one_of": "codes of which the patient has exactly one, to choose from; [] for yes or no",
    "NextQuestion.any_of": "red flags in one question, any number of which the patient has; [] for others",
    "NextQuestion.rationale": "with explain: the reason of the safety rule that a yes would fire",
    "NextQuestion.rationales": "with explain: the same of each of any_of, an empty text where it would fire none",
    "Explanation.effects": "how much the probabilities change where a piece is left out, the largest first",
    "EvidenceEffect.support": "above 0 it speaks for the decision, below 0 against it",
    "Explanation.sufficient": "the smallest set of pieces that gives the same decision by itself",
    "Explanation.turning": "answers to the best next questions that would change the decision",
    "VocabularyEntry.synonyms": "what patients say for it; one that begins with ! tells of a crisis",
    "VocabularyEntry.parent": "the code that it implies, or empty",
    "VocabularyEntry.exclusive": "the group of which one at most is present, or empty",
    "VocabularyEntry.band": "the numbers that it stands for, or empty",
    "VocabularyEntry.instrument": "without which nobody can tell, or empty",
    "VocabularyEntry.red_flag": "whether it can be a sign of danger",
}
"""What fields mean; a field that is not here is described by its name and type alone."""

_TENSOR_INPUTS = _object(
    {"signature_name": _TEXT, "instances": _list({}), "inputs": {}}, ("signature_name", "instances", "inputs")
)
_TENSOR = {"name": _TEXT, "datatype": {"enum": ["BOOL", "BYTES", "FP32", "INT32"]}, "shape": _list(_WHOLE)}
_DATA = {**_list({}), "description": "the values, nested or not, unless they are bytes behind the JSON"}
_BINARY_SIZE = _object({"binary_data_size": _NUMBER})
_RESOURCE = {"resourceType": _TEXT}

_SCHEMAS: dict[str, Any] = {
    **_requests(),
    **{
        name: message_json.schema(message, _MEANINGS, _REFERENCES)
        for name, message in (
            ("Answer", triage_pb2.TriageResponse.DESCRIPTOR),
            ("Question", triage_pb2.NextQuestion.DESCRIPTOR),
            ("Explanation", triage_pb2.Explanation.DESCRIPTOR),
            ("Vocabulary", triage_service_pb2.GetVocabularyResponse.DESCRIPTOR),
        )
    },
    "Answers": _object({"answers": _list(_reference("Answer"))}),
    "Predictions": _object({"predictions": _list(_reference("Answer"))}),
    "Interview": _object(
        {
            "done": {**_FLAG, "description": "whether the interview is over"},
            "decision": {
                "type": ["string", "null"],
                "description": "the triage decision, null while asking, and where a person takes over (deferred)",
            },
            "questions": {
                **_list(_reference("Question")),
                "description": "what to ask next, the best first; empty where nothing is left to ask, and where the "
                "model leaves that to the caller",
            },
            "answer": _reference("Answer"),
        }
    ),
    "Model": _object(
        {
            "model_version": _TEXT,
            "vocabulary_fingerprint": _TEXT,
            "data_fingerprint": _TEXT,
            "evidence_count": _NUMBER,
            "max_questions": _NUMBER,
            "rules": _list(_object({"rule_id": _TEXT, "reason": _TEXT})),
            "novelty_threshold": {"type": ["number", "null"]},
        }
    ),
    "Problem": _object(
        {
            "type": _TEXT,
            "title": _TEXT,
            "status": _WHOLE,
            "detail": {**_TEXT, "description": "what is wrong, and what to do"},
            "error": {**_TEXT, "description": "the same, where clients of other servers look"},
            "reason": {**_TEXT, "description": "for programs: the same as over gRPC"},
            "request_id": _TEXT,
            "retry_after_seconds": _VALUE,
            "errors": _list(
                _object(
                    {
                        "field": _TEXT,
                        "description": _TEXT,
                        "reason": _TEXT,
                        "code": _TEXT,
                        "nearest_codes": {**_list(_TEXT), "description": "codes of the vocabulary"},
                    },
                    ("code", "nearest_codes"),
                )
            ),
        },
        ("reason", "request_id", "retry_after_seconds", "errors"),
    ),
    "Live": _object({"live": _FLAG}),
    "Ready": _object({"ready": _FLAG}),
    "TensorInputs": {
        **_TENSOR_INPUTS,
        "oneOf": [{"required": ["instances"]}, {"required": ["inputs"]}],
        "description": "the inputs of a signature, as rows or as columns",
    },
    "TensorOutputs": {"oneOf": [_object({"predictions": _list({})}), _object({"outputs": {}})]},
    "ModelStatus": _object(
        {
            "model_version_status": _list(
                _object(
                    {
                        "version": _TEXT,
                        "state": _TEXT,
                        "status": _object({"error_code": _TEXT, "error_message": _TEXT}),
                    }
                )
            )
        }
    ),
    "ModelSignatures": _object(
        {
            "model_spec": _object({"name": _TEXT, "signature_name": _TEXT, "version": _TEXT}),
            "metadata": _object({"signature_def": _ANY_OBJECT}),
        }
    ),
    "InferenceServer": _object({"name": _TEXT, "version": _TEXT, "extensions": _list(_TEXT)}),
    "InferenceModel": _object(
        {
            "name": _TEXT,
            "versions": _list(_TEXT),
            "platform": _TEXT,
            "inputs": _list(_object(_TENSOR)),
            "outputs": _list(_object(_TENSOR)),
        }
    ),
    "InferenceModelReady": _object({"name": _TEXT, "ready": _FLAG}),
    "InferenceRequest": _object(
        {
            "id": {"type": ["string", "null"]},
            "parameters": _object(
                {"signature_name": _TEXT, "binary_data_output": _FLAG}, ("signature_name", "binary_data_output")
            ),
            "inputs": _list(_object({**_TENSOR, "data": _DATA, "parameters": _BINARY_SIZE}, ("data", "parameters"))),
            "outputs": _list(
                _object(
                    {"name": _TEXT, "parameters": _object({"binary_data": _FLAG}, ("binary_data",))}, ("parameters",)
                )
            ),
        },
        ("id", "parameters", "outputs"),
    ),
    "InferenceResponse": _object(
        {
            "model_name": _TEXT,
            "model_version": _TEXT,
            "id": _TEXT,
            "outputs": _list(_object({**_TENSOR, "data": _DATA, "parameters": _BINARY_SIZE}, ("data", "parameters"))),
        },
        ("id",),
    ),
    "CdsServices": _object(
        {
            "services": _list(
                _object(
                    {**dict.fromkeys(("hook", "id", "title", "description"), _TEXT), "prefetch": _ANY_OBJECT}
                )
            )
        }
    ),
    "CdsRequest": {
        **_object({"hook": _TEXT, "hookInstance": _TEXT, "context": _ANY_OBJECT, "prefetch": _ANY_OBJECT}),
        "description": "as CDS Hooks 2.0 has it; the prefetch must be there",
    },
    "CdsCards": _object({"cards": _list({"type": "object", "description": "a card of CDS Hooks 2.0"})}),
    "CdsFeedback": _object(
        {
            "feedback": _list(
                _object(
                    {
                        "card": _TEXT,
                        "outcome": {"enum": list(feedback.OUTCOMES)},
                        "outcomeTimestamp": _TEXT,
                        "overrideReason": _ANY_OBJECT,
                    },
                    ("overrideReason",),
                )
            )
        }
    ),
    "Nothing": _object({}),
    **{
        name: {**_object(_RESOURCE), "description": f"{article} {name} of FHIR R4 or R5"}
        for article, name in (
            ("a", "CapabilityStatement"), ("a", "OperationOutcome"), ("a", "Questionnaire"),
            ("a", "QuestionnaireResponse"), ("the", "Parameters"),
        )
    },
}  # fmt: skip
_SCHEMAS["Answer"]["required"].remove("next_questions")  # an interview has them beside its answer


class _Operation(NamedTuple):
    """What a route does.

    Attributes:
        summary: in words.
        answer: schemas of the answer by media type.
        body: those of the body, None without one.
        parameters: beside those in the path.
        open: whether it takes no token and no place on the server.
        failures: statuses that it has beside those of all others.
    """

    summary: str
    answer: Mapping[str, Any]
    body: Mapping[str, Any] | None = None
    parameters: tuple[dict[str, Any], ...] = ()
    open: bool = False
    failures: tuple[int, ...] = ()


def _json(*names: str) -> dict[str, Any]:
    schemas = [_reference(name) for name in names]
    return {_JSON: schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}


_HEADER_LENGTH = {
    "name": "inference-header-content-length",
    "in": "header",
    "schema": _WHOLE,
    "description": "length of the JSON, where bytes of inputs follow it",
}
_OPERATIONS = {
    "triage": _Operation(
        "Decide on one evidence state, or on several", _json("Answer", "Answers"), _json("Patient", "Batch")
    ),
    "interview": _Operation(
        "Decide on all that is known so far, or say what to ask next", _json("Interview"), _json("Patient")
    ),
    "vocabulary": _Operation("List the evidence that the model knows", _json("Vocabulary"), parameters=(_MODEL_NAME,)),
    "model": _Operation("Describe the model that answers", _json("Model"), parameters=(_MODEL_NAME,)),
    "live": _Operation("Say that the process answers", _json("Live"), open=True),
    "ready": _Operation("Say whether each model can answer", _json("Ready"), open=True),
    "openapi": _Operation("Describe the API, as here", {_JSON: _ANY_OBJECT}, open=True),
    "page": _Operation("Show this description", {"text/html": _TEXT}, open=True),
    "vertex-predict": _Operation("Answer Vertex AI", _json("Predictions"), _json("Instances")),
    "tf-predict": _Operation("Run a signature, as TensorFlow Serving", _json("TensorOutputs"), _json("TensorInputs")),
    "tf-status": _Operation("Tell the states of versions, as TensorFlow Serving", _json("ModelStatus")),
    "tf-metadata": _Operation("Describe signatures, as TensorFlow Serving", _json("ModelSignatures")),
    "v2-server": _Operation("Describe the server (Open Inference Protocol)", _json("InferenceServer")),
    "v2-model": _Operation("Describe a model (Open Inference Protocol)", _json("InferenceModel")),
    "v2-ready": _Operation("Say that a model can answer (Open Inference Protocol)", _json("InferenceModelReady")),
    "v2-infer": _Operation(
        "Run a signature (Open Inference Protocol)",
        {**_json("InferenceResponse"), _BINARY: _BYTES},
        {**_json("InferenceRequest"), _BINARY: _BYTES},
        (_HEADER_LENGTH,),
    ),
    "fhir-metadata": _Operation(
        "Say what the FHIR API offers", {_FHIR: _reference("CapabilityStatement")}, failures=(406, 415)
    ),
    "fhir-questionnaire": _Operation(
        "Read the form before it is filled in", {_FHIR: _reference("Questionnaire")}, failures=(406, 415)
    ),
    "fhir-next-question": _Operation(
        "Add the next question to a form, or complete it",
        {_FHIR: _reference("QuestionnaireResponse")},
        {_FHIR: {"anyOf": [_reference("QuestionnaireResponse"), _reference("Parameters")]}},
        failures=(406,),
    ),
    "cds-services": _Operation("List the services of CDS Hooks", _json("CdsServices")),
    "cds-call": _Operation(
        "Answer a hook with a card (CDS Hooks)", _json("CdsCards"), _json("CdsRequest"), failures=(412,)
    ),
    "cds-feedback": _Operation(
        "Keep what clinicians made of cards (CDS Hooks)", _json("Nothing"), _json("CdsFeedback")
    ),
}
"""The operations by the names of their routes."""
_FAILURES = (400, 401, 403, 404, 429, 500, 501, 503, 504)
_FAILURES_WITH_BODY = (*_FAILURES, 411, 413, 415)
_TOO_MANY_HEADERS = {"description": "There are too many headers, or too long ones", "content": {"text/plain": {}}}


def document(routes: Iterable[Route], config: ServeConfig) -> dict[str, Any]:
    """Returns the OpenAPI 3.1 document of a server.

    Args:
        routes: its routes, each with the name of its operation.
        config: its limits, and whether it takes tokens.
    """
    paths: dict[str, Any] = {}
    names: collections.Counter[str] = collections.Counter()
    for route in routes:
        names[route.name] += 1
        number = f"-{names[route.name]}" if names[route.name] > 1 else ""
        [method] = (route.methods or set()) - {"HEAD"}
        described = {"operationId": f"{route.name}{number}", **_described(route)}
        paths.setdefault(route.path, {}).setdefault(method.lower(), described)  # the first one answers
    schemas = copy.deepcopy(_SCHEMAS)
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


def _described(route: Route) -> dict[str, Any]:
    """Returns the operation of a route without its id."""
    operation = _OPERATIONS[route.name]
    variables = [
        {"name": name, "in": "path", "required": True, "schema": {**_TEXT, "pattern": "^[^/]+$"}}
        for name in route.param_convertors
    ]
    failures = operation.failures + (_FAILURES_WITH_BODY if operation.body else _FAILURES)
    if operation.open:
        failures = (403, 503)
    is_fhir = _FHIR in operation.answer
    responses = {"200": {"description": "OK", "content": _content(operation.answer)}}
    for status in failures:
        problem = {MEDIA_TYPE: _reference("Problem")}
        outcome = {_FHIR: _reference("OperationOutcome")} | (problem if status == 403 else {})  # of a foreign page
        responses[str(status)] = {"description": TITLES[status], "content": _content(outcome if is_fhir else problem)}
    described: dict[str, Any] = {"summary": operation.summary, "responses": {**responses, "431": _TOO_MANY_HEADERS}}
    if parameters := [*variables, *operation.parameters]:
        described["parameters"] = parameters
    if operation.body:
        described["requestBody"] = {"required": True, "content": _content(operation.body)}
    return {**described, "security": []} if operation.open else described


def _content(schemas: Mapping[str, Any]) -> dict[str, Any]:
    return {media_type: {"schema": schema} for media_type, schema in schemas.items()}


def page(described: Mapping[str, Any]) -> str:
    """Returns a document as a page."""
    parts = []
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            parts.append(f"<h2><code>{method.upper()} {html.escape(path)}</code></h2><p>{operation['summary']}.</p>")
            if "requestBody" in operation:
                parts.append(f"<h3>Body</h3>{_shown(operation['requestBody'])}")
            if _reference("Patient") in _schemas_of(operation.get("requestBody", {})):
                parts.append(
                    f"<pre>curl http://127.0.0.1:8501{path} -H 'content-type: application/json' \\\n"
                    f"  -d '{html.escape(json.dumps(_EXAMPLE), quote=False)}'</pre>"
                )
            parts.append(f"<h3>Answer</h3>{_shown(operation['responses']['200'])}")
    schemas = "".join(
        f'<h3 id="{name}">{name}</h3><pre>{html.escape(json.dumps(schema, indent=2))}</pre>'
        for name, schema in described["components"]["schemas"].items()
    )
    info = described["info"]
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{info["title"]}</title>'
        '<meta name="viewport" content="width=device-width"><style>body{font:16px/1.5 sans-serif;max-width:50em;'
        "margin:2em auto;padding:0 1em}pre{background:#f3f3f3;padding:.7em;overflow:auto}</style>"
        f'<h1>{info["title"]}</h1><p>{info["description"]} <a href="/openapi.json">openapi.json</a></p>'
        f"{''.join(parts)}<h2>Schemas</h2>{schemas}</html>"
    )


def _schemas_of(described: Mapping[str, Any]) -> list[Any]:
    """Returns the schemas of a body or an answer."""
    schemas = (content["schema"] for content in described.get("content", {}).values())
    return [each for schema in schemas for each in schema.get("anyOf", [schema])]


def _shown(described: Mapping[str, Any]) -> str:
    names = [schema["$ref"].rpartition("/")[2] for schema in _schemas_of(described) if "$ref" in schema]
    return (
        "<p>"
        + (" or ".join(f'<a href="#{name}">{name}</a>' for name in names) or ", ".join(described["content"]))
        + "</p>"
    )
