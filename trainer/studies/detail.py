"""Detailed figures of one trained agent: agreement, calibration, slices, unseen conditions, and its worst errors."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from schemas.evidence import Vocabulary
from schemas.safety_rules import NO_RULES, RuleSet
from schemas.triage import ACTION_LABELS, DECISION_LABELS, NUM_DECISIONS, TRIAGE_DECISIONS, Action
from trainer.checks.vignette_text import evidence_text
from trainer.dyqn.rollout import Outcomes
from trainer.evaluation import agreement, calibration, metrics, slices
from trainer.evaluation.prefixes import Triage, metrics_by_evidence
from trainer.simulation.simulator import UNSEEN
from trainer.state import evidence_codes
from trainer.vignettes.arrays import VignetteArrays
from trainer.vignettes.vignette import Vignette

WORST = 8
"""Number of errors that are reported in full."""
_CONDITION = "condition="


class Walk(NamedTuple):
    """One episode, question by question."""

    codes: list[int]  # signed codes in the order in which they are revealed
    q_values: np.ndarray  # float [pieces, A]: after each piece of evidence
    decided_after: int  # pieces known at the decision
    questions: int  # including those asked after the evidence had run out
    decision: int


def walk(codes: list[int], q_values: np.ndarray, max_questions: int) -> Walk:
    """Returns the episode of the greedy agent over one evidence order; the first piece is known at the start.

    Asking when no evidence is left reveals nothing: the agent sees the same state, and asks until it is forced.

    Args:
        codes: signed codes of the vignette in the order of their revelation.
        q_values: float `[len(codes), A]`, of the states after 1, 2, ... pieces.
        max_questions: the question limit.
    """
    known = min(len(codes), max_questions + 1)
    stops = np.flatnonzero(q_values[:known].argmax(axis=1) != Action.ASK)  # ties: the triage decision comes first
    pieces = int(stops[0]) + 1 if len(stops) and stops[0] < max_questions else known
    questions = pieces - 1 if len(stops) and stops[0] < max_questions else max_questions
    decision = int(q_values[pieces - 1, :NUM_DECISIONS].argmax())
    return Walk(codes, q_values, pieces, questions, decision)


def detail_figures(outcomes: Outcomes, vignettes: VignetteArrays, seed: int) -> dict[str, Any]:
    """Returns `agreement`, `reliability`, `slices` and `unseen` as results.json holds them.

    Args:
        outcomes: episodes of these vignettes, with Q-values.
        vignettes: one or more.
        seed: of the bootstrap.
    """
    counts = vignettes.decision_counts
    agreed = agreement.agent_agreement(outcomes.decisions, counts, seed)
    groups = slices.groups(vignettes.tags, counts, np.diff(vignettes.offsets))
    values = metrics.agent_metrics(outcomes, counts)
    return {
        "agreement": {
            "labels": list(DECISION_LABELS),
            "confusion": agreement.confusion_shares(outcomes.decisions, counts).mean(axis=0).tolist(),
            "red_sensitivity": _plain(agreed["red_sensitivity"]),
            "kappa": _plain(agreed["weighted_kappa"]),
        },
        "reliability": _reliability(outcomes, counts, seed),
        "slices": [_slice(each) for each in slices.slice_figures(values, groups, seed)],
        "unseen": _unseen(values, vignettes.tags, seed),
    }


def evidence_curve(
    triage: Triage, vignettes: VignetteArrays, evidence_count: int, orders: list[int], seed: int
) -> list[dict[str, Any]]:
    """Returns the means of `trainer.evaluation.prefixes.metrics_by_evidence` as results.json holds them."""
    return [
        {
            "pieces": point.evidence,
            "vignettes": point.vignettes,
            "appropriateness": point.appropriateness.mean,
            "safety": point.safety.mean,
            "confidence": point.best_value.mean,
            "intervals": {
                name: [value.low, value.high]
                for name, value in (
                    ("appropriateness", point.appropriateness),
                    ("safety", point.safety),
                    ("confidence", point.best_value),
                )
            },
        }
        for point in metrics_by_evidence(vignettes, evidence_count, triage, orders, seed)
    ]


def worst_errors(outcomes: Outcomes, decision_counts: np.ndarray) -> list[int]:
    """Returns the places of the vignettes with the worst under-triage, the worst first, at most `WORST`.

    The measure is the mean over the evidence orders of the number of levels by which the decision was less urgent than
    the least urgent clinician's; ties keep the order of the vignettes.
    """
    _, least = metrics.urgency_range(decision_counts)
    short = np.maximum(outcomes.decisions - least, 0).mean(axis=0)  # [V]
    order = np.argsort(-short, kind="stable")[:WORST]
    return [int(row) for row in order if short[row] > 0]


def error_report(
    row: int,
    episode: Walk,
    effects: Sequence[float],
    vignettes: VignetteArrays,
    vocabulary: Vocabulary,
    rules: RuleSet = NO_RULES,
) -> dict[str, Any]:
    """Returns an error for results.json: the vignette as text, the episode, and why it ended as it did.

    Args:
        row: of the vignette.
        episode: in which the agent decided wrongly.
        effects: of each piece that was known at the decision, in their order, see `trainer.questions.effects`.
        vignettes: of which it is one.
        vocabulary: of their evidence.
        rules: safety rules, of which the report names those that would have made the decision more urgent.
    """
    codes, counts = episode.codes, vignettes.decision_counts[row]
    decisions = [decision for decision in TRIAGE_DECISIONS for _ in range(counts[decision])]
    vignette = Vignette(str(vignettes.vignette_ids[row]), *evidence_codes(codes, vocabulary), tuple(decisions))
    known = evidence_codes(codes[: episode.decided_after], vocabulary)
    return {
        "vignette_id": vignette.vignette_id,
        "text": evidence_text(vignette, vocabulary),
        "pieces": {"known": episode.decided_after, "all": len(codes)},
        "rules": [
            {"rule_id": rule.rule_id, "urgency": rule.urgency.label}
            for rule in rules
            if rule.urgency < episode.decision and rule.fires(*known)
        ],
        "decisions": [decision.label for decision in decisions],
        "decision": DECISION_LABELS[episode.decision],
        "steps": [_step(asked, episode, vocabulary) for asked in range(episode.questions + 1)],
        "effects": [
            {**_piece(code, vocabulary), "effect": round(float(effect), 6)}
            for effect, code in sorted(zip(effects, codes, strict=False), key=lambda pair: -pair[0])
        ],
    }


def _piece(code: int, vocabulary: Vocabulary) -> dict[str, Any]:
    return {"evidence": vocabulary[abs(code) - 1].name, "presence": "present" if code > 0 else "absent"}


def _step(asked: int, episode: Walk, vocabulary: Vocabulary) -> dict[str, Any]:
    """Returns what the agent sees and does after `asked` questions."""
    in_vain = asked >= len(episode.codes)
    place = min(asked, len(episode.codes) - 1)
    nothing = {"evidence": "nothing new", "presence": None}
    values = (round(float(value), 6) for value in episode.q_values[place])
    return {
        **(nothing if in_vain else _piece(episode.codes[place], vocabulary)),
        "q_values": dict(zip(ACTION_LABELS, values, strict=True)),
        "action": DECISION_LABELS[episode.decision] if asked == episode.questions else Action.ASK.label,
    }


def _reliability(outcomes: Outcomes, decision_counts: np.ndarray, seed: int) -> dict[str, Any]:
    if outcomes.q_values is None:
        raise ValueError("expected episodes with Q-values")
    calibrated = calibration.calibration(calibration.best_decision_pairs(outcomes.q_values, decision_counts), seed)
    bins = [
        {
            "low": each.low,
            "high": each.high,
            "count": each.states,
            "mean_q": each.predicted,
            "observed": each.observed.mean if each.observed else None,
        }
        for each in calibrated.curve
    ]
    return {"bins": bins, "ece": calibrated.expected_calibration_error.mean, "brier": calibrated.brier_score.mean}


def _slice(entry: slices.SliceFigures) -> dict[str, Any]:
    kept = {name: _plain(entry.metrics[name]) for name in ("appropriateness", "safety", "questions")}
    return {"slice": f"{entry.by.removeprefix('tag:')}={entry.value}", "vignettes": entry.vignettes, **kept}


def _plain(estimate: metrics.Estimate | None) -> dict[str, Any] | None:
    return None if estimate is None else estimate._asdict()


def _unseen(values: dict[str, np.ndarray], tags: Sequence[Sequence[str]], seed: int) -> dict[str, Any] | None:
    contrast = slices.unseen_contrast(values, tags, seed)
    if contrast is None:
        return None
    tagged: np.ndarray = np.array([UNSEEN in names for names in tags])
    shown = ("questions", "evidence_seen", "appropriateness", "safety")
    sides = {
        side: {name: _plain(metrics.estimate(values[name][rows], seed)) for name in shown}
        for side, rows in (("seen", ~tagged), ("unseen", tagged))
    }
    conditions = {
        name.removeprefix(_CONDITION)
        for names in tags
        if UNSEEN in names
        for name in names
        if name.startswith(_CONDITION)
    }
    return {
        "conditions": sorted(conditions),
        **sides,
        "difference": {"questions": _plain(contrast["questions"].difference)},
    }
