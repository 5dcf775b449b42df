"""Requests made from Python values."""

import pytest

from triage_client import evidence_state
from triage_client.messages import Script
from triage_client.v1 import triage_pb2, triage_service_pb2


def test_an_evidence_state_holds_what_is_known():
    state = evidence_state(["fever"], ["rash"], questions_asked=2, no_more_evidence=True, max_questions=5)
    present, absent = triage_pb2.EVIDENCE_STATUS_PRESENT, triage_pb2.EVIDENCE_STATUS_ABSENT
    assert [(each.code, each.status) for each in state.evidence] == [("fever", present), ("rash", absent)]
    assert (state.questions_asked, state.no_more_evidence, state.max_questions) == (2, True, 5)


@pytest.mark.parametrize("name", ["present", "absent"])
def test_a_single_text_is_not_split_into_letters(name):
    with pytest.raises(TypeError, match=rf"{name}: expected several codes, such as \['fever'\]; got a single text"):
        evidence_state(**{name: "fever"})


@pytest.mark.parametrize("wrong", [{"max_questions": 2**31}, {"present": ["\ud800"]}])
def test_what_a_message_cannot_hold_is_a_value_error(wrong):
    with pytest.raises(ValueError):  # noqa: PT011 - protobuf's words
        evidence_state(**wrong)


def test_only_the_first_request_of_an_interview_holds_its_settings():
    settings = triage_service_pb2.InterviewSettings(max_questions=4, model="adults")
    script = Script(settings)
    first, second = script.answer(["fever"], []), script.not_known()
    assert first.settings == settings
    assert first.evidence == triage_pb2.Evidence(code="fever", status=triage_pb2.EVIDENCE_STATUS_PRESENT)
    assert not second.HasField("settings")
    assert second.not_known


def test_what_is_said_together_is_one_message():
    script = Script(triage_service_pb2.InterviewSettings(questions=2))
    said = script.answer(["adult", "male"], ["fever"])
    assert [(each.code, each.status) for each in (said.evidence, *said.also)] == [
        ("adult", triage_pb2.EVIDENCE_STATUS_PRESENT),
        ("male", triage_pb2.EVIDENCE_STATUS_PRESENT),
        ("fever", triage_pb2.EVIDENCE_STATUS_ABSENT),
    ]
    none = script.answer([], ["fever"])
    assert (none.evidence.code, list(none.also)) == ("fever", [])
