"""Encodes messages as state vectors, in the same way as the graph of `serving_default`.

For a single state, looking codes up in the graph takes longer than the network itself, so engines in this process do it
here. No line of Python runs once per piece of evidence.
"""

import operator
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise, repeat
from typing import Any, NamedTuple

import numpy as np

from schemas import features
from schemas.evidence import Vocabulary
from serving.models.state_tensors import pad_rows, questions_asked
from triage.v1 import triage_pb2

_CODE, _STATUS = operator.attrgetter("code"), operator.attrgetter("status")
_UNKNOWN = -1
QUESTION_OUTPUTS = (
    features.QUESTION_CODES, features.QUESTION_GAINS, features.QUESTION_LIKELY, features.QUESTION_RED_FLAGS,
)  # fmt: skip
"""The outputs that `to_questions` reads."""


class Encoded(NamedTuple):
    """States, and the codes that are not part of them."""

    states: np.ndarray  # float32 [B, E] in {-1, 0, 1}
    questions_asked: np.ndarray  # int32 [B]
    unknown_codes: np.ndarray  # bytes [B, U], pad_rows with b""
    conflicting_codes: np.ndarray  # bytes [B, C], pad_rows with b""


class StateEncoder:
    """Encodes messages with one vocabulary."""

    def __init__(self, vocabulary: Vocabulary):
        self._cells = {code: cell for cell, code in enumerate(vocabulary.codes)}

    def encode(self, messages: Sequence[triage_pb2.EvidenceState]) -> Encoded:
        """Returns the states of `messages`, in the same order.

        A code that is unknown, or both present and absent, leaves its cell 0 and is listed as often as it occurs;
        unknown codes that are present precede those that are absent. Evidence of any other status is ignored.
        """
        lists = [message.evidence for message in messages]
        evidence = list(chain.from_iterable(lists))
        codes = list(map(_CODE, evidence))
        statuses = np.fromiter(map(_STATUS, evidence), np.int32, len(codes))
        cells = np.fromiter(map(self._cells.get, codes, repeat(_UNKNOWN)), np.int64, len(codes))
        rows: np.ndarray = np.repeat(np.arange(len(lists)), list(map(len, lists)))
        present, absent = statuses == triage_pb2.EVIDENCE_STATUS_PRESENT, statuses == triage_pb2.EVIDENCE_STATUS_ABSENT
        known = cells != _UNKNOWN
        places = rows * len(self._cells) + cells
        states: np.ndarray = np.zeros(len(lists) * len(self._cells), np.float32)
        states[places[present & known]] = 1
        denied = places[absent & known]
        contradicted = denied[states[denied] > 0]
        states[denied] = -1
        states[contradicted] = 0
        conflicting: np.ndarray = np.empty((len(lists), 0), object)
        unknown = conflicting
        if len(contradicted):
            conflicting = _codes_by_row(
                np.flatnonzero(present & known & np.isin(places, contradicted)), rows, codes, lists
            )
        if not known.all():
            named = np.fromiter(map(bool, codes), bool, len(codes)) & ~known
            chosen = np.concatenate([np.flatnonzero(named & present), np.flatnonzero(named & absent)])
            unknown = _codes_by_row(chosen[np.argsort(rows[chosen], kind="stable")], rows, codes, lists)
        asked = np.array(list(map(questions_asked, messages)), np.int32)
        return Encoded(states.reshape(len(lists), len(self._cells)), asked, unknown, conflicting)

    def encode_questions(
        self, messages: Sequence[triage_pb2.EvidenceState], not_to_ask: Sequence[str]
    ) -> dict[str, np.ndarray]:
        """Returns the inputs of the signature `questions`; codes in `not_to_ask` that are unknown are ignored."""
        states = self.encode(messages).states
        withheld: np.ndarray = np.zeros(states.shape, bool)
        withheld[:, [self._cells[code] for code in not_to_ask if code in self._cells]] = True
        return {features.STATES: states, features.NOT_TO_ASK: withheld}


def to_questions(
    outputs: Mapping[str, np.ndarray], vocabulary: Vocabulary, number: int
) -> list[list[triage_pb2.NextQuestion]]:
    """Returns at most `number` questions for each row of the outputs of the signature `questions`."""
    listed = [outputs[name][:, :number].tolist() for name in QUESTION_OUTPUTS]
    return [
        [_question(vocabulary, *question) for question in zip(*row, strict=True) if question[0] >= 0]
        for row in zip(*listed, strict=True)
    ]


def _question(vocabulary: Vocabulary, cell: int, gain: float, likely: float, red_flag: bool) -> triage_pb2.NextQuestion:
    reason = triage_pb2.QUESTION_REASON_RED_FLAG if red_flag else triage_pb2.QUESTION_REASON_INFORMATION
    entry = vocabulary[cell]
    return triage_pb2.NextQuestion(
        code=entry.code, question=entry.question, expected_gain=gain, reason=reason, likely=likely
    )


def _codes_by_row(chosen: np.ndarray, rows: np.ndarray, codes: Sequence[str], lists: Sequence[object]) -> np.ndarray:
    """Returns the chosen codes, which are sorted by row, as bytes `[B, W]`."""
    bounds: Any = np.searchsorted(rows[chosen], np.arange(len(lists) + 1)).tolist()
    listed = list(map(str.encode, map(codes.__getitem__, chosen.tolist())))
    return pad_rows(listed[begin:end] for begin, end in pairwise(bounds))
