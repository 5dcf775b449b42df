"""Checks evidence states before they reach the model."""

import operator
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from typing import NamedTuple

from schemas.bands import NumberError, by_numbers
from schemas.evidence import MAX_CODE_LENGTH, Vocabulary, unknown_message
from schemas.features import MOST_QUESTIONS
from schemas.model_directory import ModelInfo
from schemas.relations import Contradiction
from serving.errors import UNKNOWN_CODE, Fault, FaultyRequestError
from serving.messages import codes_of
from triage.v1 import triage_pb2

_CLEAR_STATUSES = frozenset({triage_pb2.EVIDENCE_STATUS_PRESENT, triage_pb2.EVIDENCE_STATUS_ABSENT})
_CODE, _STATUS = operator.attrgetter("code"), operator.attrgetter("status")
_MAX_FAULTS = 10
"""Faults that one message lists; finding similar codes takes time, and a status message has little room."""


class RequestLimits(NamedTuple):
    """What a request may hold."""

    vocabulary: Vocabulary
    max_batch: int
    max_evidence: int
    allow_unknown_codes: bool = False
    allow_contradictions: bool = False


def are_clear(states: Sequence[triage_pb2.EvidenceState], limits: RequestLimits) -> bool:
    """Returns whether states are faultless at a glance. Others may be too: `check_states` decides, and takes longer."""
    return len(states) <= limits.max_batch and all(_is_clear(state, limits) for state in states)


def check_states(states: Sequence[triage_pb2.EvidenceState], limits: RequestLimits, batch: bool) -> None:
    """Refuses faulty states, and puts the codes of their bands in place of numbers, see `schemas.bands`.

    The states of a batch are numbered in errors.

    Raises:
        FaultyRequestError: a state is faulty; the message names the field and says what was expected.
    """
    check_number(len(states), limits.max_batch)
    faults: list[Fault] = []
    for number, state in enumerate(states):
        if _is_clear(state, limits):
            continue
        for fault in _state_faults(state, f"states[{number}]" if batch else "state", limits):
            if len(faults) == _MAX_FAULTS:
                raise FaultyRequestError(faults, more=True)
            faults.append(fault)
    if faults:
        raise FaultyRequestError(faults)


def check_number(number: int, limit: int, field: str = "states") -> None:
    """Refuses more states in one call than the server takes.

    Raises:
        FaultyRequestError: there are more in `field`.
    """
    if number > limit:
        description = f"{number} states in one call: the server takes at most {limit}"
        raise FaultyRequestError([Fault(field, description, "TOO_MANY_STATES")])


def check_questions(number: int, path: str, info: ModelInfo) -> None:
    """Refuses a number of questions that is out of range, or that the model cannot choose.

    Raises:
        FaultyRequestError: the message names the field at `path`.
    """
    if not 0 <= number <= MOST_QUESTIONS:
        description = f"{number}: expected a number from 0 to {MOST_QUESTIONS}"
        raise FaultyRequestError([Fault(path, description, "TOO_MANY_QUESTIONS")])
    if number and not info.questions:
        description = (
            f"model version {info.model_version} cannot choose questions, as it was exported without: leave the field "
            "out, or train on at least 100 vignettes and export the model again"
        )
        raise FaultyRequestError([Fault(path, description, "NO_QUESTIONS")])


def check_deferral(defer_below: float | None, path: str) -> None:
    """Refuses a value that is not a probability.

    Raises:
        FaultyRequestError: the message names the field at `path`.
    """
    if defer_below is not None and not 0 <= defer_below <= 1:
        raise FaultyRequestError([Fault(path, f"{defer_below:g}: expected a number from 0 to 1", "NO_PROBABILITY")])


def check_codes(number: int, limits: RequestLimits, field: str) -> None:
    """Refuses more codes than a state may hold.

    Raises:
        FaultyRequestError: there are more in `field`.
    """
    limit = max(limits.max_evidence, len(limits.vocabulary))
    if number > limit:
        description = f"{number} codes: the server takes at most {limit}"
        raise FaultyRequestError([Fault(field, description, "TOO_MANY_CODES")])


def check_not_to_ask(codes: Sequence[str], limits: RequestLimits) -> None:
    """Refuses more codes than a state may hold, and those that the vocabulary lacks.

    Raises:
        FaultyRequestError: there are such.
    """
    check_codes(len(codes), limits, "not_to_ask")
    if not (limits.allow_unknown_codes or limits.vocabulary.has_all(set(codes))):
        unknown = [place for place, code in enumerate(codes) if code not in limits.vocabulary]
        faults = [_unknown(f"not_to_ask[{place}]", codes[place], limits) for place in unknown[:_MAX_FAULTS]]
        raise FaultyRequestError(faults, more=len(unknown) > _MAX_FAULTS)


def contradictions(state: triage_pb2.EvidenceState, vocabulary: Vocabulary) -> Iterator[Contradiction]:
    """Yields contradictions, by the vocabulary's relations."""
    present, absent = codes_of(state)
    return vocabulary.relations.contradictions(dict.fromkeys(present), frozenset(absent))


def _is_clear(state: triage_pb2.EvidenceState, limits: RequestLimits) -> bool:
    """Returns whether a state is faultless at a glance, with little Python per piece of evidence."""
    if len(state.evidence) > limits.max_evidence:
        return False  # before the list: making a long one takes quadratic time
    pieces = list(state.evidence)
    codes, statuses = list(map(_CODE, pieces)), list(map(_STATUS, pieces))
    distinct = set(codes)
    present = list(compress(codes, map(triage_pb2.EVIDENCE_STATUS_PRESENT.__eq__, statuses)))
    return (
        0 < len(codes) == len(distinct)
        and limits.vocabulary.has_all(distinct)
        and set(statuses) <= _CLEAR_STATUSES
        and not any(limits.vocabulary.relations.contradictions(present, distinct.difference(present)))
        and state.questions_asked >= 0
        and state.max_questions >= 0
    )


def _state_faults(state: triage_pb2.EvidenceState, path: str, limits: RequestLimits) -> Iterator[Fault]:
    """Yields what is wrong with the state at `path`."""
    for field in ("questions_asked", "max_questions"):
        if getattr(state, field) < 0:
            yield Fault(f"{path}.{field}", f"{getattr(state, field)} is negative", "NEGATIVE_NUMBER")
    place = f"{path}.evidence"
    limit = max(limits.max_evidence, len(limits.vocabulary))
    if len(state.evidence) > limit:
        description = f"{len(state.evidence)} pieces of evidence: the server takes at most {limit} in one state"
        yield Fault(place, description, "TOO_MUCH_EVIDENCE")
        return
    try:
        places, numbers = _read_numbers(state, limits.vocabulary)
    except NumberError as error:
        number = [piece.code for piece in state.evidence].index(error.text)
        yield Fault(f"{place}[{number}].code", str(error), "FAULTY_NUMBER")
        return
    yield from _evidence_faults(state, place, places, numbers, limits)


def _read_numbers(state: triage_pb2.EvidenceState, vocabulary: Vocabulary) -> tuple[Sequence[int], Mapping[str, str]]:
    """Puts codes in place of the numbers that are present; returns the place that each piece had, and numbers by code.

    Raises:
        NumberError: one of the numbers is faulty.
    """
    pieces = list(state.evidence)
    present = [piece.code if piece.status == triage_pb2.EVIDENCE_STATUS_PRESENT else "" for piece in pieces]
    findings = list(vocabulary.bands.read(present))
    if not findings:
        return range(len(pieces)), {}
    kept = [(place, piece) for place, piece in enumerate(pieces) if not vocabulary.bands.is_number(present[place])]
    for code, there, place in findings:
        status = triage_pb2.EVIDENCE_STATUS_PRESENT if there else triage_pb2.EVIDENCE_STATUS_ABSENT
        kept.append((place, triage_pb2.Evidence(code=code, status=status)))
    del state.evidence[:]
    state.evidence.extend(piece for _, piece in kept)
    return [place for place, _ in kept], {code: present[place] for code, _, place in findings}


def _evidence_faults(
    state: triage_pb2.EvidenceState, path: str, places: Sequence[int], numbers: Mapping[str, str], limits: RequestLimits
) -> Iterator[Fault]:
    first: dict[str, tuple[int, int]] = {}  # code -> index and status of its first occurrence
    for number, evidence in zip(places, state.evidence, strict=True):
        place = f"{path}[{number}]"
        code = evidence.code[:MAX_CODE_LENGTH]
        if not evidence.code:
            yield Fault(f"{place}.code", "empty", "EMPTY_CODE")
            continue
        if len(evidence.code) > MAX_CODE_LENGTH:
            description = f"{code[:32]!r}... is longer than {MAX_CODE_LENGTH} characters"
            yield Fault(f"{place}.code", description, "LONG_CODE")
            continue
        if evidence.status not in _CLEAR_STATUSES:
            description = f"of {code!r}: expected PRESENT or ABSENT; leave out what is not known"
            yield Fault(f"{place}.status", description, "STATUS_UNSPECIFIED")
            continue
        if evidence.code not in limits.vocabulary and not limits.allow_unknown_codes:
            yield _unknown(f"{place}.code", evidence.code, limits)
        earlier, status = first.setdefault(evidence.code, (number, evidence.status))
        if status != evidence.status and not limits.allow_contradictions:
            description = f"{code!r} is both present and absent{by_numbers(numbers, code)} (see evidence[{earlier}])"
            yield Fault(place, description, "CONTRADICTORY_EVIDENCE")
    if not limits.allow_contradictions:
        for contradiction in contradictions(state, limits.vocabulary):
            (number, _), (other, _) = first[contradiction.code], first[contradiction.other]
            said = f"{contradiction}{by_numbers(numbers, contradiction.code, contradiction.other)}"
            yield Fault(f"{path}[{number}]", f"{said} (see evidence[{other}])", "CONTRADICTORY_EVIDENCE")


def _unknown(field: str, code: str, limits: RequestLimits) -> Fault:
    near = tuple(limits.vocabulary.nearest(code))
    return Fault(field, unknown_message(code, near), UNKNOWN_CODE, code[:MAX_CODE_LENGTH], near)
