"""Hands a case over to a person: a third outcome beside asking and triaging, for callers who want it."""

from collections.abc import Iterable, Sequence

from schemas.evidence import Vocabulary
from schemas.triage import action_on_wire, deferral_flags, may_be_red
from serving.messages import goes_on
from serving.service.validation import contradictions
from triage.v1 import triage_pb2

_REASONS = (
    triage_pb2.DEFERRAL_REASON_CONTRADICTORY, triage_pb2.DEFERRAL_REASON_NOVEL, triage_pb2.DEFERRAL_REASON_UNSURE,
)  # fmt: skip


def defer(
    states: Sequence[triage_pb2.EvidenceState],
    responses: Iterable[triage_pb2.TriageResponse],
    vocabulary: Vocabulary,
    defer_below: float | None,
    hand_over_from: float | None = None,
    put: bool = False,
) -> None:
    """Sets `deferred` in the responses that are handed over, without questions; none is where `defer_below` is None.

    Codes that cannot be so together are added to `conflicting_codes`.

    Args:
        states: what is known.
        responses: to the states, after the safety rules.
        vocabulary: with its relations.
        defer_below: P(safe) of the decision below which none is safe enough.
        hand_over_from: of the model, see `schemas.model_directory.ModelInfo`.
        put: whether the responses hold the questions that are left. They then say whether the interview goes on: an
            agent that asks without a question that is worth asking has decided, and one that has decided may still
            ask for age, sex or a red flag.
    """
    if defer_below is None:
        return
    for state, response in zip(states, responses, strict=True):
        together = (code for each in contradictions(state, vocabulary) for code in (each.code, each.other))
        listed = frozenset(response.conflicting_codes)
        response.conflicting_codes.extend(code for code in dict.fromkeys(together) if code not in listed)
        chances = {each.decision: each for each in response.probabilities}
        asks, best = response.action == triage_pb2.TRIAGE_ACTION_ASK, response.best_triage
        if put and not response.forced:
            asks = bool(response.next_questions) and goes_on(response)
        unsure = best in chances and chances[best].safe < defer_below
        if chances and hand_over_from is not None:
            red = chances[triage_pb2.TRIAGE_ACTION_RED].appropriate
            unsure |= may_be_red(action_on_wire(best), red, hand_over_from)
        flags = deferral_flags(bool(response.conflicting_codes), asks, response.is_novel, unsure)
        if any(flags):
            response.deferred = _REASONS[flags.index(True)]
            del response.next_questions[:]
