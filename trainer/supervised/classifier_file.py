"""Saves a trained ensemble in one file, and loads it without running code from the file.

The file is that of skops (a ZIP archive of a schema and arrays; no pickle), with an additional member, `metadata.json`,
on what the ensemble was trained on. It is read and checked before anything is loaded.
"""

import dataclasses
import importlib.metadata
import json
import pathlib
import zipfile
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy
import sklearn

from schemas import whole_file
from schemas.errors import InputError, first_line
from trainer.supervised.ensemble import EnsembleConfig, TriageEnsemble

FORMAT = 1
METADATA = "metadata.json"
TRUSTED_TYPES = (
    "scipy.sparse._csr.csr_matrix",  # support vectors
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.tree._tree.Tree",
)
"""Types in an ensemble beside those that skops trusts by default (scikit-learn's estimators, NumPy)."""

_TRAIN_AGAIN = "train the ensemble again"


class Origin(NamedTuple):
    """What an ensemble was trained on."""

    vocabulary_fingerprint: str
    data_fingerprint: str


class StoredEnsemble(NamedTuple):
    """The content of a file."""

    ensemble: TriageEnsemble
    origin: Origin
    versions: dict[str, str]  # of the libraries that wrote the file


def save_ensemble(ensemble: TriageEnsemble, origin: Origin, path: pathlib.Path) -> None:
    """Writes the file, whole or not at all; an existing one is replaced.

    Raises:
        InputError: the file cannot be written.
    """
    metadata = {
        "format": FORMAT,
        **origin._asdict(),
        "versions": _versions(),
        "config": dataclasses.asdict(ensemble.config),
        "evidence_count": ensemble.evidence_count,
    }
    voters = {name: list(each) for name, each in ensemble.voters.items()}
    import skops.io  # which searches all modules as it loads, for seconds; few commands need it

    try:
        with whole_file.path_replacing(path) as unfinished:
            skops.io.dump(voters, unfinished, compression=zipfile.ZIP_DEFLATED)
            with zipfile.ZipFile(unfinished, "a", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr(METADATA, json.dumps(metadata, indent=2))
    except OSError as error:
        raise InputError(f"{path}: cannot write: {error.strerror or error}") from error


def load_ensemble(path: pathlib.Path, vocabulary_fingerprint: str | None = None) -> StoredEnsemble:
    """Loads what `save_ensemble` wrote; the values are the same as those of the saved ensemble.

    Args:
        path: the file.
        vocabulary_fingerprint: fingerprint of the data's vocabulary; None skips the comparison.

    Raises:
        InputError: the file is missing, damaged or not an ensemble; it contains untrusted types; it belongs to another
            vocabulary, or to another minor version of scikit-learn, whose results may differ.
    """
    metadata = read_metadata(path)
    if vocabulary_fingerprint not in (None, metadata["vocabulary_fingerprint"]):
        raise InputError(f"{path}: trained with another vocabulary than the data's: {_TRAIN_AGAIN}")
    written_by = metadata["versions"]["scikit-learn"]
    if written_by.split(".")[:2] != sklearn.__version__.split(".")[:2]:
        raise InputError(
            f"{path}: written by scikit-learn {written_by}, not {sklearn.__version__}: install that version, or "
            f"{_TRAIN_AGAIN}"
        )
    import skops.io

    try:
        foreign = sorted(set(skops.io.get_untrusted_types(file=path)) - set(TRUSTED_TYPES))
        if foreign:
            raise InputError(
                f"{path}: contains {foreign[0]}, which is not part of an ensemble: do not use the file; {_TRAIN_AGAIN}"
            )
        voters = skops.io.load(path, trusted=list(TRUSTED_TYPES))
        config = EnsembleConfig(**{**metadata["config"], "members": tuple(metadata["config"]["members"])})
        ensemble = TriageEnsemble(voters, config, metadata["evidence_count"])
        _try_out(ensemble)
    except InputError:
        raise
    except Exception as error:  # a damaged part may raise any error of skops, NumPy or scikit-learn
        raise _damaged(path, error) from error
    origin = Origin(metadata["vocabulary_fingerprint"], metadata["data_fingerprint"])
    return StoredEnsemble(ensemble, origin, metadata["versions"])


def read_metadata(path: pathlib.Path) -> dict[str, Any]:
    """Returns the file's metadata: `format`, fields of `Origin`, `versions`, `config`, `evidence_count`.

    Raises:
        InputError: the file is missing, damaged or not an ensemble.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            metadata = json.loads(archive.read(METADATA))
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file: {_TRAIN_AGAIN}") from error
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror or error}") from error
    except Exception as error:  # a damaged archive raises errors of several libraries
        raise _damaged(path, error) from error
    expected = {"format": int, "vocabulary_fingerprint": str, "data_fingerprint": str, "versions": dict,
                "config": dict, "evidence_count": int}  # fmt: skip
    if not isinstance(metadata, dict) or not all(isinstance(metadata.get(k), kind) for k, kind in expected.items()):
        raise InputError(f"{path}: {METADATA} is not that of an ensemble: {_TRAIN_AGAIN}")
    if metadata["format"] != FORMAT or not isinstance(metadata["versions"].get("scikit-learn"), str):
        raise InputError(f"{path}: format {metadata['format']}, expected {FORMAT}: {_TRAIN_AGAIN}")
    return metadata


def _try_out(ensemble: TriageEnsemble) -> None:
    """Judges one state, so that faults show at once."""
    values = ensemble.triage_values(np.zeros([1, ensemble.evidence_count], np.float32))
    if set(ensemble.voters) != set(ensemble.config.members) or not np.isfinite(values).all():
        raise ValueError("its members differ from its configuration")


def _damaged(path: pathlib.Path, error: Exception) -> InputError:
    return InputError(f"{path}: not an ensemble, or damaged ({first_line(error)}): {_TRAIN_AGAIN}")


def _versions() -> Mapping[str, str]:
    return {
        "scikit-learn": sklearn.__version__,
        "skops": importlib.metadata.version("skops"),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }
