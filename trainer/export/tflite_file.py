"""The file that an app ships: the TFLite model with a description inside, and the same description beside it.

The description is one JSON object (docs/mobile.md). Inside, it is an *associated file* of the TFLite metadata format: a
ZIP archive appended to the model, which interpreters ignore and any ZIP reader opens.
"""

import hashlib
import importlib.metadata
import io
import json
import pathlib
import tempfile
import zipfile
from typing import Any

import numpy as np
import tensorflow as tf

from schemas import features
from schemas.errors import InputError
from schemas.evidence import COLUMNS, INSTRUMENT
from schemas.model_directory import read_manifest
from schemas.parity import random_states
from schemas.relations import RELATIONS
from schemas.triage import ACTION_LABELS
from trainer.export.policy import LoadedVersion
from trainer.export.tflite_parity import Parity, run_each, statement
from triage_runtime.litert import LiteRtModel
from triage_runtime.storage.whole_file import path_replacing

FORMAT = 1
"""`format_version` of the description, raised when older readers would misread it."""
DESCRIPTION = "triage.json"
"""Name of the associated file."""
SIDECAR = ".json"
"""Suffix of the sidecar's name after that of the file."""

_NOTICE = "Research software for decision support, not validated for care. It is not a medical device."
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time in ZIP, so that the same model gives the same bytes
_PROBES = 50


def describe(
    version: LoadedVersion, model: LiteRtModel, quantization: str, parity: Parity, calibration: dict[str, Any] | None
) -> dict[str, Any]:
    """Returns the description of a TFLite model.

    Args:
        version: the version that it was converted from.
        model: the model.
        quantization: one of `trainer.export.conversion.QUANTIZATIONS`.
        parity: how much it differs from the version.
        calibration: the origin of the states with which int8 was calibrated.
    """
    manifest = read_manifest(version.folder)
    return {
        "format_version": FORMAT,
        "notice": _NOTICE,
        "model_version": manifest["model_version"],
        "quantization": quantization,
        "calibration": calibration,
        "signature": {"name": features.STATE, **model.tensors},
        "question_signature": {"name": features.QUESTIONS, **model.question_tensors}
        if model.question_tensors
        else None,
        "actions": list(ACTION_LABELS),
        "safety_rules": manifest["safety_rules"]["rules"],
        "novelty": manifest["novelty"],
        "max_questions": version.max_questions,
        "parity": {**parity._asdict(), "statement": statement(parity)},
        "made_with": {"tensorflow": tf.__version__, "ai-edge-litert": importlib.metadata.version("ai-edge-litert")},
        "manifest": manifest,
        "vocabulary_fingerprint": version.vocabulary.fingerprint,
        "vocabulary": [
            {column: getattr(entry, column) for column in (*COLUMNS, *RELATIONS, INSTRUMENT)} | dict(entry.texts)
            for entry in version.vocabulary
        ],
    }


def embed(content: bytes, description: dict[str, Any]) -> bytes:
    """Returns the TFLite model `content` with `description` in it."""
    file = io.BytesIO()
    file.write(content)
    with zipfile.ZipFile(file, "a") as archive:  # offsets from the start of the file, as TFLite's tools expect
        entry = zipfile.ZipInfo(DESCRIPTION, _EPOCH)
        entry.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(entry, _text(description))
    return file.getvalue()


def read_description(path: pathlib.Path) -> dict[str, Any]:
    """Returns the description inside a file.

    Raises:
        InputError: the file cannot be read, or has no description.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return json.loads(archive.read(DESCRIPTION))
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror or error}") from error
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise InputError(f"{path}: contains no {DESCRIPTION}: write it with `triage tflite`") from error


def sidecar_path(path: pathlib.Path) -> pathlib.Path:
    """Returns the path of the sidecar of the file `path`."""
    return path.with_name(path.name + SIDECAR)


def check_writable(path: pathlib.Path) -> None:
    """Raises InputError if `path` cannot be written; to be called before the work."""
    if path.exists() and not path.is_file():
        raise InputError(f"--out {path}: this is not a regular file: give the name of the file to write")
    if not path.parent.is_dir():
        raise InputError(f"--out {path}: there is no directory {path.parent}: make it first")
    try:
        tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.").cleanup()
    except OSError as error:
        raise _unwritable(path, error) from error


def write(path: pathlib.Path, content: bytes, description: dict[str, Any]) -> None:
    """Writes the file and its sidecar, each whole or not at all; existing ones are replaced.

    Both are built in a folder beside them, and the file is read back and run before it gets its name. It gets its name
    last, so that a new file always has its sidecar.

    Args:
        path: of the file.
        content: the TFLite model.
        description: of it, see `describe`.

    Raises:
        InputError: they cannot be written, or the written file does not answer as `content` does.
    """
    try:
        with path_replacing(path) as file, path_replacing(sidecar_path(path)) as sidecar:
            file.write_bytes(embed(content, description))
            _check(file, content, description)
            written = file.read_bytes()
            identity = {"name": path.name, "bytes": len(written), "sha256": hashlib.sha256(written).hexdigest()}
            sidecar.write_bytes(_text({"file": identity, **description}))
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: pathlib.Path, error: OSError) -> InputError:
    return InputError(f"--out {path}: cannot write: {error.strerror or error}")


def _text(description: dict[str, Any]) -> bytes:
    return (json.dumps(description, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _check(file: pathlib.Path, content: bytes, description: dict[str, Any]) -> None:
    written = LiteRtModel(file.read_bytes())
    evidence_count = len(description["vocabulary"])
    probes = random_states(evidence_count, description["max_questions"], _PROBES, description["parity"]["seed"])
    expected, actual = run_each(LiteRtModel(content), *probes), run_each(written, *probes)
    same = all(np.array_equal(expected[name], actual[name]) for name in expected)
    if not same or read_description(file) != description:
        raise InputError("the written file does not answer as the converted model does: try again")
