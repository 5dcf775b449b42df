"""Which version answers, and what the log says of the shadow."""

import logging
import random
import threading

import pytest

from serving.engine.versions import Versions
from serving.errors import UnavailableError
from serving.messages import state_message
from serving.service.routing import Routing
from serving.telemetry.metrics import Metrics
from serving.telemetry.recorder import Telemetry
from triage.v1 import triage_pb2

CODE = "chest_pain"
RED, YELLOW, ASK = triage_pb2.TRIAGE_ACTION_RED, triage_pb2.TRIAGE_ACTION_YELLOW, triage_pb2.TRIAGE_ACTION_ASK


class Info:
    def __init__(self, version):
        self.model_version = version


class Engine:
    """An engine that always decides as configured, or fails, when allowed to."""

    def __init__(self, version, action=RED):
        self.info = Info(str(version))
        self.action = action
        self.may = threading.Event()
        self.may.set()
        self.asked = []

    def triage(self, states, timeout_seconds=None):
        self.asked.append(len(states))
        self.may.wait(30)
        if self.action is None:
            raise RuntimeError(CODE)
        return [triage_pb2.TriageResponse(action=self.action, model_version=self.info.model_version) for _ in states]


@pytest.fixture
def versions():
    versions = Versions("triage")
    versions.publish(Engine(3))
    versions.set_default(3)
    return versions


def answering(routing):
    with routing.borrow() as engine:
        return engine.info.model_version


# Five standard deviations of the share of 2,000 calls: 5 * sqrt(.25 * .75 / 2000) = 0.048, and none at 0 and 1.
@pytest.mark.parametrize(("percent", "share", "tolerance"), [(0.0, 0.0, 0.0), (25.0, 0.25, 0.048), (100.0, 1.0, 0.0)])
def test_the_canary_gets_its_share_of_the_calls(versions, percent, share, tolerance):
    versions.publish(Engine(5))
    versions.set_labels({"canary": 5})
    routing = Routing(versions, percent, random.Random(0))  # noqa: S311
    answers = [answering(routing) for _ in range(2000)]
    assert answers.count("5") / 2000 == pytest.approx(share, abs=tolerance)


def test_without_a_canary_the_default_answers(versions):
    routing = Routing(versions, 100.0)
    assert answering(routing) == "3"
    versions.set_labels({"canary": 7})
    assert answering(routing) == "3"


def test_without_any_version_the_service_is_unavailable():
    with pytest.raises(UnavailableError):
        Routing(Versions("triage"), 100.0).borrow().__enter__()


@pytest.fixture
def show(versions, caplog):
    """Shows calls to a shadow, version 5, with a given action; returns the shadow and the log."""

    def run(action, *calls):
        shadow = Engine(5, action)
        versions.publish(shadow)
        versions.set_labels({"shadow": 5})
        routing = Routing(versions)
        with caplog.at_level(logging.DEBUG):
            for actions in calls:
                responses = [triage_pb2.TriageResponse(action=action, model_version="3") for action in actions]
                routing.show([state_message([CODE])] * len(actions), responses)
            routing.comparisons.shutdown()
        return shadow, caplog.text

    return run


def test_a_shadow_that_decides_alike_is_asked_and_says_nothing(show):
    shadow, log = show(RED, [RED], [RED, RED])
    assert shadow.asked == [1, 2]
    assert log == ""


def test_disagreement_is_logged_with_both_decisions_and_the_counts_and_without_evidence(show):
    _, log = show(YELLOW, [RED], [YELLOW, RED, RED])
    assert "shadow version 5 decides Yellow where 3 decides Red, 1 times in a call; 1 of 1 differ so far" in log
    assert "2 times in a call; 3 of 4 differ so far" in log
    assert CODE not in log


def test_a_shadow_that_fails_is_logged_by_the_kind_of_failure_alone(show):
    shadow, log = show(None, [RED], [RED])
    assert shadow.asked == [1, 1]
    assert log.count("the shadow version failed: RuntimeError") == 2
    assert CODE not in log


def test_a_slow_shadow_blocks_nobody(versions):
    shadow = Engine(5)
    shadow.may.clear()
    versions.publish(shadow)
    versions.set_labels({"shadow": 5})
    routing = Routing(versions)
    for _ in range(100):
        routing.show([state_message([CODE])], [triage_pb2.TriageResponse(action=RED)])
    shadow.may.set()
    routing.comparisons.shutdown()
    assert len(shadow.asked) == 64


def test_without_the_label_nobody_watches(versions):
    shadow = Engine(5)
    versions.publish(shadow)
    routing = Routing(versions)
    routing.show([state_message([CODE])], [triage_pb2.TriageResponse(action=RED)])
    routing.comparisons.shutdown()
    assert shadow.asked == []


def test_what_the_canary_answered_is_asked_of_the_default_version_too_and_counted(versions, caplog):
    versions.publish(Engine(5))
    versions.set_labels({"canary": 5})
    telemetry = Telemetry(Metrics())
    routing = Routing(versions, 50.0, telemetry=telemetry)
    for version in ("5", "3", "5"):  # of the default version's own answers there is nothing to compare
        answer = triage_pb2.TriageResponse(action=YELLOW, model_version=version)
        routing.show([state_message([CODE])] * 2, [answer] * 2)
    routing.comparisons.shutdown()
    named = {"model_name": "triage", "role": "canary", "model_version": "5", "other_version": "3"}
    value = telemetry.metrics.registry.get_sample_value
    assert value("triage_compared_answers_total", named) == 4
    assert value("triage_disagreements_total", {**named, "action": "Yellow", "other_action": "Red"}) == 4
    assert caplog.text == ""


def test_without_metrics_the_canary_is_not_compared(versions):
    versions.publish(Engine(5))
    versions.set_labels({"canary": 5})
    routing = Routing(versions, 50.0)
    routing.show([state_message([CODE])], [triage_pb2.TriageResponse(action=YELLOW, model_version="5")])
    routing.comparisons.shutdown()
    with versions.borrow(3) as default:
        assert default.asked == []
