from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TriageAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TRIAGE_ACTION_UNSPECIFIED: _ClassVar[TriageAction]
    TRIAGE_ACTION_RED: _ClassVar[TriageAction]
    TRIAGE_ACTION_YELLOW: _ClassVar[TriageAction]
    TRIAGE_ACTION_GREEN: _ClassVar[TriageAction]
    TRIAGE_ACTION_BLUE: _ClassVar[TriageAction]
    TRIAGE_ACTION_ASK: _ClassVar[TriageAction]

class EvidenceStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EVIDENCE_STATUS_UNSPECIFIED: _ClassVar[EvidenceStatus]
    EVIDENCE_STATUS_PRESENT: _ClassVar[EvidenceStatus]
    EVIDENCE_STATUS_ABSENT: _ClassVar[EvidenceStatus]

class QuestionReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    QUESTION_REASON_UNSPECIFIED: _ClassVar[QuestionReason]
    QUESTION_REASON_INFORMATION: _ClassVar[QuestionReason]
    QUESTION_REASON_RED_FLAG: _ClassVar[QuestionReason]

class DeferralReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DEFERRAL_REASON_UNSPECIFIED: _ClassVar[DeferralReason]
    DEFERRAL_REASON_CONTRADICTORY: _ClassVar[DeferralReason]
    DEFERRAL_REASON_NOVEL: _ClassVar[DeferralReason]
    DEFERRAL_REASON_UNSURE: _ClassVar[DeferralReason]

class NextStep(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NEXT_STEP_UNSPECIFIED: _ClassVar[NextStep]
    NEXT_STEP_ASK: _ClassVar[NextStep]
    NEXT_STEP_DECIDE: _ClassVar[NextStep]
    NEXT_STEP_HAND_OVER: _ClassVar[NextStep]
TRIAGE_ACTION_UNSPECIFIED: TriageAction
TRIAGE_ACTION_RED: TriageAction
TRIAGE_ACTION_YELLOW: TriageAction
TRIAGE_ACTION_GREEN: TriageAction
TRIAGE_ACTION_BLUE: TriageAction
TRIAGE_ACTION_ASK: TriageAction
EVIDENCE_STATUS_UNSPECIFIED: EvidenceStatus
EVIDENCE_STATUS_PRESENT: EvidenceStatus
EVIDENCE_STATUS_ABSENT: EvidenceStatus
QUESTION_REASON_UNSPECIFIED: QuestionReason
QUESTION_REASON_INFORMATION: QuestionReason
QUESTION_REASON_RED_FLAG: QuestionReason
DEFERRAL_REASON_UNSPECIFIED: DeferralReason
DEFERRAL_REASON_CONTRADICTORY: DeferralReason
DEFERRAL_REASON_NOVEL: DeferralReason
DEFERRAL_REASON_UNSURE: DeferralReason
NEXT_STEP_UNSPECIFIED: NextStep
NEXT_STEP_ASK: NextStep
NEXT_STEP_DECIDE: NextStep
NEXT_STEP_HAND_OVER: NextStep

class Evidence(_message.Message):
    __slots__ = ("code", "status")
    CODE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    code: str
    status: EvidenceStatus
    def __init__(self, code: _Optional[str] = ..., status: _Optional[_Union[EvidenceStatus, str]] = ...) -> None: ...

class EvidenceState(_message.Message):
    __slots__ = ("evidence", "questions_asked", "no_more_evidence", "max_questions")
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    QUESTIONS_ASKED_FIELD_NUMBER: _ClassVar[int]
    NO_MORE_EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    MAX_QUESTIONS_FIELD_NUMBER: _ClassVar[int]
    evidence: _containers.RepeatedCompositeFieldContainer[Evidence]
    questions_asked: int
    no_more_evidence: bool
    max_questions: int
    def __init__(self, evidence: _Optional[_Iterable[_Union[Evidence, _Mapping]]] = ..., questions_asked: _Optional[int] = ..., no_more_evidence: bool = ..., max_questions: _Optional[int] = ...) -> None: ...

class QValue(_message.Message):
    __slots__ = ("action", "value")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    action: TriageAction
    value: float
    def __init__(self, action: _Optional[_Union[TriageAction, str]] = ..., value: _Optional[float] = ...) -> None: ...

class DecisionProbability(_message.Message):
    __slots__ = ("decision", "appropriate", "safe")
    DECISION_FIELD_NUMBER: _ClassVar[int]
    APPROPRIATE_FIELD_NUMBER: _ClassVar[int]
    SAFE_FIELD_NUMBER: _ClassVar[int]
    decision: TriageAction
    appropriate: float
    safe: float
    def __init__(self, decision: _Optional[_Union[TriageAction, str]] = ..., appropriate: _Optional[float] = ..., safe: _Optional[float] = ...) -> None: ...

class FiredRule(_message.Message):
    __slots__ = ("rule_id", "reason", "from_action", "to_action")
    RULE_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FROM_ACTION_FIELD_NUMBER: _ClassVar[int]
    TO_ACTION_FIELD_NUMBER: _ClassVar[int]
    rule_id: str
    reason: str
    from_action: TriageAction
    to_action: TriageAction
    def __init__(self, rule_id: _Optional[str] = ..., reason: _Optional[str] = ..., from_action: _Optional[_Union[TriageAction, str]] = ..., to_action: _Optional[_Union[TriageAction, str]] = ...) -> None: ...

class NextQuestion(_message.Message):
    __slots__ = ("code", "question", "expected_gain", "reason", "likely", "worth_asking", "rationale", "one_of", "any_of", "rationales")
    CODE_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_GAIN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    LIKELY_FIELD_NUMBER: _ClassVar[int]
    WORTH_ASKING_FIELD_NUMBER: _ClassVar[int]
    RATIONALE_FIELD_NUMBER: _ClassVar[int]
    ONE_OF_FIELD_NUMBER: _ClassVar[int]
    ANY_OF_FIELD_NUMBER: _ClassVar[int]
    RATIONALES_FIELD_NUMBER: _ClassVar[int]
    code: str
    question: str
    expected_gain: float
    reason: QuestionReason
    likely: float
    worth_asking: bool
    rationale: str
    one_of: _containers.RepeatedScalarFieldContainer[str]
    any_of: _containers.RepeatedScalarFieldContainer[str]
    rationales: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, code: _Optional[str] = ..., question: _Optional[str] = ..., expected_gain: _Optional[float] = ..., reason: _Optional[_Union[QuestionReason, str]] = ..., likely: _Optional[float] = ..., worth_asking: bool = ..., rationale: _Optional[str] = ..., one_of: _Optional[_Iterable[str]] = ..., any_of: _Optional[_Iterable[str]] = ..., rationales: _Optional[_Iterable[str]] = ...) -> None: ...

class EvidenceEffect(_message.Message):
    __slots__ = ("evidence", "effect", "best_triage_without", "support")
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    BEST_TRIAGE_WITHOUT_FIELD_NUMBER: _ClassVar[int]
    SUPPORT_FIELD_NUMBER: _ClassVar[int]
    evidence: Evidence
    effect: float
    best_triage_without: TriageAction
    support: float
    def __init__(self, evidence: _Optional[_Union[Evidence, _Mapping]] = ..., effect: _Optional[float] = ..., best_triage_without: _Optional[_Union[TriageAction, str]] = ..., support: _Optional[float] = ...) -> None: ...

class TurningAnswer(_message.Message):
    __slots__ = ("evidence", "best_triage", "likely")
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    BEST_TRIAGE_FIELD_NUMBER: _ClassVar[int]
    LIKELY_FIELD_NUMBER: _ClassVar[int]
    evidence: Evidence
    best_triage: TriageAction
    likely: float
    def __init__(self, evidence: _Optional[_Union[Evidence, _Mapping]] = ..., best_triage: _Optional[_Union[TriageAction, str]] = ..., likely: _Optional[float] = ...) -> None: ...

class Explanation(_message.Message):
    __slots__ = ("effects", "sufficient", "turning")
    EFFECTS_FIELD_NUMBER: _ClassVar[int]
    SUFFICIENT_FIELD_NUMBER: _ClassVar[int]
    TURNING_FIELD_NUMBER: _ClassVar[int]
    effects: _containers.RepeatedCompositeFieldContainer[EvidenceEffect]
    sufficient: _containers.RepeatedCompositeFieldContainer[Evidence]
    turning: _containers.RepeatedCompositeFieldContainer[TurningAnswer]
    def __init__(self, effects: _Optional[_Iterable[_Union[EvidenceEffect, _Mapping]]] = ..., sufficient: _Optional[_Iterable[_Union[Evidence, _Mapping]]] = ..., turning: _Optional[_Iterable[_Union[TurningAnswer, _Mapping]]] = ...) -> None: ...

class TriageResponse(_message.Message):
    __slots__ = ("action", "best_triage", "q_values", "forced", "unknown_codes", "conflicting_codes", "model_version", "vocabulary_fingerprint", "fired_rules", "novelty", "is_novel", "probabilities", "next_questions", "explanation", "deferred", "next")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    BEST_TRIAGE_FIELD_NUMBER: _ClassVar[int]
    Q_VALUES_FIELD_NUMBER: _ClassVar[int]
    FORCED_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_CODES_FIELD_NUMBER: _ClassVar[int]
    CONFLICTING_CODES_FIELD_NUMBER: _ClassVar[int]
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    VOCABULARY_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    FIRED_RULES_FIELD_NUMBER: _ClassVar[int]
    NOVELTY_FIELD_NUMBER: _ClassVar[int]
    IS_NOVEL_FIELD_NUMBER: _ClassVar[int]
    PROBABILITIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_QUESTIONS_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    DEFERRED_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    action: TriageAction
    best_triage: TriageAction
    q_values: _containers.RepeatedCompositeFieldContainer[QValue]
    forced: bool
    unknown_codes: _containers.RepeatedScalarFieldContainer[str]
    conflicting_codes: _containers.RepeatedScalarFieldContainer[str]
    model_version: str
    vocabulary_fingerprint: str
    fired_rules: _containers.RepeatedCompositeFieldContainer[FiredRule]
    novelty: float
    is_novel: bool
    probabilities: _containers.RepeatedCompositeFieldContainer[DecisionProbability]
    next_questions: _containers.RepeatedCompositeFieldContainer[NextQuestion]
    explanation: Explanation
    deferred: DeferralReason
    next: NextStep
    def __init__(self, action: _Optional[_Union[TriageAction, str]] = ..., best_triage: _Optional[_Union[TriageAction, str]] = ..., q_values: _Optional[_Iterable[_Union[QValue, _Mapping]]] = ..., forced: bool = ..., unknown_codes: _Optional[_Iterable[str]] = ..., conflicting_codes: _Optional[_Iterable[str]] = ..., model_version: _Optional[str] = ..., vocabulary_fingerprint: _Optional[str] = ..., fired_rules: _Optional[_Iterable[_Union[FiredRule, _Mapping]]] = ..., novelty: _Optional[float] = ..., is_novel: bool = ..., probabilities: _Optional[_Iterable[_Union[DecisionProbability, _Mapping]]] = ..., next_questions: _Optional[_Iterable[_Union[NextQuestion, _Mapping]]] = ..., explanation: _Optional[_Union[Explanation, _Mapping]] = ..., deferred: _Optional[_Union[DeferralReason, str]] = ..., next: _Optional[_Union[NextStep, str]] = ...) -> None: ...
