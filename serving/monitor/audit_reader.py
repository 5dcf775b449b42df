"""Reads the cases in an audit log, from any method."""

import dataclasses
import pathlib
from collections.abc import Iterator

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow_serving.apis import prediction_log_pb2

from schemas import features
from schemas.errors import InputError
from schemas.triage import NUM_DECISIONS, Action, action_on_wire
from serving.messages import codes_of
from triage.v1 import triage_pb2


@dataclasses.dataclass(frozen=True)
class ServedCase:
    """One evidence state and its answer, with each code once."""

    version: int
    present: frozenset[str]
    absent: frozenset[str]
    action: int  # column of the Q-values: ask while an interview goes on, the triage decision where it ends
    unknown: frozenset[str]
    deferred_red: float | None = None  # of a case handed over: P(Red is appropriate)

    @property
    def decided(self) -> bool:
        """Whether the case was triaged, not answered with ask."""
        return 0 <= self.action < NUM_DECISIONS  # ask follows the decisions


@dataclasses.dataclass
class LogCounts:
    """Counts of what was read."""

    files: int = 0
    records: int = 0
    unread: int = 0  # records whose signature or outputs lack evidence or action
    others: int = 0  # records of other models than the one asked for
    models: set[str] = dataclasses.field(default_factory=set)  # names of those in the other records
    damaged: list[str] = dataclasses.field(default_factory=list)  # files that end inside a record


def read_cases(directory: pathlib.Path, counts: LogCounts, model_name: str = "") -> Iterator[ServedCase]:
    """Yields the answers of a model, by default of all, in the log in `directory`, and updates `counts`.

    Raises:
        InputError: the directory cannot be read or has no files, or a file is not from an audit log.
    """
    try:
        paths = sorted(path for path in directory.iterdir() if path.suffix == ".tfrecord")
    except OSError as error:
        raise InputError(f"--log {directory}: cannot read: {error.strerror or error}") from error
    if not paths:
        raise InputError(f"--log {directory}: no .tfrecord files: give the directory of triage serve --audit-log")
    for path in paths:
        counts.files += 1
        before = counts.records
        try:
            for serialized in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
                log = prediction_log_pb2.PredictionLog.FromString(serialized)
                counts.records += 1
                name = log.log_metadata.model_spec.name
                if model_name and name != model_name:
                    counts.others += 1
                    continue
                counts.models.add(name)
                cases = _cases(log)
                counts.unread += not cases
                yield from cases
        except (tf.errors.OpError, DecodeError) as error:
            if counts.records == before:
                raise InputError(f"{path}: not an audit log of triage serve: expected PredictionLogs") from error
            counts.damaged.append(path.name)  # it is still being written, or the server was killed


def _cases(log: prediction_log_pb2.PredictionLog) -> list[ServedCase]:
    inputs, outputs = log.predict_log.request.inputs, log.predict_log.response.outputs
    version = log.log_metadata.model_spec.version.value
    if features.EVIDENCE_STATES in inputs and features.TRIAGE_RESPONSES in outputs:
        states, responses = inputs[features.EVIDENCE_STATES], outputs[features.TRIAGE_RESPONSES]
        return [
            _typed(version, triage_pb2.EvidenceState.FromString(state), triage_pb2.TriageResponse.FromString(response))
            for state, response in zip(states.string_val, responses.string_val, strict=True)
        ]
    wanted = (features.ACTION, features.UNKNOWN_CODES)
    if not {features.PRESENT, features.ABSENT} <= set(inputs) or not set(wanted) <= set(outputs):
        return []
    codes = (tf.make_ndarray(inputs[name]) for name in (features.PRESENT, features.ABSENT))
    actions, unknown = (tf.make_ndarray(outputs[name]) for name in wanted)
    red: list[float | None] = [None] * len(actions)
    judged = (features.DEFERRED, features.P_APPROPRIATE)
    if set(judged) <= set(outputs):  # a version without probabilities lacks some
        deferred, chances = (tf.make_ndarray(outputs[name]) for name in judged)
        red = [float(row[Action.RED]) if reason else None for reason, row in zip(deferred, chances, strict=True)]
    present, absent, unknown = (list(map(_codes, rows)) for rows in (*codes, unknown))
    return [ServedCase(version, *row) for row in zip(present, absent, actions.tolist(), unknown, red, strict=True)]


def _typed(version: int, state: triage_pb2.EvidenceState, response: triage_pb2.TriageResponse) -> ServedCase:
    present, absent = map(frozenset, codes_of(state))
    # An interview may go on after the model's decision, and end although the model asks: nothing is worth asking, or a
    # person takes over. Older answers do not say what comes next: their action does.
    action = response.action
    if response.next == triage_pb2.NEXT_STEP_ASK:
        action = triage_pb2.TRIAGE_ACTION_ASK
    elif response.next == triage_pb2.NEXT_STEP_DECIDE or response.HasField("deferred"):
        action = response.best_triage
    chances = {each.decision: each.appropriate for each in response.probabilities}
    red = chances.get(triage_pb2.TRIAGE_ACTION_RED) if response.HasField("deferred") else None
    return ServedCase(version, present, absent, action_on_wire(action), frozenset(response.unknown_codes), red)


def _codes(row: np.ndarray) -> frozenset[str]:
    return frozenset(code.decode(errors="replace") for code in row if code)
