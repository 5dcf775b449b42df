"""CDS Hooks 2.0: the evidence about a patient in a request, by the user's map of codes, and the card.

Resources of FHIR R4 are read as plain JSON. What the map does not name is left alone, and what it names and the model
cannot use is said on the card.
"""

import collections
import dataclasses
import datetime
import difflib
import pathlib
import re
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from schemas.bands import Bands, NumberError
from schemas.csv_table import CsvTable
from schemas.errors import InputError, shown
from schemas.evidence import Vocabulary, unknown_message
from schemas.feedback import read_time
from schemas.text_file import read_text
from schemas.triage import DECISION_LABELS
from serving.hospital.fhir_resources import RESEARCH_ONLY
from serving.hospital.fhir_values import (
    MODIFIED,
    NO,
    NOT_KNOWN,
    NUMBER,
    YES,
    Resource,
    each_of,
    names_unit,
    objects_of,
    read_status,
    read_value,
    words_of,
)
from serving.messages import DEFERRALS, MEANINGS, action_label
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
_GENDERS = ("male", "female", "other", "unknown")
_DENIED = "!"
_INDICATORS = {"Red": "critical", "Yellow": "warning", "Green": "info", "Blue": "info"}
_URGENCY = "urn:dyqn-triage:urgency"
"""The code system of override reasons, which are the other decisions, or all where the case is handed over."""
_YEAR, _SMALL_CHILD = len("2026"), 5.0
"""A year alone is read as its first day: a newborn, whose danger signs are others, would pass for a child of one."""
_MAX_SUMMARY = 139
_CLOCKS_DIFFER = datetime.timedelta(minutes=5)
_EVER = datetime.datetime.min.replace(tzinfo=datetime.timezone.utc)
_LENGTHS = {length: datetime.timedelta(days, hours=26) for length, days in ((4, 366), (7, 31), (10, 1))}
"""How long a year, a month and a day last somewhere on Earth, by how many characters name them."""
_CODED = {"Condition": "code", "ServiceRequest": "reasonCode", "MedicationRequest": "reasonCode"}
"""The element with the finding, by resource."""
_READ = {
    *(f"{kind}.{element}" for kind, element in _CODED.items()),
    *(f"Observation{part}.{code}" for part in ("", ".component") for code in ("code", "valueCodeableConcept")),
}
"""The elements whose codes are read; a code of the map in another one is said."""
_NO_FINDINGS = ("http://terminology.hl7.org/", "http://hl7.org/fhir/", "http://unitsofmeasure.org")
"""How systems begin whose codes are statuses, categories and units, which may be spelled as codes of the map."""
_MAX_PLACE = 80


def _by_code(counts: str, denied: str = "", others: str = "") -> Mapping[str, bool | None]:
    by_meaning = ((True, counts), (False, denied), (None, others))
    return {code: meaning for meaning, codes in by_meaning for code in codes.split()}


_ORDERED = _by_code("draft active on-hold completed", others="entered-in-error revoked cancelled stopped")
_STATUSES = {
    "Condition": {
        "clinicalStatus": _by_code("active recurrence relapse", others="inactive remission resolved"),
        "verificationStatus": _by_code("confirmed unconfirmed provisional differential", "refuted", "entered-in-error"),
    },
    "Observation": {
        "status": _by_code("final amended corrected preliminary", others="entered-in-error cancelled registered")
    },
    "ServiceRequest": {"status": _ORDERED},
    "MedicationRequest": {"status": _ORDERED},
}
"""The meaning of each status, by resource and element; see `read_status`."""


@dataclasses.dataclass(frozen=True)
class Meaning:
    """What a code of a hospital means."""

    evidence: str
    """A code of the vocabulary, or a measure for numbers."""
    present: bool
    hours: float | None
    """How old an Observation may be; None for any age."""
    line: int
    """Of the file."""


@dataclasses.dataclass(frozen=True)
class Findings:
    """The evidence about a patient in a request."""

    present: list[str]
    absent: list[str]
    left_out: list[str]
    """What was delivered and cannot be used, each with the reason, in words."""
    missing: list[str]
    """What was not delivered, or is too old, likewise."""


class _Finding(NamedTuple):
    evidence: str  # a code, or a number of a measure
    present: bool = True
    fault: str = ""  # why it cannot be used
    lacks: str = ""  # why there is nothing to use

    @property
    def name(self) -> str:
        """Of the code or measure."""
        return self.evidence.partition(NUMBER)[0]


_Span = tuple[datetime.datetime, datetime.timedelta]  # see `_span`
_Reading = tuple[datetime.datetime, datetime.timedelta, _Finding]
_Reasons = collections.defaultdict[str, set[str]]  # by what cannot be used


class CodeMap:
    """From codes of a hospital to evidence. Made by `load`."""

    def __init__(self, source: str, meanings: Mapping[tuple[str, str], Meaning]):
        self._source, self._meanings = source, meanings
        self._by_code: dict[str, list[Meaning]] = {}  # of any system
        for (system, code), meaning in meanings.items():
            if system not in (_GENDER, _BIRTH_DATE):
                self._by_code.setdefault(code, []).append(meaning)

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
            there = not evidence.startswith(_DENIED)
            meanings[system, code] = Meaning(evidence.removeprefix(_DENIED), there, limit, number)
        return cls(f"--cds-codes {path}", meanings)

    def check(self, vocabulary: Vocabulary) -> None:
        """Refuses a map with a row that no model can use.

        Raises:
            InputError: the message names the row, and the nearest evidence or system.
        """
        for (system, code), meaning in self._meanings.items():
            if fault := _row_fault(system, code, meaning, vocabulary):
                raise InputError(f"{self._source}: line {meaning.line}: {fault}")

    def read(self, sent: Mapping[str, Any], vocabulary: Vocabulary, now: datetime.datetime, patient: str) -> Findings:
        """Returns what is known of a patient, whatever the order of the record.

        Args:
            sent: resources and bundles by key; None where there is nothing.
            vocabulary: of the model.
            now: with a time zone.
            patient: the id, without its type; what is about somebody else is left out.
        """
        resources: list[Resource] = []
        left_out, missing = _Reasons(set), _Reasons(set)
        for name in PREFETCH.keys() | sent.keys():
            if sent.get(name) is not None:
                left_out[name].update(_unpack(sent[name], patient, resources))
            elif name in PREFETCH:
                missing[name].add("it was not delivered")
        said: dict[str, set[tuple[str, bool]]] = collections.defaultdict(set)  # by code or measure
        for finding in self._findings(resources, vocabulary.bands.units, now):
            evidence, there, fault, lacks = finding
            if not fault and not vocabulary.bands.is_number(evidence) and evidence not in vocabulary:
                fault = "the model does not know it"
            if lacks:
                missing[finding.name].add(lacks)
            elif fault:
                left_out[evidence].add(fault)
            else:
                said[finding.name].add((evidence, there))
        known: dict[str, bool] = {}
        for name, given in sorted(said.items()):
            if len(given) > 1:
                left_out[name].add("the record contradicts itself")
            else:
                known |= given
        while error := _faulty_number([code for code in known if known[code]], vocabulary.bands):
            left_out[error.text].add(f"its value cannot be used: {error.reason}")
            del known[error.text]
        found = {evidence.partition(NUMBER)[0] for evidence in known}
        present, absent = ([code for code in known if known[code] is there] for there in (True, False))
        return Findings(present, absent, _lines(left_out), _lines(missing, found))

    def _findings(
        self, resources: Sequence[Resource], units: Mapping[str, str], now: datetime.datetime
    ) -> Iterator[_Finding]:
        """Yields what the resources say: of Observations, the latest of each question and of each piece of evidence."""
        readings: dict[str, list[_Reading]] = collections.defaultdict(list)
        for patient in _of_type(resources, "Patient"):
            for finding in self._about(patient, now):
                readings[finding.name].append((now, datetime.timedelta(), finding))
        for kind, coded in _CODED.items():
            for resource in _of_type(resources, kind):
                there, fault = _status(resource)
                for meaning in self._meant(resource.get(coded)):
                    if fault or there is not None:
                        yield _Finding(meaning.evidence, meaning.present == there, fault)
        answers: dict[Any, dict[_Span, list[_Finding]]] = {}  # by question and time
        for observation in _of_type(resources, "Observation"):
            elements = (observation, *objects_of(observation.get("component"))) if any(_status(observation)) else ()
            for element in elements:
                asked = element.get("code")
                for question in {_key(each) for place, each in _codings(asked, "") if not place} or {("", str(asked))}:
                    at_a_time = answers.setdefault(question, {}).setdefault(_span(_taken(observation)), [])
                    at_a_time += self._observed(observation, element, units, now)
        for times in answers.values():
            for name in {finding.name for findings in times.values() for finding in findings}:
                other = _Finding(name, fault="the latest answer to its question is another one")
                for span, findings in times.items():
                    said = [finding for finding in findings if finding.name == name]
                    readings[name] += [(*span, finding) for finding in said or [other]]
        for name, given in readings.items():
            yield from _latest(name, given)
        for resource in resources:
            yield from self._unread(resource)

    def _about(self, patient: Resource, now: datetime.datetime) -> Iterator[_Finding]:
        """Yields the sex and the age of a patient, as far as the map names them."""
        fault, gender, born = _status(patient)[1], patient.get("gender"), patient.get("birthDate")
        by_gender = {code: meaning for (system, code), meaning in self._meanings.items() if system == _GENDER}
        said = words_of(gender).intersection(_GENDERS)
        if by_gender and gender is not None and (fault or len(said) != 1):
            yield _Finding(_GENDER, fault=fault or f"{shown(gender)}: expected one of {', '.join(_GENDERS)}")
        elif meaning := by_gender.get("".join(said)):
            yield _Finding(meaning.evidence, meaning.present)
        age = self._meanings.get((_BIRTH_DATE, ""))
        if age is not None and born is not None:
            date = None if fault or _is_to_come(born, now) else _date(born)
            years = 0.0 if date is None else (now - date).days / 365.25
            if date is None:
                fault = fault or "the date of birth cannot be read, or lies in the future"
            elif len(born) == _YEAR and years < _SMALL_CHILD:
                fault = "a small child's date of birth must include the month"
            yield _Finding(age.evidence if fault else f"{age.evidence}{NUMBER}{years:.2f}", fault=fault)

    def _unread(self, resource: Resource) -> Iterator[_Finding]:
        """Yields what the codes of a resource would say that are in another element, or under another system."""
        read: set[tuple[str, bool]] = set()
        unread: list[tuple[Meaning, str]] = []
        for place, coding in _codings(resource, resource["resourceType"]):
            system, code = _key(coding)
            meaning = self._meanings.get((system, code))
            if meaning is not None and place in _READ:
                read.add((meaning.evidence, meaning.present))
            elif meaning is not None:
                unread.append((meaning, f"{place} is not read"))
            elif not system.startswith(_NO_FINDINGS):
                fault = f"its code has the system {shown(system)}" if system else "its code has no system"
                unread += [(each, fault) for each in self._by_code.get(code, ())]
        for meaning, fault in unread:
            if (meaning.evidence, meaning.present) not in read:
                yield _Finding(meaning.evidence, fault=fault)

    def _observed(
        self, observation: Resource, element: Resource, units: Mapping[str, str], now: datetime.datetime
    ) -> Iterator[_Finding]:
        """Yields what an Observation, or a component of one, says: its value, or the code of that."""
        (there, fault), time = _status(observation), _taken(observation)
        taken = _date(time)
        if there and _is_to_come(time, now):
            fault = "its time lies in the future"
        chosen = self._meant(element.get("valueCodeableConcept"))
        asked = [each for each in self._meant(element.get("code")) if not chosen or each.evidence in units]
        for meaning in (*asked, *chosen):
            limit = None if meaning.hours is None else datetime.timedelta(hours=meaning.hours)
            if fault or (limit is not None and taken is None):
                yield _Finding(meaning.evidence, fault=fault or "it has no time with an offset from UTC")
            elif limit is not None and now - (taken or now) > limit:
                yield _Finding(meaning.evidence, lacks=f"it is older than {meaning.hours:g} hours")
            elif meaning in asked:
                yield _valued(element, meaning, units.get(meaning.evidence))
            else:
                yield _Finding(meaning.evidence, meaning.present)

    def _meant(self, concept: Any) -> list[Meaning]:
        codings = (coding for place, coding in _codings(concept, "") if not place)
        return [self._meanings[key] for key in map(_key, codings) if key in self._meanings]


def _row_fault(system: str, code: str, meaning: Meaning, vocabulary: Vocabulary) -> str:
    measures = vocabulary.bands.units
    if meaning.evidence not in vocabulary and meaning.evidence not in measures:
        near = difflib.get_close_matches(meaning.evidence, [*vocabulary.codes, *measures])
        return unknown_message(meaning.evidence, near)
    if meaning.evidence in measures and not meaning.present:
        return f"{meaning.evidence} is a measure, which cannot be denied: leave out {_DENIED!r}"
    if system == _BIRTH_DATE:
        return "" if not code and meaning.evidence in measures else "expected no code, and a measure of the age"
    if system == _GENDER:
        return "" if code in _GENDERS else f"code {code!r}: expected one of {', '.join(_GENDERS)}"
    if system.startswith("Patient."):
        return f"system {system!r}: expected {_GENDER} or {_BIRTH_DATE}"
    return "" if code and not re.search(r"\s", system) else "expected a code, and a system without white space"


def _lines(reasons: _Reasons, found: Collection[str] = ()) -> list[str]:
    ordered = sorted((what, " and ".join(sorted(why))) for what, why in reasons.items() if what not in found)
    return [f"{what}: left out, because {why}" for what, why in ordered if why]


def _unpack(value: Any, patient_id: str, resources: list[Resource]) -> Iterator[str]:
    """Adds a resource, or those of a Bundle, to `resources`; yields why some are not there."""
    given = value if isinstance(value, dict) else {}
    if given.get("resourceType") == "Bundle" or "entry" in given:
        entries, total = each_of(given.get("entry")), given.get("total")
        more = isinstance(total, int) and total > len(entries)
        if more or any(each.get("relation") == "next" for each in objects_of(given.get("link"))):
            yield "only its first page was delivered"
        for entry in entries:
            yield from _unpack(entry.get("resource") if isinstance(entry, dict) else None, patient_id, resources)
    elif given.get("resourceType") == "OperationOutcome":
        said = ", ".join(str(each.get("diagnostics", each.get("code"))) for each in objects_of(given.get("issue")))
        yield f"the record failed: {' '.join(said.split())[:200]}"  # one line of a list
    elif not isinstance(kind := given.get("resourceType"), str):
        yield "something in it is not a resource"
    elif not _is_about(given, patient_id):
        yield f"a resource {kind} in it is not known to be about this patient"
    else:
        resources.append(given)


def _is_about(resource: Resource, patient_id: str) -> bool:
    """Returns whether a resource is about a patient; one that names nobody is."""
    if resource["resourceType"] not in _STATUSES:
        return resource["resourceType"] != "Patient" or resource.get("id", patient_id) == patient_id
    named = [reference for name in ("subject", "focus") for reference in each_of(resource.get(name))]
    references = [str(each.get("reference") if isinstance(each, dict) else "") for each in named]
    return all(f"/{each}".partition("/_history/")[0].endswith(f"/Patient/{patient_id}") for each in references)


def _status(resource: Resource) -> tuple[bool | None, str]:
    """Returns whether the finding of a resource is present, None where it does not count, and why that is not known."""
    if resource.get("modifierExtension"):
        return None, MODIFIED
    there: bool | None = True
    for name, meanings in _STATUSES.get(str(resource.get("resourceType")), {}).items():
        meaning, fault = read_status(resource.get(name), meanings)
        if fault:
            return None, f"its {name} is {fault}"
        there = None if meaning is None else there and meaning
    if there and any(resource[name] for name in resource if name.startswith("abatement")):
        return None, "it has ended, which its clinicalStatus does not say"
    return there, ""


def _valued(element: Resource, meaning: Meaning, unit: str | None) -> _Finding:
    said, fault = read_value(element, unit)
    is_number = said.startswith(NUMBER)
    name = f"{meaning.evidence}{said if is_number and unit is not None else ''}"
    if unit is None and said == NOT_KNOWN:
        return _Finding(name, lacks="it is recorded as not known")
    if not any(key.startswith("value") for key in element):
        return _Finding(name, fault="it has no value")
    if unit is None and said not in (YES, NO):
        fault = "expected yes or no"
    elif unit is not None and not is_number:
        fault = "expected a number"
    elif unit and not names_unit(element):
        fault = f"expected {unit}, not a number without a unit"
    return _Finding(name, is_number or meaning.present == (said == YES), fault and f"its value cannot be used: {fault}")


def _faulty_number(present: Sequence[str], bands: Bands) -> NumberError | None:
    try:
        list(bands.read(present))
    except NumberError as error:
        return error
    return None


def _of_type(resources: Sequence[Resource], kind: str) -> list[Resource]:
    return [each for each in resources if each["resourceType"] == kind]


def _codings(element: Any, place: str) -> Iterator[tuple[str, Resource]]:
    """Yields each coding in an element at `place`, with its own place; a text that stands for one has no system."""
    waiting = [(place, element)]
    while waiting:
        at, value = waiting.pop()
        if isinstance(value, list):
            waiting += [(at, each) for each in reversed(value)]
        elif isinstance(value, dict):
            if isinstance(value.get("code"), str | int):
                yield at, value
            waiting += [
                (at if key == "coding" else f"{at}.{key}"[:_MAX_PLACE], each)
                for key, each in reversed(value.items())
                if key != "code" or isinstance(each, dict | list)
            ]
        elif isinstance(value, str) and at.endswith(("code", "Code", "Concept")):
            yield at, {"code": value}


def _key(coding: Resource) -> tuple[str, str]:
    return str(coding.get("system") or "").strip(), str(coding["code"]).strip()


def _latest(name: str, readings: Sequence[_Reading]) -> Iterator[_Finding]:
    """Yields what the latest readings of one piece of evidence say; no older one stands in for them."""
    latest = max(first for first, _, _ in readings)
    rivals = {(finding, length) for first, length, finding in readings if latest - first <= length}
    said = {finding for finding, _ in rivals}
    if len(said) > 1 and any(length for _, length in rivals):
        yield _Finding(name, fault="no time with an offset from UTC says which reading is the latest")
    else:
        yield from said


def _taken(observation: Resource) -> Any:
    period = observation.get("effectivePeriod")
    of_period = period.get("end") or period.get("start") if isinstance(period, dict) else None
    times = (*map(observation.get, ("effectiveDateTime", "effectiveInstant")), of_period, observation.get("issued"))
    return next(filter(None, times), None)


def _date(text: Any, offset: str = "Z") -> datetime.datetime | None:
    """Returns a date of FHIR, which may lack month and day, or a time with its offset; None for anything else.

    A date begins at midnight with `offset` from UTC.
    """
    if not isinstance(text, str):
        return None
    bare = re.fullmatch(r"\d{4}(-\d\d){0,2}", text)
    return read_time(f"{text}-01-01"[:10] + f"T00:00:00{offset}" if bare else text)


def _span(text: Any) -> _Span:
    """Returns the first moment that a date or time of FHIR may stand for anywhere, and how long after it the last is.

    What cannot be read may stand for any moment.
    """
    first = _date(text, "+14:00")
    return (_EVER, datetime.timedelta.max) if first is None else (first, _LENGTHS.get(len(text), datetime.timedelta()))


def _is_to_come(text: Any, now: datetime.datetime) -> bool:
    return _span(text)[0] - now > _CLOCKS_DIFFER


def discovery() -> dict[str, Any]:
    """Returns what the server offers."""
    described = {
        "title": "Triage (research only)",
        "description": f"How urgent a patient is, according to the record. {RESEARCH_ONLY}",
        "prefetch": PREFETCH,
    }
    return {"services": [{"hook": hook, "id": name, **described} for name, hook in SERVICES.items()]}


def unread_card(lines: Sequence[str]) -> dict[str, Any]:
    """Returns the card without a decision, which names the parts of the record that could not be read."""
    return {
        "uuid": str(uuid.uuid4()),
        "summary": "No decision: no complaint is known, and part of the record could not be read (research only)",
        "indicator": "info",
        "source": {"label": "dyqn-triage"},
        "detail": _listing(lines),
    }


def _listing(lines: Sequence[str]) -> str:
    return "\n".join(["Left out:\n", *(f"- {each}" for each in lines)])


def card_of(
    answer: triage_pb2.TriageResponse,
    state: triage_pb2.EvidenceState,
    left_out: Sequence[str],
    vocabulary: Vocabulary,
) -> dict[str, Any]:
    """Returns the card with a decision."""
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
    yield f"According to the record: {', '.join(known)}."
    if on and answer.next_questions:
        first = answer.next_questions[0]
        yield f"The model would ask: {first.question} {', '.join(names[code] for code in first.any_of)}".rstrip()
    if answer.is_novel:
        yield "Unlike anything seen in training: do not rely on this."
    if left_out:
        yield _listing(left_out)
    yield RESEARCH_ONLY
