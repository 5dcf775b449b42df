"""FHIR resources of an adaptive form (Structured Data Capture): what is read from them, and what is written.

The form is a QuestionnaireResponse with the Questionnaire that was asked so far in `contained`. Its items alone say
what was asked and answered. It is read as plain JSON: everything that is used is checked, and the rest goes back as it
came.
Resources of R4 and R5 differ in the type of a question with options, and profiles are those of R4.
"""

import dataclasses
import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from schemas import VERSION
from schemas.bands import NumberError
from schemas.errors import InputError
from schemas.evidence import KINDS, Evidence, Vocabulary
from schemas.questions import ANY_OF, GROUPS, NONE_OF
from serving.errors import Fault, FaultyRequestError
from serving.hospital.fhir_values import (
    ABSENT_REASON,
    MODIFIED,
    NO,
    NOT_KNOWN,
    NUMBER,
    YES,
    YES_OR_NO,
    Resource,
    read_status,
    read_value,
)
from serving.messages import ANSWERS, DEFERRALS, action_label
from triage.v1 import triage_pb2

R4, R5 = "4.0", "5.0"
FHIR_VERSIONS = {R4: "4.0.1", R5: "5.0.0"}
"""By what the parameter `fhirVersion` of a media type calls them."""
_TYPES = {R4: "choice", R5: "coding"}
"""Of a question with options."""
ID = "triage"
"""Of the form, and of the Questionnaire in a response."""
DECISION = "decision"
"""Id of the RiskAssessment in a response."""
COMPLAINT = "complaint"
"""The linkId of the first question, whose answers are evidence that is present; no code is spelled so."""
_ASKED, _AND = "?", "|"
"""Begins the linkId of a question that was asked, and stands between its codes; no code has them."""
_SDC = "http://hl7.org/fhir/uv/sdc"
NEXT_QUESTION = f"{_SDC}/OperationDefinition/Questionnaire-next-question"
_ADAPTIVE = f"{_SDC}/StructureDefinition/sdc-questionnaire-questionnaireAdaptive"
_FORM, _SEARCH, _RESPONSE = (
    f"{_SDC}/StructureDefinition/sdc-{name}"
    for name in ("questionnaire-adapt", "questionnaire-adapt-srch", "questionnaireresponse-adapt")
)
_EXCLUSIVE = "http://hl7.org/fhir/StructureDefinition/questionnaire-optionExclusive"
_STATUSES = {**dict.fromkeys(("in-progress", "completed", "amended", "stopped"), True), "entered-in-error": None}
"""See `read_status`."""
_ELEMENTS = ("linkId", "text", "definition", "answer", "item", "id", "extension", "subject")
"""Of an item; any other could change its meaning."""
_ANSWERS = ((YES_OR_NO, YES), (YES_OR_NO, NO), (ABSENT_REASON, NOT_KNOWN))
RESEARCH_ONLY = "Research only: this is not a medical device, and it is not validated for patient care."


@dataclasses.dataclass(frozen=True)
class Form:
    """The evidence about a patient in a QuestionnaireResponse.

    Attributes:
        resource: the QuestionnaireResponse.
        asked: linkIds of the questions that were asked and came back, in their order.
        present: codes that are present, with the place of each in the resource.
        absent: the same of those that are absent.
        not_known: codes that were asked about without an answer.
        one_of: by code, those of its group, of which the patient has exactly one.
    """

    resource: Resource
    asked: Sequence[str]
    present: Mapping[str, str]
    absent: Mapping[str, str]
    not_known: Sequence[str]
    one_of: Mapping[str, Sequence[str]]

    @property
    def questions_asked(self) -> int:
        """Questions that were asked and came back, 0 or more; age and sex are one together."""
        return len({"" if _codes(link)[0] in self.one_of else link for link in self.asked if link != COMPLAINT})

    def options(self, code: str) -> Sequence[str]:
        """Returns the codes that a question is to choose from, () if it is answered by yes or no."""
        group = self.one_of.get(code, ())
        return () if any(each in self.absent for each in group) else group

    def place(self, fault: Fault) -> Fault:
        """Returns a fault of a state with the place in the resource that it is about."""
        places = [*self.present.values(), *self.absent.values()]
        begin, _, rest = fault.field.partition("state.evidence[")
        if begin or not rest:
            return fault
        return dataclasses.replace(fault, field=places[int(rest.partition("]")[0])])


def link_of(question: triage_pb2.NextQuestion) -> str:
    """Returns the linkId of a question, which says that it was asked, and about what."""
    return _ASKED + _AND.join(question.any_of or [question.code])


def _codes(link: str) -> list[str]:
    return link.removeprefix(_ASKED).split(_AND)


def knows_complaint(present: Iterable[str], vocabulary: Vocabulary) -> bool:
    """Returns whether a symptom is present; age, sex and other risk factors alone are not a complaint.

    A number that cannot be is left to the service, which refuses it.
    """
    symptom, *_ = KINDS
    try:
        there, *_ = vocabulary.read_numbers([*present], ())
    except NumberError:
        return True
    return any(entry.kind == symptom and entry.code in there for entry in vocabulary)


def read_form(body: Any, vocabulary: Vocabulary) -> Form:
    """Returns the evidence in the body of `$next-question`: a QuestionnaireResponse, or Parameters with one.

    Raises:
        InputError: it is neither.
        FaultyRequestError: something that is used is not as expected; the message names the place.
    """
    resource = _resource_of(body)
    _list(resource, "contained", "QuestionnaireResponse")
    counts, fault = read_status(resource.get("status"), _STATUSES)
    if not counts:
        raise _fault("QuestionnaireResponse.status", fault or "it was entered in error")
    if "modifierExtension" in resource:
        raise _fault("QuestionnaireResponse.modifierExtension", MODIFIED)
    groups = [[vocabulary[cell].code for cell in cells] for cells in vocabulary.openings.values()]
    one_of = {code: group for group in groups for code in group}
    units = vocabulary.bands.units
    links: dict[str, None] = {}  # in their order
    present: dict[str, str] = {}
    absent: dict[str, str] = {}
    not_known: list[str] = []
    for place, item in _items(resource, "QuestionnaireResponse"):
        link, here = item["linkId"], f"{place}.linkId"
        if link in links:
            raise _fault(here, f"{link[:80]!r} is there twice: give each question once")
        links[link] = None
        codes = [] if link == COMPLAINT else _codes(link)
        for code in codes:
            if code not in vocabulary and link not in units:
                raise _fault(here, vocabulary.unknown_message(code))
        answers = _answers(item, "answer", place, units.get(link))
        chosen = {each for each, _ in answers}
        code, where = answers[0] if answers else (NOT_KNOWN, "")
        if chosen <= {NOT_KNOWN}:
            not_known += (each for each in codes if each in vocabulary)  # not the measures
        elif link == COMPLAINT:
            present |= answers
        elif len(codes) > 1:
            if chosen != {NO} and not chosen <= {*codes}:
                raise _fault(f"{place}.answer", f"expected any of {', '.join(codes)}, or {NO} or {NOT_KNOWN} alone")
            present |= {each: at for each, at in answers if each != NO}
            absent |= {each: here for each in codes if each not in chosen}
        elif len(answers) > 1:
            raise _fault(f"{place}.answer", "expected one answer, not several")
        elif code.startswith(NUMBER):
            present[f"{link}{code}"] = here
        elif code in (YES, NO):
            (present if code == YES else absent)[codes[0]] = here
        elif code in one_of.get(codes[0], ()):
            present[code] = where
        else:
            expected = ", ".join([*one_of.get(codes[0], ()), YES, NO])
            raise _fault(where, f"expected the code {expected} or {NOT_KNOWN}, or true or false")
    asked = [link for link in links if link == COMPLAINT or link.startswith(_ASKED)]
    return Form(resource, asked, present, absent, not_known, one_of)


def _items(element: Resource, path: str) -> Iterator[tuple[str, Resource]]:
    """Yields the questions in an element and below their answers, each with its place; a group stands for its parts."""
    for number, item in enumerate(_list(element, "item", path)):
        place = f"{path}.item[{number}]"
        _text(item, "linkId", place)
        for name in item:
            if name.removeprefix("_") not in _ELEMENTS:
                raise _fault(f"{place}.{name}", f"expected none but {', '.join(_ELEMENTS)}")
        if "answer" in item or "item" not in item:
            yield place, item
        for at, answer in enumerate(_list(item, "answer", place)):
            if isinstance(answer, dict):
                yield from _items(answer, f"{place}.answer[{at}]")
        yield from _items(item, place)


def _resource_of(body: Any) -> Resource:
    kind = body.get("resourceType") if isinstance(body, dict) else None
    if kind == "Parameters":
        given: list[Any] = []
        for number, parameter in enumerate(_list(body, "parameter", "Parameters")):
            name = _text(parameter, "name", f"Parameters.parameter[{number}]")
            if name == "questionnaire-response":
                given.append(parameter.get("resource"))
        if len(given) > 1:
            raise _fault("Parameters.parameter", f"questionnaire-response is there {len(given)} times: give one")
        return _resource_of(*given or [None])
    if kind != "QuestionnaireResponse":
        raise InputError(
            "expected a QuestionnaireResponse, or Parameters with one as questionnaire-response: POST it as JSON"
        )
    return body


def _list(resource: Resource, name: str, path: str) -> list[Any]:
    value = resource.get(name)
    if not isinstance(value, list | None):
        raise _fault(f"{path}.{name}", "expected a list")
    return value or []


def _text(item: Any, name: str, place: str) -> str:
    value = item.get(name) if isinstance(item, dict) else None
    if not isinstance(value, str) or not value:
        raise _fault(f"{place}.{name}", "expected a text")
    return value


def _answers(item: Resource, name: str, place: str, unit: str | None = None) -> list[tuple[str, str]]:
    """Returns what the answers, or options, in a list say, each with its place; `unit` is as in `read_value`."""
    answers = []
    for number, each in enumerate(_list(item, name, place)):
        said, fault = read_value(each, unit)
        if fault:
            raise _fault(f"{place}.{name}[{number}]", fault)
        answers.append((said, f"{place}.{name}[{number}]"))
    return answers


def _fault(place: str, description: str) -> FaultyRequestError:
    return FaultyRequestError([Fault(place, description, "FAULTY_RESOURCE")])


def next_form(
    form: Form,
    next_asked: Sequence[str],
    answer: triage_pb2.TriageResponse | None,
    vocabulary: Vocabulary,
    base: str,
    fhir: str,
) -> Resource:
    """Returns the QuestionnaireResponse with the next question, or completed, and with the decision so far.

    It is completed where there are no linkIds in `next_asked`. There is no answer before the model was asked.
    """
    named = str(form.resource.get("questionnaire")).removeprefix("#")
    ours = [("Questionnaire", named), ("Questionnaire", ID), ("RiskAssessment", DECISION)]
    others = [
        each
        for each in form.resource.get("contained") or []
        if not isinstance(each, dict) or (each.get("resourceType"), each.get("id")) not in ours
    ]
    entries = {entry.code: entry for entry in vocabulary}
    items = [{**_item(link, form, entries, base), "type": _TYPES[fhir]} for link in (*form.asked, *next_asked)]
    questionnaire = {**_header(base, answer.model_version if answer else "", _FORM, fhir), "id": ID, "item": items}
    questionnaire["derivedFrom"] = [questionnaire.pop("url")]
    contained = [{key: value for key, value in questionnaire.items() if value}, *others]
    nothing_known = answer is None or (answer.forced and answer.action == triage_pb2.TRIAGE_ACTION_ASK)
    if answer is not None and not nothing_known:
        contained.append(_risk(form, answer, final=not next_asked))
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    return {
        "authored": now,  # which SDC expects, as it does a subject
        **form.resource,
        **(_profile(_RESPONSE, fhir) if "subject" in form.resource else {}),
        "contained": contained,
        "questionnaire": f"#{ID}",
        "status": "in-progress" if next_asked else "completed",
    }


def _item(link: str, form: Form, vocabulary: Mapping[str, Evidence], base: str) -> dict[str, Any]:
    codes = _codes(link)
    system = f"{base}/CodeSystem/evidence"

    def codings(codes: Iterable[str]) -> list[Resource]:
        return [{"system": system, "code": code, "display": vocabulary[code].name} for code in codes]

    texts = (text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'") for text in ANSWERS)  # as HL7 has it
    answers = [{"system": of, "code": code, "display": text} for (of, code), text in zip(_ANSWERS, texts, strict=True)]
    item: Resource = {"linkId": link}
    if link == COMPLAINT:
        symptom, *_ = KINDS
        # Once it is answered, the answers alone: hundreds of options would go to and fro with each question.
        answered = [code for code in form.present if code in vocabulary]
        symptoms = [code for code, entry in vocabulary.items() if entry.kind == symptom]
        options = codings(answered if COMPLAINT in form.asked else symptoms)
        item |= {"text": "What is the presenting complaint?", "repeats": True}
    elif group := form.options(codes[0]):
        options = [*codings(group), answers[-1]]
        item["text"] = GROUPS[vocabulary[codes[0]].exclusive]
    elif len(codes) > 1:
        options = [*codings(codes), {**answers[1], "display": NONE_OF}, answers[2]]
        item |= {"text": ANY_OF, "repeats": True}
    else:
        options = answers
        item |= {"code": codings(codes), "text": vocabulary[codes[0]].question}
    alone = {"extension": [{"url": _EXCLUSIVE, "valueBoolean": True}]}  # no code may be chosen beside it
    return item | {
        "answerOption": [
            {"valueCoding": option} | (alone if item.get("repeats") and option["system"] != system else {})
            for option in options
        ]
    }


def _risk(form: Form, answer: triage_pb2.TriageResponse, final: bool) -> Resource:
    """Returns the decision; its first prediction is what the model decides, after the safety rules."""
    best = answer.best_triage
    reasons = [rule.reason for rule in answer.fired_rules if rule.to_action == best]
    chances = {each.decision: each.appropriate for each in answer.probabilities}
    predictions = []
    for decision in sorted(chances or [best], key=lambda each: (each != best, each)):
        prediction: dict[str, Any] = {"outcome": {"text": action_label(decision)}}
        if decision in chances:
            prediction["probabilityDecimal"] = round(100 * chances[decision], 2)
        if decision == best and reasons:
            prediction["rationale"] = " ".join(reasons)
        predictions.append(prediction)
    notes = [RESEARCH_ONLY]
    if answer.HasField("deferred"):
        notes.append(f"A person must look: {DEFERRALS[answer.deferred]}.")
    if answer.is_novel:
        notes.append(f"Unlike anything seen in training (novelty {answer.novelty:.3f}): do not rely on this.")
    return {
        "resourceType": "RiskAssessment",
        "id": DECISION,
        "status": "final" if final else "preliminary",
        "method": {"text": f"dyqn-triage {VERSION}, model version {answer.model_version}"},
        "code": {"text": "Triage: probability that clinicians find each urgency appropriate, in percent"},
        "subject": form.resource.get("subject", {"display": "not stated"}),
        "basis": [{"reference": "#"}],
        "prediction": predictions,
        "note": [{"text": note} for note in notes],
    }


def questionnaire(base: str, version: str, fhir: str) -> Resource:
    """Returns the form as it is found before it is filled in: adaptive, so it lists no questions."""
    return {**_header(base, version, _SEARCH, fhir), "id": ID}


def _profile(profile: str, fhir: str) -> Resource:
    return {"meta": {"profile": [profile]}} if fhir == R4 else {}


def _header(base: str, version: str, profile: str, fhir: str) -> Resource:
    return {
        "resourceType": "Questionnaire",
        **_profile(profile, fhir),
        "extension": [{"url": _ADAPTIVE, "valueUrl": base}],
        "url": f"{base}/Questionnaire/{ID}",
        "version": version,
        "title": "Triage (research only)",
        "status": "active",
        "experimental": True,
        "subjectType": ["Patient"],
        "description": RESEARCH_ONLY,
    }


def capability_statement(base: str, date: str, fhir: str) -> Resource:
    """Returns what the FHIR API offers; `date` is when the model was exported."""
    return {
        "resourceType": "CapabilityStatement",
        "status": "active",
        "experimental": True,
        "date": date,
        "kind": "instance",
        "software": {"name": "dyqn-triage", "version": VERSION},
        "implementation": {"description": f"A triage interview as an adaptive form. {RESEARCH_ONLY}", "url": base},
        "fhirVersion": FHIR_VERSIONS[fhir],
        "format": ["json"],
        "rest": [
            {
                "mode": "server",
                "resource": [
                    {
                        "type": "Questionnaire",
                        "interaction": [{"code": "read"}],
                        "operation": [{"name": "next-question", "definition": NEXT_QUESTION}],
                    }
                ],
            }
        ],
    }


def operation_outcome(problem: Mapping[str, Any]) -> Resource:
    """Returns a problem of `serving.wires.http_problems` as an OperationOutcome."""
    code = _ISSUES.get(problem["status"], "exception")
    faults = problem.get("errors") or [{"field": "", "description": problem["detail"]}]
    issues = []
    for fault in faults:
        issue = {"severity": "error", "code": code, "diagnostics": fault["description"]}
        issues.append(issue | ({"expression": [fault["field"]]} if fault["field"] else {}))
    return {"resourceType": "OperationOutcome", "issue": issues}


_ISSUES = {
    400: "invalid", 401: "login", 403: "forbidden", 404: "not-found", 405: "not-supported", 406: "not-supported",
    411: "too-long", 413: "too-long", 415: "not-supported", 429: "throttled", 501: "not-supported", 503: "transient",
    504: "timeout",
}  # fmt: skip
"""The IssueType of each HTTP status."""
