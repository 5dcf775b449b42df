"""The file that an app ships: the TFLite model with a description inside, and the same description beside it.

The description is one JSON object (docs/mobile.md). Inside, it is an *associated file* of the TFLite metadata format: a
ZIP archive appended to the model, which interpreters ignore and any ZIP reader opens. It says how much the file's
answers differ from those of the SavedModel that it was made from, on random states.
"""

import hashlib
import importlib.metadata
import io
import json
import pathlib
import zipfile
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from schemas import features
from schemas.answer import NOVELTY_BOUND, Q_BOUND
from schemas.errors import InputError
from schemas.evidence import COLUMNS, INSTRUMENT
from schemas.model_directory import read_manifest
from schemas.parity import Run, random_states
from schemas.questions import ANY_OF, GROUPS, NONE_OF
from schemas.relations import RELATIONS
from schemas.triage import ACTION_LABELS
from trainer.export.conversion import DYNAMIC, FLOAT16, INT8, NONE, STEPS
from trainer.export.policy import LoadedVersion
from triage_runtime.command_line.progress import followed
from triage_runtime.litert import LiteRtModel
from triage_runtime.storage.whole_file import path_replacing

FORMAT = 2
"""`format_version` of the description, raised when readers of the other version would fail."""
DESCRIPTION = "triage.json"
"""Name of the associated file."""
SIDECAR = ".json"
"""Suffix of the sidecar's name after that of the file."""

_NOTICE = "Research software for decision support, not validated for care. It is not a medical device."
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time in ZIP, so that the same model gives the same bytes
_BATCH = 1000

BOUNDS = {NONE: Q_BOUND, FLOAT16: 0.01, DYNAMIC: 0.1, INT8: 0.1}
"""By quantisation: a file with a larger difference of a Q-value from the SavedModel's is considered broken.

The difference of a file that lost its weights is far larger. To be within a bound does not prove quality: for that, see
the shares.
"""


class Parity(NamedTuple):
    """How much a file's answers differ from the SavedModel's; shares of the states are in [0, 1]."""

    states: int
    seed: int
    bound: float  # on the difference of a Q-value
    largest_q_difference: float
    mean_q_difference: float
    decision_changed: float  # share with another action
    best_triage_changed: float
    best_triage_less_urgent: float
    largest_novelty_difference: float | None = None  # None if the model does not estimate novelty
    is_novel_changed: float | None = None
    deferred_changed: float | None = None  # share whose `deferred` differs; None if the version lacks it


def describe(
    version: LoadedVersion, model: LiteRtModel, quantization: str, parity: Parity, calibration: dict[str, Any] | None
) -> dict[str, Any]:
    """Returns the description of `model`, converted from `version` with one of `QUANTIZATIONS`.

    `calibration` is the origin of the states with which int8 was calibrated.
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
        "steps": list(STEPS),
        "safety_rules": manifest["safety_rules"]["rules"],
        "novelty": manifest["novelty"],
        "max_questions": version.max_questions,
        "texts": {**GROUPS, "several": ANY_OF, "none": NONE_OF},
        "parity": {**parity._asdict(), "statement": statement(parity)},
        "made_with": {"tensorflow": tf.__version__, "ai-edge-litert": importlib.metadata.version("ai-edge-litert")},
        "manifest": manifest,
        "vocabulary_fingerprint": version.vocabulary.fingerprint,
        "vocabulary": [
            {column: getattr(entry, column) for column in (*COLUMNS, *RELATIONS, INSTRUMENT)}
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


def sidecar_path(path: pathlib.Path) -> pathlib.Path:
    """Returns the path of the sidecar of the file `path`."""
    return path.with_name(path.name + SIDECAR)


def check_writable(path: pathlib.Path) -> None:
    """Raises InputError if `path` cannot be a file; to be called before the work."""
    if path.exists() and not path.is_file():
        raise InputError(f"--out {path}: this is not a regular file: give the name of the file to write")
    if not path.parent.is_dir():
        raise InputError(f"--out {path}: there is no directory {path.parent}: make it first")


def write(path: pathlib.Path, content: bytes, description: dict[str, Any]) -> None:
    """Writes the file and its sidecar, each whole or not at all; existing ones are replaced.

    The file gets its name last, so that a new file always has its sidecar.

    Raises:
        InputError: they cannot be written.
    """
    whole = embed(content, description)
    identity = {"name": path.name, "bytes": len(whole), "sha256": hashlib.sha256(whole).hexdigest()}
    try:
        with path_replacing(path) as file, path_replacing(sidecar_path(path)) as sidecar:
            file.write_bytes(whole)
            sidecar.write_bytes(_text({"file": identity, **description}))
    except OSError as error:
        raise InputError(f"--out {path}: cannot write: {error.strerror or error}") from error


def _text(description: dict[str, Any]) -> bytes:
    return (json.dumps(description, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def compare(version: LoadedVersion, model: LiteRtModel, bound: float, count: int, seed: int) -> Parity:
    """Returns how much `model` differs from `version` on `count` random states.

    Raises:
        InputError: a Q-value is not finite, or differs by more than `bound`; a novelty differs by more than
            `NOVELTY_BOUND`; or the question limit or the rules that fire are not the same.
    """
    probes = random_states(len(version.vocabulary), version.max_questions, count, seed)
    expected = run_in_parts(version.decide, *probes, _BATCH)
    actual = run_in_parts(model.run, *probes, track=lambda starts: followed(starts, "compare", "states"))
    if not np.isfinite(actual[features.Q_VALUES]).all():
        raise InputError("the TFLite file answers with Q-values that are not finite: its weights were lost")

    def apart(name: str) -> np.ndarray:
        return np.abs(actual[name] - expected[name])

    def changed(name: str) -> float | None:
        return float((actual[name] != expected[name]).mean()) if name in expected else None

    differences = apart(features.Q_VALUES)
    if differences.max() > bound:
        raise InputError(
            f"the TFLite file's Q-values differ by up to {differences.max():.2g} from the SavedModel's, more than the "
            f"bound of {bound:g}: it is broken, or this quantisation does not suit the network: try another one"
        )
    if changed(features.FORCED):
        raise InputError("the TFLite file does not triage at the SavedModel's max_questions: export the version again")
    if changed(features.RULES_FIRED):
        raise InputError("the TFLite file fires other safety rules than the SavedModel: it is broken; do not use it")
    novelty = float(apart(features.NOVELTY).max()) if features.NOVELTY in expected else None
    if novelty is not None and not novelty <= NOVELTY_BOUND:
        raise InputError(
            f"the TFLite file's novelty differs by up to {novelty:.2g} from the SavedModel's, more than the bound of "
            f"{NOVELTY_BOUND:g}: train and export with this version of the package, or try another quantisation"
        )
    return Parity(
        states=count,
        seed=seed,
        bound=bound,
        largest_q_difference=float(differences.max()),
        mean_q_difference=float(differences.mean()),
        decision_changed=float((actual[features.ACTION] != expected[features.ACTION]).mean()),
        best_triage_changed=float((actual[features.BEST_TRIAGE] != expected[features.BEST_TRIAGE]).mean()),
        best_triage_less_urgent=float((actual[features.BEST_TRIAGE] > expected[features.BEST_TRIAGE]).mean()),
        largest_novelty_difference=novelty,
        is_novel_changed=changed(features.IS_NOVEL),
        deferred_changed=changed(features.DEFERRED),
    )


def statement(parity: Parity) -> str:
    """Returns one sentence that helps to decide whether to ship the file."""
    if not parity.decision_changed and not parity.best_triage_changed and not parity.deferred_changed:
        return f"In none of {parity.states:,} random states does a decision differ from the SavedModel's."
    shares = (parity.decision_changed, parity.best_triage_changed, parity.best_triage_less_urgent)
    changed, other, lower, deferred = (
        f"{round(share * parity.states):,}" for share in (*shares, parity.deferred_changed or 0.0)
    )
    return (
        f"WARNING: {changed} of {parity.states:,} random states get a different decision from the SavedModel's; the "
        f"best triage decision differs in {other}, and is less urgent in {lower}; {deferred} differ in handing over."
    )


def run_in_parts(
    run: Run, states: np.ndarray, questions_asked: np.ndarray, size: int = 1, track: Callable[[Any], Any] = iter
) -> dict[str, np.ndarray]:
    """Returns the outputs, `[B, ...]` each, of a function that gets at most `size` of the B states at once.

    A file for phones takes one. `track` passes on where the parts start, to show progress.
    """
    starts = track(range(0, len(states), size))
    parts = [run(states[start : start + size], questions_asked[start : start + size]) for start in starts]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
