"""CDS Hooks 2.0: what a request says of a patient, by the user's map of codes, and the card.

Resources of FHIR R4 are read as plain JSON. What the map does not name is left alone, and what it names and the model
cannot use is said on the card.
"""

import dataclasses
import datetime
import json
import pathlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from schemas.bands import Bands, NumberError
from schemas.csv_table import CsvTable
from schemas.errors import InputError
from schemas.evidence import Vocabulary
from schemas.text_file import read_text
from schemas.triage import DECISION_LABELS
from serving.hospital.fhir_resources import RESEARCH_ONLY, Resource, quantity_fault
from serving.messages import ANY_OF, DEFERRALS, MEANINGS, action_label, codes_of
from triage.v1 import triage_pb2

SERVICES = {"triage": "patient-view", "triage-order": "order-select"}
"""The hook of each service by its id."""
PREFETCH = {
    "patient": "Patient/{{context.patientId}}",
    "conditions": "Condition?patient={{context.patientId}}&clinical-status=active",
    "observations": "Observation?patient={{context.patientId}}&_sort=-date&_count=200",
}
_COLUMNS = ("system", "code", "evidence", "hours")
_GENDER, _BIRTH_DATE = "Patient.gender", "Patient.birthDate"
_DENIED = "!"
_YES_OR_NO = {"Y": True, "N": False}
_INDICATORS = {"Red": "critical", "Yellow": "warning", "Green": "info", "Blue": "info"}
_URGENCY = "urn:dyqn-triage:urgency"
"""The code system of override reasons, which are the other decisions, or all where the case is handed over."""
_MAX_SUMMARY = 139
_NOT_VALID = {"entered-in-error", "cancelled", "registered"}
_ORDERS = ("ServiceRequest", "MedicationRequest")
_NOT_ACTIVE = {"inactive", "remission", "resolved"}


@dataclasses.dataclass(frozen=True)
class Meaning:
    """What a code of a hospital means."""

    evidence: str
    """A code of the vocabulary, or a measure for numbers."""
    present: bool
    hours: float | None
    """How old an Observation may be; None for any age."""


@dataclasses.dataclass(frozen=True)
class Findings:
    """What a request says of a patient."""

    present: list[str]
    absent: list[str]
    left_out: list[str]
    """What the map names and the model cannot use, in words."""


class _Finding(NamedTuple):
    evidence: str  # a code, or a number of a measure
    present: bool = True
    fault: str = ""  # why the number cannot be used


class CodeMap:
    """From codes of a hospital to evidence. Made by `load`."""

    def __init__(self, meanings: Mapping[tuple[str, str], Meaning]):
        self._meanings = meanings

    @classmethod
    def load(cls, path: pathlib.Path) -> "CodeMap":
        """Reads a CSV file with the columns system, code, evidence and, perhaps, hours.

        Raises:
            InputError: the file cannot be read or is no such file.
        """
        text = read_text(path, "--cds-codes")
        table = CsvTable.of_text(text, f"--cds-codes {path}", _COLUMNS[:-1], _COLUMNS[-1:])
        meanings: dict[tuple[str, str], Meaning] = {}
        for number, row in table.records():
            system, code, evidence, hours = (row.get(column, "") for column in _COLUMNS)
            if not system or not evidence.strip(_DENIED) or (system, code) in meanings:
                raise InputError(f"--cds-codes {path}: line {number}: expected a system and evidence, each code once")
            if hours and not hours.replace(".", "", 1).isdecimal():
                raise InputError(f"--cds-codes {path}: line {number}: hours {hours!r}: expected a number")
            limit = float(hours) if hours else None
            meanings[system, code] = Meaning(evidence.removeprefix(_DENIED), not evidence.startswith(_DENIED), limit)
        return cls(meanings)

    def read(self, prefetch: Mapping[str, Any], vocabulary: Vocabulary, now: datetime.datetime) -> Findings:
        """Returns what is known of a patient.

        Args:
            prefetch: resources and bundles by key; None where there is nothing.
            vocabulary: of the model.
            now: with a time zone.
        """
        known: dict[str, bool] = {}
        left_out: list[str] = []
        measured: set[str] = set()
        for evidence, there, fault in self._findings(list(_resources(prefetch)), vocabulary.bands.units, now):
            measure = evidence.partition("=")[0]
            if evidence in vocabulary:
                if known.setdefault(evidence, there) != there:
                    left_out.append(f"{evidence}: there and not there")
            elif measure not in measured:  # the latest comes first, and no older one stands in for it
                measured.add(measure)
                present_codes = [code for code in known if known[code]]
                if fault := fault or _number_fault(evidence, present_codes, vocabulary.bands):
                    left_out.append(f"{evidence}: {fault}")
                else:
                    known[evidence] = True
        present, absent = ([code for code in known if known[code] is there] for there in (True, False))
        return Findings(present, absent, left_out)

    def _findings(
        self, resources: Sequence[Resource], units: Mapping[str, str], now: datetime.datetime
    ) -> Iterator[_Finding]:
        """Yields codes and numbers: the patient's, on whose age others depend, first."""
        for patient in _of_type(resources, "Patient"):
            yield from self._of_codings([{"system": _GENDER, "code": patient.get("gender")}])
            born, age = _date(patient.get("birthDate")), self._meanings.get((_BIRTH_DATE, ""))
            if born is not None and age is not None:
                yield _Finding(f"{age.evidence}={(now - born).days / 365.25:.2f}")
        for condition in _of_type(resources, "Condition"):
            if _codes_of(condition.get("clinicalStatus")) & _NOT_ACTIVE:
                continue
            status = _codes_of(condition.get("verificationStatus"))
            if not status & _NOT_VALID:
                yield from self._of_codings(_codings(condition.get("code")), "refuted" not in status)
        for order in (each for kind in _ORDERS for each in _of_type(resources, kind)):
            reasons = order.get("reasonCode")
            for reason in reasons if isinstance(reasons, list) else []:
                yield from self._of_codings(_codings(reason))
        observations = [each for each in _of_type(resources, "Observation") if each.get("status") not in _NOT_VALID]
        for observation in sorted(observations, key=lambda each: _taken(each) or _NEVER, reverse=True):
            for meaning in self._meant(_codings(observation.get("code"))):
                if _is_recent(observation, meaning, now):
                    yield from _value(observation, meaning, units)
            for meaning in self._meant(_codings(observation.get("valueCodeableConcept"))):
                if _is_recent(observation, meaning, now):
                    yield _Finding(meaning.evidence, meaning.present)

    def _meant(self, codings: Sequence[Mapping[str, Any]]) -> Iterator[Meaning]:
        for coding in codings:
            meaning = self._meanings.get((coding["system"], str(coding["code"])))
            if meaning is not None:
                yield meaning

    def _of_codings(self, codings: Sequence[Mapping[str, Any]], present: bool = True) -> Iterator[_Finding]:
        for meaning in self._meant(codings):
            yield _Finding(meaning.evidence, meaning.present == present)


_NEVER = datetime.datetime.min.replace(tzinfo=datetime.timezone.utc)


def _value(observation: Resource, meaning: Meaning, units: Mapping[str, str]) -> Iterator[_Finding]:
    quantity, unit = observation.get("valueQuantity"), units.get(meaning.evidence)
    if isinstance(quantity, dict) and isinstance(quantity.get("value"), int | float):
        fault = "" if unit is None else quantity_fault(quantity, unit)
        yield _Finding(f"{meaning.evidence}={quantity['value']:g}", fault=fault)
    elif unit is not None:
        yield _Finding(meaning.evidence, fault="expected a number")
    else:
        answer = observation.get("valueBoolean")
        answers = [answer] if isinstance(answer, bool) else []
        answers += [_YES_OR_NO[code] for code in _codes_of(observation.get("valueCodeableConcept")) & _YES_OR_NO.keys()]
        for there in answers:
            yield _Finding(meaning.evidence, meaning.present == there)


def _number_fault(number: str, present: Sequence[str], bands: Bands) -> str:
    if not bands.is_number(number):
        return "not known to the model"
    try:
        list(bands.read([*present, number]))
    except NumberError as error:
        return error.reason
    return ""


def _resources(prefetch: Mapping[str, Any]) -> Iterator[Resource]:
    for value in prefetch.values():
        entries = value.get("entry", [{"resource": value}]) if isinstance(value, dict) else []
        for entry in entries if isinstance(entries, list) else []:
            resource = entry.get("resource") if isinstance(entry, dict) else None
            if isinstance(resource, dict):
                yield resource


def _of_type(resources: Sequence[Resource], kind: str) -> list[Resource]:
    return [each for each in resources if each.get("resourceType") == kind]


def _codings(concept: Any) -> list[Mapping[str, Any]]:
    listed = concept.get("coding") if isinstance(concept, dict) else None
    return [
        {"system": each["system"], "code": each["code"]}
        for each in (listed if isinstance(listed, list) else [])
        if isinstance(each, dict) and isinstance(each.get("system"), str) and isinstance(each.get("code"), str)
    ]


def _codes_of(concept: Any) -> set[str]:
    return {each["code"] for each in _codings(concept)}


def _taken(observation: Resource) -> datetime.datetime | None:
    period = observation.get("effectivePeriod")
    of_period = period.get("end") or period.get("start") if isinstance(period, dict) else None
    given = (observation.get("effectiveDateTime"), observation.get("effectiveInstant"), of_period)
    return next((date for each in (*given, observation.get("issued")) if (date := _date(each))), None)


def _is_recent(observation: Resource, meaning: Meaning, now: datetime.datetime) -> bool:
    if meaning.hours is None:
        return True
    taken = _taken(observation)
    return taken is not None and now - taken <= datetime.timedelta(hours=meaning.hours)


def _date(text: Any) -> datetime.datetime | None:
    """Returns a date of FHIR, which may lack month, day or time; None for anything else."""
    if not isinstance(text, str):
        return None
    whole = {4: f"{text}-01-01", 7: f"{text}-01"}.get(len(text), text).replace("Z", "+00:00")
    try:
        date = datetime.datetime.fromisoformat(whole)
    except ValueError:
        return None
    return date if date.tzinfo else date.replace(tzinfo=datetime.timezone.utc)


def discovery() -> dict[str, Any]:
    """Returns what the server offers."""
    described = {
        "title": "Triage (research only)",
        "description": f"How urgent a patient is, by what the record says. {RESEARCH_ONLY}",
        "prefetch": PREFETCH,
    }
    return {"services": [{"hook": hook, "id": name, **described} for name, hook in SERVICES.items()]}


def card_of(
    answer: triage_pb2.TriageResponse,
    state: triage_pb2.EvidenceState,
    left_out: Sequence[str],
    vocabulary: Vocabulary,
    link: str,
) -> dict[str, Any]:
    """Returns the card with a decision.

    Args:
        answer: of the model.
        state: what was known.
        left_out: see `Findings`.
        vocabulary: for names.
        link: address of a SMART app that goes on with the case, "" for none.
    """
    label, handed_over = action_label(answer.best_triage), answer.HasField("deferred")
    on = answer.next == triage_pb2.NEXT_STEP_ASK
    summary = f"{label}{' so far' if on else ''}: {MEANINGS[label]} (research only)"
    indicator = _INDICATORS[label]
    if handed_over:
        indicator = "warning" if indicator == "info" else indicator
        summary = f"A person must look: {DEFERRALS[answer.deferred]} (research only)"
    card = {
        "uuid": str(uuid.uuid4()),
        "summary": summary[:_MAX_SUMMARY],
        "indicator": indicator,
        "source": {"label": f"dyqn-triage, model version {answer.model_version}"},
        "detail": "\n\n".join(_details(answer, state, left_out, vocabulary, on)),
        "overrideReasons": [
            {"system": _URGENCY, "code": other, "display": f"It is {other}: {MEANINGS[other]}"}
            for other in DECISION_LABELS
            if other != label or handed_over
        ],
    }
    if not handed_over:
        card["suggestions"] = [{"label": f"Agree: {label}", "uuid": str(uuid.uuid4())}]
        card["selectionBehavior"] = "at-most-one"
    if link:
        codes = json.dumps(dict(zip(("present", "absent"), codes_of(state), strict=True)))
        app = {"label": "Go on with the interview", "url": link, "type": "smart", "appContext": codes}
        card["links"] = [app]
    return card


def _details(
    answer: triage_pb2.TriageResponse, state: triage_pb2.EvidenceState, left_out: Sequence[str],
    vocabulary: Vocabulary, on: bool,
) -> Iterator[str]:  # fmt: skip
    for rule in answer.fired_rules:
        yield f"**{rule.reason}**"
    names = {entry.code: entry.name for entry in vocabulary}
    denied = triage_pb2.EVIDENCE_STATUS_ABSENT
    known = [f"{'no ' if each.status == denied else ''}{names.get(each.code, each.code)}" for each in state.evidence]
    yield f"By what the record says: {', '.join(known)}."
    if on and answer.next_questions:
        first = answer.next_questions[0]
        asked = (
            f"{ANY_OF['en'][0]} {', '.join(names[code] for code in first.any_of)}" if first.any_of else first.question
        )
        yield f"The model would ask: {asked}"
    if answer.is_novel:
        yield "Unlike anything seen in training: do not rely on this."
    if left_out:
        yield "\n".join(["Left out:\n", *(f"- {each}" for each in left_out)])
    yield RESEARCH_ONLY
