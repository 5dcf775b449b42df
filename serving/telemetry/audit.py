"""The audit log: a sample of the answers, as TensorFlow Serving's PredictionLogs in TFRecord files.

It contains patients' evidence, and is written only on request. No call waits for it: records for which the disk is too
slow are dropped and counted.
"""

import collections
import contextlib
import logging
import os
import pathlib
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import Message
from tensorflow_serving.apis import prediction_log_pb2

from schemas import features
from schemas.errors import InputError
from serving.call import Call
from serving.tensor_messages import to_message
from triage.v1 import triage_pb2

_LOGGER = logging.getLogger(__name__)

FILE_BYTES = 64 * 1024 * 1024
"""Size at which a new file begins: a day of a busy ward, which still opens at once."""
MAX_WAITING_BYTES = 16 * 1024 * 1024
"""Largest size of the answers that wait for the disk."""

_CLOSE_SECONDS = 5.0


class AuditLog:
    """Writes records in a thread of its own, to files in a directory that only this user may read.

    It records a percentage of the answers, drawn at random, and keeps the latest `files`, 0 for all. `count` is called
    with `written`, `dropped` or `failed` and a number.

    Raises:
        InputError: the directory cannot be written to.
    """

    def __init__(
        self,
        directory: pathlib.Path,
        percent: float = 100.0,
        files: int = 0,
        count: Callable[[str, int], None] | None = None,
    ):
        self._directory, self._share = directory, percent / 100
        self._count = (lambda outcome, records: None) if count is None else count
        self._files = files
        self._random = random.SystemRandom()
        self._changed = threading.Condition()
        self._waiting: collections.deque[tuple[int, Callable[[], Message]]] = collections.deque()
        self._waiting_bytes = 0
        self._closing = False
        self._failing = False
        self._number = 0
        self._written_bytes = 0
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._begin_file()
        except (OSError, tf.errors.OpError) as error:
            raise InputError(
                f"--audit-log {directory}: cannot write: {_reason(error)}: give a directory that this user may write"
            ) from error
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
        self._thread.start()

    def record_answers(
        self, call: Call, states: Sequence[triage_pb2.EvidenceState], responses: Sequence[triage_pb2.TriageResponse]
    ) -> None:
        """Records answers of the typed service as a call of the signature `triage`, if the call is in the sample."""
        if not self._in_sample():
            return
        # Serialized now, as an interview's state changes while this waits.
        requests, answers = [s.SerializeToString() for s in states], [r.SerializeToString() for r in responses]
        version, seconds = int(responses[0].model_version), int(time.time())
        name, request_id = call.model_name, call.request.id

        def record() -> Message:
            log = self._record((name, version, features.TRIAGE), request_id, seconds)
            predict = log.predict_log
            for key, tensors, values in (
                (features.EVIDENCE_STATES, predict.request.inputs, requests),
                (features.TRIAGE_RESPONSES, predict.response.outputs, answers),
            ):
                tensor = tensors[key]
                tensor.dtype = tf.string.as_datatype_enum
                tensor.tensor_shape.dim.add(size=len(values))
                tensor.string_val.extend(values)
            return log

        self._add(sum(map(len, requests)) + sum(map(len, answers)), record)

    def record_predict(self, call: Call, inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]) -> None:
        """Records what a signature answered, if the call is in the sample."""
        if not self._in_sample():
            return
        model, request_id = (call.model_name, int(call.model_version), call.signature), call.request.id
        seconds = int(time.time())

        def record() -> Message:
            log = self._record(model, request_id, seconds)
            for tensors, arrays in (
                (log.predict_log.request.inputs, inputs), (log.predict_log.response.outputs, outputs)
            ):  # fmt: skip
                for alias, values in arrays.items():
                    tensors[alias].CopyFrom(to_message(values))
            return log

        self._add(sum(map(_bytes_of, (*inputs.values(), *outputs.values()))), record)

    def close(self) -> None:
        """Writes the waiting records, for a few seconds at most, and closes the file."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(_CLOSE_SECONDS)

    def _in_sample(self) -> bool:
        return self._share >= 1 or self._random.random() < self._share

    def _record(self, model: tuple[str, int, str], request_id: str, seconds: int) -> prediction_log_pb2.PredictionLog:
        """Returns a record without tensors; `model` is its name, version and signature."""
        name, version, signature = model
        log = prediction_log_pb2.PredictionLog()
        log.log_metadata.sampling_config.sampling_rate = self._share
        log.log_metadata.timestamp_secs = seconds
        log.log_metadata.request_origin = request_id
        for spec in (
            log.log_metadata.model_spec, log.predict_log.request.model_spec, log.predict_log.response.model_spec
        ):  # fmt: skip
            spec.name, spec.signature_name = name, signature
        log.log_metadata.model_spec.version.value = version
        log.predict_log.response.model_spec.version.value = version
        return log

    def _add(self, size: int, record: Callable[[], Message]) -> None:
        with self._changed:
            taken = not self._closing and self._waiting_bytes + size <= MAX_WAITING_BYTES
            if taken:
                self._waiting.append((size, record))
                self._waiting_bytes += size
                self._changed.notify()
        if not taken:
            self._count("dropped", 1)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closing:
                    self._changed.wait()
                records = list(self._waiting)
                self._waiting.clear()
            if records:
                self._write([record for _, record in records])
                with self._changed:
                    self._waiting_bytes -= sum(size for size, _ in records)
            elif self._closing:
                with contextlib.suppress(tf.errors.OpError):
                    self._file.close()
                return

    def _write(self, records: Sequence[Callable[[], Message]]) -> None:
        written = 0
        if not self._path.exists():  # what is written to a file that was removed is lost, and no error says so
            self._written_bytes = FILE_BYTES
        try:
            for record in records:
                if self._written_bytes >= FILE_BYTES:
                    if not self._failing:
                        self._file.flush()
                        self._is_empty = False
                    with contextlib.suppress(tf.errors.OpError):
                        self._file.close()
                    self._begin_file()
                serialized = record().SerializeToString()
                self._file.write(serialized)
                self._written_bytes += len(serialized)
                written += 1
            self._file.flush()
            self._failing, self._is_empty = False, False
        except (OSError, tf.errors.OpError) as error:
            written = 0  # none of them is certain to be on disk
            if not self._failing:  # once, however long it lasts
                _LOGGER.error("the audit log in %s cannot be written: %s", self._directory, _reason(error))
            self._failing = True
            self._written_bytes = FILE_BYTES  # a record may be incomplete, so begin a new file
            if self._is_empty:
                self._path.unlink(missing_ok=True)
        self._count("written", written)
        if written < len(records):
            self._count("failed", len(records) - written)

    def _begin_file(self) -> None:
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        self._number += 1
        path = self._directory / f"triage-{stamp}-{os.getpid()}-{self._number:05d}.tfrecord"
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)  # it may have been removed
        self._path, self._is_empty = path, True  # without a record that is certain to be on disk
        # Made here with its permissions: TensorFlow's would let group and others read it.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        self._file: Any = tf.io.TFRecordWriter(os.fspath(path))
        self._written_bytes = 0
        if self._files:
            for old in sorted(self._directory.glob("triage-*.tfrecord"))[: -self._files]:
                old.unlink(missing_ok=True)


def _bytes_of(values: np.ndarray) -> int:
    return sum(map(len, values.ravel().tolist())) if values.dtype == object else values.nbytes


def _reason(error: Any) -> str:
    return str((error.strerror if isinstance(error, OSError) else error.message) or error)
