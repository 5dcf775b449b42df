"""Hands a case over to a person: a third outcome beside asking and triaging, for callers who want it."""

from collections.abc import Iterable, Sequence

from schemas.evidence import Vocabulary
from serving.triage.validation import contradictions
from triage.v1 import triage_pb2


def defer(
    states: Sequence[triage_pb2.EvidenceState],
    responses: Iterable[triage_pb2.TriageResponse],
    vocabulary: Vocabulary,
    defer_below: float | None,
) -> None:
    """Sets `deferred` in the responses that are handed over; none is where `defer_below` is None.

    Codes that cannot be so together are added to `conflicting_codes`.

    Args:
        states: what is known.
        responses: to the states, after the safety rules.
        vocabulary: with its relations.
        defer_below: P(safe) of the decision below which none is safe enough.
    """
    if defer_below is None:
        return
    for state, response in zip(states, responses, strict=True):
        together = (code for found in contradictions(state, vocabulary) for code in (found.code, found.other))
        listed = frozenset(response.conflicting_codes)
        response.conflicting_codes.extend(code for code in dict.fromkeys(together) if code not in listed)
        reason = _reason(response, defer_below)
        if reason is not None:
            response.deferred = reason


def _reason(response: triage_pb2.TriageResponse, defer_below: float) -> triage_pb2.DeferralReason | None:
    if response.conflicting_codes:
        return triage_pb2.DEFERRAL_REASON_CONTRADICTORY
    if response.action == triage_pb2.TRIAGE_ACTION_ASK:
        return None
    if response.is_novel:
        return triage_pb2.DEFERRAL_REASON_NOVEL
    safe = (each.safe for each in response.probabilities if each.decision == response.best_triage)
    return triage_pb2.DEFERRAL_REASON_UNSURE if any(each < defer_below for each in safe) else None
