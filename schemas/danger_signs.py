"""Danger signs: what must be known of a patient with a complaint before an interview may end below Red.

A file is TOML with one line for each complaint: groups of at most six signs, which are asked about in this order, up to
six in one question (docs/questions.md):

    chest_pain = [["crushing_chest_pain", "shortness_of_breath", "pale_clammy_skin"], ["sweating", "jaw_pain"]]
"""

import dataclasses
import importlib.resources
import pathlib
from collections.abc import Mapping
from typing import Any

from schemas.errors import InputError
from schemas.evidence import Vocabulary
from schemas.text_file import parse_toml, read_text

_PACKAGED = "rules/danger_signs.toml"

TOGETHER = 6
"""Signs in one question, at most."""


@dataclasses.dataclass(frozen=True)
class DangerSigns:
    """For each complaint, a code, its groups of signs; none for other codes."""

    groups: Mapping[str, tuple[tuple[str, ...], ...]] = dataclasses.field(default_factory=dict)

    def to_toml(self) -> str:
        """Returns the file; `parse` reads it back."""
        lines = []
        for complaint, groups in self.groups.items():
            quoted = (", ".join(f'"{sign}"' for sign in group) for group in groups)
            lines.append(f'"{complaint}" = [{", ".join(f"[{signs}]" for signs in quoted)}]\n')
        return "".join(lines)


NO_SIGNS = DangerSigns()


def parse(text: str, source: str, vocabulary: Vocabulary) -> DangerSigns:
    """Reads the text of a file; `source` is its name in errors.

    Raises:
        InputError: it is no TOML, a complaint is not followed by groups of one to six codes, names a sign twice or
            itself, or a code is not in the vocabulary; the message names the complaint.
    """
    read = parse_toml(text, source)
    for complaint, groups in read.items():
        if fault := _fault(complaint, groups, vocabulary):
            raise InputError(f"{source}: {complaint}: {fault}")
    return DangerSigns({complaint: tuple(map(tuple, groups)) for complaint, groups in read.items()})


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


def _fault(complaint: str, groups: Any, vocabulary: Vocabulary) -> str | None:
    grouped = isinstance(groups, list) and all(
        isinstance(group, list) and 1 <= len(group) <= TOGETHER and all(isinstance(sign, str) for sign in group)
        for group in groups
    )
    if not grouped:
        return f'expected groups of 1 to {TOGETHER} codes each, such as [["fever", "confusion"]], not {groups!r}'
    named = [complaint, *(sign for group in groups for sign in group)]
    for place, code in enumerate(named):
        if code not in vocabulary:
            return vocabulary.unknown_message(code)
        if code in named[:place]:
            return f"{code!r} is listed twice, or is the complaint itself: name each sign once"
    return None
