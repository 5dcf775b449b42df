"""Textbook cases: presentations of which it is known how urgent they are, one JSON object a line (docs/evaluating.md).

A line is that of a vignette file with a title, a category and the colours that are right in place of the clinicians'
decisions.
"""

import dataclasses
import importlib.resources
import pathlib
from typing import Any

from schemas.errors import InputError, shown
from schemas.evidence import Vocabulary
from schemas.triage import Action, parse_decision
from trainer.data.source import LineReader
from trainer.data.vignette import VignetteError, check_keys, from_fields, name_fault
from triage_runtime.case import parse_object

EMERGENCY = "emergency"
CATEGORIES = {EMERGENCY: Action.RED, "urgent": Action.YELLOW, "routine": Action.GREEN, "self_care": Action.BLUE}
"""The categories, most urgent first, and the colour that is right for each of their cases."""

DEFAULT = "default"
"""Names the cases of this package where a file is expected."""
_PACKAGED = "cases/textbook.jsonl"

REQUIRED_KEYS = ("vignette_id", "title", "category", "allowed", "present", "absent")
KEYS = (*REQUIRED_KEYS, "tags")


@dataclasses.dataclass(frozen=True)
class TextbookCase:
    """A textbook case."""

    vignette_id: str
    title: str
    category: str
    allowed: tuple[Action, ...]
    """The colours that are right, most urgent first; neighbours, that of the category among them."""
    present: tuple[str, ...]
    absent: tuple[str, ...]

    @property
    def codes(self) -> tuple[str, ...]:
        """The evidence in the order of the file: what is present, then what is absent."""
        return self.present + self.absent


def read_cases(path: pathlib.Path, vocabulary: Vocabulary) -> tuple[TextbookCase, ...]:
    """Returns the cases of a file of JSON Lines, or of `DEFAULT`, at least one.

    Raises:
        InputError: the file cannot be read, has no case, or a line is not a case; the message names the line.
    """
    if str(path) == DEFAULT:
        with importlib.resources.as_file(importlib.resources.files("schemas").joinpath(_PACKAGED)) as packaged:
            return read_cases(packaged, vocabulary)
    cases: list[TextbookCase] = []
    lines: dict[str, int] = {}
    for line in LineReader(path):
        if line.blank:
            continue
        try:
            case = _case(parse_object(line.decoded()), vocabulary)
            if case.vignette_id in lines:
                raise VignetteError(
                    f"vignette_id {shown(case.vignette_id)} is on line {lines[case.vignette_id]} already"
                )
        except InputError as error:
            raise InputError(f"{path}: line {line.number}: {error}") from None
        lines[case.vignette_id] = line.number
        cases.append(case)
    if not cases:
        raise InputError(f"{path}: no textbook cases: expected one JSON object a line (docs/evaluating.md)")
    return tuple(cases)


def fitting_cases(vocabulary: Vocabulary) -> tuple[TextbookCase, ...]:
    """Returns the cases of this package; none if the vocabulary lacks some of their codes."""
    try:
        return read_cases(pathlib.Path(DEFAULT), vocabulary)
    except InputError:
        return ()


def _case(fields: dict[str, Any], vocabulary: Vocabulary) -> TextbookCase:
    check_keys(fields, KEYS, REQUIRED_KEYS)
    fault = name_fault(fields["title"])
    if fault:
        raise InputError(f"title: {fault}")
    category = fields["category"]
    if not isinstance(category, str) or category not in CATEGORIES:
        raise InputError(f"category: expected {', '.join(CATEGORIES)}, found {shown(category)}")
    shared = {key: value for key, value in fields.items() if key not in ("title", "category", "allowed")}
    vignette = from_fields(shared | {"decisions": [CATEGORIES[category].label]}, vocabulary)
    return TextbookCase(
        vignette.vignette_id,
        fields["title"],
        category,
        _allowed(fields["allowed"], category),
        vignette.present,
        vignette.absent,
    )


def _allowed(labels: Any, category: str) -> tuple[Action, ...]:
    if not isinstance(labels, list) or not labels:
        raise InputError(f"allowed: expected a list of colours, at least one, found {shown(labels)}")
    try:
        colours = sorted({parse_decision(label) for label in labels})
    except InputError as error:
        raise InputError(f"allowed: {error}") from None
    if len(colours) < len(labels):
        raise InputError("allowed: a colour is listed twice")
    if colours[-1] - colours[0] >= len(colours):
        raise InputError(f"allowed: expected neighbouring colours, found {', '.join(c.label for c in colours)}")
    if CATEGORIES[category] not in colours:
        raise InputError(f"allowed: a case of the category {category!r} must allow {CATEGORIES[category].label}")
    return tuple(colours)
