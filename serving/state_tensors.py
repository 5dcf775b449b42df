"""Between `triage.v1` messages and the tensors of the signature `serving_default`: the one way of every engine.

The messages are taken apart here, not in the graph, where one that cannot be parsed would fail its whole batch.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from schemas import features
from serving.model_directory import ModelInfo
from triage.v1 import triage_pb2

OUTPUTS = (
    features.Q_VALUES,
    features.ACTION,
    features.BEST_TRIAGE,
    features.FORCED,
    features.UNKNOWN_CODES,
    features.CONFLICTING_CODES,
)
"""The outputs that `to_responses` reads."""

# In the order of the Q-values; 0 on the wire is reserved for "unspecified".
_ACTIONS = (
    triage_pb2.TRIAGE_ACTION_RED,
    triage_pb2.TRIAGE_ACTION_YELLOW,
    triage_pb2.TRIAGE_ACTION_GREEN,
    triage_pb2.TRIAGE_ACTION_BLUE,
    triage_pb2.TRIAGE_ACTION_ASK,
)

# More questions than any model's limit: what makes `serving_default` force a decision, which has no other word for it.
_NO_QUESTIONS_LEFT = 2**31 - 1


def to_inputs(states: Sequence[triage_pb2.EvidenceState]) -> dict[str, np.ndarray]:
    """Returns the inputs of `serving_default`: `present` and `absent` bytes [B, N], `questions_asked` int32 [B].

    Evidence whose status is neither present nor absent is left out. The codes have at least one column.
    """
    return {
        features.PRESENT: _padded(_codes(state, triage_pb2.EVIDENCE_STATUS_PRESENT) for state in states),
        features.ABSENT: _padded(_codes(state, triage_pb2.EVIDENCE_STATUS_ABSENT) for state in states),
        features.QUESTIONS_ASKED: np.array([_questions_asked(state) for state in states], np.int32),
    }


def to_responses(outputs: Mapping[str, np.ndarray], info: ModelInfo) -> list[triage_pb2.TriageResponse]:
    """Returns the response of each row of `OUTPUTS`, `q_values` float32 [B, A], codes bytes [B, U], the others [B]."""
    # A zip of lists: element by element, NumPy is slow.
    rows = zip(*(outputs[name].tolist() for name in OUTPUTS), strict=True)
    return [
        triage_pb2.TriageResponse(
            action=_ACTIONS[action],
            best_triage=_ACTIONS[best_triage],
            q_values=[
                triage_pb2.QValue(action=number, value=value) for number, value in zip(_ACTIONS, q_values, strict=True)
            ],
            forced=forced,
            unknown_codes=[code.decode() for code in unknown if code],
            conflicting_codes=[code.decode() for code in conflicting if code],
            model_version=info.model_version,
            vocabulary_fingerprint=info.vocabulary_fingerprint,
        )
        for q_values, action, best_triage, forced, unknown, conflicting in rows
    ]


def _codes(state: triage_pb2.EvidenceState, status: int) -> list[bytes]:
    return [evidence.code.encode() for evidence in state.evidence if evidence.status == status]


def _padded(rows: Iterable[list[bytes]]) -> np.ndarray:
    listed = list(rows)
    width = max((len(row) for row in listed), default=0) or 1
    padded: np.ndarray = np.full([len(listed), width], b"", object)
    for row, codes in zip(padded, listed, strict=True):
        row[: len(codes)] = codes
    return padded


def _questions_asked(state: triage_pb2.EvidenceState) -> int:
    limited = 0 < state.max_questions <= state.questions_asked
    return _NO_QUESTIONS_LEFT if state.no_more_evidence or limited else state.questions_asked
