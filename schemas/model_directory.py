"""Reads a model base path: its versions, and the manifest, vocabulary of a version."""

import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
from collections.abc import Collection, Iterator
from typing import Any

from schemas import directories
from schemas.errors import InputError, first_line
from schemas.evidence import Vocabulary
from schemas.safety_rules import SafetyRule
from schemas.triage import DECISION_LABELS, Action

_MANIFEST_TYPES = {
    "vocabulary_fingerprint": str,
    "data_fingerprint": str,
    "evidence_count": int,
    "max_questions": int,
}


@dataclasses.dataclass(frozen=True)
class ModelInfo:
    """The model that answers, and how it was made."""

    model_version: str  # the name of the version's folder
    vocabulary_fingerprint: str
    data_fingerprint: str
    evidence_count: int
    max_questions: int
    manifest_json: str
    rules: tuple[SafetyRule, ...] = ()
    """Safety rules in the model, without their conditions, which only the graph needs."""
    novelty_threshold: float | None = None
    """None for a model that does not estimate how novel evidence is."""
    probabilities: bool = False
    """Whether the model has probabilities beside its Q-values."""
    hand_over_from: float | None = None
    """P(Red is appropriate) from which a decision below Red is handed over to a person; None if none is so."""
    questions: bool = False
    """Whether the model can choose the next questions."""
    litert_sha256: str = ""
    """SHA-256 of the LiteRT file, in hexadecimal."""


def list_versions(base: pathlib.Path) -> dict[int, pathlib.Path]:
    """Returns the folder of each version below `base`; folders whose name is not a whole number are ignored.

    Raises:
        InputError: the base path cannot be read, or is itself a version.
    """
    try:
        names = [entry.name for entry in base.iterdir()]
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the path
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{base}: cannot read the model base path: {reason}") from error
    if directories.SAVED_MODEL in names:
        raise InputError(f"{base}: this is one version: give the folder that contains it, {base.parent}")
    return {number: base / name for name in names if (number := directories.version_number(name)) is not None}


def find_version(base: pathlib.Path, version: int | None = None) -> pathlib.Path:
    """Returns the folder of `version` below `base`, by default of the highest version.

    Raises:
        InputError: there is no such version.
    """
    folders = list_versions(base)
    chosen = max(folders, default=None) if version is None else version
    if chosen not in folders:
        raise missing_version(base, folders, chosen)
    return folders[chosen]


def missing_version(base: pathlib.Path | str, there: Collection[int], version: int | None) -> InputError:
    """Returns the error that `version` is not among those `there`, below `base`."""
    if not there:
        return InputError(f"{base}: no model version here: write one with `triage export --model-base-path {base}`")
    listed = ", ".join(str(number) for number in sorted(there))
    return InputError(f"{base}: no version {version}: the versions here are {listed}")


def file_states(folder: pathlib.Path) -> frozenset[tuple[str, int, int]]:
    """Returns path, size and time of each file below `folder`; a changed value means that files changed."""
    states = set()
    for path in _paths(folder):
        with contextlib.suppress(OSError):  # removed meanwhile
            status = os.stat(path)
            states.add((path, status.st_size, status.st_mtime_ns))
    return frozenset(states)


def check_files(folder: pathlib.Path) -> None:
    """Refuses a version with something that reading would wait for, such as a pipe.

    Raises:
        InputError: something below `folder` is neither a file nor a folder.
    """
    for path in _paths(folder):
        if os.path.exists(path) and not os.path.isfile(path):
            raise InputError(f"{path}: neither a file nor a folder: remove it from the version")


def _paths(folder: pathlib.Path, behind_links: bool = True) -> Iterator[str]:
    """Yields what lies below `folder`, or behind links to folders, and is no folder; each folder is entered once."""
    entered = set()
    for directory, folders, names in os.walk(folder, followlinks=behind_links):
        place = os.path.realpath(directory)
        if place in entered:
            folders.clear()
            continue
        entered.add(place)
        yield from (os.path.join(directory, name) for name in names)


def file_names(folder: pathlib.Path) -> set[str]:
    """Returns the names of a version's files relative to `folder`, except those of its signature.

    A folder elsewhere, to which there is a link, does not stand in for one of the version.
    """
    names = {pathlib.Path(path).relative_to(folder).as_posix() for path in _paths(folder, behind_links=False)}
    return names - {directories.CHECKSUMS, directories.SIGNATURE}


def version_folder(path: pathlib.Path) -> pathlib.Path:
    """Returns `path` if it is a version, otherwise the highest version below it.

    Raises:
        InputError: there is none.
    """
    return path if (path / directories.SAVED_MODEL).exists() else find_version(path)


def read_manifest(folder: pathlib.Path) -> dict[str, Any]:
    """Returns the manifest of the version in `folder`.

    Raises:
        InputError: it cannot be read, is not a manifest, or lacks an entry that every version has.
    """
    return _read_manifest(folder)[1]


def read_version(folder: pathlib.Path) -> tuple[ModelInfo, Vocabulary]:
    """Returns the model info and the vocabulary of the version in `folder`.

    Raises:
        InputError: a file is missing or malformed, or the vocabulary is not the one of the training.
    """
    path = folder / directories.MANIFEST
    text, manifest = _read_manifest(folder)
    asset = folder / directories.ASSETS / directories.VOCABULARY
    vocabulary = Vocabulary.load(asset)
    expected = manifest["vocabulary_fingerprint"]
    if vocabulary.fingerprint != expected:
        raise InputError(
            f"{asset}: fingerprint {vocabulary.fingerprint} differs from {expected} in {path}: "
            "the vocabulary was changed after the export: export the model again"
        )
    if manifest["evidence_count"] != len(vocabulary):
        raise InputError(
            f"{path}: evidence_count {manifest['evidence_count']}: {asset} has {len(vocabulary)} pieces of evidence: "
            "export the model again"
        )
    values = {key: manifest[key] for key in _MANIFEST_TYPES}
    try:
        safeguards = _safeguards(manifest)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{path}: safety_rules, decision, questions, novelty or litert are missing or malformed: export the model "
            "again"
        ) from error
    _check(folder / directories.RULES, manifest["safety_rules"], "rules")
    _check(folder / directories.VERSION_DANGER_SIGNS, manifest.get("danger_signs", {}), "complaints")
    return ModelInfo(model_version=folder.name, manifest_json=text, **values, **safeguards), vocabulary


def _safeguards(manifest: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields of `ModelInfo` on the decision, rules, novelty and the LiteRT file.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: an entry is missing or malformed.
    """
    novelty, decision, questions = manifest["novelty"], manifest["decision"], manifest.get("questions")
    hand_over_from = decision.get("hand_over_from")
    return {
        "probabilities": bool(decision["probabilities"]),
        "hand_over_from": None if hand_over_from is None else float(hand_over_from),
        "rules": tuple(
            SafetyRule(
                rule_id=str(rule["rule_id"]),
                reason=str(rule["reason"]),
                urgency=Action(DECISION_LABELS.index(rule["urgency"])),
                stop_asking=bool(rule["stop_asking"]),
            )
            for rule in manifest["safety_rules"]["rules"]
        ),
        "novelty_threshold": None if novelty is None else float(novelty["threshold"]),
        "questions": questions is not None and int(questions["most"]) >= 1,
        "litert_sha256": str(manifest["litert"]["sha256"]),
    }


def _check(path: pathlib.Path, described: dict[str, Any], what: str) -> None:
    """Raises InputError if a file of the version is not the one that the manifest describes, if any."""
    if not described.get(what):
        return
    try:
        fingerprint = f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
    except OSError as error:
        raise InputError(f"{path}: cannot read it: {error.strerror or error}: export the model again") from error
    if fingerprint != described.get("fingerprint"):
        raise InputError(
            f"{path}: its fingerprint differs from the one in {directories.MANIFEST}: export the model again"
        )


def _read_manifest(folder: pathlib.Path) -> tuple[str, dict[str, Any]]:
    """Returns the manifest as text and as an object."""
    path = folder / directories.MANIFEST
    try:
        text = path.read_text(encoding="utf-8")
        manifest = json.loads(text)
    except OSError as error:
        raise InputError(f"{path}: cannot read the manifest: {error.strerror or error}: export the model") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not a manifest: {first_line(error)}: export the model again") from error
    _check_manifest(path, manifest)
    return text, manifest


def _check_manifest(path: pathlib.Path, manifest: Any) -> None:
    if not isinstance(manifest, dict):
        raise InputError(f"{path}: not a manifest: expected a JSON object")
    if manifest.get("format_version") != directories.MANIFEST_FORMAT:
        version = manifest.get("format_version")
        raise InputError(
            f"{path}: format_version {version!r}: this release reads {directories.MANIFEST_FORMAT}: "
            "export the model again"
        )
    for key, kind in _MANIFEST_TYPES.items():
        value = manifest.get(key)
        if type(value) is not kind:  # not isinstance, for which True is a number
            raise InputError(f"{path}: {key} {value!r}: expected a value of type {kind.__name__}")
        if isinstance(value, int) and value < 1:
            raise InputError(f"{path}: {key} {value}: expected a whole number from 1: export the model again")
