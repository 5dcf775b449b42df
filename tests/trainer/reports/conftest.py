"""The figures of one agent, as `triage evaluate --json` writes them; all of them are made up."""

import copy

import pytest


def estimate(mean, half=0.05, vignettes=200):
    return {"mean": mean, "low": mean - half, "high": mean + half, "vignettes": vignettes}


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
        {"low": 0.7, "high": 0.8, "states": 40, "predicted": 0.75, "observed": estimate(observed, 0.1, 30)},
        {"low": 0.8, "high": 0.9, "states": 5, "predicted": 0.85, "observed": estimate(1.0, 0.0, 5)},
        {"low": 0.9, "high": 1.0, "states": 0, "predicted": None, "observed": None},
    ]
    return {"curve": curve, "expected_calibration_error": estimate(0.03)}


def _slice(by, value, vignettes, safety):
    measured = {"appropriateness": estimate(0.8), "safety": estimate(safety), "questions": estimate(6.0)}
    return {"by": by, "value": value, "vignettes": vignettes,
            "metrics": {name: {**each, "vignettes": vignettes} for name, each in measured.items()}}  # fmt: skip


def _point(weight, chosen, over_triage, safety):
    means = {"appropriateness": 0.8, "safety": safety, "over_triage": over_triage, "red_sensitivity": 0.5}
    return {"safety_weight": weight, "sure_enough": 0.9, "price": 0.004, "chosen": chosen, **means, "questions": 7.0,
            "evidence_seen": 4.0, "forced": 0.1,
            "intervals": {name: [mean - 0.01, mean + 0.01] for name, mean in means.items()}}  # fmt: skip


def _cases(right):
    counts = {name: {"cases": 3, "right": right, "too_late": 3 - right, "too_early": 0}
              for name in ("emergency", "self_care", "all")}  # fmt: skip
    miss = {"vignette_id": "stroke", "title": "Stroke at noon", "category": "emergency", "allowed": ["Red"],
            "decision": "Green", "verdict": "too_late"}  # fmt: skip
    readings = {"categories": counts, "misses": [] if right == 3 else [miss]}
    return {"all_evidence": readings, "interview": readings, "questions": 4.0}


_STEP = {"evidence": "Chest pain", "presence": "present", "action": "Green",
         "values": {"Red": 0.3, "Yellow": 0.5, "Green": 0.9, "Blue": 0.1, "ask": 0.85}}  # fmt: skip
_DIFFERENCE = {"safety": {**estimate(-0.06, 0.03), "vignettes": 150}, "appropriateness": estimate(-0.01, 0.03)}
AGENT_REPORT = {
    "job_dir": "job", "data": "data", "data_fingerprint": "sha256:1", "vocabulary_fingerprint": "sha256:2",
    "trained_on": "sha256:3", "simulated": None, "split": "test", "vignettes": 200, "mean_evidence": 7.25,
    "orders": 10, "seed": 0, "training": {"steps": 2000, "episodes": 9000}, "networks": 5, "max_questions": 23,
    "operating_point": {"safety_weight": 1.5, "sure_enough": 0.9, "price": 0.004, "chosen": "default"},
    "agent": {**quality(0.9, 0.8), "questions": estimate(7.0, 0.5), "evidence_seen": estimate(4.0, 0.2),
              "forced": estimate(0.1)},
    "agreement": agreed(0.25), "human": quality(0.95, 0.82), "human_agreement": agreed(0.65),
    "human_minimum_decisions": 3,
    "as_clinicians": {"vignettes": 150, "by_all_but_one": quality(0.89, 0.79) | agreed(0.21), "by_all": {},
                      "less_clinicians": _DIFFERENCE},
    "constants": {"always red": quality(1.0, 0.1), "always green": quality(0.75, 0.7)},
    "confusion": {"labels": ["Red", "Yellow", "Green", "Blue"],
                  "matrix": [[10, 5, 5, 0], [5, 40, 15, 0], [0, 10, 80, 5], [0, 0, 20, 5]]},
    "calibration": {"best_decision": _calibration(0.7)},
    "probabilities": {"own_decision": {"appropriate": _calibration(0.8), "safe": _calibration(0.9)}},
    "frontier": [_point(0.0, False, 0.05, 0.85), _point(1.5, True, 0.1, 0.9), _point(8.0, False, 0.4, 0.97)],
    "slices": [_slice("age", "75 years old or over", 30, 0.8), _slice("sex", "Female", 9, 0.7),
               _slice("code:smoker", "present", 25, 0.9), _slice("majority", "Red", 40, 0.6)],
    "gaps": {"worse": [{"by": "age", "value": "75 years old or over", "vignettes": 30, "metric": "safety",
                        "mean": 0.8, "others": 0.92, "difference": estimate(-0.12, 0.06)}], "comparisons": 80},
    "learning": {"evaluations": [{"step": step, "metrics": {**quality(safety, 0.7), "questions": estimate(8.0)}}
                                 for step, safety in ((1000, 0.8), (2000, 0.9))],
                 "validation_losses": [{"step": 100, "loss": 0.75}, {"step": 200, "loss": 0.5}]},
    "safety_rules": {"rules": {"source": "default", "rules": [{"rule_id": "hot"}, {"rule_id": "cold"}]},
                     "changed": 0.02, "metrics": {
                         name: {"without": each, "with_rules": each, "difference": estimate(0.01, 0.005)}
                         for name, each in (quality(0.91, 0.8) | agreed(0.6)).items()},
                     "as_clinicians": {"by_all_but_one": quality(0.9, 0.78) | agreed(0.75)}},
    "no_safety_rules": "",
    "symptom_checkers": {"vignettes": 150, "item_difficulty": estimate(0.7), "checkers": {
        name: {**{measure: estimate(share) for measure in ("accuracy", "within_one_level", "safety_of_advice")},
               "inclination_to_overtriage": estimate(0.4, 0.1, 9), "capability_comparison_score": estimate(51.5, 1.0),
               "comprehensiveness": 1.0,
               "accuracy_by_level": {"Red": estimate(0.5), "Yellow": estimate(0.6), "Green": estimate(0.8),
                                     "Blue": None}}
        for name, share in (("agent", 0.75), ("agent with safety rules", 0.74), ("clinicians", 0.66))}},
    "errors": [{"vignette_id": "v1", "text": "Patient: Man.\nChest pain.", "pieces": {"known": 1, "all": 6},
                "rules": [{"rule_id": "hot", "urgency": "Red"}], "decisions": ["Red", "Red"], "decision": "Green",
                "steps": [_STEP],
                "effects": [{"evidence": "Chest pain", "presence": "present", "effect": 0.25}]}],
    "textbook_cases": {"cases": "cases.jsonl", "without_rules": _cases(2), "with_rules": _cases(3)},
    "cautions": ["the agent is never forced to decide"],
}  # fmt: skip


@pytest.fixture
def agent_report():
    """To be read and to be broken."""
    return copy.deepcopy(AGENT_REPORT)


@pytest.fixture
def poor_agent_report(agent_report):
    """An agent of the preset paper on foreign data: one clinician each, no rules, no probabilities, nothing else."""
    return agent_report | {
        "operating_point": None, "human": None, "human_agreement": None, "as_clinicians": None, "probabilities": None,
        "frontier": None, "slices": [], "gaps": {"worse": [], "comparisons": 0}, "safety_rules": None,
        "no_safety_rules": "no safety rules: the default ones do not fit", "errors": [], "textbook_cases": None,
        "learning": {"evaluations": [], "validation_losses": []}, "agreement": agreed(0.5, 7), "cautions": [],
    }  # fmt: skip
