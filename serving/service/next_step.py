"""What comes next after an answer: a question, a decision, or a person who takes over, for callers who want that."""

from collections.abc import Iterable, Sequence

from schemas.evidence import Vocabulary
from schemas.triage import Action, action_on_wire, is_unsure, next_step
from serving.service.validation import contradictions
from triage.v1 import triage_pb2

_REASONS = (
    triage_pb2.DEFERRAL_REASON_CONTRADICTORY, triage_pb2.DEFERRAL_REASON_NOVEL, triage_pb2.DEFERRAL_REASON_UNSURE,
)  # fmt: skip


def set_next_step(
    states: Sequence[triage_pb2.EvidenceState],
    responses: Iterable[triage_pb2.TriageResponse],
    vocabulary: Vocabulary,
    defer_below: float | None,
    hand_over_from: float | None = None,
    with_questions: bool = False,
) -> None:
    """Sets `next` in each response, and `deferred` in those that are handed over, which lose their questions.

    None is deferred where `defer_below` is None. Otherwise codes that cannot be so together are added to
    `conflicting_codes`.

    Args:
        states: what is known.
        responses: to the states, after the safety rules.
        vocabulary: with its relations.
        defer_below: P(safe) of the decision below which none is safe enough.
        hand_over_from: of the model, see `schemas.model_directory.ModelInfo`.
        with_questions: whether the responses hold the questions that are left. Only they tell whether an agent that
            asks has one that is worth asking, and whether one that has decided must still ask for age, sex or a red
            flag.
    """
    for state, response in zip(states, responses, strict=True):
        action, best = action_on_wire(response.action), action_on_wire(response.best_triage)
        known = {}
        if with_questions:
            questions, red_flag = response.next_questions, triage_pb2.QUESTION_REASON_RED_FLAG
            known["nothing_known"] = action == Action.ASK and _nothing_known(state, response)
            known["worth_asking"] = any(question.worth_asking for question in questions)
            known["must_ask"] = any(each.one_of or each.reason == red_flag for each in questions)
        if defer_below is not None:
            _report_contradictions(state, response, vocabulary)
            known["contradictory"] = bool(response.conflicting_codes)
            known["is_novel"] = response.is_novel
            known["unsure"] = _is_unsure(response, best, defer_below, hand_over_from)
        step = next_step(action, best, response.forced, **known)
        if any(step.reasons):
            response.deferred = _REASONS[step.reasons.index(True)]
            del response.next_questions[:]
        if step.hand_over:
            response.next = triage_pb2.NEXT_STEP_HAND_OVER
        else:
            response.next = triage_pb2.NEXT_STEP_ASK if step.ask else triage_pb2.NEXT_STEP_DECIDE


def _nothing_known(state: triage_pb2.EvidenceState, response: triage_pb2.TriageResponse) -> bool:
    without_part = {*response.unknown_codes, *response.conflicting_codes}
    return all(piece.code in without_part for piece in state.evidence)


def _report_contradictions(
    state: triage_pb2.EvidenceState, response: triage_pb2.TriageResponse, vocabulary: Vocabulary
) -> None:
    together = (code for each in contradictions(state, vocabulary) for code in (each.code, each.other))
    listed = frozenset(response.conflicting_codes)
    response.conflicting_codes.extend(code for code in dict.fromkeys(together) if code not in listed)


def _is_unsure(
    response: triage_pb2.TriageResponse, best: Action, defer_below: float, hand_over_from: float | None
) -> bool:
    chances = {each.decision: each for each in response.probabilities}
    if not chances:
        return False
    red = chances[triage_pb2.TRIAGE_ACTION_RED].appropriate
    return bool(is_unsure(best, chances[response.best_triage].safe, red, defer_below, hand_over_from))
