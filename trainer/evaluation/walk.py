"""Episodes of an agent question by question, and the vignettes on which it errs most."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from schemas.evidence import Vocabulary
from schemas.safety_rules import NO_RULES, RuleSet
from schemas.triage import ACTION_LABELS, DECISION_LABELS, NUM_DECISIONS, TRIAGE_DECISIONS, Action
from trainer.dyqn.rollout import Outcomes
from trainer.evaluation import metrics
from trainer.state import evidence_codes
from trainer.vignettes.arrays import VignetteArrays
from trainer.vignettes.vignette import Vignette
from trainer.vignettes.vignette_text import evidence_text

WORST = 8
"""Number of errors that are reported in full."""


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
