"""The OpenAPI document of the HTTP port, and a page that shows it and loads nothing from elsewhere."""

import functools
import html
import json
from typing import Any

import msgspec

from serving import message_json
from serving.protocols.http_problems import MEDIA_TYPE, TITLES
from serving.protocols.triage_json import Batch, Patient, State
from triage.v1 import triage_pb2

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""The page's content security policy: it loads nothing, not even from here."""

_CODE_LIST = {"type": "array", "items": {"type": "string"}, "description": "codes of the vocabulary"}
_NUMBER = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
_FLAG = {"type": "boolean"}
_MODEL_NAME = {"type": "string", "description": "name of the model; by default the first one of the server"}
_EXAMPLE = {"present": ["chest_pain"], "absent": ["fever"], "questions_asked": 3}
_TEXT = {"type": "string"}
_VALUE = {"type": "number"}


def _object(properties: dict[str, Any], required: tuple[str, ...] = (), closed: bool = False) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    if closed:
        schema["additionalProperties"] = False
    return schema


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _requests() -> dict[str, Any]:
    """Returns the schemas of bodies as they are read."""
    _, schemas = msgspec.json.schema_components((State, Patient, Batch), ref_template="#/components/schemas/{name}")
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
    "NextQuestion.question": "to ask a patient",
    "NextQuestion.expected_gain": "in bits",
    "NextQuestion.likely": "the probability of a yes",
    "NextQuestion.worth_asking": "worth more than a question costs",
    "NextQuestion.rationale": "with explain: the reason of the safety rule that a yes would fire",
    "Explanation.effects": "how much the probabilities change where a piece is left out, the largest first",
    "EvidenceEffect.support": "above 0 it speaks for the decision, below 0 against it",
    "Explanation.sufficient": "the smallest set of pieces that gives the same decision by itself",
    "Explanation.turning": "answers to the best next questions that would change the decision",
}
"""What fields mean; a field that is not here is described by its name and type alone."""

_SCHEMAS: dict[str, Any] = {
    **_requests(),
    **{
        name: message_json.schema(message, _MEANINGS, _REFERENCES)
        for name, message in (
            ("Answer", triage_pb2.TriageResponse.DESCRIPTOR),
            ("Question", triage_pb2.NextQuestion.DESCRIPTOR),
            ("Explanation", triage_pb2.Explanation.DESCRIPTOR),
        )
    },
    "Answers": _object({"answers": {"type": "array", "items": _reference("Answer")}}, ("answers",)),
    "Interview": _object(
        {
            "done": {**_FLAG, "description": "whether the interview is over"},
            "decision": {
                "type": ["string", "null"],
                "description": "the triage decision, null while asking, and where a person takes over (deferred)",
            },
            "questions": {
                "type": "array",
                "description": "what to ask next, the best first; empty where nothing is left to ask, and where the "
                "model leaves that to the caller",
                "items": _reference("Question"),
            },
            "answer": _reference("Answer"),
        },
        ("done", "decision", "questions", "answer"),
    ),
    "Vocabulary": _object(
        {
            "vocabulary_fingerprint": _TEXT,
            "entries": {
                "type": "array",
                "items": _object(
                    {
                        "code": _TEXT,
                        "kind": _TEXT,
                        "name": _TEXT,
                        "question": _TEXT,
                        "synonyms": {
                            "type": "array",
                            "items": _TEXT,
                            "description": "what patients say for it; one that begins with ! tells of a crisis",
                        },
                        "parent": {**_TEXT, "description": "code that is present whenever this one is, or empty"},
                        "exclusive": {**_TEXT, "description": "group of which a patient has at most one, or empty"},
                        "band": {**_TEXT, "description": "numbers for which it is present, or empty"},
                    }
                ),
            },
        }
    ),
    "Model": _object({"model_version": _TEXT, "evidence_count": _NUMBER, "max_questions": _NUMBER}),
    "Problem": _object(
        {
            "title": _TEXT,
            "status": {"type": "integer"},
            "detail": {**_TEXT, "description": "what is wrong, and what to do"},
            "reason": {**_TEXT, "description": "for programs: the same as over gRPC"},
            "request_id": _TEXT,
            "retry_after_seconds": _VALUE,
            "errors": {
                "type": "array",
                "items": _object(
                    {"field": _TEXT, "description": _TEXT, "reason": _TEXT, "code": _TEXT, "nearest_codes": _CODE_LIST}
                ),
            },
        },
        ("title", "status"),
    ),
}  # fmt: skip
_SCHEMAS["Answer"]["required"].remove("next_questions")  # an interview has them beside its answer


def _operation(name: str, summary: str, answer: dict[str, Any], body: dict[str, Any] | None = None) -> dict[str, Any]:
    failures = (400, 401, 403, 404, 411, 413, 415, 429, 503, 504) if body else (401, 403, 404, 429, 503)
    problems = {
        str(status): {"description": TITLES[status], "content": {MEDIA_TYPE: {"schema": _reference("Problem")}}}
        for status in failures
    }
    operation: dict[str, Any] = {
        "operationId": name,
        "summary": summary,
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": answer}}}, **problems},
    }
    if body:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    else:
        operation["parameters"] = [{"name": "model", "in": "query", "schema": _MODEL_NAME}]
    return operation


@functools.cache
def document() -> dict[str, Any]:
    """Returns the OpenAPI 3.1 document."""
    either = {"anyOf": [_reference("Patient"), _reference("Batch")]}
    answers = {"anyOf": [_reference("Answer"), _reference("Answers")]}
    operations: dict[str, tuple[str, str, str, dict[str, Any], dict[str, Any] | None]] = {
        "/v1/triage": ("post", "triage", "Decide on one evidence state, or on several", answers, either),
        "/v1/interview": (
            "post", "interview", "Decide on all that is known so far, or say what to ask next",
            _reference("Interview"), _reference("Patient"),
        ),
        "/v1/vocabulary": (
            "get", "vocabulary", "List the evidence that the model knows", _reference("Vocabulary"), None,
        ),
        "/v1/model": ("get", "model", "Describe the model that answers", _reference("Model"), None),
    }  # fmt: skip
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Triage",
            "version": "1",
            "description": "Decides whether to ask for more evidence or to triage. Research software, not a medical "
            "device.",
        },
        "paths": {
            path: {method: _operation(name, summary, answer, body)}
            for path, (method, name, summary, answer, body) in operations.items()
        },
        "components": {
            "schemas": _SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


@functools.cache
def page() -> str:
    """Returns the document as a page."""
    parts = []
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            parts.append(f"<h2><code>{method.upper()} {html.escape(path)}</code></h2><p>{operation['summary']}.</p>")
            if body:
                parts.append(f"<h3>Body</h3>{_shown(body)}")
                parts.append(
                    f"<pre>curl http://127.0.0.1:8501{path} -H 'content-type: application/json' \\\n"
                    f"  -d '{html.escape(json.dumps(_EXAMPLE), quote=False)}'</pre>"
                )
            answer = operation["responses"]["200"]["content"]["application/json"]["schema"]
            parts.append(f"<h3>Answer</h3>{_shown(answer)}")
    schemas = "".join(
        f'<h3 id="{name}">{name}</h3><pre>{html.escape(json.dumps(schema, indent=2))}</pre>'
        for name, schema in _SCHEMAS.items()
    )
    info = document()["info"]
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{info["title"]}</title>'
        '<meta name="viewport" content="width=device-width"><style>body{font:16px/1.5 sans-serif;max-width:50em;'
        "margin:2em auto;padding:0 1em}pre{background:#f3f3f3;padding:.7em;overflow:auto}</style>"
        f'<h1>{info["title"]}</h1><p>{info["description"]} <a href="/openapi.json">openapi.json</a></p>'
        f"{''.join(parts)}<h2>Schemas</h2>{schemas}</html>"
    )


def _shown(schema: dict[str, Any]) -> str:
    names = [entry["$ref"].rpartition("/")[2] for entry in schema.get("anyOf", [schema])]
    return "<p>" + " or ".join(f'<a href="#{name}">{name}</a>' for name in names) + "</p>"
