"""What a real server leaves in its audit log is read back, whichever way the calls came."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2, prediction_service_pb2_grpc

from schemas.errors import InputError
from serving.monitor.audit_reader import LogCounts, ServedCase, read_cases
from tests.builders import channel_to, predict_request
from triage.v1 import triage_pb2
from triage_client import TriageClient, evidence_state

RED, YELLOW, ASK = 0, 1, 4


def case(present, action, absent=(), unknown=()):
    return ServedCase(3, frozenset(present), frozenset(absent), action, frozenset(unknown))


def write(path, *contents):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for content in contents:
            writer.write(content)


def test_typed_calls_interviews_and_predicts_are_read_as_cases(serving, tmp_path):
    with serving(audit_log=str(tmp_path)) as server:
        with TriageClient(server.address, timeout_seconds=30.0) as client, client.interview() as interview:
            client.triage(evidence_state(["chest_pain"], ["fever"]))
            client.batch_triage([evidence_state(["fever"]), evidence_state(["fever"], no_more_evidence=True)])
            client.triage(evidence_state(["chest_pain", "gout"]), allow_unknown_codes=True)
            interview.present("fever")
            interview.no_more_evidence()
        present, absent = [["chest_pain", "gout"], ["fever", ""]], [[""], ["smoker"]]
        request = predict_request({"present": present, "absent": absent, "questions_asked": [0, 10]})
        with channel_to(server.address) as channel:
            prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict(request, timeout=30)
    counts = LogCounts()
    cases = list(read_cases(tmp_path, counts))
    assert cases == [
        case({"chest_pain"}, RED, absent={"fever"}),
        case({"fever"}, ASK),
        case({"fever"}, YELLOW),
        case({"chest_pain", "gout"}, RED, unknown={"gout"}),
        case({"fever"}, ASK),
        case({"fever"}, YELLOW),
        case({"chest_pain", "gout"}, RED, unknown={"gout"}),
        case({"fever"}, YELLOW, absent={"smoker"}),
    ]
    assert [each.decided for each in cases] == [each.action != ASK for each in cases]
    assert (counts.files, counts.records, counts.unread, counts.damaged) == (1, 6, 0, [])


def answer_of(action, best_triage, **fields):
    actions = {"action": f"TRIAGE_ACTION_{action}", "best_triage": f"TRIAGE_ACTION_{best_triage}"}
    return triage_pb2.TriageResponse(**actions, **fields)


def record_of(answer):
    """The record of the answer of version 3 to an empty state."""
    log = prediction_log_pb2.PredictionLog()
    log.log_metadata.model_spec.version.value = 3
    log.predict_log.request.inputs["evidence_states"].CopyFrom(tf.make_tensor_proto([b""], tf.string))
    answers = tf.make_tensor_proto([answer.SerializeToString()], tf.string)
    log.predict_log.response.outputs["triage_responses"].CopyFrom(answers)
    return log.SerializeToString()


@pytest.mark.parametrize(
    ("answer", "action"),
    [
        (answer_of("ASK", "GREEN", next="NEXT_STEP_ASK"), ASK),
        (answer_of("ASK", "RED", next="NEXT_STEP_DECIDE"), RED),  # nothing is worth asking: the interview ends
        (answer_of("YELLOW", "YELLOW", next="NEXT_STEP_ASK"), ASK),  # a red flag is open
        (answer_of("YELLOW", "YELLOW", next="NEXT_STEP_DECIDE"), YELLOW),
        (answer_of("ASK", "RED", deferred="DEFERRAL_REASON_CONTRADICTORY", next="NEXT_STEP_HAND_OVER"), RED),
        (answer_of("ASK", "GREEN", forced=True, next="NEXT_STEP_HAND_OVER"), ASK),  # nothing at all is known
        # Answers of older servers, which do not say what comes next.
        (answer_of("ASK", "GREEN"), ASK),
        (answer_of("YELLOW", "YELLOW"), YELLOW),
        (answer_of("ASK", "RED", deferred="DEFERRAL_REASON_CONTRADICTORY"), RED),
    ],
)
def test_an_interview_is_one_case_where_it_ends(answer, action, tmp_path):
    write(tmp_path / "a.tfrecord", record_of(answer))
    assert list(read_cases(tmp_path, LogCounts())) == [case((), action)]


@pytest.mark.parametrize(
    ("best_triage", "fields", "red"),
    [
        ("YELLOW", {"deferred": "DEFERRAL_REASON_UNSURE"}, 0.25),
        ("YELLOW", {"deferred": "DEFERRAL_REASON_NOVEL"}, 0.25),  # which is said first, also where Red is probable
        ("RED", {"deferred": "DEFERRAL_REASON_UNSURE"}, 0.25),
        ("YELLOW", {}, None),
    ],
)
def test_of_a_case_handed_over_the_probability_of_red_is_read(tmp_path, best_triage, fields, red):
    chances = [triage_pb2.DecisionProbability(decision="TRIAGE_ACTION_RED", appropriate=0.25, safe=1.0)]
    answer = answer_of(best_triage, best_triage, probabilities=chances, **fields)
    write(tmp_path / "a.tfrecord", record_of(answer))
    (read,) = read_cases(tmp_path, LogCounts())
    assert read.deferred_red == red


def test_a_file_that_ends_within_a_record_is_read_up_to_there(tmp_path):
    record = prediction_log_pb2.PredictionLog().SerializeToString() or b""
    write(tmp_path / "a.tfrecord", record, b"")
    content = (tmp_path / "a.tfrecord").read_bytes()
    (tmp_path / "a.tfrecord").write_bytes(content[:-3])
    counts = LogCounts()
    assert list(read_cases(tmp_path, counts)) == []
    assert (counts.records, counts.unread, counts.damaged) == (1, 1, ["a.tfrecord"])


@pytest.mark.parametrize("content", [b"no TFRecord at all, this", None])
def test_another_file_is_reported(tmp_path, content):
    if content is None:
        write(tmp_path / "a.tfrecord", b"\xff\xff")
    else:
        (tmp_path / "a.tfrecord").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.tfrecord: "):
        list(read_cases(tmp_path, LogCounts()))


@pytest.mark.parametrize(("best", "deferred", "red"), [(1, 3, 0.25), (1, 0, None)], ids=["handed over", "decided"])
def test_a_predict_call_is_handed_over_where_its_output_says_so(best, deferred, red, tmp_path):
    log = prediction_log_pb2.PredictionLog()
    log.log_metadata.model_spec.version.value = 3
    inputs = {"present": [["fever"]], "absent": [[""]]}
    outputs = {
        "action": np.int32([best]), "best_triage": np.int32([best]), "deferred": np.int32([deferred]),
        "forced": [True], "unknown_codes": [[""]], "p_appropriate": np.float32([[0.25, 0.7, 0.1, 0.0]]),
    }  # fmt: skip
    for there, values in ((log.predict_log.request.inputs, inputs), (log.predict_log.response.outputs, outputs)):
        for name, value in values.items():
            there[name].CopyFrom(tf.make_tensor_proto(value))
    write(tmp_path / "a.tfrecord", log.SerializeToString())
    [read] = read_cases(tmp_path, LogCounts())
    assert (read.action, read.deferred_red) == (best, red)
