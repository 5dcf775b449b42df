"""Writes one version of a servable: `<model base path>/<integer>/`, as TensorFlow Serving reads it.

A version appears whole or not at all: it is written to a folder that no server takes for a version, in the same
file system, and renamed.
"""

import datetime
import importlib.metadata
import json
import os
import pathlib
import shutil
import tempfile
import time
import uuid
from typing import Any

import numpy as np
import tensorflow as tf

from schemas import directories
from schemas.errors import InputError
from trainer import signatures, warmup
from trainer.job import TrainedNetwork

MODEL_NAME = "triage"

_PARTIAL = "exporting-"
_PARTIAL_LIFETIME_SECONDS = 24 * 3600


def write_version(
    base: pathlib.Path, trained: TrainedNetwork, version: int | None = None, model_name: str = MODEL_NAME
) -> pathlib.Path:
    """Writes `trained` as a version below `base`.

    Args:
        base: the model base path; it is made where it does not exist.
        trained: the agent.
        version: the number of the version; by default one more than the highest that exists, 1 at first.
        model_name: the name under which TensorFlow Serving offers the model.

    Returns:
        The version's folder.

    Raises:
        InputError: the version exists, its number is below 1, `base` cannot be written, or the network's weights are
            not finite.
    """
    if not all(np.isfinite(weight).all() for weight in trained.model.get_weights()):
        raise InputError("the network's weights are not finite: training diverged: export an earlier --step")
    number = next_version(base) if version is None else version
    if number < 1:
        raise InputError(f"version {number}: expected a whole number from 1")
    final = base / str(number)
    if final.exists():
        raise _exists(final)
    partial = _make_partial(base, number)
    try:
        _write(partial, trained, number, model_name)
        partial.rename(final)
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        if isinstance(error, OSError) and final.exists():
            raise _exists(final) from error
        raise
    return final


def next_version(base: pathlib.Path) -> int:
    """Returns one more than the highest version below `base`, 1 where there is none.

    Raises:
        InputError: `base` is not a folder that can be read.
    """
    try:
        names = [entry.name for entry in base.iterdir()] if base.exists() else []
    except OSError as error:
        raise InputError(f"{base}: not a model base path: {error.strerror or error}") from error
    versions = (directories.version_number(name) for name in names)
    return 1 + max((version for version in versions if version is not None), default=0)


def _exists(version: pathlib.Path) -> InputError:
    return InputError(
        f"{version}: this version exists already: choose another number, or leave it out for the next one"
    )


def _make_partial(base: pathlib.Path, number: int) -> pathlib.Path:
    """Makes the folder to write to, and removes what exports that were killed more than a day ago left behind."""
    # Not tempfile.mkdtemp: its folder is closed to the user that the server runs as.
    partial = base / f"{_PARTIAL}{number}-{uuid.uuid4().hex}"
    try:
        base.mkdir(parents=True, exist_ok=True)
        partial.mkdir()
        leftovers = [path for path in base.glob(f"{_PARTIAL}*") if _age_seconds(path) > _PARTIAL_LIFETIME_SECONDS]
    except OSError as error:
        raise InputError(f"{base}: cannot write a model version: {error.strerror or error}") from error
    for leftover in leftovers:
        shutil.rmtree(leftover, ignore_errors=True)
    return partial


def _age_seconds(path: pathlib.Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:  # another export has just renamed it
        return 0.0


def _write(folder: pathlib.Path, trained: TrainedNetwork, number: int, model_name: str) -> None:
    """Writes all files of a version to the empty `folder`."""
    vocabulary = trained.vocabulary
    identity = signatures.Identity(str(number), vocabulary.fingerprint, len(vocabulary), trained.max_questions)
    with tempfile.TemporaryDirectory() as scratch:
        asset = pathlib.Path(scratch) / directories.VOCABULARY
        vocabulary.save(asset)
        archive = signatures.build_archive(trained.model, asset, identity)
        archive.write_out(os.fspath(folder), verbose=False)
    warmup.write_requests(folder / directories.WARMUP_REQUESTS, vocabulary, model_name)
    text = json.dumps(_manifest(trained, identity), indent=2, ensure_ascii=False, allow_nan=False)
    (folder / directories.MANIFEST).write_text(text + "\n", encoding="utf-8")


def _manifest(trained: TrainedNetwork, identity: signatures.Identity) -> dict[str, Any]:
    return {
        "format_version": directories.MANIFEST_FORMAT,
        "model_version": identity.model_version,
        "package_version": _package_version(),
        "tensorflow_version": tf.__version__,
        "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "vocabulary_fingerprint": identity.vocabulary_fingerprint,
        "data_fingerprint": trained.data_fingerprint,
        "evidence_count": identity.evidence_count,
        "max_questions": identity.max_questions,
        "signatures": list(signatures.SIGNATURES),
        "config": trained.config,
        "training": trained.training,
        "metrics": trained.metrics,
    }


def _package_version() -> str:
    try:
        return importlib.metadata.version("dyqn-triage")
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
