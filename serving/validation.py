"""What an evidence state must be before it may reach the model."""

import dataclasses
from collections.abc import Iterator, Sequence

from schemas.errors import InputError
from schemas.evidence import Vocabulary
from triage.v1 import triage_pb2

_STATUSES = (triage_pb2.EVIDENCE_STATUS_PRESENT, triage_pb2.EVIDENCE_STATUS_ABSENT)
_MAX_FAULTS = 10
"""Faults that one message tells; finding the nearest codes costs time, and a status message has little room."""


@dataclasses.dataclass(frozen=True)
class Rules:
    """What a request may hold."""

    vocabulary: Vocabulary
    max_batch: int
    max_evidence: int
    allow_unknown_codes: bool = False


def check_states(states: Sequence[triage_pb2.EvidenceState], rules: Rules, batch: bool) -> None:
    """Refuses states that have no clear answer.

    Args:
        states: the states of one request.
        rules: what a request may hold.
        batch: whether the request is a batch, in which errors number the states.

    Raises:
        InputError: a state is faulty; the message names the field and says what was expected.
    """
    if len(states) > rules.max_batch:
        raise InputError(f"states: {len(states)} states in one call: the server takes at most {rules.max_batch}")
    faults: list[str] = []
    for number, state in enumerate(states):
        place = f"states[{number}]" if batch else "state"
        for fault in _state_faults(state, rules):
            if len(faults) == _MAX_FAULTS:
                raise InputError("; ".join([*faults, "and more"]))
            faults.append(f"{place}{fault}")
    if faults:
        raise InputError("; ".join(faults))


def _state_faults(state: triage_pb2.EvidenceState, rules: Rules) -> Iterator[str]:
    """Yields what is wrong with one state, each fault beginning where the path to the state ends."""
    for field in ("questions_asked", "max_questions"):
        if getattr(state, field) < 0:
            yield f".{field}: {getattr(state, field)} is negative"
    limit = max(rules.max_evidence, len(rules.vocabulary))
    if len(state.evidence) > limit:
        yield f".evidence: {len(state.evidence)} pieces of evidence: the server takes at most {limit} in one state"
        return
    yield from _evidence_faults(state, rules)
    if not state.evidence:
        yield ".evidence: empty: give at least one piece of evidence that is present or absent"
    elif rules.allow_unknown_codes and not any(evidence.code in rules.vocabulary for evidence in state.evidence):
        yield ".evidence: the model knows none of the codes: give at least one piece of evidence that it knows"


def _evidence_faults(state: triage_pb2.EvidenceState, rules: Rules) -> Iterator[str]:
    first: dict[str, tuple[int, int]] = {}  # from code to where it came first, and its status
    for number, evidence in enumerate(state.evidence):
        place = f".evidence[{number}]"
        if not evidence.code:
            yield f"{place}.code: empty"
            continue
        if evidence.status not in _STATUSES:
            yield f"{place}.status: of {evidence.code[:128]!r}: expected PRESENT or ABSENT; leave out what is not known"
            continue
        if evidence.code not in rules.vocabulary and not rules.allow_unknown_codes:
            yield f"{place}.code: {rules.vocabulary.unknown_message(evidence.code)}"
        earlier, status = first.setdefault(evidence.code, (number, evidence.status))
        if status != evidence.status:
            yield f"{place}: {evidence.code[:128]!r} is both present and absent (see evidence[{earlier}])"
