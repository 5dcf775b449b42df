"""The audit log records answers, and delays no call."""

import errno
import os
import shutil
import stat
import threading

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from schemas.errors import InputError
from serving.call import Call, Request
from serving.messages import state_message
from serving.telemetry import audit
from serving.telemetry.audit import AuditLog
from tests.waiting import until
from triage.v1 import triage_pb2

RESPONSE = triage_pb2.TriageResponse(action=triage_pb2.TRIAGE_ACTION_RED, model_version="3")


class Counts(dict):
    def __call__(self, outcome, records):
        self[outcome] = self.get(outcome, 0) + records


def records(directory):
    return [
        prediction_log_pb2.PredictionLog.FromString(record)
        for path in sorted(directory.glob("*.tfrecord"))
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    ]


def test_a_typed_answer_is_a_record_of_the_signature_triage(tmp_path):
    counts = Counts()
    log = AuditLog(tmp_path / "audit", count=counts)
    state = state_message(["fever"])
    call = Call(Request(id="r-17"))
    call.model_name = "children"
    log.record_answers(call, [state, state_message(["rash"])], [RESPONSE, RESPONSE])
    state.evidence[0].code = "changed"  # as an interview's state is, after its answer
    log.close()
    [record] = records(tmp_path / "audit")
    assert (record.log_metadata.model_spec.name, record.log_metadata.model_spec.version.value) == ("children", 3)
    assert record.log_metadata.request_origin == "r-17"
    assert record.log_metadata.sampling_config.sampling_rate == 1.0
    assert record.predict_log.request.model_spec.signature_name == "triage"
    states = tf.make_ndarray(record.predict_log.request.inputs["evidence_states"])
    responses = tf.make_ndarray(record.predict_log.response.outputs["triage_responses"])
    assert [triage_pb2.EvidenceState.FromString(each) for each in states] == [
        state_message(["fever"]),
        state_message(["rash"]),
    ]
    assert [triage_pb2.TriageResponse.FromString(each) for each in responses] == [RESPONSE, RESPONSE]
    assert counts == {"written": 1}


def test_a_predict_is_recorded_as_it_came(tmp_path):
    call, log = Call(), AuditLog(tmp_path)
    call.signature, call.model_version = "serving_default", "3"
    log.record_predict(call, {"present": np.array([[b"fever"]], object)}, {"action": np.int32([0])})
    log.close()
    [record] = records(tmp_path)
    present, action = record.predict_log.request.inputs["present"], record.predict_log.response.outputs["action"]
    assert (present.string_val, tf.make_ndarray(present).shape) == ([b"fever"], (1, 1))
    assert (action.int_val, tf.make_ndarray(action).shape) == ([0], (1,))
    assert record.predict_log.response.model_spec.signature_name == "serving_default"


def test_only_this_user_may_read_it(tmp_path):
    log = AuditLog(tmp_path / "audit")
    log.close()
    [path] = (tmp_path / "audit").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_share_of_the_answers_is_recorded(tmp_path):
    log = AuditLog(tmp_path, percent=25.0)
    for _ in range(1000):
        log.record_answers(Call(), [state_message(["fever"])], [RESPONSE])
    log.close()
    assert 150 < len(records(tmp_path)) < 350  # 250 and seven standard deviations of 13.7


def test_files_are_ended_at_their_size_and_the_oldest_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(audit, "FILE_BYTES", 1)  # every record is longer
    log = AuditLog(tmp_path, files=2)
    for number in range(5):
        log.record_answers(Call(Request(id=f"r-{number}")), [state_message(["fever"])], [RESPONSE])
    log.close()
    assert [record.log_metadata.request_origin for record in records(tmp_path)] == ["r-3", "r-4"]
    assert len(list(tmp_path.iterdir())) == 2


def test_what_the_disk_is_too_slow_for_is_dropped_and_counted(tmp_path, monkeypatch):
    gate, counts = threading.Event(), Counts()

    class SlowFile(tf.io.TFRecordWriter):
        def write(self, record):
            assert gate.wait(60)
            super().write(record)

    monkeypatch.setattr(tf.io, "TFRecordWriter", SlowFile)
    log = AuditLog(tmp_path, count=counts)
    size = len(state_message(["fever"]).SerializeToString()) + len(RESPONSE.SerializeToString())
    monkeypatch.setattr(audit, "MAX_WAITING_BYTES", 3 * size)
    for _ in range(10):
        log.record_answers(Call(), [state_message(["fever"])], [RESPONSE])
    assert counts == {"dropped": 7}
    gate.set()
    log.close()
    assert counts == {"dropped": 7, "written": 3}
    assert len(records(tmp_path)) == 3


def test_a_disk_that_is_full_for_a_while_is_reported_once_and_then_written_again(tmp_path, monkeypatch, caplog):
    class FullFile:
        def __init__(self, path):
            self.path = path

        def write(self, record):
            raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

        def flush(self):
            raise AssertionError("what failed is not flushed")

        def close(self):
            raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

    writer, counts = tf.io.TFRecordWriter, Counts()
    monkeypatch.setattr(tf.io, "TFRecordWriter", FullFile)
    log = AuditLog(tmp_path, count=counts)

    def answer_and_wait(outcome, total):
        log.record_answers(Call(), [state_message(["chest_pain"])], [RESPONSE])
        until(lambda: counts.get(outcome, 0) >= total)

    answer_and_wait("failed", 1)
    answer_and_wait("failed", 2)
    assert list(tmp_path.iterdir()) == []  # failed attempts leave no empty files
    monkeypatch.setattr(tf.io, "TFRecordWriter", writer)
    answer_and_wait("written", 1)
    log.close()
    assert len(records(tmp_path)) == 1
    assert caplog.text.count("cannot be written: No space left on device") == 1
    assert "chest_pain" not in caplog.text


def test_a_folder_that_was_removed_is_made_again(tmp_path):
    counts = Counts()
    log = AuditLog(tmp_path / "audit", count=counts)
    shutil.rmtree(tmp_path / "audit")
    log.record_answers(Call(), [state_message(["fever"])], [RESPONSE])
    log.close()
    assert len(records(tmp_path / "audit")) == 1
    assert counts == {"written": 1}


def test_a_directory_that_cannot_be_written_is_reported_at_the_start(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"^--audit-log .*file: .*File exists"):
        AuditLog(tmp_path / "file")
    if os.geteuid():  # root may write anywhere
        (tmp_path / "closed").mkdir(mode=0o500)
        with pytest.raises(InputError, match=f"closed: .*{os.strerror(errno.EACCES)}"):
            AuditLog(tmp_path / "closed")
