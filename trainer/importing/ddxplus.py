"""The DDXPlus release: its conditions and evidences files, as a vocabulary and a severity proxy.

DDXPlus (Fansi Tchango et al., NeurIPS 2022) is a set of synthetic patients with differential diagnoses. It does not
include triage: `SEVERITY_URGENCY` is a substitute for clinicians' decisions, without clinical validity
(docs/ddxplus.md).
"""

import bisect
import dataclasses
import functools
import json
import pathlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from schemas.errors import InputError
from schemas.evidence import Evidence, Vocabulary, code_fault
from schemas.text_file import read_text
from schemas.triage import Action

LANGUAGES = ("en", "fr")
VALUE_MARK = "_@_"
"""Separates categorical evidence from its value, in the patients file and in our codes."""

# The release grades severity from 1, the most severe, to 5. The two most severe levels are both Red:
# conditions such as pulmonary embolism cannot wait for hours, and a substitute should err towards urgency.
SEVERITY_URGENCY = {1: Action.RED, 2: Action.RED, 3: Action.YELLOW, 4: Action.GREEN, 5: Action.BLUE}

AGE_BAND_STARTS = (0, 1, 5, 15, 30, 45, 60, 75)
"""First year of age of each band; a band ends where the next one starts."""
SEX_CODES = {"F": "sex_female", "M": "sex_male"}

_SEX_TEXTS = {
    "en": {"F": ("Female sex", "Is your sex female?"), "M": ("Male sex", "Is your sex male?")},
    "fr": {"F": ("Sexe féminin", "Êtes-vous de sexe féminin?"), "M": ("Sexe masculin", "Êtes-vous de sexe masculin?")},
}
_CONDITION_NAMES = ("condition_name", "cond-name-fr", "cond-name-eng")


@dataclasses.dataclass(frozen=True)
class Condition:
    """The parts of a condition that matter for triage."""

    urgency: Action
    findings: tuple[str, ...]  # codes of its yes-or-no evidence


@dataclasses.dataclass(frozen=True)
class Release:
    """A release's conditions and evidence."""

    vocabulary: Vocabulary
    conditions: Mapping[str, Condition]  # by any of their names
    codes: Mapping[str, str | None]  # by evidence as written in a patient's row; None if it means nothing

    @functools.cached_property
    def findings(self) -> frozenset[str]:
        """The yes-or-no evidence of all conditions."""
        return frozenset(code for condition in self.conditions.values() for code in condition.findings)


def read_release(conditions: pathlib.Path, evidences: pathlib.Path, language: str) -> Release:
    """Reads `release_conditions.json` and `release_evidences.json`, of the English or the French release.

    Args:
        conditions: the conditions file.
        evidences: the evidences file.
        language: "en" or "fr", of the names and questions in the vocabulary.

    Raises:
        InputError: a file has another format; the message names the file and the key.
    """
    entries: list[Evidence] = []
    codes: dict[str, str | None] = {}
    binary: set[str] = set()
    for key, evidence in _load(evidences).items():
        where = f"{evidences}: {key!r}"
        kind = _field(evidence, "data_type", str, where)
        if kind not in ("B", "C", "M"):
            raise InputError(f"{where}: data_type: expected B, C or M, found {kind!r}")
        pieces = _binary(key, evidence, language, where) if kind == "B" else _valued(key, evidence, language, where)
        for token, entry in pieces:
            codes[normalised(token)] = entry.code if entry else None
            entries.extend([entry] if entry else [])
        if kind == "B":
            binary.add(key)
    entries += demographics(language)
    _check_codes(entries, evidences)
    return Release(Vocabulary(entries), _conditions(conditions, codes, binary, _load(evidences)), codes)


def normalised(text: str) -> str:
    """Returns `text` in Unicode normal form C, as names are written with and without combining accents."""
    return unicodedata.normalize("NFC", text)


def age_code(age: int) -> str:
    """Returns the code of the age band that holds `age`, in completed years."""
    return _age_band_code(bisect.bisect_right(AGE_BAND_STARTS, age) - 1)


def demographics(language: str) -> Iterator[Evidence]:
    """Yields age bands and sexes as risk factors; a patient has exactly one of each."""
    for band, start in enumerate(AGE_BAND_STARTS):
        last = None if band + 1 == len(AGE_BAND_STARTS) else AGE_BAND_STARTS[band + 1] - 1
        if language == "fr":
            years = f"{start} ans ou plus" if last is None else f"de {start} à {last} ans" if last else "moins de 1 an"
            texts = f"Âge: {years}", f"Votre âge: {years}?"
        else:
            years = f"{start} or over" if last is None else f"{start} to {last}" if last else "under 1"
            texts = f"Age {years}", f"Is your age {years}?"
        yield Evidence(_age_band_code(band), "risk_factor", *texts, exclusive="age")
    for sex, code in SEX_CODES.items():
        yield Evidence(code, "risk_factor", *_SEX_TEXTS[language][sex], exclusive="sex")


def _age_band_code(band: int) -> str:
    start = AGE_BAND_STARTS[band]
    if band + 1 == len(AGE_BAND_STARTS):
        return f"age_{start}_plus"
    after = AGE_BAND_STARTS[band + 1]
    return f"age_{start}_{after - 1}" if start else f"age_under_{after}"


def _binary(key: str, evidence: Mapping[str, Any], language: str, where: str) -> Iterator[tuple[str, Evidence]]:
    question = _question(evidence, language, where)
    yield key, Evidence(_code(key), _kind(evidence, where), _stem(question), question)


def _valued(key: str, evidence: Mapping[str, Any], language: str, where: str) -> Iterator[tuple[str, Evidence | None]]:
    """Yields each value as a piece of evidence, except for the default value, which means that there is nothing."""
    question = _question(evidence, language, where)
    meanings = _field(evidence, "value_meaning", dict, where)
    if "default_value" not in evidence:
        raise InputError(f"{where}: the key 'default_value' is missing")
    default = str(evidence["default_value"])
    yield f"{key}{VALUE_MARK}{default}", None
    for value in _field(evidence, "possible-values", list, where):
        if not isinstance(value, (str, int)) or isinstance(value, bool):
            raise InputError(f"{where}: possible-values: expected strings and whole numbers, found {value!r}")
        if str(value) == default:
            continue
        meaning = str(value)
        if meaning in meanings:
            meaning = _field(meanings[meaning], language, str, f"{where}: value_meaning {meaning!r}")
        meaning = " ".join(meaning.split())
        code = _code(f"{key}{VALUE_MARK}{value}")
        texts = f"{_stem(question)}: {meaning}", f"{question} {meaning}?"
        yield f"{key}{VALUE_MARK}{value}", Evidence(code, _kind(evidence, where), *texts)


def _conditions(
    path: pathlib.Path, codes: Mapping[str, str | None], binary: set[str], evidences: Mapping[str, Any]
) -> dict[str, Condition]:
    by_name: dict[str, Condition] = {}
    for key, fields in _load(path).items():
        where = f"{path}: {key!r}"
        severity = _field(fields, "severity", int, where)
        if severity not in SEVERITY_URGENCY:
            raise InputError(f"{where}: severity: expected 1 to 5, found {severity}")
        keys = [*_field(fields, "symptoms", dict, where), *_field(fields, "antecedents", dict, where)]
        for unknown in (name for name in keys if name not in evidences):
            raise InputError(f"{where}: {unknown!r} is not in the evidences file: give both files of one release")
        findings = dict.fromkeys(codes[normalised(name)] for name in keys if name in binary)
        condition = Condition(SEVERITY_URGENCY[severity], tuple(code for code in findings if code))
        names = {key, *(_field(fields, name, str, where) for name in _CONDITION_NAMES if name in fields)}
        for name in map(normalised, names):
            if name in by_name:
                raise InputError(f"{where}: the name {name!r} belongs to another condition as well")
            by_name[name] = condition
    return by_name


def _load(path: pathlib.Path) -> dict[str, dict[str, Any]]:
    text = read_text(path).removeprefix("\ufeff")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid JSON: {error}") from error
    if not isinstance(content, dict) or not content:
        raise InputError(f"{path}: expected a JSON object with an entry for each condition or evidence")
    for key, fields in content.items():
        if not isinstance(fields, dict):
            raise InputError(f"{path}: {key!r}: expected a JSON object, found {fields!r}")
    return content


def _field(fields: Any, key: str, kind: type, where: str) -> Any:
    value = fields.get(key) if isinstance(fields, dict) else None
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise InputError(f"{where}: {key}: expected a value of type {kind.__name__}, found {value!r}")
    return value


def _question(evidence: Mapping[str, Any], language: str, where: str) -> str:
    return " ".join(_field(evidence, f"question_{language}", str, where).split())


def _kind(evidence: Mapping[str, Any], where: str) -> str:
    return "risk_factor" if _field(evidence, "is_antecedent", bool, where) else "symptom"


def _stem(question: str) -> str:
    return question.rstrip(" ?:.") or question


def _code(text: str) -> str:
    return re.sub(r"\s+", "_", normalised(text))


def _check_codes(entries: Iterable[Evidence], path: pathlib.Path) -> None:
    seen: set[str] = set()
    for entry in entries:
        fault = code_fault(entry.code)
        if fault is None and entry.code in seen:
            fault = f"two pieces of evidence become the code {entry.code!r}"
        if fault:
            raise InputError(f"{path}: {fault}")
        seen.add(entry.code)
