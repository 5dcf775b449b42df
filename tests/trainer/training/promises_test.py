"""What is promised about an agent made by hand, and how its answers are counted."""

import dataclasses
import re

import numpy as np
import pytest
import tensorflow as tf

from schemas.danger_signs import DangerSigns
from schemas.errors import InputError
from schemas.promise import NOT_COVERED
from schemas.safety_rules import RuleSet, SafetyRule
from schemas.triage import Action
from tests.builders import symptoms, trained_agent
from trainer.graph.decide import OperatingPoint
from trainer.graph.mixture import Mixture
from trainer.graph.operating_point import HeldOutOutputs
from trainer.training import promises, set_apart
from trainer.training.agent_options import PromiseOptions

pytestmark = pytest.mark.usefixtures("eager")

VOCABULARY = symptoms("cough", "collapse", "rash")
MIXTURE = Mixture(
    np.zeros(1, np.float32), np.full((1, 3), 0.5, np.float32), np.full((1, 8), 0.5, np.float32),
    np.full((1, 3), 0.5, np.float32),
)  # fmt: skip
POINT = OperatingPoint(sure_enough=0.5)


class Network:
    """Asks about everything, and decides Red for a collapse, else Green; whoever has a rash, too, is decided Blue."""

    output = ("q", "appropriate", "safe")

    def __call__(self, states):
        red = tf.cast(states[:, 1] > 0, tf.float32)
        blue = tf.cast(states[:, 2] > 0, tf.float32)
        green = (1 - red) * (1 - blue)
        appropriate = tf.stack([red * (1 - blue), 0 * red, green, blue], axis=1)
        asks = tf.where(tf.reduce_any(states == 0, axis=1, keepdims=True), 2.0, -1.0)
        return {"q": tf.concat([appropriate, asks], axis=1), "appropriate": appropriate, "safe": appropriate}


class Wary(Network):
    """The same, to which Red seems possible where it decides Blue."""

    def __call__(self, states):
        heads = super().__call__(states)
        possible = 0.16 * tf.cast(states[:, 2:3] > 0, tf.float32) * tf.one_hot([Action.RED], 4)
        return heads | {"appropriate": heads["appropriate"] + possible}


def vignettes(vignettes_of, right=190, late=10, green=100):
    """Patients with a cough: emergencies who collapsed, some with a rash as well, and others who have nothing else."""
    collapse, rash = ([1, 2, -3], [3, 0, 0, 0]), ([1, 2, 3], [3, 0, 0, 0])
    return vignettes_of([collapse] * right + [rash] * late + [([1, -2, -3], [0, 0, 3, 0])] * green)


@pytest.fixture
def trained():
    q, appropriate, _ = (head.numpy() for head in Network()(tf.constant([[1.0, 1, -1]] * 30)).values())
    held_out = HeldOutOutputs(q, appropriate, np.ones(30, np.int64), np.array([[3, 0, 0, 0]] * 30))
    made = {"training": {"steps": 40}, "operating_point": POINT, "held_out": held_out, "questions": MIXTURE}
    return trained_agent(Network(), VOCABULARY, 5, **made)


@pytest.fixture
def job(tmp_path, vignettes_of):
    set_apart.prepare(tmp_path, vignettes(vignettes_of), True, set_apart.Seen(*[np.zeros(0, np.uint64)] * 2))
    return tmp_path


def obeying(trained, code):
    """The agent with a rule: whoever has `code` is Red."""
    rule = SafetyRule("r", code, Action.RED, stop_asking=False, all_of=((code, True),))
    return dataclasses.replace(trained, rules=RuleSet((rule,), "x", "sha256:r"))


def ask(trained, job, confidence=0.9, point_given=True, **levels):
    return promises.make(trained, job, PromiseOptions(levels, confidence), point_given)


def test_a_promise_counts_the_patients_of_each_colour_in_both_settings(trained, job):
    # 10 of 200 Red patients leave as Blue: 5%, and 3.3% of all.
    answer = ask(trained, job, red=0.1, over=0.1)
    assert answer.kept
    assert answer.levels == {"red": 0.1, "over": 0.1}
    counted = {"red": (10, 200), "yellow": (10, 200), "under": (10, 300), "over": (0, 300), "handed_over": (0, 300)}
    assert answer.found == {"interview": counted, "all_evidence": counted}
    promised = promises.promising(trained, answer)
    assert (promised.operating_point, promised.point_chosen, promised.metrics) == (POINT, "promise", {})
    assert promised.promise["found"]["interview"]["red"] == {"errors": 10, "patients": 200}
    assert promised.promise["not_covered"] == list(NOT_COVERED)
    assert re.search(r"90% .*red=0\.1,over=0\.1 .*200 for red, 300 for over", promises.text(answer))


def test_what_is_not_shown_is_refused_with_what_can_be_stated_and_that_is_granted(trained, job):
    refused = ask(trained, job, red=0.06)
    assert not refused.kept
    assert 0.06 < refused.levels["red"] < 0.12
    tightest = promises.rounded(refused)
    assert re.search(rf"red=0\.06 .*200 for red.* {tightest}$", promises.text(refused))
    granted = ask(trained, job, red=float(tightest.removeprefix("red=")))
    assert granted.kept
    assert granted.spent == 0
    assert [answer.kept for answer in promises.answers(job)] == [False, True]


def test_handing_over_is_tried_where_it_is_bounded_and_counts_as_no_error(trained, job):
    wary = dataclasses.replace(trained, model=Wary())
    # The 10 who leave as Blue are handed over from .15 on, as Red is appropriate with .16.
    answer = ask(wary, job, red=0.03, handed_over=0.08)
    assert answer.kept
    assert 0 < answer.operating_point.hand_over_from <= 0.15
    for counts in answer.found.values():
        assert (counts["red"], counts["over"], counts["handed_over"]) == ((0, 200), (0, 300), (10, 300))
    promised = promises.promising(wary, answer)
    assert (
        promises.on_newer(promised, promised.promise, set_apart.read(job).vignettes, True)["found"]
        == (promised.promise["found"])
    )
    assert ask(wary, job, red=0.05, handed_over=0.2).spent == 0, "a weaker promise follows"
    # A promise without handing over does not follow: 5% of the Red patients leave as Blue.
    assert not ask(wary, job, confidence=0.8, red=0.05).kept


def test_refusing_and_trying_the_next_is_counted(trained, job):
    assert not ask(trained, job, red=0.05).kept
    # All that .9 permits is spent, so that a level between the two is no longer tested.
    with pytest.raises(InputError, match=r"confidence of 0\.9"):
        ask(trained, job, red=0.07)
    assert ask(trained, job, red=0.2).kept, "it follows from the refusal"
    less = ask(trained, job, confidence=0.8, red=0.07)
    assert less.spent <= 0.1 + 1e-9


def test_a_promise_spends_all_that_its_confidence_permits(trained, job):
    first = ask(trained, job, over=0.1)
    with pytest.raises(InputError, match=r"confidence of 0\.9"):
        ask(trained, job, yellow=0.15)
    assert ask(trained, job, over=0.1) == first, "the same question has the same answer"
    assert ask(trained, job, over=0.2).spent == 0, "a weaker promise follows"
    second = ask(trained, job, confidence=0.8, yellow=0.15)
    assert [first.spent, second.spent] == pytest.approx([0.1, 0.1]), "0.2 in all"


def test_an_earlier_answer_says_nothing_of_other_rules_questions_limits_or_points(trained, job, monkeypatch):
    first = ask(trained, job, red=0.15)
    other = dataclasses.replace(trained, operating_point=OperatingPoint(sure_enough=0.9))
    asking = dataclasses.replace(trained, signs=DangerSigns({"cough": (("rash", "collapse"),)}))
    in_turn = dataclasses.replace(trained, signs=DangerSigns({"cough": (("rash",), ("collapse",))}))
    shorter = dataclasses.replace(trained, max_questions=4)
    for number, agent in enumerate((obeying(trained, "rash"), shorter, other, asking, in_turn)):
        assert ask(agent, job, 0.85 - 0.05 * number, red=0.15).spent > 0
    assert ask(trained, job, red=0.15) == first
    monkeypatch.setattr("trainer.graph.questions.ORDER", 0)
    assert ask(trained, job, 0.6, red=0.15).spent > 0


def test_interviews_count_as_they_are_led_with_the_limit_and_the_rules(trained, job):
    # The first question is about the collapse: forced after it, nobody is known to have the rash that misleads.
    short = ask(dataclasses.replace(trained, max_questions=1), job, red=0.5)
    assert short.asked.question_limit == 1
    assert [counts["red"].errors for counts in short.found.values()] == [0, 10]
    ruled = ask(obeying(trained, "collapse"), job, confidence=0.8, red=0.5)
    assert [counts["red"].errors for counts in ruled.found.values()] == [0, 0]


def test_newer_patients_may_show_that_a_promise_does_not_hold(trained, job, vignettes_of):
    promised = promises.promising(trained, ask(trained, job, red=0.1))
    for late, holds in ((15, True), (60, False)):
        newer = promises.on_newer(promised, promised.promise, vignettes(vignettes_of, 200 - late, late), True)
        assert newer["holds"] is holds
        assert newer["broken"] == ({} if holds else {"interview": ["red"], "all_evidence": ["red"]})
        assert newer["found"]["interview"]["red"] == {"errors": late, "patients": 200}


def test_what_cannot_be_promised_is_said(trained, job, tmp_path):
    (tmp_path / "other").mkdir()
    set_apart.prepare(tmp_path / "other", None, True, set_apart.Seen(*np.zeros([2, 0], np.uint64)))
    with pytest.raises(InputError, match="--set-apart"):
        ask(trained, tmp_path / "other", red=0.1)
    with pytest.raises(InputError, match="cannot interview"):
        ask(dataclasses.replace(trained, questions=None), job, red=0.1)
    with pytest.raises(InputError, match="--step"):
        ask(dataclasses.replace(trained, held_out=None), job, red=0.1)
    (job / promises.FILE).write_text("{}\n")
    with pytest.raises(InputError, match=r"promises\.jsonl"):
        ask(trained, job, red=0.1)
