import numpy as np
import pytest

from schemas.evidence import Evidence, Vocabulary
from schemas.safety_rules import RuleSet, SafetyRule
from schemas.triage import Action
from trainer.dyqn.rollout import Outcomes
from trainer.studies.detail import Walk, detail_figures, error_report, evidence_curve, walk, worst_errors
from trainer.vignettes.arrays import VignetteArrays

VOCABULARY = Vocabulary(
    [
        Evidence("fever", "symptom", "Fever", "Do you have a fever?"),
        Evidence("cough", "symptom", "Cough", "Do you cough?"),
        Evidence("smoker", "risk_factor", "Smoker", "Do you smoke?"),
    ]
)
ASKS, GREEN, RED = [0.1, 0.2, 0.4, 0.1, 0.9], [0.1, 0.2, 0.8, 0.1, 0.5], [0.7, 0.2, 0.1, 0.1, 0.5]


def _arrays(counts, codes=((1, -2, 3),), tags=None):
    """Vignettes named v0, v1, ... with these decision counts and signed codes, the last codes repeated."""
    codes = [*codes, *[codes[-1]] * (len(counts) - len(codes))]
    ids = np.array([f"v{row}" for row in range(len(counts))], object)
    offsets = np.cumsum([0, *map(len, codes)]).astype(np.int64)
    return VignetteArrays(
        ids, offsets, np.concatenate(codes).astype(np.int16), np.array(counts, np.uint8), tags or ((),) * len(counts)
    )


def _outcomes(decisions, questions=None, q_values=None):
    decisions = np.array(decisions, np.int32)
    questions = np.zeros_like(decisions) if questions is None else np.array(questions, np.int32)
    return Outcomes(decisions, questions, questions + 1, np.zeros(decisions.shape, bool), q_values)


def _walk(q_values, max_questions=23):
    steps = walk([1, -2, 3][: len(q_values)], np.array(q_values), max_questions)
    return steps.questions, steps.decided_after, steps.decision


@pytest.mark.parametrize(
    ("q_values", "limit", "expected"),
    [
        ([GREEN, RED, RED], 23, (0, 1, Action.GREEN)),
        ([ASKS, ASKS, RED], 23, (2, 3, Action.RED)),
        # Nothing is left after three pieces: it asks in vain up to the limit, and then takes its best triage decision.
        ([ASKS, ASKS, ASKS], 23, (23, 3, Action.GREEN)),
        # One question is allowed: with two pieces known the decision is forced.
        ([ASKS, ASKS, RED], 1, (1, 2, Action.GREEN)),
        ([ASKS, RED, RED], 1, (1, 2, Action.RED)),
        # Triage comes before asking where they are equal.
        ([[0.5, 0.1, 0.1, 0.1, 0.5], ASKS, ASKS], 23, (0, 1, Action.RED)),
    ],
)
def test_a_walk_ends_at_the_first_decision_or_the_limit(q_values, limit, expected):
    assert _walk(q_values, limit) == expected


def test_worst_errors_are_those_that_fall_most_urgency_steps_short():
    counts = [[2, 0, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [3, 0, 0, 0]]
    decisions = [[2, 3, 2, 3], [0, 3, 2, 3]]
    # Steps less urgent than the least urgent clinician, mean of two orders: v0 (2 + 0) / 2 = 1, v1 (1 + 1) / 2 = 1,
    # v2 (1 + 1) / 2 = 1, v3 (3 + 3) / 2 = 3.
    assert worst_errors(_outcomes(decisions), np.array(counts)) == [3, 0, 1, 2]


def test_over_triage_is_no_error_of_this_list():
    assert worst_errors(_outcomes([[0, 2]]), np.array([[0, 0, 0, 2], [0, 0, 1, 0]])) == []


def test_an_error_report_has_the_vignette_and_each_step():
    episode = Walk([-2, 3], np.array([ASKS, ASKS]), decided_after=2, questions=3, decision=Action.GREEN)
    report = error_report(0, episode, [0.125, 0.25], _arrays([[2, 1, 0, 0]], [(3, -2)]), VOCABULARY)
    assert report["text"] == "Patient: Smoker.\nNo cough."
    assert (report["pieces"], report["rules"]) == ({"known": 2, "all": 2}, [])
    assert (report["vignette_id"], report["decisions"], report["decision"]) == ("v0", ["Red", "Red", "Yellow"], "Green")
    steps = [(step["evidence"], step["presence"], step["action"]) for step in report["steps"]]
    assert steps == [
        ("Cough", "absent", "ask"), ("Smoker", "present", "ask"), ("nothing new", None, "ask"),
        ("nothing new", None, "Green"),
    ]  # fmt: skip
    assert report["effects"] == [
        {"evidence": "Smoker", "presence": "present", "effect": 0.25},
        {"evidence": "Cough", "presence": "absent", "effect": 0.125},
    ]
    assert report["steps"][0]["q_values"] == {"Red": 0.1, "Yellow": 0.2, "Green": 0.4, "Blue": 0.1, "ask": 0.9}


def test_an_error_report_names_the_rules_that_would_have_caught_it():
    smoker, cough = ("smoker", True), ("cough", False)
    rules = RuleSet(
        tuple(
            SafetyRule(name, "why", urgency, stop_asking=True, all_of=conditions)
            for name, urgency, conditions in (
                ("known", Action.YELLOW, (cough,)),
                ("not_known_yet", Action.RED, (smoker,)),
                ("no_more_urgent", Action.GREEN, (cough,)),
            )
        )
    )
    # The agent decides on the first of the two pieces.
    episode = Walk([-2, 3], np.array([GREEN, GREEN]), decided_after=1, questions=0, decision=Action.GREEN)
    report = error_report(0, episode, [0.5], _arrays([[1, 0, 0, 0]], [(3, -2)]), VOCABULARY, rules)
    assert report["pieces"] == {"known": 1, "all": 2}
    assert report["rules"] == [{"rule_id": "known", "urgency": "Yellow"}]


def test_agreement_and_reliability_of_two_vignettes():
    q_values = np.array([[[0.75, 0.2, 0.1, 0.1, 0.5], [0.1, 0.2, 0.85, 0.1, 0.5]]], np.float32)
    figures = detail_figures(_outcomes([[0, 2]], q_values=q_values), _arrays([[2, 0, 0, 0], [0, 1, 1, 0]]), seed=0)
    # Half of the vignettes is Red for all and Red for the agent; the other half Yellow and Green, and Green for it.
    assert figures["agreement"]["confusion"] == [[0.5, 0, 0, 0], [0, 0, 0.25, 0], [0, 0, 0.25, 0], [0, 0, 0, 0]]
    assert figures["agreement"]["red_sensitivity"]["mean"] == 1.0
    bins = {each["low"]: (each["count"], each["observed"]) for each in figures["reliability"]["bins"] if each["count"]}
    assert bins == {0.7: (1, 1.0), 0.8: (1, 1.0)}
    # Both are right with Q-values of .75 and .85: the distance is .2 on average.
    assert figures["reliability"]["ece"] == pytest.approx(0.2, abs=1e-6)
    assert figures["reliability"]["brier"] == pytest.approx((0.25**2 + 0.15**2) / 2, abs=1e-6)
    assert figures["unseen"] is None
    assert {"slice", "vignettes", "appropriateness", "safety", "questions"} == set(figures["slices"][0])
    assert "majority=Red" in {each["slice"] for each in figures["slices"]}


def test_unseen_conditions_are_named_and_compared():
    tags = (("condition=flu", "unseen"), ("condition=gout", "unseen"), ("condition=cold",))
    vignettes = _arrays([[0, 0, 1, 0]] * 3, tags=tags)
    outcomes = _outcomes([[2, 2, 2]], questions=[[6, 8, 3]], q_values=np.array([[GREEN] * 3], np.float32))
    unseen = detail_figures(outcomes, vignettes, seed=0)["unseen"]
    assert unseen["conditions"] == ["flu", "gout"]
    assert unseen["unseen"]["questions"]["mean"] == 7.0
    assert unseen["seen"]["questions"]["mean"] == 3.0
    assert unseen["difference"]["questions"]["mean"] == 4.0


def test_evidence_curve_has_quality_and_confidence_of_each_number_of_pieces():
    def triage(states):
        known = np.count_nonzero(states, axis=1)[:, np.newaxis]
        return np.where(known >= 2, [[0.9, 0.0, 0.0, 0.0]], [[0.0, 0.0, 0.6, 0.0]])

    points = evidence_curve(triage, _arrays([[1, 0, 0, 0], [0, 0, 1, 0]], [(1, 2), (3,)]), 3, [1, 2], seed=0)
    intervals = [each.pop("intervals") for each in points]
    assert intervals[0]["appropriateness"] == [0.0, 1.0]  # of two vignettes, one is right
    assert intervals[1]["safety"] == [None, None]  # a single vignette leaves none
    # After one piece it says Green, which is right for v1 alone; only v0 has a second one, and is Red.
    assert points == [
        {"pieces": 1, "vignettes": 2, "appropriateness": 0.5, "safety": 0.5, "confidence": 0.6},
        {"pieces": 2, "vignettes": 1, "appropriateness": 1.0, "safety": 1.0, "confidence": 0.9},
    ]
