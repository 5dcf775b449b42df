"""Explains an answer: the same model is asked again, with pieces of evidence left out or added.

What counts is the best triage decision after the safety rules, so that an explanation never names a piece that only the
model minds, and a rule overrules.
"""

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from schemas.evidence import Vocabulary
from serving.errors import Fault, FaultyRequestError
from serving.messages import LEAST_SUPPORT, MOST_EXPLAINED
from triage.v1 import triage_pb2

_MOST_SETS = 500
"""Sets of pieces that are tried, the smallest first: all those of up to four of ten pieces, of up to two of thirty."""

_KNOWN = {triage_pb2.EVIDENCE_STATUS_PRESENT: True, triage_pb2.EVIDENCE_STATUS_ABSENT: False}
Ask = Callable[[Sequence[triage_pb2.EvidenceState]], Sequence[triage_pb2.TriageResponse]]
AskAbout = Callable[[Sequence[Sequence[triage_pb2.Evidence]]], Sequence[triage_pb2.TriageResponse]]
"""Answers the state with other pieces: with each of some sets of its own, and with what follows from them."""


def check_explainable(state: triage_pb2.EvidenceState) -> None:
    """Refuses a state with more pieces of evidence than can be explained.

    Raises:
        FaultyRequestError: there are more.
    """
    if len(state.evidence) > MOST_EXPLAINED:
        description = f"{len(state.evidence)} pieces of evidence: expected at most {MOST_EXPLAINED} to explain"
        raise FaultyRequestError([Fault("explain", description, "TOO_MUCH_EVIDENCE")])


def explain(
    state: triage_pb2.EvidenceState,
    response: triage_pb2.TriageResponse,
    questions: Sequence[triage_pb2.NextQuestion],
    vocabulary: Vocabulary,
    ask: Ask,
) -> triage_pb2.Explanation:
    """Explains the best triage decision of `response`.

    What follows from another piece comes and goes with it and is not named: chest pain with crushing chest pain. The
    answers to the best `questions` may turn the decision; `ask` answers states in one run of the model.
    """
    known = {(piece.code, _KNOWN[piece.status]): piece for piece in state.evidence if piece.status in _KNOWN}
    pieces = [known[status] for status in vocabulary.relations.independent(list(known))]

    def ask_about(sets: Sequence[Sequence[triage_pb2.Evidence]]) -> Sequence[triage_pb2.TriageResponse]:
        statuses = [{(piece.code, _KNOWN[piece.status]) for piece in each} for each in sets]
        closed = [each.union(*map(vocabulary.relations.following, each)) for each in statuses]
        states = [_with(state, [piece for status, piece in known.items() if status in each]) for each in closed]
        return ask(states) if states else []

    complaint, others = pieces[:1], pieces[1:]
    answers = ask_about([*_without_each(pieces), complaint, *([*complaint, piece] for piece in others)])
    without, alone, beside_complaint = answers[: len(pieces)], answers[len(pieces)], answers[len(pieces) + 1 :]
    here, decision = _values(response), response.best_triage
    removed = [_value_of(response, decision) - _value_of(answer, decision) for answer in without]
    added = [_value_of(answer, decision) - _value_of(alone, decision) for answer in beside_complaint]
    effects = [
        triage_pb2.EvidenceEffect(
            evidence=piece,
            effect=float(np.abs(_values(answer) - here).mean()),
            best_triage_without=answer.best_triage,
            support=0.0 if _is_unclear(piece, change, other, response, answer, vocabulary) else change,
        )
        for piece, answer, change, other in zip(pieces, without, removed, [*removed[:1], *added], strict=True)
    ]
    effects.sort(key=lambda each: -each.effect)
    return triage_pb2.Explanation(
        effects=effects,
        sufficient=_sufficient(response, effects, ask_about),
        turning=_turning(state, response, questions, vocabulary, ask),
    )


def _is_unclear(
    piece: triage_pb2.Evidence,
    removed: float,
    added: float,
    response: triage_pb2.TriageResponse,
    without: triage_pb2.TriageResponse,
    vocabulary: Vocabulary,
) -> bool:
    """Returns whether the effect of a piece on the decision is neither only "for" nor only "against".

    So it is where leaving it out of all pieces and adding it to the complaint alone do not have the same sign, and
    where a denial would speak for Red, or a danger sign against it, which no clinician would believe. A piece that a
    fired rule needs for the decision is clear.

    Args:
        piece: one of those in the state.
        removed: by how much it raises the value of the decision beside all others.
        added: the same beside the complaint alone.
        response: the answer to the state.
        without: the answer to the state without the piece.
        vocabulary: says which pieces are danger signs.
    """
    turns = without.best_triage != response.best_triage
    needed = {rule.rule_id for rule in response.fired_rules} - {rule.rule_id for rule in without.fired_rules}
    if (turns and needed) or not (turns or abs(removed) >= LEAST_SUPPORT):
        return False
    is_denial = piece.status == triage_pb2.EVIDENCE_STATUS_ABSENT
    against = is_denial if removed > 0 else _is_danger(piece, vocabulary)
    return bool(removed * added <= 0 or (against and response.best_triage == triage_pb2.TRIAGE_ACTION_RED))


def _is_danger(piece: triage_pb2.Evidence, vocabulary: Vocabulary) -> bool:
    """Returns whether a piece is a danger sign that is present."""
    known = piece.status == triage_pb2.EVIDENCE_STATUS_PRESENT and piece.code in vocabulary
    return known and bool(vocabulary[vocabulary.index(piece.code)].red_flag)


def give_rationales(state: triage_pb2.EvidenceState, response: triage_pb2.TriageResponse, ask: Ask) -> None:
    """Sets the rationale of each question that `response` suggests: the reason of the rule that a yes would fire.

    Of several codes in one question, each has its own, and the question that of the first that would fire one.
    """
    asked = [(question, code) for question in response.next_questions for code in question.any_of or [question.code]]
    if not asked:
        return
    fired = {rule.rule_id for rule in response.fired_rules}
    present = triage_pb2.EVIDENCE_STATUS_PRESENT
    yes = [[*state.evidence, triage_pb2.Evidence(code=code, status=present)] for _, code in asked]
    for (question, _), answer in zip(asked, ask([_with(state, pieces) for pieces in yes]), strict=True):
        reason = next((rule.reason for rule in answer.fired_rules if rule.rule_id not in fired), "")
        question.rationale = question.rationale or reason
        if question.any_of:
            question.rationales.append(reason)


def _sufficient(
    response: triage_pb2.TriageResponse, effects: Sequence[triage_pb2.EvidenceEffect], ask_about: AskAbout
) -> list[triage_pb2.Evidence]:
    """Returns the smallest set that gives the decision, with the strongest pieces if there are several.

    Where there are too many sets to try, it may not be the smallest, but nothing can be left out of it.
    """
    pieces, tried = [each.evidence for each in effects], 0
    kept = _irreducible(response, effects, ask_about)
    for size in range(1, len(kept)):
        sets = list(itertools.islice(itertools.combinations(pieces, size), _MOST_SETS + 1))
        tried += len(sets)
        if tried > _MOST_SETS:
            break
        for smaller, answer in zip(sets, ask_about(sets), strict=True):
            if answer.best_triage == response.best_triage:
                return list(smaller)
    return kept


def _irreducible(
    response: triage_pb2.TriageResponse, effects: Sequence[triage_pb2.EvidenceEffect], ask_about: AskAbout
) -> list[triage_pb2.Evidence]:
    """Returns a set from which nothing can be left out, by leaving out pieces one by one, the weakest first."""
    kept = [each.evidence for each in reversed(effects)]
    without = [each.best_triage_without for each in reversed(effects)]
    while len(kept) > 1 and response.best_triage in without:
        del kept[without.index(response.best_triage)]
        without = [answer.best_triage for answer in ask_about(_without_each(kept))]
    return kept[::-1]


def _turning(
    state: triage_pb2.EvidenceState,
    response: triage_pb2.TriageResponse,
    questions: Sequence[triage_pb2.NextQuestion],
    vocabulary: Vocabulary,
    ask: Ask,
) -> list[triage_pb2.TurningAnswer]:
    """Returns the answers that turn the decision, save for danger signs that would make it less urgent."""
    possible = [
        (triage_pb2.Evidence(code=question.code, status=status), likely)
        for question in questions
        for status, likely in (
            (triage_pb2.EVIDENCE_STATUS_PRESENT, question.likely),
            (triage_pb2.EVIDENCE_STATUS_ABSENT, 1 - question.likely),
        )
    ]
    if not possible:
        return []
    answers = ask([_with(state, [*state.evidence, piece]) for piece, _ in possible])
    turning = [
        triage_pb2.TurningAnswer(evidence=piece, best_triage=answer.best_triage, likely=likely)
        for (piece, likely), answer in zip(possible, answers, strict=True)
        if answer.best_triage < response.best_triage
        or (answer.best_triage > response.best_triage and not _is_danger(piece, vocabulary))
    ]
    return sorted(turning, key=lambda each: -each.likely)


def _without_each(pieces: Sequence[triage_pb2.Evidence]) -> list[list[triage_pb2.Evidence]]:
    """Returns `pieces` without the first of them, without the second, and so on."""
    return [[*pieces[:place], *pieces[place + 1 :]] for place in range(len(pieces))]


def _with(state: triage_pb2.EvidenceState, pieces: Sequence[triage_pb2.Evidence]) -> triage_pb2.EvidenceState:
    """Returns the state with these pieces alone."""
    changed = triage_pb2.EvidenceState()
    changed.CopyFrom(state)
    del changed.evidence[:]
    changed.evidence.extend(pieces)
    return changed


def _values(response: triage_pb2.TriageResponse) -> np.ndarray:
    """Returns the model's values of the decisions, float64 `[8]` or `[4]`."""
    if response.probabilities:
        return np.array([value for each in response.probabilities for value in (each.appropriate, each.safe)])
    return np.array([q_value.value for q_value in response.q_values[:-1]])


def _value_of(response: triage_pb2.TriageResponse, decision: int) -> float:
    """Returns the model's value of one decision: the probability that it is appropriate, or its Q-value."""
    if response.probabilities:
        return next((each.appropriate for each in response.probabilities if each.decision == decision), 0.0)
    return next((each.value for each in response.q_values if each.action == decision), 0.0)
