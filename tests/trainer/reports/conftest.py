"""The figures of one agent; all of them are made up."""

import copy

import pytest

from trainer.evaluation.cases import CaseFigures, CaseResults, Counted, Miss, TextbookFigures
from trainer.evaluation.estimates import (
    AsClinicians,
    Baselines,
    Calibration,
    Compared,
    Confusion,
    Estimate,
    Gap,
    ReliabilityBin,
    RuleEffect,
    SliceFigures,
)
from trainer.reports.agent_report import AgentReport, Gaps, Point
from trainer.reports.comparison import compare


def estimate(mean, half=0.05, vignettes=200):
    return Estimate(mean, mean - half, mean + half, vignettes)


def quality(safety, appropriateness, **more):
    return {
        "appropriateness": estimate(appropriateness),
        "safety": estimate(safety, 0.02),
        "over_triage": estimate(safety - appropriateness, 0.01),
        "under_triage": estimate(1 - safety, 0.02),
        **more,
    }


def agreed(red, vignettes=40):
    return {
        "red_sensitivity": estimate(red, 0.1, vignettes),
        "red_specificity": estimate(0.95),
        "weighted_kappa": estimate(0.7),
    }


def _calibration(observed):
    curve = [
        ReliabilityBin(0.7, 0.8, 40, 0.75, estimate(observed, 0.1, 30)),
        ReliabilityBin(0.8, 0.9, 5, 0.85, estimate(1.0, 0.0, 5)),
        ReliabilityBin(0.9, 1.0, 0, None, None),
    ]
    return Calibration(curve, estimate(0.75), estimate(observed), estimate(0.0), estimate(0.03), estimate(0.1))


def _slice(by, value, vignettes, safety):
    means = {"appropriateness": 0.8, "safety": safety, "questions": 6.0}
    return SliceFigures(
        by, value, vignettes, {name: estimate(mean, vignettes=vignettes) for name, mean in means.items()}
    )


def _cases(right):
    counts = dict.fromkeys(("emergency", "self_care", "all"), Counted(3, right, 3 - right, 0))
    miss = Miss("stroke", "Stroke at noon", "emergency", ["Red"], "Green", "too_late")
    reading = CaseResults(counts, [] if right == 3 else [miss])
    return CaseFigures(reading, reading, 4.0)


_STEP = {"evidence": "Chest pain", "presence": "present", "action": "Green",
         "values": {"Red": 0.3, "Yellow": 0.5, "Green": 0.9, "Blue": 0.1, "ask": 0.85}}  # fmt: skip
DIFFERENCE = {"safety": estimate(-0.06, 0.03, 150), "appropriateness": estimate(-0.01, 0.03)}


def compared(report):
    """Returns the report with the rows and the verdict of its figures; in interviews Red sensitivity is 70%."""
    baselines = Baselines(report.human, report.human_agreement, 3, report.constants)
    agent = {**report.agent, **report.agreement}
    comparison = compare(agent, baselines, report.as_clinicians, report.safety_rules)
    led = AsClinicians(150, quality(0.93, 0.8) | agreed(0.7), {}, DIFFERENCE | {"red_sensitivity": estimate(0.05, 0.1)})
    return report._replace(comparison=comparison, interviews=compare(agent, baselines, led, None))


_AGENT_REPORT = AgentReport(
    job_dir="job", data="data", data_fingerprint="sha256:1", vocabulary_fingerprint="sha256:2",
    trained_on="sha256:3", simulated=None, split="test", vignettes=200, mean_evidence=7.25,
    orders=10, seed=0, training={"steps": 2000, "episodes": 9000}, networks=5, max_questions=23,
    operating_point=Point(1.5, 0.004, 0.9), promises=[],
    interviews=None, comparison=None,
    agent={**quality(0.9, 0.8), "questions": estimate(7.0, 0.5), "evidence_seen": estimate(4.0, 0.2),
              "forced": estimate(0.1)},
    agreement=agreed(0.25), human=quality(0.95, 0.82), human_agreement=agreed(0.65),
    human_minimum_decisions=3,
    as_clinicians=AsClinicians(150, quality(0.89, 0.79) | agreed(0.21), {}, DIFFERENCE),
    constants={"always red": quality(1.0, 0.1), "always green": quality(0.75, 0.7)},
    confusion=Confusion("clinicians", "agent", ["Red", "Yellow", "Green", "Blue"],
                        [[10, 5, 5, 0], [5, 40, 15, 0], [0, 10, 80, 5], [0, 0, 20, 5]]),
    calibration={"best_decision": _calibration(0.7)},
    probabilities={"own_decision": {"appropriate": _calibration(0.8), "safe": _calibration(0.9)}},
    slices=[_slice("age", "75 years old or over", 30, 0.8), _slice("sex", "Female", 9, 0.7),
               _slice("code:smoker", "present", 25, 0.9), _slice("majority", "Red", 40, 0.6)],
    gaps=Gaps([Gap("age", "75 years old or over", 30, "safety", 0.8, 0.92, estimate(-0.12, 0.06))], 80),
    handing_over=[], slice_names={"smoker": "Current smoker"},
    safety_rules=RuleEffect({"source": "default", "rules": [{"rule_id": "hot"}, {"rule_id": "cold"}]},
                            {name: Compared(each, each, estimate(0.01, 0.005))
                             for name, each in (quality(0.91, 0.8) | agreed(0.6)).items()}, 0.02,
                            AsClinicians(150, quality(0.9, 0.78) | agreed(0.75), {}, {})),
    no_safety_rules="",
    errors=[{"vignette_id": "v1", "text": "Patient: Man.\nChest pain.", "pieces": {"known": 1, "all": 6},
                "rules": [{"rule_id": "hot", "reason": "Too hot.", "urgency": "Red"}],
                "decisions": ["Red", "Red"], "decision": "Green",
                "steps": [_STEP],
                "effects": [{"evidence": "Chest pain", "presence": "present", "effect": 0.25}]}],
    textbook_cases=TextbookFigures("cases.jsonl", _cases(2), _cases(3)),
    cautions=["the agent is never forced to decide"],
)  # fmt: skip


@pytest.fixture
def agent_report():
    """To be read and to be broken."""
    return compared(copy.deepcopy(_AGENT_REPORT))


@pytest.fixture
def poor_agent_report(agent_report):
    """An agent of the preset paper on foreign data: one clinician each, no rules, no probabilities, nothing else."""
    return compared(agent_report._replace(
        operating_point=None, human=None, human_agreement=None, as_clinicians=None, probabilities=None,
        slices=[], gaps=Gaps([], 0), safety_rules=None, no_safety_rules="no safety rules: the default ones do not fit",
        errors=[], textbook_cases=None, agreement=agreed(0.5, 7), cautions=[],
    ))._replace(interviews=None)  # fmt: skip
