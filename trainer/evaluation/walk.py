"""Episodes of an agent question by question, and the vignettes on which it errs most."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from schemas.evidence import Vocabulary
from schemas.safety_rules import NO_RULES, RuleSet
from schemas.triage import ACTION_LABELS, DECISION_LABELS, NUM_DECISIONS, Action
from trainer.data import state
from trainer.data.arrays import VignetteArrays
from trainer.data.vignette import evidence_text
from trainer.dyqn.rollout import Outcomes
from trainer.evaluation import metrics
from trainer.graph import decide
from trainer.graph.decide import NEUTRAL, OperatingPoint
from trainer.graph.questions import Network
from trainer.graph.rules import RuleGraph

WORST = 8
"""Number of errors that are reported in full."""


class GreedyAgent(NamedTuple):
    """An agent that decides greedily."""

    network: Network
    vocabulary: Vocabulary
    max_questions: int
    operating_point: OperatingPoint = NEUTRAL
    rules: RuleSet = NO_RULES  # not obeyed here: reports name those that would have made a decision more urgent


class Walk(NamedTuple):
    """One episode, question by question."""

    codes: list[int]  # signed codes in the order in which they are revealed
    values: np.ndarray  # float [pieces, 5]: after each piece of evidence, see `decide.with_floor`
    decided_after: int  # pieces known at the decision
    questions: int  # including those asked after the evidence had run out
    decision: int


def walk(codes: list[int], q: np.ndarray, max_questions: int, point: OperatingPoint = NEUTRAL) -> Walk:
    """Returns the episode of the greedy agent over one evidence order; the first piece is known at the start.

    Asking when no evidence is left reveals nothing: the agent sees the same state, and asks until it is forced. The
    Q-values `q`, float `[n, A]`, are those in the states after 1, 2, ... of the n signed `codes`, in their order.
    """
    known = min(len(codes), max_questions + 1)
    here = tf.constant(q, tf.float32)
    anything: np.ndarray = np.ones(len(codes), bool)
    actions = decide.decide(here, ~anything, anything, point).numpy()
    stops = np.flatnonzero(actions[:known] != Action.ASK)
    stopped = len(stops) > 0 and stops[0] < max_questions
    pieces = int(stops[0]) + 1 if stopped else known
    best = decide.best_triage(here).numpy()
    return Walk(
        codes,
        decide.with_floor(here, point).numpy(),
        pieces,
        pieces - 1 if stopped else max_questions,
        int(best[pieces - 1]),
    )


def worst_errors(outcomes: Outcomes, decision_counts: np.ndarray) -> list[int]:
    """Returns the places of the vignettes with the worst under-triage, the worst first, at most `WORST`.

    The measure is the mean over the evidence orders of the number of levels by which the decision was less urgent than
    the least urgent clinician's. Of equal ones, the most urgent vignettes come first, in their order.
    """
    _, least = metrics.urgency_range(decision_counts)
    short = np.maximum(outcomes.decisions - least, 0).mean(axis=0)  # [V]
    order = np.lexsort((least, -short))[:WORST]
    return [int(row) for row in order if short[row] > 0]


def worst_cases(
    agent: GreedyAgent, outcomes: Outcomes, vignettes: VignetteArrays, orders: Sequence[int]
) -> list[dict[str, Any]]:
    """Returns a report of each of the `worst_errors`, in the evidence order with the least urgent decision.

    The seeds `orders` differ from those of the `outcomes`: a vignette on which the agent errs in none is left out.
    """
    reports = []
    _, least = metrics.urgency_range(vignettes.decision_counts)
    for row in worst_errors(outcomes, vignettes.decision_counts):
        codes = vignettes.signed_codes[vignettes.offsets[row] : vignettes.offsets[row + 1]]
        walks = (_walk_shuffled(agent, codes, order) for order in orders)
        worst = max(walks, key=lambda episode: episode.decision)
        if worst.decision <= least[row]:
            continue
        known = worst.codes[: worst.decided_after]
        moved = effects(known, len(agent.vocabulary), agent.network)
        reports.append(error_report(row, worst, moved.tolist(), vignettes, agent.vocabulary, agent.rules))
    return reports


def _walk_shuffled(agent: GreedyAgent, codes: np.ndarray, order: int) -> Walk:
    shuffled = np.random.default_rng(order).permutation(codes).astype(np.int32)
    states = state.from_signed_codes(tf.constant(np.tril(np.tile(shuffled, [len(codes), 1]))), len(agent.vocabulary))
    return walk(shuffled.tolist(), np.asarray(agent.network(states)["q"]), agent.max_questions, agent.operating_point)


def error_report(
    row: int,
    episode: Walk,
    moved: Sequence[float],
    vignettes: VignetteArrays,
    vocabulary: Vocabulary,
    rules: RuleSet = NO_RULES,
) -> dict[str, Any]:
    """Returns an error for a report: a vignette as text, the episode, and why it ended as it did.

    It names those of the `rules` that would have made the decision more urgent. `moved` is the effect of each piece
    that was known at the decision, in their order, see `effects`.
    """
    codes = episode.codes
    vignette = vignettes.vignette(row, vocabulary)
    known = tf.constant([codes[: episode.decided_after]], tf.int32)
    fired = (
        RuleGraph(rules.rules, vocabulary).fired(state.from_signed_codes(known, len(vocabulary)))[0] if rules else ()
    )
    return {
        "vignette_id": vignette.vignette_id,
        "text": evidence_text(vignette, vocabulary),
        "pieces": {"known": episode.decided_after, "all": len(codes)},
        "rules": [
            {"rule_id": rule.rule_id, "reason": rule.reason, "urgency": rule.urgency.label}
            for rule, fires in zip(rules, fired, strict=True)
            if rule.urgency < episode.decision and fires
        ],
        "decisions": [each.label for each in vignette.decisions],
        "decision": DECISION_LABELS[episode.decision],
        "steps": [_step(asked, episode, vocabulary) for asked in range(episode.questions + 1)],
        "effects": [
            {**_piece(code, vocabulary), "effect": round(float(effect), 6)}
            for effect, code in sorted(zip(moved, codes, strict=False), key=lambda pair: -pair[0])
        ],
    }


def _piece(code: int, vocabulary: Vocabulary) -> dict[str, Any]:
    return {"evidence": vocabulary[abs(code) - 1].name, "presence": "present" if code > 0 else "absent"}


def _step(asked: int, episode: Walk, vocabulary: Vocabulary) -> dict[str, Any]:
    """Returns what the agent sees and does after `asked` questions."""
    in_vain = asked >= len(episode.codes)
    place = min(asked, len(episode.codes) - 1)
    nothing = {"evidence": "nothing new", "presence": None}
    values = (round(float(value), 6) for value in episode.values[place])
    return {
        **(nothing if in_vain else _piece(episode.codes[place], vocabulary)),
        "values": dict(zip(ACTION_LABELS, values, strict=True)),
        "action": DECISION_LABELS[episode.decision] if asked == episode.questions else Action.ASK.label,
    }


def effects(codes: Sequence[int], evidence_count: int, network: Network) -> np.ndarray:
    """Returns how much leaving out each of n signed codes changes the network's outputs, float `[n]`.

    It is the mean absolute change of P(appropriate) and P(safe) of each decision, or of its Q-values for a network
    without probabilities. The server's `explain` (`serving.service.explanation`) gives the same for a state, after
    the safety rules.
    """
    known = np.tile(np.asarray(codes, np.int32), [len(codes) + 1, 1])
    np.fill_diagonal(known[1:], 0)
    heads = network(state.from_signed_codes(tf.constant(known), evidence_count))
    said = [heads[name] for name in ("appropriate", "safe") if name in heads] or [heads["q"][:, :NUM_DECISIONS]]
    here, *without = np.concatenate(said, axis=1)
    return np.abs(without - here).mean(axis=1)
