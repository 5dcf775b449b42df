"""The fields of an answer, in one table.

A tensor of the table is an output of the signatures `serving_default` and `state`, and a field of
`triage.v1.TriageResponse` or a part of one. The graph of an exported model, the messages that it and the server write,
LiteRT files, `triage score` and the comparison of engines all go through the table, and leave out what the model does
not compute, such as novelty. JSON, OpenAPI and the clients follow the message.
"""

import dataclasses
import enum

from schemas import features

Q_BOUND = 1e-3
"""Largest difference of a Q-value that float32 rounding explains.

Engines add up in different orders. In states with a third of all evidence present and a third absent, Q-values of an
agent that learned from few vignettes have differed by 0.00024; in states of interviews they differ by millionths.
"""
NOVELTY_BOUND = 0.05
"""Largest difference of a novelty, which is a percentile: rounding can move it by one step of 200."""


class Kind(enum.Enum):
    """What a tensor holds of B states."""

    ACTION = "action"
    """int32 `[B]`, a `schemas.triage.Action`."""
    FLAG = "flag"
    """bool `[B]`."""
    NUMBER = "number"
    """float32 `[B]`."""
    VALUES = "values"
    """float32 `[B, A]`, of each action, or `[B, 4]`, of each triage decision."""
    RULES = "rules"
    """bool `[B, R]`, in the order of the model's rules."""
    CODES = "codes"
    """string `[B, N]`, padded with ""; only of what reads codes."""
    REASON = "reason"
    """int32 `[B]`, a number of `triage.v1.DeferralReason` or 0; not in messages, where callers have to ask for it."""
    LABEL = "label"
    """string `[B]`, the name of an action; neither in messages nor in LiteRT files, as not every phone has strings."""


@dataclasses.dataclass(frozen=True)
class AnswerTensor:
    """A tensor of an answer."""

    name: str
    kind: Kind
    part_of: str = ""
    """The field of the response that it is a part of; by default it is the field that has its name."""
    bound: float = 0.0
    """Largest difference between two engines that rounding explains."""
    threshold_of: str = ""
    """The number that a flag compares with a threshold: near it, rounding may turn the flag."""
    column: str | None = ""
    """In answers of `triage score`; by default its name, None for what they leave out."""

    @property
    def is_field(self) -> bool:
        """Whether its values are those of a field of the response, as they are or as numbers of actions."""
        return not self.part_of and self.kind in (Kind.ACTION, Kind.FLAG, Kind.NUMBER, Kind.CODES)


ANSWER = (
    AnswerTensor(features.ACTION, Kind.ACTION),
    AnswerTensor(features.BEST_TRIAGE, Kind.ACTION),
    AnswerTensor(features.FORCED, Kind.FLAG),
    AnswerTensor(features.Q_VALUES, Kind.VALUES, bound=Q_BOUND, column="q"),
    AnswerTensor(features.P_APPROPRIATE, Kind.VALUES, "probabilities", Q_BOUND, column="appropriate"),
    AnswerTensor(features.P_SAFE, Kind.VALUES, "probabilities", Q_BOUND, column="safe"),
    AnswerTensor(features.RULES_FIRED, Kind.RULES, "fired_rules", column="fired_rules"),
    AnswerTensor(features.MODEL_ACTION, Kind.ACTION, "fired_rules", column=None),
    AnswerTensor(features.MODEL_BEST_TRIAGE, Kind.ACTION, "fired_rules", column=None),
    AnswerTensor(features.NOVELTY, Kind.NUMBER, bound=NOVELTY_BOUND),
    AnswerTensor(features.IS_NOVEL, Kind.FLAG, threshold_of=features.NOVELTY),
    AnswerTensor(features.DEFERRED, Kind.REASON, column=None),
    AnswerTensor(features.UNKNOWN_CODES, Kind.CODES),
    AnswerTensor(features.CONFLICTING_CODES, Kind.CODES, column=None),
    AnswerTensor(features.ACTION_LABEL, Kind.LABEL, features.ACTION, column=None),
    AnswerTensor(features.BEST_TRIAGE_LABEL, Kind.LABEL, features.BEST_TRIAGE, column=None),
)
BY_SERVER = frozenset({"model_version", "vocabulary_fingerprint", "next_questions", "explanation", "deferred", "next"})
"""Fields of the response that the server fills in: what the version is, and what depends on the rest of the request."""
