"""Danger signs: what must be known of a patient with a complaint before an interview may end below Red.

A file is TOML with one line for each complaint: groups of at most six signs, which are asked about in this order, up to
six in one question (docs/questions.md):

    chest_pain = [["crushing_chest_pain", "shortness_of_breath", "pale_clammy_skin"], ["sweating", "jaw_pain"]]

Below them a table may say whom an interview does not ask about what, such as a baby:

    [not_asked]
    age_under_1 = ["confusion", "opioid_use"]
"""

import dataclasses
import importlib.resources
import itertools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from schemas.errors import InputError
from schemas.evidence import Vocabulary
from schemas.text_file import parse_toml, read_text

_PACKAGED = "rules/danger_signs.toml"

TOGETHER = 6
"""Signs in one question, at most."""
NOT_ASKED = "not_asked"


@dataclasses.dataclass(frozen=True)
class DangerSigns:
    """For each complaint, a code, its groups of signs; none for other codes."""

    groups: Mapping[str, tuple[tuple[str, ...], ...]] = dataclasses.field(default_factory=dict)
    not_asked: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    """For each code, such as an age, the codes that nobody who has it is asked about."""

    def to_toml(self) -> str:
        """Returns the file; `parse` reads it back."""
        lines = [f'"{complaint}" = [{", ".join(map(_listed, groups))}]\n' for complaint, groups in self.groups.items()]
        if self.not_asked:
            lines.append(f"\n[{NOT_ASKED}]\n")
        lines += [f'"{code}" = {_listed(others)}\n' for code, others in self.not_asked.items()]
        return "".join(lines)


NO_SIGNS = DangerSigns()


def parse(text: str, source: str, vocabulary: Vocabulary) -> DangerSigns:
    """Reads the text of a file; `source` is its name in errors.

    Raises:
        InputError: it is no TOML, a complaint is not followed by groups of one to six codes, one of `not_asked` by
            codes, either names a code twice or itself, or a code is not in the vocabulary; the message names it.
    """
    read = parse_toml(text, source)
    not_asked = read.pop(NOT_ASKED, {}) if isinstance(read.get(NOT_ASKED), dict) else {}
    for complaint, groups in read.items():
        grouped = isinstance(groups, list) and all(_are_codes(group) and len(group) <= TOGETHER for group in groups)
        form = f'groups of 1 to {TOGETHER} codes each, such as [["fever", "confusion"]]'
        malformed = "" if grouped else f"expected {form}, not {groups!r}"
        if fault := malformed or _fault([complaint, *itertools.chain(*groups)], vocabulary):
            raise InputError(f"{source}: {complaint}: {fault}")
    for code, others in not_asked.items():
        malformed = "" if _are_codes(others) else f'expected codes, such as ["fever", "confusion"], not {others!r}'
        if fault := malformed or _fault([code, *others], vocabulary):
            raise InputError(f"{source}: {NOT_ASKED}: {code}: {fault}")
    return DangerSigns(
        {complaint: tuple(map(tuple, groups)) for complaint, groups in read.items()},
        {code: tuple(others) for code, others in not_asked.items()},
    )


def load(path: pathlib.Path, vocabulary: Vocabulary) -> DangerSigns:
    """Reads a file; raises as `parse`, and InputError if it cannot be read."""
    return parse(read_text(path), str(path), vocabulary)


def packaged(vocabulary: Vocabulary) -> DangerSigns | None:
    """Returns the danger signs of this package, for the vocabulary of `triage simulate`; None where they do not fit."""
    file = importlib.resources.files("schemas").joinpath(_PACKAGED)
    try:
        return parse(file.read_text(encoding="utf-8"), file.name, vocabulary)
    except InputError:
        return None


def _listed(codes: Sequence[str]) -> str:
    quoted = (f'"{code}"' for code in codes)
    return f"[{', '.join(quoted)}]"


def _are_codes(codes: Any) -> bool:
    return isinstance(codes, list) and bool(codes) and all(isinstance(code, str) for code in codes)


def _fault(named: Sequence[str], vocabulary: Vocabulary) -> str:
    for place, code in enumerate(named):
        if code not in vocabulary:
            return vocabulary.unknown_message(code)
        if code in named[:place]:
            return f"{code!r} is listed twice, or stands in its own list: name each code once"
    return ""
