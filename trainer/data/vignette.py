"""A vignette, and the rules that accept a line of a vignette file or reject it with a reason.

The rules are those of schemas/vignette.schema.json and three that a JSON Schema cannot express: codes are in the
vocabulary, no code is both present and absent, and no JSON key is repeated in a line.
"""

import dataclasses
import difflib
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from schemas.bands import by_numbers
from schemas.directories import SPLITS
from schemas.errors import SHOWN_CHARACTERS, InputError, shown
from schemas.evidence import Vocabulary
from schemas.triage import TRIAGE_DECISIONS, Action, parse_decision
from triage_runtime.case import id_of, read_codes

REQUIRED_KEYS = ("vignette_id", "present", "absent", "decisions")
KEYS = (*REQUIRED_KEYS, "split", "tags")
MAX_NAME_LENGTH = 256
"""Characters of a vignette id or a tag."""
MAX_SAME_DECISIONS = 255
"""Highest count of one triage decision: the trainer keeps it in a byte."""

# Control characters would break one-line messages; a lone surrogate is not a character and has no UTF-8.
_NO_TEXT = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class VignetteError(InputError):
    """Why a line is not a vignette; `vignette_id` if the line has a readable one."""

    def __init__(self, reason: str, vignette_id: str | None = None):
        super().__init__(reason)
        self.vignette_id = vignette_id


@dataclasses.dataclass(frozen=True)
class Vignette:
    """A patient presentation and the triage decisions that clinicians made on it."""

    vignette_id: str
    present: tuple[str, ...]
    absent: tuple[str, ...]
    decisions: tuple[Action, ...]
    split: str | None = None
    tags: tuple[str, ...] = ()

    @property
    def decision_counts(self) -> tuple[int, ...]:
        """The multiplicity of each triage decision, most urgent first."""
        return tuple(map(self.decisions.count, TRIAGE_DECISIONS))


def from_fields(fields: dict[str, Any], vocabulary: Vocabulary) -> Vignette:
    """Returns the vignette with the given values of `KEYS`, as in a vignette file, from any file format.

    Raises:
        VignetteError: they are not a vignette; the message is the reason, without file and line.
    """
    vignette_id = id_of(fields.get("vignette_id"))
    try:
        return _checked(fields, vocabulary)
    except InputError as error:
        raise VignetteError(str(error), vignette_id if isinstance(vignette_id, str) else None) from None


def _checked(fields: dict[str, Any], vocabulary: Vocabulary) -> Vignette:
    check_keys(fields, KEYS, REQUIRED_KEYS)
    given = (read_codes(fields[key], key) for key in ("present", "absent"))
    there, missing, numbers = vocabulary.read_numbers(*given)
    present, absent = _known(there, "present", vocabulary), _known(missing, "absent", vocabulary)
    both = set(present).intersection(absent)
    if both:
        raise InputError(f"{shown(min(both))} is both present and absent{by_numbers(numbers, min(both))}")
    if not present and not absent:
        raise InputError("no evidence: expected at least one code in present or absent")
    if fields.get("split") not in (None, *SPLITS):
        raise InputError(f"split: expected {' or '.join(SPLITS)}, found {shown(fields['split'])}")
    tags = [] if fields.get("tags") is None else _list(fields, "tags")
    return Vignette(
        vignette_id=_name(id_of(fields["vignette_id"]), "vignette_id"),
        present=present,
        absent=absent,
        decisions=_decisions(fields),
        split=fields.get("split"),
        tags=_unique((_name(tag, "tags") for tag in tags), "tags"),
    )


def check_keys(fields: dict[str, Any], keys: Sequence[str], required: Sequence[str]) -> None:
    """Raises InputError if `fields` has a key that is not among `keys`, or lacks one of `required`."""
    # Otherwise a misspelt "absent" would make a vignette without absent evidence.
    for key in fields:
        if key not in keys:
            near = difflib.get_close_matches(key[:SHOWN_CHARACTERS], keys, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"expected {', '.join(keys)}"
            raise InputError(f"unknown key {shown(key)}: {hint}")
    for key in required:
        if key not in fields:
            raise InputError(f"the key {key!r} is missing")


def _list(fields: dict[str, Any], key: str) -> list[Any]:
    if not isinstance(fields[key], list):
        raise InputError(f"{key}: expected a list, found {shown(fields[key])}")
    return fields[key]


def name_fault(value: Any) -> str | None:
    """Returns why `value` cannot be a vignette id or a tag, or None if it can."""
    if not isinstance(value, str) or not value:
        return f"expected a non-empty string, found {shown(value)}"
    if len(value) > MAX_NAME_LENGTH:
        return f"{shown(value)} is longer than {MAX_NAME_LENGTH} characters"
    if _NO_TEXT.search(value):
        return f"{shown(value)} contains a control character or half a surrogate pair"
    return None


def _name(value: Any, key: str) -> str:
    fault = name_fault(value)
    if fault:
        raise InputError(f"{key}: {fault}")
    return value


def _known(codes: Sequence[str], key: str, vocabulary: Vocabulary) -> tuple[str, ...]:
    for code in codes:
        if code not in vocabulary:
            raise InputError(f"{key}: {vocabulary.unknown_message(code)}")
    return _unique(map(sys.intern, codes), key)  # a million vignettes share the codes


def _unique(names: Iterable[str], key: str) -> tuple[str, ...]:
    listed = tuple(names)
    if len(set(listed)) < len(listed):
        name, count = next((name, count) for name, count in Counter(listed).items() if count > 1)
        raise InputError(f"{key}: {shown(name)} is listed {count} times")
    return listed


def _decisions(fields: dict[str, Any]) -> tuple[Action, ...]:
    labels = _list(fields, "decisions")
    if not labels:
        raise InputError("decisions: expected at least one triage decision")
    decisions = tuple(parse_decision(label) for label in labels)
    for decision in TRIAGE_DECISIONS if len(decisions) > MAX_SAME_DECISIONS else ():
        count = decisions.count(decision)
        if count > MAX_SAME_DECISIONS:
            raise InputError(
                f"decisions: {decision.label} is listed {count} times, expected at most {MAX_SAME_DECISIONS}"
            )
    return decisions


def vignette_text(vignette: Vignette, vocabulary: Vocabulary) -> str:
    """Returns a few lines of plain text: the patient, present and absent evidence, and the clinicians' decisions.

    Evidence is named as in the vocabulary and ordered as in the vignette; the most urgent decisions come first.

    Raises:
        InputError: a code is not in the vocabulary.
    """
    decisions = ", ".join(decision.label for decision in sorted(vignette.decisions))
    clinicians = f"{len(vignette.decisions)} clinician{'' if len(vignette.decisions) == 1 else 's'}"
    return f"{evidence_text(vignette, vocabulary)}\n{clinicians}: {decisions} (vignette {vignette.vignette_id})"


def evidence_text(vignette: Vignette, vocabulary: Vocabulary) -> str:
    """Returns the first of these lines, without the decisions.

    Names are listed as in the vocabulary, because inside a sentence they would need the grammar of their language.

    Raises:
        InputError: a code is not in the vocabulary.
    """
    stated = [[vocabulary[vocabulary.index(code)] for code in codes] for codes in (vignette.present, vignette.absent)]
    titles = {"risk_factor": ("Patient", "Patient without"), "symptom": ("Present", "Absent")}
    lines = []
    for kind, pair in titles.items():
        for title, entries in zip(pair, stated, strict=True):
            names = [entry.name for entry in entries if entry.kind == kind]
            # A name with a comma would look like two names.
            separator = "; " if any("," in name for name in names) else ", "
            lines += [f"{title}: {separator.join(names)}"] if names else []
    return "\n".join(lines)
