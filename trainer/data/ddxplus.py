"""The DDXPlus release: conditions and evidences as a vocabulary and a severity proxy, patients as vignettes.

DDXPlus (Fansi Tchango et al., NeurIPS 2022) is a set of synthetic patients with differential diagnoses. It does not
include triage: `SEVERITY_URGENCY` is a substitute for clinicians' decisions, without clinical validity
(docs/data.md).
"""

import ast
import bisect
import dataclasses
import functools
import math
import pathlib
import random
import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from schemas.csv_table import CsvTable
from schemas.errors import InputError
from schemas.evidence import Evidence, Vocabulary
from schemas.triage import NUM_DECISIONS, TRIAGE_DECISIONS, Action
from trainer.data.source import Accepted, LineReader, Outcome, Rejected
from trainer.data.split import apportion
from trainer.data.vignette import Vignette, VignetteError, name_fault
from triage_runtime.storage.whole_file import read_json

VALUE_MARK = "_@_"
"""Separates categorical evidence from its value, in the patients file and in our codes."""

# The release grades severity from 1, the most severe, to 5. The two most severe levels are both Red:
# conditions such as pulmonary embolism cannot wait for hours, and a substitute should err towards urgency.
SEVERITY_URGENCY = {1: Action.RED, 2: Action.RED, 3: Action.YELLOW, 4: Action.GREEN, 5: Action.BLUE}

AGE_BAND_STARTS = (0, 1, 5, 15, 30, 45, 60, 75)
"""First year of age of each band; a band ends where the next one starts."""
SEX_CODES = {"F": "sex_female", "M": "sex_male"}

_SEX_TEXTS = {"F": ("Female sex", "Is your sex female?"), "M": ("Male sex", "Is your sex male?")}
_CONDITION_NAMES = ("condition_name", "cond-name-fr", "cond-name-eng")


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """The parts of a condition that matter for triage."""

    urgency: Action
    findings: tuple[str, ...]  # codes of its yes-or-no evidence


@dataclasses.dataclass(frozen=True)
class Release:
    """A release's conditions and evidence."""

    vocabulary: Vocabulary
    conditions: Mapping[str, Diagnosis]  # by any of their names
    codes: Mapping[str, str | None]  # by evidence as written in a patient's row; None if it means nothing

    @functools.cached_property
    def findings(self) -> frozenset[str]:
        """The yes-or-no evidence of all conditions."""
        return frozenset(code for condition in self.conditions.values() for code in condition.findings)


def read_release(conditions: pathlib.Path, evidences: pathlib.Path) -> Release:
    """Reads `release_conditions.json` and `release_evidences.json`, of the English or the French release.

    Names and questions in the vocabulary are the English ones, which both have.

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
        pieces: Iterable[tuple[str, Evidence | None]] = _valued(key, evidence, where) if kind != "B" else ()
        if kind == "B":
            binary.add(key)
            question = _question(evidence, where)
            pieces = [(key, Evidence(_code(key), _kind(evidence, where), _stem(question), question))]
        for token, entry in pieces:
            codes[normalised(token)] = entry.code if entry else None
            entries.extend([entry] if entry else [])
    entries += demographics()
    try:
        vocabulary = Vocabulary(entries)
    except InputError as error:  # two pieces of evidence may become one code
        raise InputError(f"{evidences}: {error}") from None
    return Release(vocabulary, _conditions(conditions, codes, binary, _load(evidences)), codes)


def normalised(text: str) -> str:
    """Returns `text` in Unicode normal form C, as names are written with and without combining accents."""
    return unicodedata.normalize("NFC", text)


def age_code(age: int) -> str:
    """Returns the code of the age band that holds `age`, in completed years."""
    return _age_band_code(bisect.bisect_right(AGE_BAND_STARTS, age) - 1)


def demographics() -> Iterator[Evidence]:
    """Yields age bands and sexes as risk factors; a patient has exactly one of each."""
    for band, start in enumerate(AGE_BAND_STARTS):
        last = None if band + 1 == len(AGE_BAND_STARTS) else AGE_BAND_STARTS[band + 1] - 1
        years = f"{start} or over" if last is None else f"{start} to {last}" if last else "under 1"
        texts = f"Age {years}", f"Is your age {years}?"
        yield Evidence(_age_band_code(band), "risk_factor", *texts, exclusive="age")
    for sex, code in SEX_CODES.items():
        yield Evidence(code, "risk_factor", *_SEX_TEXTS[sex], exclusive="sex")


def _age_band_code(band: int) -> str:
    start = AGE_BAND_STARTS[band]
    if band + 1 == len(AGE_BAND_STARTS):
        return f"age_{start}_plus"
    after = AGE_BAND_STARTS[band + 1]
    return f"age_{start}_{after - 1}" if start else f"age_under_{after}"


def _valued(key: str, evidence: Mapping[str, Any], where: str) -> Iterator[tuple[str, Evidence | None]]:
    """Yields each value as a piece of evidence, except for the default value, which means that there is nothing."""
    question = _question(evidence, where)
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
            meaning = _field(meanings[meaning], "en", str, f"{where}: value_meaning {meaning!r}")
        meaning = " ".join(meaning.split())
        code = _code(f"{key}{VALUE_MARK}{value}")
        texts = f"{_stem(question)}: {meaning}", f"{question} {meaning}?"
        yield f"{key}{VALUE_MARK}{value}", Evidence(code, _kind(evidence, where), *texts)


def _conditions(
    path: pathlib.Path, codes: Mapping[str, str | None], binary: set[str], evidences: Mapping[str, Any]
) -> dict[str, Diagnosis]:
    by_name: dict[str, Diagnosis] = {}
    for key, fields in _load(path).items():
        where = f"{path}: {key!r}"
        severity = _field(fields, "severity", int, where)
        if severity not in SEVERITY_URGENCY:
            raise InputError(f"{where}: severity: expected 1 to 5, found {severity}")
        keys = [*_field(fields, "symptoms", dict, where), *_field(fields, "antecedents", dict, where)]
        for unknown in (name for name in keys if name not in evidences):
            raise InputError(f"{where}: {unknown!r} is not in the evidences file: give both files of one release")
        findings = dict.fromkeys(codes[normalised(name)] for name in keys if name in binary)
        condition = Diagnosis(SEVERITY_URGENCY[severity], tuple(code for code in findings if code))
        names = {key, *(_field(fields, name, str, where) for name in _CONDITION_NAMES if name in fields)}
        for name in map(normalised, names):
            if name in by_name:
                raise InputError(f"{where}: the name {name!r} belongs to another condition as well")
            by_name[name] = condition
    return by_name


def _load(path: pathlib.Path) -> dict[str, dict[str, Any]]:
    content = read_json(path)
    if not content:
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


def _question(evidence: Mapping[str, Any], where: str) -> str:
    return " ".join(_field(evidence, "question_en", str, where).split())


def _kind(evidence: Mapping[str, Any], where: str) -> str:
    return "risk_factor" if _field(evidence, "is_antecedent", bool, where) else "symptom"


def _stem(question: str) -> str:
    return question.rstrip(" ?:.") or question


def _code(text: str) -> str:
    return re.sub(r"\s+", "_", normalised(text))


COLUMNS = ("AGE", "DIFFERENTIAL_DIAGNOSIS", "SEX", "PATHOLOGY", "EVIDENCES")
"""The columns that are read; a file may have more."""
INITIAL_EVIDENCE = "INITIAL_EVIDENCE"
"""Another one, which is read where the file has it."""
DIFFERENTIAL, RELEASE = ABSENT_FROM = ("differential", "release")
"""Whose evidence may be listed as absent: that of a patient's conditions, or that of all conditions."""
MAX_AGE = 120
MAX_LITERAL_LENGTH = 100_000

# What Python's parser raises for text that is not a literal, or is nested too deeply.
_NO_LITERAL = (ValueError, SyntaxError, TypeError, MemoryError, RecursionError)


@dataclasses.dataclass(frozen=True)
class PatientOptions:
    """How a patient becomes a vignette."""

    seed: int = 0
    absent_evidence: int = 3  # absent codes in a vignette, if there are enough to draw from
    decisions_per_vignette: int = 5
    absent_from: str = DIFFERENTIAL


def read_patients(
    reader: LineReader, release: Release, options: PatientOptions, split: str | None = None
) -> Iterator[Outcome]:
    """Yields the outcome of each line of a patients file; all vignettes get `split`.

    Raises:
        InputError: the file cannot be read or is not a patients file.
    """
    stem = reader.path.stem
    fault = name_fault(f"{stem}-{'9' * 12}")
    if fault:
        raise InputError(f"{reader.path}: its name becomes part of the vignette ids: {fault}")
    table = CsvTable(reader, reader.path, COLUMNS, others=True)
    for row in table:
        if row is None:
            yield None
            continue
        vignette_id = f"{stem}-{row.line.number - 1}"
        try:
            if row.fault:
                raise VignetteError(row.fault)
            fields = dict(zip(table.columns, row.cells, strict=True))
            vignette = _vignette(vignette_id, fields, release, options)
            yield Accepted(row.line, dataclasses.replace(vignette, split=split))
        except VignetteError as error:
            yield Rejected(row.line, vignette_id, str(error))


def _vignette(vignette_id: str, fields: Mapping[str, str], release: Release, options: PatientOptions) -> Vignette:
    complaint = release.codes.get(normalised(fields.get(INITIAL_EVIDENCE, "")))
    present = [
        *sorted(_evidence(fields["EVIDENCES"], release), key=lambda code: code != complaint),  # it comes first
        age_code(_age(fields["AGE"])),
        _sex_code(fields["SEX"]),
    ]
    differential = _differential(fields, release)
    shares = [0.0] * NUM_DECISIONS
    for urgency in TRIAGE_DECISIONS:
        shares[urgency] = math.fsum(p for condition, p in differential if condition.urgency is urgency)
    counts = apportion(options.decisions_per_vignette, shares)
    own = {code for condition, _ in differential for code in condition.findings}
    findings = release.findings if options.absent_from == RELEASE else own
    candidates = sorted(findings - set(present), key=release.vocabulary.index)
    return Vignette(
        vignette_id=vignette_id,
        present=tuple(present),
        absent=_sample(candidates, options.absent_evidence, f"{options.seed}:{vignette_id}"),
        decisions=tuple(Action(d) for d in TRIAGE_DECISIONS for _ in range(counts[d])),
    )


def _evidence(cell: str, release: Release) -> list[str]:
    tokens = _literal_list(cell, "EVIDENCES")
    codes = []
    for token in tokens:
        if not isinstance(token, str):
            raise VignetteError(f"EVIDENCES: expected a list of strings, found {_shown(token)} in it")
        if normalised(token) not in release.codes:
            raise VignetteError(f"EVIDENCES: {_unknown_evidence(token[:200], release)}")
        codes.append(release.codes[normalised(token)])
    for token, count in Counter(tokens).items():
        if count > 1:
            raise VignetteError(f"EVIDENCES: {token!r} is listed {count} times")
    return [code for code in codes if code is not None]


def _unknown_evidence(token: str, release: Release) -> str:
    base, mark, _ = token.partition(VALUE_MARK)
    if mark and normalised(base) in release.codes:
        return f"{token!r}: {base!r} is yes-or-no evidence and takes no value"
    if not mark and any(known.startswith(f"{normalised(base)}{VALUE_MARK}") for known in release.codes):
        return f"{token!r} needs a value: expected {token}{VALUE_MARK}VALUE"
    return release.vocabulary.unknown_message(token)


def _differential(fields: Mapping[str, str], release: Release) -> list[tuple[Diagnosis, float]]:
    """Returns conditions and their probabilities; without a differential, the pathology is certain."""
    pathology = _condition(fields["PATHOLOGY"], "PATHOLOGY", release)
    cell = fields["DIFFERENTIAL_DIAGNOSIS"]
    pairs = _literal_list(cell, "DIFFERENTIAL_DIAGNOSIS") if cell.strip() else []
    differential = []
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not isinstance(pair[0], str):
            raise VignetteError(f"DIFFERENTIAL_DIAGNOSIS: expected [condition, probability], found {_shown(pair)}")
        name, probability = pair
        if type(probability) not in (int, float) or not 0 <= probability <= 1:
            raise VignetteError(
                f"DIFFERENTIAL_DIAGNOSIS: expected a probability from 0 to 1, found {_shown(probability)}"
            )
        differential.append((_condition(name, "DIFFERENTIAL_DIAGNOSIS", release), float(probability)))
    if differential and not any(probability for _, probability in differential):
        raise VignetteError("DIFFERENTIAL_DIAGNOSIS: all probabilities are 0")
    return differential or [(pathology, 1.0)]


def _condition(name: str, column: str, release: Release) -> Diagnosis:
    condition = release.conditions.get(normalised(name))
    if condition is None:
        raise VignetteError(f"{column}: {name[:60]!r} is not in the conditions file")
    return condition


def _age(cell: str) -> int:
    if not re.fullmatch(r"[0-9]{1,3}", cell) or int(cell) > MAX_AGE:
        raise VignetteError(f"AGE: expected whole years from 0 to {MAX_AGE}, found {cell[:60]!r}")
    return int(cell)


def _sex_code(cell: str) -> str:
    if cell not in SEX_CODES:
        raise VignetteError(f"SEX: expected {' or '.join(SEX_CODES)}, found {cell[:60]!r}")
    return SEX_CODES[cell]


def _literal_list(cell: str, column: str) -> list[Any]:
    if len(cell) > MAX_LITERAL_LENGTH:
        raise VignetteError(f"{column}: longer than {MAX_LITERAL_LENGTH:,} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes such as "\\d", as the text is data
            value = ast.literal_eval(cell.strip())
    except _NO_LITERAL:
        raise VignetteError(f"{column}: not a Python list literal: {cell[:60]!r}") from None
    if not isinstance(value, list):
        raise VignetteError(f"{column}: expected a list, found {cell[:60]!r}")
    return value


def _shown(value: Any) -> str:
    try:
        return repr(value)[:60]
    except ValueError:  # an integer literal in hexadecimal may be too long to be written in decimal
        return f"a value of type {type(value).__name__}"


def _sample(candidates: list[str], count: int, seed: str) -> tuple[str, ...]:
    """Returns `count` of the candidates, or all if there are fewer, drawn by the first steps of a shuffle."""
    pool = list(candidates)
    # The only method among Python's and NumPy's generators that guarantees the same numbers in every version.
    draw = random.Random(seed).random  # noqa: S311
    for i in range(min(count, len(pool))):
        j = i + int(draw() * (len(pool) - i))
        pool[i], pool[j] = pool[j], pool[i]
    return tuple(pool[:count])
