"""The clinical knowledge base: evidence catalogue, demographics of the risk factors, and conditions.

Written for this project from general clinical knowledge, for research and teaching only. No clinician has validated it,
and it must not be used to make decisions about a patient.

Its files are in `schemas/knowledge/`. The catalogue, `evidence.csv`, begins with the four columns of a vocabulary file.
A file of `conditions/` is TOML with one table per condition, so that a changed figure is a changed line.
"""

import dataclasses
import functools
import hashlib
import importlib.resources
import itertools
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from schemas import danger_signs, evidence, safety_rules
from schemas.bands import BAND
from schemas.csv_table import CsvTable
from schemas.errors import InputError
from schemas.evidence import FLAGGED, RED_FLAG, Evidence, Vocabulary
from schemas.relations import EXHAUSTIVE, ONLY_IF, RELATIONS, Status, terms
from schemas.text_file import parse_toml, read_text
from schemas.triage import DECISION_LABELS, Action

COLUMNS = (*evidence.COLUMNS, "system", "parent", "exclusive", "only_if", "background", "instrument")
"""The columns of the catalogue; the last one may be left out."""
AGE, SEX = EXHAUSTIVE
MIN_BACKGROUND = 1e-4  # any finding is possible in a patient who comes for another reason
_NAME = re.compile(r"[a-z][a-z0-9_]*")
MIN_EVIDENCE, MAX_EVIDENCE = 8, 25
MAX_MULTIPLIER = 100.0
_ICD10 = re.compile(r"[A-Z]\d\d(\.\d{1,2})?")
_NEEDED = ("name", "icd10", "prevalence", "urgency", "evidence")
_KEYS = (*_NEEDED, "red_flags", "urgent_with", "requires", "risk_factors")
EVIDENCE = "evidence.csv"
SYNONYMS = "synonyms.csv"
"""What patients say for a piece of evidence. It changes no patient, so the fingerprint leaves it out."""
BANDS = "bands.csv"
"""The numbers for which a piece of evidence is present; likewise."""
RISK_FACTORS = "risk_factors.toml"
CONDITIONS = "conditions"

# Two conditions are indistinguishable if no probability of evidence differs by as much, and no multiplier of a risk
# factor by such a ratio.
MIN_DIFFERENCE = 0.1
MIN_RATIO = 3.0


@dataclasses.dataclass(frozen=True)
class CatalogueEntry:
    """A piece of evidence and its relations to the others."""

    evidence: Evidence
    system: str
    """The body system of a symptom or sign, or the type of a risk factor (demographic, medicine, habit, ...)."""
    only_if: tuple[tuple[Status, ...], ...]
    """Who can have it, see `schemas.relations.terms`; all of their codes are risk factors."""
    background: float
    """In [1e-4, 1). Of a symptom: its probability in a patient who comes for another reason (the leak). Of a risk
    factor: the share of patients who have it."""

    @property
    def code(self) -> str:
        """The evidence code."""
        return self.evidence.code

    @property
    def parent(self) -> str | None:
        """Evidence that is present whenever this is: chest pain is the parent of chest pain on exertion."""
        return self.evidence.parent or None

    @property
    def exclusive(self) -> str | None:
        """The group of which a patient has at most one member, such as the age bands."""
        return self.evidence.exclusive or None


class Catalogue:
    """All pieces of evidence in the order of the vocabulary. Made by `parse`."""

    def __init__(self, entries: Sequence[CatalogueEntry]):
        self._entries = tuple(entries)
        self.vocabulary = Vocabulary(entry.evidence for entry in entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[CatalogueEntry]:
        return iter(self._entries)

    def __contains__(self, code: object) -> bool:
        return code in self.vocabulary

    def __getitem__(self, code: str) -> CatalogueEntry:
        return self._entries[self.vocabulary.index(code)]

    def of_kind(self, kind: str) -> tuple[CatalogueEntry, ...]:
        """Returns the entries of a kind, "symptom" or "risk_factor", in order."""
        return tuple(entry for entry in self._entries if entry.evidence.kind == kind)

    def with_column(self, name: str, cells: Mapping[str, Any], source: str) -> "Catalogue":
        """Returns the catalogue with a field of `Evidence` by code; `source` is the file's name in errors.

        Raises:
            InputError: a code is not in the catalogue, or a cell is faulty.
        """
        for code in cells:
            if code not in self:
                raise InputError(f"{source}: {self.vocabulary.unknown_message(code)}")
        said = [
            dataclasses.replace(entry.evidence, **{name: cells[entry.code]}) if entry.code in cells else entry.evidence
            for entry in self
        ]
        try:
            return Catalogue(
                [dataclasses.replace(entry, evidence=each) for entry, each in zip(self, said, strict=True)]
            )
        except InputError as error:
            raise InputError(f"{source}: {error}") from None

    def group(self, name: str) -> tuple[CatalogueEntry, ...]:
        """Returns the members of an exclusive group, in order."""
        return tuple(entry for entry in self._entries if entry.exclusive == name)

    @classmethod
    def parse(cls, text: str, source: str) -> "Catalogue":
        """Reads the text of a catalogue file; `source` is its name in errors.

        Raises:
            InputError: a line is malformed, or relations contradict each other; the message has one line per fault.
        """
        table = CsvTable.of_text(text, source, COLUMNS[:-1], COLUMNS[-1:])
        entries, faults = [], []
        for row in filter(None, table):
            try:
                if row.fault:
                    raise InputError(row.fault)
                entries.append(_entry(dict(zip(table.columns, row.cells, strict=True))))
            except InputError as error:
                faults.append(f"{source}: line {row.line.number}: {error}")
        if not faults:
            try:
                catalogue = cls(entries)
            except InputError as error:
                raise InputError(f"{source}: {error}") from None
            faults = [f"{source}: {fault}" for fault in _relation_faults(entries)]
        if faults:
            raise InputError("\n".join(faults))
        return catalogue


def _entry(cells: dict[str, Any]) -> CatalogueEntry:
    """Returns the entry of a line, whose `cells` are by column."""
    system, background = cells.pop("system"), cells.pop("background")
    entry = Evidence(**cells)
    for value, column in ((entry.code, "code"), (system, "system"), (entry.exclusive or "none", "exclusive")):
        if not _NAME.fullmatch(value):
            raise InputError(f"{entry.code!r}: {column} {value!r} is not in snake_case")
    try:
        share = float(background)
    except ValueError:
        share = -1.0
    if not MIN_BACKGROUND <= share < 1:
        raise InputError(f"{entry.code!r}: background {background!r}: expected {MIN_BACKGROUND} or more, less than 1")
    return CatalogueEntry(entry, system, terms(entry.only_if), share)


def _relation_faults(entries: Sequence[CatalogueEntry]) -> list[str]:
    known = {entry.code: entry for entry in entries}
    places = {code: place for place, code in enumerate(known)}
    faults = []
    for entry in entries:
        found = []
        if entry.parent is not None:
            parent = known[entry.parent]
            if parent.evidence.kind != entry.evidence.kind:
                found.append(f"its parent {entry.parent!r} is of another kind")
            elif places[entry.parent] > places[entry.code]:
                found.append(f"its parent {entry.parent!r} must come above it")
            elif parent.background < entry.background:
                found.append(f"background {entry.background} is above that of its parent {entry.parent!r}")
        for code, _ in itertools.chain.from_iterable(entry.only_if):
            if known[code].evidence.kind != "risk_factor":
                found.append(f"only_if: {code!r} is not a risk factor")
        faults += [f"{entry.code!r}: {fault}" for fault in found]
    for name in EXHAUSTIVE:
        total = sum(entry.background for entry in entries if entry.exclusive == name)
        if abs(total - 1) > 1e-6:
            faults.append(
                f"group {name!r}: every patient has one of its members, but their background sums to {total:.6g}"
            )
    return faults


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


def read_column(path: pathlib.Path, column: str) -> dict[str, str]:
    """Returns the cells of a file with a line for each code, by the code.

    Raises:
        InputError: the header or a line is malformed, or a code comes twice.
    """
    cells: dict[str, str] = {}
    for number, row in CsvTable.of_text(read_text(path), path, ("code", column)).records():
        if row["code"] in cells:
            raise InputError(f"{path}: line {number}: {row['code']!r} is already on a line above")
        cells[row["code"]] = row[column]
    return cells


def load_tables(path: pathlib.Path) -> dict[str, Any]:
    """Returns the tables of a TOML file.

    Raises:
        InputError: the file cannot be read, is not TOML, or has keys outside of tables.
    """
    tables = parse_toml(read_text(path), path)
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
        urgency=tuple(float(table["urgency"].get(label, 0.0)) for label in DECISION_LABELS),
        evidence={name: float(value) for name, value in table["evidence"].items()},
        risk_factors={name: float(value) for name, value in table.get("risk_factors", {}).items()},
        **{key: tuple(table.get(key, ())) for key in ("red_flags", "urgent_with", "requires")},
    )


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _urgency_faults(urgency: Any) -> list[str]:
    if not isinstance(urgency, dict) or not urgency.keys() <= set(DECISION_LABELS):
        return [f"urgency: expected probabilities of {', '.join(DECISION_LABELS)}; what is left out has probability 0"]
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


@dataclasses.dataclass(frozen=True)
class KnowledgeBase:
    """What the simulator and its clinicians know. Made by `load`."""

    catalogue: Catalogue
    demographics: Mapping[str, Mapping[str, float]]
    """For each risk factor: how many times more frequent it is in an age band or sex than in one that is not listed."""
    conditions: tuple[Condition, ...]
    fingerprint: str
    """`sha256:` and 64 hexadecimal digits over the files that make patients."""

    def condition(self, code: str) -> Condition:
        """Returns the condition with a code.

        Raises:
            InputError: there is none.
        """
        for condition in self.conditions:
            if condition.code == code:
                return condition
        raise InputError(f"unknown condition {code!r}: triage knowledge --list shows all of them")

    @classmethod
    def load(cls, directory: pathlib.Path | None = None) -> "KnowledgeBase":
        """Reads and checks a knowledge base, by default that of the package.

        Raises:
            InputError: it has faults; the message has one line per fault.
        """
        if directory is None:
            return _packaged()
        paths = sorted((directory / CONDITIONS).glob("*.toml"))
        if not paths:
            raise InputError(
                f"{directory / CONDITIONS}: expected the conditions of a knowledge base, found no .toml file"
            )
        catalogue = Catalogue.parse(read_text(directory / EVIDENCE), str(directory / EVIDENCE))
        said, bands = directory / SYNONYMS, directory / BANDS
        if said.exists():
            phrases = {code: evidence.phrases_in(cell) for code, cell in read_column(said, evidence.SYNONYMS).items()}
            catalogue = catalogue.with_column(evidence.SYNONYMS, phrases, str(said))
        if bands.exists():
            catalogue = catalogue.with_column(BAND, read_column(bands, BAND), str(bands))
        demographics = load_tables(directory / RISK_FACTORS)
        faults = [f"{directory / RISK_FACTORS}: {fault}" for fault in _demographic_faults(demographics, catalogue)]
        conditions: list[Condition] = []
        for path in paths:
            valid, condition_faults = load_conditions(path, catalogue)
            conditions += valid
            faults += condition_faults
        # With a faulty condition missing, cross checks would report others as faulty.
        faults = faults or [f"{directory}: {fault}" for fault in cross_faults(conditions, catalogue)]
        if faults:
            raise InputError("\n".join(faults))
        who = {}
        for code, bands_of in demographics.items():
            never = [f"!{band}" for band, times in bands_of.items() if times == 0]
            who[code] = " ".join([catalogue[code].evidence.only_if, *never]).strip()
        catalogue = catalogue.with_column(ONLY_IF, who, str(directory / RISK_FACTORS))
        flags = {code for condition in conditions for code in condition.red_flags} | _asked_about(catalogue.vocabulary)
        catalogue = catalogue.with_column(RED_FLAG, dict.fromkeys(flags, FLAGGED), str(directory / CONDITIONS))
        files = (directory / EVIDENCE, directory / RISK_FACTORS, *paths)
        digest = hashlib.sha256(b"".join(path.name.encode() + b"\n" + path.read_bytes() for path in files))
        return cls(catalogue, demographics, tuple(conditions), f"sha256:{digest.hexdigest()}")


@functools.cache
def _packaged() -> KnowledgeBase:
    """Returns the knowledge base of the package, which stays the same while a program runs."""
    with importlib.resources.as_file(importlib.resources.files("schemas").joinpath("knowledge")) as directory:
        return KnowledgeBase.load(directory)


def _asked_about(vocabulary: Vocabulary) -> set[str]:
    """Returns the codes by which the package's rules for Red fire, and its danger signs, where they fit.

    An interview asks about them, and who denies a red flag cannot become more urgent. Age and sex are no flags.
    """
    rules, _ = safety_rules.choose(None, vocabulary)
    conditions = itertools.chain.from_iterable(
        (*rule.all_of, *rule.any_of) for rule in rules if rule.urgency == Action.RED
    )
    signs = danger_signs.packaged(vocabulary) or danger_signs.NO_SIGNS
    listed = itertools.chain.from_iterable(itertools.chain.from_iterable(signs.groups.values()))
    opening = {vocabulary.codes[cell] for cells in vocabulary.openings.values() for cell in cells}
    return {*(code for code, present in conditions if present), *listed} - opening


def with_known_relations(vocabulary: Vocabulary) -> Vocabulary:
    """Returns the vocabulary with the relations of the knowledge base for the codes that both have.

    A vocabulary that states relations keeps them; so too for who can have a code, of which only terms count whose codes
    it has.
    """
    catalogue = KnowledgeBase.load().catalogue
    related = any(getattr(entry, column) for entry in vocabulary for column in RELATIONS)
    limited = any(entry.only_if for entry in vocabulary)

    def known(entry: Evidence) -> Evidence:
        if entry.code not in catalogue:
            return entry
        told = catalogue[entry.code].evidence
        changes: dict[str, Any] = {}
        if not related:
            parent = told.parent
            while parent and parent not in vocabulary:
                parent = catalogue[parent].evidence.parent
            changes = {"parent": parent, "exclusive": told.exclusive}
        if not limited:
            there = [
                term
                for term, parts in zip(told.only_if.split(), terms(told.only_if), strict=True)
                if all(code in vocabulary for code, _ in parts)
            ]
            changes[ONLY_IF] = " ".join(there)
        return dataclasses.replace(entry, **changes)

    return Vocabulary(map(known, vocabulary))


def cross_faults(conditions: Sequence[Condition], catalogue: Catalogue) -> list[str]:
    """Returns the faults between conditions, one sentence each."""
    codes = [condition.code for condition in conditions]
    faults = [f"condition {code!r} is defined twice" for code in sorted({c for c in codes if codes.count(c) > 1})]
    used = {code for c in conditions for code in (*c.evidence, *c.risk_factors, *c.urgent_with, *c.requires)}
    faults += [
        f"no condition uses the {entry.evidence.kind} {entry.code!r}" for entry in catalogue if entry.code not in used
    ]
    faults += [
        f"nothing distinguishes the conditions {one.code!r} and {other.code!r}: no evidence differs by "
        f"{MIN_DIFFERENCE}, no risk factor by a factor of {MIN_RATIO:g}"
        for one, other in itertools.combinations(conditions, 2)
        if not _distinguishable(one, other)
    ]
    return faults


def _distinguishable(one: Condition, other: Condition) -> bool:
    if set(one.requires) != set(other.requires):
        return True
    return any(
        abs(one.evidence.get(code, 0.0) - other.evidence.get(code, 0.0)) >= MIN_DIFFERENCE
        for code in {*one.evidence, *other.evidence}
    ) or any(
        _ratio(one.risk_factors.get(code, 1.0), other.risk_factors.get(code, 1.0)) >= MIN_RATIO
        for code in {*one.risk_factors, *other.risk_factors}
    )


def _ratio(a: float, b: float) -> float:
    low, high = sorted((a, b))
    return high / low if low else (1.0 if not high else float("inf"))


def _demographic_faults(tables: Mapping[str, Mapping[str, float]], catalogue: Catalogue) -> list[str]:
    faults = []
    bands = {entry.code for group in (AGE, SEX) for entry in catalogue.group(group)}
    for code, multipliers in tables.items():
        if code not in catalogue or catalogue[code].evidence.kind != "risk_factor" or code in bands:
            faults.append(f"{code}: expected a risk factor other than an age band or a sex")
        for band, value in multipliers.items():
            if band not in bands:
                faults.append(f"{code}: {band!r} is neither an age band nor a sex")
            if not isinstance(value, int | float) or not 0 <= value <= MAX_MULTIPLIER:
                faults.append(f"{code}: {band}: multiplier {value!r}: expected 0 to {MAX_MULTIPLIER:g}")
    return faults
