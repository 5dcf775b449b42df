"""The conditions of the knowledge base: what makes each likely, what it shows, and how urgent it is.

A file of `schemas/knowledge/conditions/` is TOML with one table per condition, so that a changed figure is a changed
line.
"""

import dataclasses
import pathlib
import re
import sys
from collections.abc import Mapping
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from schemas.catalogue import Catalogue
from schemas.errors import InputError
from schemas.text_file import read_text
from schemas.triage import DECISION_LABELS

MIN_EVIDENCE, MAX_EVIDENCE = 8, 25
MAX_MULTIPLIER = 100.0
_ICD10 = re.compile(r"[A-Z]\d\d(\.\d{1,2})?")
_NEEDED = ("name", "icd10", "prevalence", "urgency", "evidence")
_KEYS = (*_NEEDED, "red_flags", "urgent_with", "requires", "risk_factors")


@dataclasses.dataclass(frozen=True)
class Condition:
    """A condition that a patient may present with."""

    code: str
    system: str
    """Name of its file."""
    name: str
    icd10: str
    prevalence: float
    """Cases per 1,000 patients in primary or emergency care."""
    urgency: tuple[float, ...]
    """[4] probabilities that a case is Red, Yellow, Green, Blue."""
    evidence: Mapping[str, float]
    """Probability of each symptom or sign given the condition; others occur as often as in any patient."""
    red_flags: tuple[str, ...] = ()
    """Findings that make a case more urgent."""
    urgent_with: tuple[str, ...] = ()
    """Risk factors that make a case more urgent."""
    requires: tuple[str, ...] = ()
    """Risk factors that every patient with the condition has."""
    risk_factors: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """How many times more likely the condition is with the risk factor than without; in an exhaustive group, than with
    a member that is not listed."""


def load_tables(path: pathlib.Path) -> dict[str, Any]:
    """Returns the tables of a TOML file.

    Raises:
        InputError: the file cannot be read, is not TOML, or has keys outside of tables.
    """
    try:
        tables = tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not TOML: {error}") from None
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise InputError(f"{path}: {name}: expected a table, such as [{name}]")
    return tables


def load_conditions(path: pathlib.Path, catalogue: Catalogue) -> tuple[list[Condition], list[str]]:
    """Returns the valid conditions of a file, and one line for each fault of the others.

    Raises:
        InputError: the file cannot be read or is not TOML.
    """
    conditions, faults = [], []
    for code, table in load_tables(path).items():
        table_faults = condition_faults(table, catalogue)
        faults += [f"{path}: {code}: {fault}" for fault in table_faults]
        if not table_faults:
            conditions.append(_condition(code, path.stem, table))
    return conditions, faults


def condition_faults(table: Mapping[str, Any], catalogue: Catalogue) -> list[str]:
    """Returns the faults of a condition's table, one sentence each."""
    faults = [f"unknown key {key!r}: expected {', '.join(_KEYS)}" for key in table if key not in _KEYS]
    faults += [f"the key {key!r} is missing" for key in _NEEDED if key not in table]
    if faults:
        return faults
    if not isinstance(table["name"], str) or not table["name"].strip():
        faults.append(f"name {table['name']!r}: expected text")
    if not isinstance(table["icd10"], str) or not _ICD10.fullmatch(table["icd10"]):
        faults.append(f"icd10 {table['icd10']!r}: expected a code such as 'I21.9'")
    if not _number(table["prevalence"]) or not 0 < table["prevalence"] <= 1000:
        faults.append(f"prevalence {table['prevalence']!r}: expected more than 0, at most 1000 cases in 1,000 patients")
    return [
        *faults,
        *_urgency_faults(table["urgency"]),
        *_evidence_faults(table["evidence"], catalogue),
        *_multiplier_faults(table.get("risk_factors", {}), catalogue),
        *_code_list_faults(table, catalogue),
    ]


def _condition(code: str, system: str, table: Mapping[str, Any]) -> Condition:
    return Condition(
        code=code,
        system=system,
        name=table["name"],
        icd10=table["icd10"],
        prevalence=float(table["prevalence"]),
        urgency=tuple(float(table["urgency"][label]) for label in DECISION_LABELS),
        evidence={name: float(value) for name, value in table["evidence"].items()},
        risk_factors={name: float(value) for name, value in table.get("risk_factors", {}).items()},
        **{key: tuple(table.get(key, ())) for key in ("red_flags", "urgent_with", "requires")},
    )


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _urgency_faults(urgency: Any) -> list[str]:
    if not isinstance(urgency, dict) or set(urgency) != set(DECISION_LABELS):
        return [f"urgency: expected a probability for each of {', '.join(DECISION_LABELS)}"]
    if not all(_number(value) and 0 <= value <= 1 for value in urgency.values()):
        return ["urgency: expected probabilities from 0 to 1"]
    total = sum(urgency.values())
    return [] if abs(total - 1) < 1e-6 else [f"urgency: the probabilities sum to {total:.6g}, not to 1"]


def _evidence_faults(evidence: Any, catalogue: Catalogue) -> list[str]:
    if not isinstance(evidence, dict):
        return ["evidence: expected a table"]
    faults = []
    if not MIN_EVIDENCE <= len(evidence) <= MAX_EVIDENCE:
        faults.append(f"evidence: expected {MIN_EVIDENCE} to {MAX_EVIDENCE} pieces, found {len(evidence)}")
    groups: dict[str, float] = {}
    for code, value in evidence.items():
        fault = _kind_fault(code, "symptom", catalogue)
        if fault is None and not (_number(value) and 0 < value < 1):
            fault = f"{code}: probability {value!r}: expected more than 0 and less than 1"
        if fault:
            faults.append(f"evidence: {fault}")
            continue
        entry = catalogue[code]
        if entry.parent is not None and not evidence.get(entry.parent, 0.0) >= value:
            faults.append(f"evidence: {code} at {value} expected its parent {entry.parent} at {value} or more")
        if entry.exclusive is not None:
            groups[entry.exclusive] = groups.get(entry.exclusive, 0.0) + value
    faults += [
        f"evidence: the probabilities of the exclusive group {name!r} sum to {total:.6g}, above 1"
        for name, total in groups.items()
        if total > 1 + 1e-9
    ]
    return faults


def _multiplier_faults(multipliers: Any, catalogue: Catalogue) -> list[str]:
    if not isinstance(multipliers, dict):
        return ["risk_factors: expected a table"]
    faults = []
    for code, value in multipliers.items():
        fault = _kind_fault(code, "risk_factor", catalogue)
        if fault is None and not (_number(value) and 0 <= value <= MAX_MULTIPLIER):
            fault = f"{code}: multiplier {value!r}: expected 0 to {MAX_MULTIPLIER:g}"
        if fault:
            faults.append(f"risk_factors: {fault}")
    return faults


def _code_list_faults(table: Mapping[str, Any], catalogue: Catalogue) -> list[str]:
    faults = []
    for key, kind in (("red_flags", "symptom"), ("urgent_with", "risk_factor"), ("requires", "risk_factor")):
        codes = table.get(key, [])
        if not isinstance(codes, list) or not all(isinstance(code, str) for code in codes):
            faults.append(f"{key}: expected a list of codes")
            continue
        for code in codes:
            fault = _kind_fault(code, kind, catalogue)
            if fault is None and key == "red_flags" and code not in table["evidence"]:
                fault = f"{code} is not among its evidence"
            if fault is None and codes.count(code) > 1:
                fault = f"{code} is listed twice"
            faults += [f"{key}: {fault}"] if fault else []
    return faults


def _kind_fault(code: str, kind: str, catalogue: Catalogue) -> str | None:
    if code not in catalogue:
        return catalogue.vocabulary.unknown_message(code)
    if catalogue[code].evidence.kind != kind:
        return f"{code} is a {catalogue[code].evidence.kind}, expected a {kind}"
    return None
