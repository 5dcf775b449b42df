"""Vignettes to label, and the file of those that somebody labelled.

Lines are those of a vignette file (docs/data.md), of which `triage prepare` checks the rest: here `decisions` may be
missing, and keys that labelling does not need are passed on as they are.
"""

import dataclasses
import json
import pathlib
import threading
from typing import Any

from schemas.errors import InputError
from schemas.evidence import Vocabulary
from schemas.triage import DECISION_LABELS, parse_decision
from triage_runtime.storage import whole_file

_BYTE_ORDER_MARK = "\ufeff"


@dataclasses.dataclass(frozen=True)
class Vignette:
    """A vignette with the decisions of those who labelled it before."""

    vignette_id: str
    present: tuple[str, ...]
    absent: tuple[str, ...]
    decisions: tuple[str, ...]
    fields: dict[str, Any]
    """Its line, as it was read."""

    def labelled(self, decision: str) -> str:
        """Returns its line with one more decision."""
        return json.dumps(self.fields | {"decisions": [*self.decisions, decision]}, ensure_ascii=False) + "\n"


def read_vignettes(path: pathlib.Path, vocabulary: Vocabulary) -> dict[str, Vignette]:
    """Returns the vignettes of a file by their ids, in the order of the file, at least one.

    Raises:
        InputError: the file cannot be read, has no vignette, or a line is none; the message names the line.
    """
    vignettes: dict[str, Vignette] = {}
    for number, line in enumerate(_text(path).removeprefix(_BYTE_ORDER_MARK).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            vignette = _vignette(line, vocabulary)
            if vignette.vignette_id in vignettes:
                raise InputError(f"vignette_id {vignette.vignette_id!r} is there twice")
        except InputError as error:
            raise InputError(f"{path}: line {number}: {error}") from None
        vignettes[vignette.vignette_id] = vignette
    if not vignettes:
        raise InputError(f"{path}: no vignettes: expected one JSON object a line (docs/data.md)")
    return vignettes


class Labels:
    """The file of labelled vignettes. It is written whole after each decision, so that a kill loses none.

    Args:
        path: a new file, or one that this class wrote, which it continues.
        vignettes: to label.
        vocabulary: the known evidence.

    Raises:
        InputError: the file cannot be read, or holds something else.
    """

    def __init__(self, path: pathlib.Path, vignettes: dict[str, Vignette], vocabulary: Vocabulary):
        self._path, self._vignettes = path, vignettes
        self._written = _text(path) if path.exists() else ""
        if self._written and not self._written.endswith("\n"):
            self._written += "\n"
        done = read_vignettes(path, vocabulary) if self._written.strip() else {}
        without = next((vignette_id for vignette_id, vignette in done.items() if not vignette.decisions), None)
        if without is not None:
            raise InputError(f"{path}: vignette {without!r} has no decision: name another file for --out")
        self._own = {vignette_id: vignette.decisions[-1] for vignette_id, vignette in done.items()}
        self._on_disk = _text(path) if path.exists() else None
        self._lock = threading.Lock()

    @property
    def total(self) -> int:
        """Number of vignettes."""
        return len(self._vignettes)

    @property
    def done(self) -> int:
        """Number of vignettes that are labelled."""
        return len(self._vignettes.keys() & self._own.keys())

    def next(self) -> Vignette | None:
        """Returns the first vignette that is not labelled, None if all are."""
        return next((each for vignette_id, each in self._vignettes.items() if vignette_id not in self._own), None)

    def decide(self, vignette_id: str, decision: str) -> Vignette:
        """Writes a decision, and returns its vignette. The same decision again changes nothing.

        Raises:
            InputError: there is no such vignette or decision, it has another one already, or it cannot be written.
        """
        vignette = self._vignettes.get(vignette_id)
        if vignette is None:
            raise InputError("this page holds no vignette of the file: go to the next one")
        label = parse_decision(decision).label
        with self._lock:
            own = self._own.get(vignette_id)
            if own is None:
                self._write(self._written + vignette.labelled(label))
                self._own[vignette_id] = label
            elif own != label:
                raise InputError(
                    f"you decided {own} on this vignette, and saw what others said: the decision stays as it is"
                )
        return vignette

    def _write(self, text: str) -> None:
        try:
            if (_text(self._path) if self._path.exists() else None) != self._on_disk:
                raise InputError(f"{self._path}: another program changed it: end the console and start it again")
            with whole_file.replacing(self._path) as file:
                file.write(text)
        except OSError as error:
            raise InputError(f"{self._path}: cannot write: {error.strerror or error}") from error
        self._written = self._on_disk = text


def _text(path: pathlib.Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start}: not UTF-8: expected a vignette file (docs/data.md)") from None


def _vignette(line: str, vocabulary: Vocabulary) -> Vignette:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        raise InputError("not valid JSON: expected a vignette (docs/data.md)") from None
    if not isinstance(fields, dict):
        raise InputError("expected a JSON object with vignette_id, present and absent")
    vignette_id = fields.get("vignette_id")
    if not isinstance(vignette_id, str) or not vignette_id:
        raise InputError("vignette_id: expected a text that is not empty")
    listed = vocabulary.read_numbers(*(_listed(fields, key) for key in ("present", "absent")))
    present, absent = (_codes(codes, key, vocabulary) for codes, key in zip(listed, ("present", "absent"), strict=True))
    if (not present and not absent) or set(present) & set(absent):
        raise InputError(f"vignette {vignette_id!r}: expected evidence, each code either present or absent")
    decisions = fields.get("decisions", [])
    if not isinstance(decisions, list) or not all(decision in DECISION_LABELS for decision in decisions):
        raise InputError(f"vignette {vignette_id!r}: decisions: expected a list of {', '.join(DECISION_LABELS)}")
    return Vignette(vignette_id, present, absent, tuple(decisions), fields)


def _listed(fields: dict[str, Any], key: str) -> list[str]:
    codes = fields.get(key)
    if not isinstance(codes, list) or not all(isinstance(code, str) for code in codes):
        raise InputError(f"{key}: expected a list of codes")
    return codes


def _codes(codes: list[str], key: str, vocabulary: Vocabulary) -> tuple[str, ...]:
    for code in codes:
        vocabulary.index(code)  # raises InputError with the nearest codes
    if len(set(codes)) < len(codes):
        raise InputError(f"{key}: a code is there twice")
    return tuple(codes)
