"""Writes one version of a servable: `<model base path>/<integer>/`, as TensorFlow Serving reads it.

A version appears whole or not at all: it is written to a folder with a name that servers ignore, on the same file
system, and renamed.
"""

import contextlib
import datetime
import hashlib
import json
import os
import pathlib
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from schemas import VERSION, directories, features, parity
from schemas.errors import InputError
from schemas.evidence import Vocabulary
from schemas.model_directory import ModelInfo, list_versions, read_manifest
from trainer.export import conversion, signatures
from trainer.export.policy import LoadedVersion
from trainer.graph import novelty
from trainer.graph.operating_point import quality
from trainer.training.job import TrainedNetwork
from triage.v1 import triage_pb2
from triage_runtime.litert import LiteRtModel

MODEL_NAME = "triage"

_PARTIAL = "exporting-"


class StagedVersion:
    """A complete version, in a folder of the base path whose name servers ignore.

    Made by `staged`, which removes it unless it was published or moved.
    """

    def __init__(self, base: pathlib.Path, number: int):
        self.number = number
        self.folder = _make_partial(base, number)
        self._final = base / str(number)

    def describe(self, **entries: Any) -> None:
        """Adds `entries` to the manifest; they replace existing ones."""
        _write_manifest(self.folder, read_manifest(self.folder) | entries)

    def publish(self) -> pathlib.Path:
        """Renames the folder to the version's number, and returns it.

        Raises:
            InputError: another export has used the number in the meantime.
        """
        if self._final.exists():  # renaming would replace an empty folder
            raise _exists(self._final)
        try:
            self.folder.rename(self._final)
        except OSError as error:
            if self._final.exists():
                raise _exists(self._final) from error
            raise
        return self._final


@contextlib.contextmanager
def staged(
    base: pathlib.Path, trained: TrainedNetwork, version: int, model_name: str = MODEL_NAME
) -> Iterator[StagedVersion]:
    """Writes `trained` as a version below `base` that can be published; if it is not, its files are removed.

    Raises:
        InputError: the version exists, its number is below 1, `base` cannot be written, or the network's weights are
            not finite.
    """
    if not all(np.isfinite(weight).all() for weight in trained.model.get_weights()):
        raise InputError("the network's weights are not finite: training diverged: export an earlier --step")
    if version < 1:
        raise InputError(f"version {version}: expected a whole number from 1")
    if (base / str(version)).exists():
        raise _exists(base / str(version))
    stage = StagedVersion(base, version)
    try:
        _write(stage.folder, trained, version, model_name)
        yield stage
    finally:
        shutil.rmtree(stage.folder, ignore_errors=True)


def newest_version(base: pathlib.Path) -> pathlib.Path | None:
    """Returns the folder of the highest version below `base`, which a server would load; None if there is none.

    Raises:
        InputError: `base` is itself a version, or not a folder that can be read.
    """
    return max(_versions(base).items(), default=(0, None))[1]


def next_version(base: pathlib.Path) -> int:
    """Returns one more than the highest version below `base`, 1 if there is none.

    Raises:
        InputError: `base` is not a folder that can be read.
    """
    return 1 + max(_versions(base), default=0)


def _versions(base: pathlib.Path) -> dict[int, pathlib.Path]:
    """Returns the folder of each version below `base`, which need not exist."""
    return list_versions(base) if base.exists() else {}


def _exists(version: pathlib.Path) -> InputError:
    return InputError(
        f"{version}: this version exists already: choose another number, or leave it out for the next one"
    )


def _make_partial(base: pathlib.Path, number: int) -> pathlib.Path:
    """Creates the folder to write to."""
    # Not tempfile.mkdtemp, whose folder other users, such as the server's, cannot read.
    partial = base / f"{_PARTIAL}{number}-{uuid.uuid4().hex}"
    try:
        base.mkdir(parents=True, exist_ok=True)
        partial.mkdir()
    except OSError as error:
        raise InputError(f"{base}: cannot write a model version: {error.strerror or error}") from error
    return partial


def _write(folder: pathlib.Path, trained: TrainedNetwork, number: int, model_name: str) -> None:
    """Writes all files of a version to the empty `folder`."""
    vocabulary = trained.vocabulary  # a server refuses what they contradict
    identity = signatures.Identity(str(number), vocabulary.fingerprint, len(vocabulary), trained.max_questions)
    with tempfile.TemporaryDirectory() as scratch:
        asset = pathlib.Path(scratch) / directories.VOCABULARY
        vocabulary.save(asset)
        safeguards = signatures.Safeguards(
            trained.rules, trained.novelty, trained.operating_point, trained.questions, trained.signs
        )
        signatures.write(folder, trained.model, asset, identity, safeguards)
    write_warmup_requests(folder / directories.WARMUP_REQUESTS, vocabulary, model_name)
    if len(trained.rules):
        (folder / directories.RULES).write_text(trained.rules.text, encoding="utf-8", newline="\n")
    if signs := trained.signs.to_toml():
        (folder / directories.VERSION_DANGER_SIGNS).write_text(signs, encoding="utf-8", newline="\n")
    _write_manifest(folder, _manifest(trained, identity) | {"litert": _write_litert(folder, trained)})


def _write_litert(folder: pathlib.Path, trained: TrainedNetwork) -> dict[str, str]:
    """Writes the LiteRT file, and returns its entry in the manifest.

    It is converted from the SavedModel in `folder`. The answers are compared here, as a server without TensorFlow
    cannot.

    Raises:
        InputError: its answers differ from those of the SavedModel.
    """
    model = tf.saved_model.load(os.fspath(folder))
    version = LoadedVersion(folder, trained.vocabulary, trained.max_questions, model)
    content = conversion.convert(version, conversion.NONE, batch=None)
    model_info = ModelInfo(
        "", "", "", len(trained.vocabulary), trained.max_questions, "",
        probabilities=trained.has_probabilities,
        hand_over_from=trained.operating_point.hand_over_from,
    )  # fmt: skip
    fault = parity.compare(LiteRtModel(content).run, version.decide, model_info)
    if fault:
        raise InputError(f"the LiteRT file and the SavedModel disagree: {fault}")
    (folder / directories.LITERT).write_bytes(content)
    return {"file": directories.LITERT, "sha256": hashlib.sha256(content).hexdigest()}


def _write_manifest(folder: pathlib.Path, manifest: dict[str, Any]) -> None:
    text = json.dumps(manifest, indent=2, ensure_ascii=False, allow_nan=False)
    (folder / directories.MANIFEST).write_text(text + "\n", encoding="utf-8")


def _manifest(trained: TrainedNetwork, identity: signatures.Identity) -> dict[str, Any]:
    signs, asks = trained.signs.to_toml().encode(), trained.questions is not None
    return {
        "format_version": directories.MANIFEST_FORMAT,
        "model_version": identity.model_version,
        "package_version": VERSION,
        "tensorflow_version": tf.__version__,
        "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "vocabulary_fingerprint": identity.vocabulary_fingerprint,
        "data_fingerprint": trained.data_fingerprint,
        "evidence_count": identity.evidence_count,
        "max_questions": identity.max_questions,
        "signatures": [*signatures.SIGNATURES, *([features.QUESTIONS] if asks else [])],
        "questions": {"most": min(features.MOST_QUESTIONS, len(trained.vocabulary))} if asks else None,
        "safety_rules": trained.rules.described(),
        "danger_signs": {
            "complaints": len(trained.signs.groups),
            "fingerprint": f"sha256:{hashlib.sha256(signs).hexdigest()}" if signs else "",
        },
        "decision": decision(trained),
        "promise": trained.promise,
        "novelty": None
        if trained.novelty is None
        else {"threshold": novelty.THRESHOLD, "reference_moments": trained.novelty.moments},
        "config": trained.config,
        "training": trained.training,
        "start_from": trained.start_from,
        "metrics": trained.metrics,
    }


def decision(trained: TrainedNetwork) -> dict[str, Any]:
    """Returns the manifest's entry on how the version decides: see `trainer.graph.decide.OperatingPoint`.

    If the network has probabilities, `chosen` is the `point_chosen` of `TrainedNetwork`, and `held_out` the quality at
    this operating point on held-out vignettes, each half by a calibration on the other; None if there are none.
    """
    if not trained.has_probabilities:
        return {"probabilities": False}
    return {
        "probabilities": True,
        "safety_weight": trained.target.safety_weight,
        "sure_enough": trained.operating_point.sure_enough,
        "price": trained.target.price,
        "hand_over_from": trained.operating_point.hand_over_from,
        "chosen": trained.point_chosen,
        "held_out": _held_out(trained),
    }


def _held_out(trained: TrainedNetwork) -> dict[str, Any] | None:
    vignettes = trained.held_out
    if vignettes is None:
        return None
    reached = quality(vignettes, trained.operating_point)
    return {
        "vignettes": len(vignettes.sizes),
        "appropriateness": reached.appropriateness,
        "under_triage": 1 - reached.safety,
        "under_triage_of_red": None if reached.red_found is None else 1 - reached.red_found,
        "over_triage": reached.over_triage,
    }


WARMUP_BATCH_SIZES = (1, 8)


def write_warmup_requests(path: pathlib.Path, vocabulary: Vocabulary, model_name: str) -> None:
    """Writes the requests that TensorFlow Serving warms up with, a TFRecord of PredictionLog; creates its folder.

    There is one for each signature and size in `WARMUP_BATCH_SIZES`, with the vocabulary's first code.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for batch in WARMUP_BATCH_SIZES:
            for signature, inputs in _warmup_inputs(vocabulary, batch).items():
                request = predict_pb2.PredictRequest()
                request.model_spec.name = model_name
                request.model_spec.signature_name = signature
                for name, tensor in inputs.items():
                    request.inputs[name].CopyFrom(tf.make_tensor_proto(tensor))
                log = prediction_log_pb2.PredictionLog(predict_log=prediction_log_pb2.PredictLog(request=request))
                writer.write(log.SerializeToString())


def _warmup_inputs(vocabulary: Vocabulary, batch: int) -> dict[str, dict[str, tf.Tensor]]:
    """Returns the input tensors of each signature: the start of an interview, one piece of evidence present."""
    code = vocabulary.codes[0]
    evidence = triage_pb2.Evidence(code=code, status=triage_pb2.EVIDENCE_STATUS_PRESENT)
    message = triage_pb2.EvidenceState(evidence=[evidence]).SerializeToString()
    questions_asked = tf.zeros([batch], tf.int32)
    return {
        features.SERVING_DEFAULT: {
            features.PRESENT: tf.fill([batch, 1], code),
            features.ABSENT: tf.fill([batch, 1], ""),
            features.QUESTIONS_ASKED: questions_asked,
        },
        features.TRIAGE: {features.EVIDENCE_STATES: tf.fill([batch], message)},
        features.STATE: {
            features.STATES: tf.repeat(tf.one_hot([0], len(vocabulary)), batch, axis=0),
            features.QUESTIONS_ASKED: questions_asked,
        },
    }
