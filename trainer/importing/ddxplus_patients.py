"""Reads the patients of a DDXPlus release as vignettes, row by row."""

import ast
import csv
import dataclasses
import math
import random
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from schemas.errors import InputError
from schemas.triage import NUM_DECISIONS, TRIAGE_DECISIONS, Action
from trainer.importing.ddxplus import SEX_CODES, VALUE_MARK, Condition, Release, age_code, normalised
from trainer.vignettes.source import Accepted, Line, LineReader, Outcome, Rejected
from trainer.vignettes.split import apportion
from trainer.vignettes.vignette import Vignette, VignetteError, name_fault

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
    decisions: int = 5  # in a vignette
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
    lines = iter(reader)
    columns = _columns(next(lines, None), reader)
    for line in lines:
        if line.blank:
            yield None
            continue
        vignette_id = f"{stem}-{line.number - 1}"
        try:
            line.require_whole()
            vignette = _vignette(vignette_id, _fields(line, columns), release, options)
            yield Accepted(line, dataclasses.replace(vignette, split=split))
        except VignetteError as error:
            yield Rejected(line, vignette_id, str(error))


def _columns(header: Line | None, reader: LineReader) -> list[str]:
    try:
        columns = [] if header is None else _cells(header)
    except VignetteError as error:
        raise InputError(f"{reader.path}: line 1: {error}") from None
    missing = [column for column in COLUMNS if columns.count(column) != 1]
    if missing:
        raise InputError(
            f"{reader.path}: line 1: expected a header with each of {', '.join(COLUMNS)} once; see {', '.join(missing)}"
        )
    return columns


def _cells(line: Line) -> list[str]:
    """Returns the cells of a line. The release has no line breaks inside cells, so a stray quote spoils one line."""
    try:
        return next(csv.reader([line.content.decode("utf-8")], strict=True), [])
    except UnicodeDecodeError as error:
        raise VignetteError(f"not UTF-8 at byte {error.start} of the line") from None
    except csv.Error as error:
        raise VignetteError(f"not a row of a CSV file: {error}") from None


def _fields(line: Line, columns: Sequence[str]) -> dict[str, str]:
    cells = _cells(line)
    if len(cells) != len(columns):
        raise VignetteError(f"expected {len(columns)} columns, found {len(cells)}")
    return dict(zip(columns, cells, strict=True))


def _vignette(vignette_id: str, fields: Mapping[str, str], release: Release, options: PatientOptions) -> Vignette:
    present = [
        *_initial_first(_evidence(fields["EVIDENCES"], release), fields, release),
        age_code(_age(fields["AGE"])),
        _sex_code(fields["SEX"]),
    ]
    differential = _differential(fields, release)
    shares = [0.0] * NUM_DECISIONS
    for urgency in TRIAGE_DECISIONS:
        shares[urgency] = math.fsum(p for condition, p in differential if condition.urgency is urgency)
    counts = apportion(options.decisions, shares)
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


def _initial_first(codes: list[str], fields: Mapping[str, str], release: Release) -> list[str]:
    """Returns the codes with the presenting complaint, where it is one of them, before the others."""
    initial = release.codes.get(normalised(fields.get(INITIAL_EVIDENCE, "")))
    return sorted(codes, key=lambda code: code != initial)


def _unknown_evidence(token: str, release: Release) -> str:
    base, mark, _ = token.partition(VALUE_MARK)
    if mark and normalised(base) in release.codes:
        return f"{token!r}: {base!r} is yes-or-no evidence and takes no value"
    if not mark and any(known.startswith(f"{normalised(base)}{VALUE_MARK}") for known in release.codes):
        return f"{token!r} needs a value: expected {token}{VALUE_MARK}VALUE"
    return release.vocabulary.unknown_message(token)


def _differential(fields: Mapping[str, str], release: Release) -> list[tuple[Condition, float]]:
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


def _condition(name: str, column: str, release: Release) -> Condition:
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
