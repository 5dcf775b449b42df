"""Encodes messages as state vectors, in the same way as the graph of `serving_default`.

For a single state, looking codes up in the graph takes longer than the network itself, so engines in this process do it
here. No line of Python runs once per piece of evidence.
"""

import operator
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from schemas import features
from schemas.evidence import StateEncoder, Vocabulary
from serving.engine.state_tensors import questions_asked
from triage.v1 import triage_pb2

_CODE, _STATUS = operator.attrgetter("code"), operator.attrgetter("status")


class Encoded(NamedTuple):
    """States, and the codes that are not part of them."""

    states: np.ndarray  # float32 [B, E] in {-1, 0, 1}
    questions_asked: np.ndarray  # int32 [B]
    unknown_codes: np.ndarray  # bytes [B, U], padded with b""
    conflicting_codes: np.ndarray  # bytes [B, C], padded with b""


class MessageEncoder:
    """Encodes messages with one vocabulary."""

    def __init__(self, vocabulary: Vocabulary):
        self._vocabulary = vocabulary
        self._encoder = StateEncoder(vocabulary)

    def encode(self, messages: Sequence[triage_pb2.EvidenceState]) -> Encoded:
        """Returns the states of `messages`, in the same order, by the rule of `schemas.evidence.StateEncoder`."""
        lists = [message.evidence for message in messages]
        evidence = list(chain.from_iterable(lists))
        statuses = np.fromiter(map(_STATUS, evidence), np.int32, len(evidence))
        encoded = self._encoder.encode(
            list(map(_CODE, evidence)),
            list(map(len, lists)),
            statuses == triage_pb2.EVIDENCE_STATUS_PRESENT,
            statuses == triage_pb2.EVIDENCE_STATUS_ABSENT,
        )
        asked = np.array(list(map(questions_asked, messages)), np.int32)
        return Encoded(encoded.states, asked, encoded.unknown_codes, encoded.conflicting_codes)

    def encode_questions(
        self, messages: Sequence[triage_pb2.EvidenceState], not_to_ask: Sequence[str]
    ) -> dict[str, np.ndarray]:
        """Returns the inputs of the signature `questions`; codes in `not_to_ask` that are unknown are ignored."""
        states = self.encode(messages).states
        withheld: np.ndarray = np.zeros(states.shape, bool)
        withheld[:, [self._vocabulary.index(code) for code in not_to_ask if code in self._vocabulary]] = True
        return {features.STATES: states, features.NOT_TO_ASK: withheld}


def to_questions(
    outputs: Mapping[str, np.ndarray], inputs: Mapping[str, np.ndarray], vocabulary: Vocabulary, number: int
) -> list[list[triage_pb2.NextQuestion]]:
    """Returns at most `number` questions for each row of the outputs of the signature `questions` and of its inputs.

    A version that was exported before red flags were asked together has no `QUESTION_TOGETHER`.
    """
    *of_each, together = features.QUESTION
    listed = [outputs[name][:, :number].tolist() for name in of_each]
    open_cells = (inputs[features.STATES] == 0) & ~inputs[features.NOT_TO_ASK]
    chosen = [
        [_question(vocabulary, here, *question) for question in zip(*row, strict=True) if question[0] >= 0]
        for here, row in zip(open_cells, zip(*listed, strict=True), strict=True)
    ]
    if together in outputs:
        for questions, cells in zip(chosen, outputs[together].tolist(), strict=True):
            if questions:
                questions[0].any_of.extend(vocabulary[cell].code for cell in cells if cell >= 0)
    return chosen


def _question(
    vocabulary: Vocabulary,
    open_cells: np.ndarray,
    cell: int,
    gain: float,
    likely: float,
    red_flag: bool,
    worth_asking: bool,
) -> triage_pb2.NextQuestion:
    reason = triage_pb2.QUESTION_REASON_RED_FLAG if red_flag else triage_pb2.QUESTION_REASON_INFORMATION
    entry = vocabulary[cell]
    # As in the opening of an interview, see `trainer.graph.questions`.
    group = list(vocabulary.openings.get(entry.exclusive, ()))
    one_of = [vocabulary[member].code for member in group] if open_cells[group].all() else []
    return triage_pb2.NextQuestion(
        code=entry.code,
        question=entry.question,
        expected_gain=gain,
        reason=reason,
        likely=likely,
        worth_asking=worth_asking,
        one_of=one_of,
    )
