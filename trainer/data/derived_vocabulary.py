"""Derives a vocabulary from the codes in the data, for teams that have none yet.

Kinds, names and questions are a first draft for a reviewer, as a table contains nothing but codes.
"""

import re
import unicodedata
from collections.abc import Sequence

from schemas.errors import InputError
from schemas.evidence import COLUMNS, MAX_CODE_LENGTH, Evidence, Vocabulary, code_fault

MAX_DERIVED_CODES = 10_000
"""A column with more values than this does not hold evidence."""

_NOT_IN_CODE = re.compile(r"[^\w.@:/+()\-']+")
_BEFORE_FIRST = re.compile(r"^[\W_]+")
_QUESTIONS = {"symptom": "{}: is it present?", "risk_factor": "{}: does it apply?"}


class CodeCollector:
    """Collects the well-formed codes of a column in the order of their first use."""

    def __init__(self) -> None:
        self._codes: dict[str, None] = {}
        self._malformed: str | None = None

    def add(self, code: str, place: str) -> None:
        """Adds the code at `place`; a malformed code is skipped.

        Raises:
            InputError: there are more than `MAX_DERIVED_CODES` different codes.
        """
        if code in self._codes:
            return
        fault = malformed_code(code)
        if fault:
            self._malformed = self._malformed or f"{place}: {fault}"
            return
        if len(self._codes) == MAX_DERIVED_CODES:
            raise InputError(
                f"{place}: more than {MAX_DERIVED_CODES:,} different evidence codes: expected one for each symptom or "
                "risk factor; correct the column, or give --vocabulary"
            )
        self._codes[code] = None

    def vocabulary(self, risk_factors: Sequence[str], source: str) -> Vocabulary:
        """Returns the vocabulary of the collected codes, in their order; `source` is their file's name in errors.

        They are symptoms, except for those in `risk_factors`.

        Raises:
            InputError: there is no well-formed code, or `risk_factors` has other codes.
        """
        if not self._codes:
            why = f"; {self._malformed}" if self._malformed else ""
            raise InputError(f"{source}: no evidence code to derive a vocabulary from{why}")
        vocabulary = Vocabulary(_evidence(code, code in risk_factors) for code in self._codes)
        for code in risk_factors:
            if code not in vocabulary:
                raise InputError(f"--risk-factors: {vocabulary.unknown_message(code)}")
        return vocabulary


def malformed_code(code: str) -> str | None:
    """Returns why `code` is not an evidence code, and a suggestion; None if it is one."""
    fault = code_fault(code)
    if fault is None and code == COLUMNS[0]:  # the header of a vocabulary file
        return f"evidence code {code!r} is reserved for the header of a vocabulary: choose another"
    if fault is None:
        return None
    suggestion = suggested_code(code)
    return f"{fault}; write {suggestion!r}" if suggestion else fault


def suggested_code(text: str) -> str | None:
    """Returns a similar code, such as `chest_pain` for "Chest pain"; None if there is none."""
    plain = _NOT_IN_CODE.sub("_", unicodedata.normalize("NFC", text).lower())
    code = unicodedata.normalize("NFC", _BEFORE_FIRST.sub("", plain).rstrip("_")[:MAX_CODE_LENGTH])
    return code if code_fault(code) is None and code != COLUMNS[0] else None


def _evidence(code: str, is_risk_factor: bool) -> Evidence:
    kind = "risk_factor" if is_risk_factor else "symptom"
    words = code.replace("_", " ").strip()
    name = words[0].upper() + words[1:]
    return Evidence(code, kind, name, _QUESTIONS[kind].format(name))
