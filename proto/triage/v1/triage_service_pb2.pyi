from triage.v1 import triage_pb2 as _triage_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RuleSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RULE_SOURCE_UNSPECIFIED: _ClassVar[RuleSource]
    RULE_SOURCE_MODEL: _ClassVar[RuleSource]
    RULE_SOURCE_SERVER: _ClassVar[RuleSource]

class EvidenceKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EVIDENCE_KIND_UNSPECIFIED: _ClassVar[EvidenceKind]
    EVIDENCE_KIND_SYMPTOM: _ClassVar[EvidenceKind]
    EVIDENCE_KIND_RISK_FACTOR: _ClassVar[EvidenceKind]
RULE_SOURCE_UNSPECIFIED: RuleSource
RULE_SOURCE_MODEL: RuleSource
RULE_SOURCE_SERVER: RuleSource
EVIDENCE_KIND_UNSPECIFIED: EvidenceKind
EVIDENCE_KIND_SYMPTOM: EvidenceKind
EVIDENCE_KIND_RISK_FACTOR: EvidenceKind

class TriageRequest(_message.Message):
    __slots__ = ("state", "allow_unknown_codes", "questions", "not_to_ask", "explain", "model", "defer_below", "can_measure")
    STATE_FIELD_NUMBER: _ClassVar[int]
    ALLOW_UNKNOWN_CODES_FIELD_NUMBER: _ClassVar[int]
    QUESTIONS_FIELD_NUMBER: _ClassVar[int]
    NOT_TO_ASK_FIELD_NUMBER: _ClassVar[int]
    EXPLAIN_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    DEFER_BELOW_FIELD_NUMBER: _ClassVar[int]
    CAN_MEASURE_FIELD_NUMBER: _ClassVar[int]
    state: _triage_pb2.EvidenceState
    allow_unknown_codes: bool
    questions: int
    not_to_ask: _containers.RepeatedScalarFieldContainer[str]
    explain: bool
    model: str
    defer_below: float
    can_measure: bool
    def __init__(self, state: _Optional[_Union[_triage_pb2.EvidenceState, _Mapping]] = ..., allow_unknown_codes: bool = ..., questions: _Optional[int] = ..., not_to_ask: _Optional[_Iterable[str]] = ..., explain: bool = ..., model: _Optional[str] = ..., defer_below: _Optional[float] = ..., can_measure: bool = ...) -> None: ...

class BatchTriageRequest(_message.Message):
    __slots__ = ("states", "allow_unknown_codes", "questions", "model", "defer_below", "can_measure")
    STATES_FIELD_NUMBER: _ClassVar[int]
    ALLOW_UNKNOWN_CODES_FIELD_NUMBER: _ClassVar[int]
    QUESTIONS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    DEFER_BELOW_FIELD_NUMBER: _ClassVar[int]
    CAN_MEASURE_FIELD_NUMBER: _ClassVar[int]
    states: _containers.RepeatedCompositeFieldContainer[_triage_pb2.EvidenceState]
    allow_unknown_codes: bool
    questions: int
    model: str
    defer_below: float
    can_measure: bool
    def __init__(self, states: _Optional[_Iterable[_Union[_triage_pb2.EvidenceState, _Mapping]]] = ..., allow_unknown_codes: bool = ..., questions: _Optional[int] = ..., model: _Optional[str] = ..., defer_below: _Optional[float] = ..., can_measure: bool = ...) -> None: ...

class BatchTriageResponse(_message.Message):
    __slots__ = ("responses",)
    RESPONSES_FIELD_NUMBER: _ClassVar[int]
    responses: _containers.RepeatedCompositeFieldContainer[_triage_pb2.TriageResponse]
    def __init__(self, responses: _Optional[_Iterable[_Union[_triage_pb2.TriageResponse, _Mapping]]] = ...) -> None: ...

class InterviewRequest(_message.Message):
    __slots__ = ("settings", "evidence", "not_known", "no_more_evidence", "also", "not_to_ask")
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    NOT_KNOWN_FIELD_NUMBER: _ClassVar[int]
    NO_MORE_EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    ALSO_FIELD_NUMBER: _ClassVar[int]
    NOT_TO_ASK_FIELD_NUMBER: _ClassVar[int]
    settings: InterviewSettings
    evidence: _triage_pb2.Evidence
    not_known: bool
    no_more_evidence: bool
    also: _containers.RepeatedCompositeFieldContainer[_triage_pb2.Evidence]
    not_to_ask: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, settings: _Optional[_Union[InterviewSettings, _Mapping]] = ..., evidence: _Optional[_Union[_triage_pb2.Evidence, _Mapping]] = ..., not_known: bool = ..., no_more_evidence: bool = ..., also: _Optional[_Iterable[_Union[_triage_pb2.Evidence, _Mapping]]] = ..., not_to_ask: _Optional[_Iterable[str]] = ...) -> None: ...

class InterviewSettings(_message.Message):
    __slots__ = ("max_questions", "allow_unknown_codes", "questions", "model", "defer_below", "can_measure")
    MAX_QUESTIONS_FIELD_NUMBER: _ClassVar[int]
    ALLOW_UNKNOWN_CODES_FIELD_NUMBER: _ClassVar[int]
    QUESTIONS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    DEFER_BELOW_FIELD_NUMBER: _ClassVar[int]
    CAN_MEASURE_FIELD_NUMBER: _ClassVar[int]
    max_questions: int
    allow_unknown_codes: bool
    questions: int
    model: str
    defer_below: float
    can_measure: bool
    def __init__(self, max_questions: _Optional[int] = ..., allow_unknown_codes: bool = ..., questions: _Optional[int] = ..., model: _Optional[str] = ..., defer_below: _Optional[float] = ..., can_measure: bool = ...) -> None: ...

class InterviewResponse(_message.Message):
    __slots__ = ("response", "questions_asked", "ended")
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    QUESTIONS_ASKED_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    response: _triage_pb2.TriageResponse
    questions_asked: int
    ended: bool
    def __init__(self, response: _Optional[_Union[_triage_pb2.TriageResponse, _Mapping]] = ..., questions_asked: _Optional[int] = ..., ended: bool = ...) -> None: ...

class GetModelInfoRequest(_message.Message):
    __slots__ = ("model",)
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: str
    def __init__(self, model: _Optional[str] = ...) -> None: ...

class GetModelInfoResponse(_message.Message):
    __slots__ = ("model_version", "vocabulary_fingerprint", "data_fingerprint", "evidence_count", "max_questions", "manifest_json", "rules", "novelty_threshold")
    MODEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    VOCABULARY_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    DATA_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_COUNT_FIELD_NUMBER: _ClassVar[int]
    MAX_QUESTIONS_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_JSON_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    NOVELTY_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    model_version: str
    vocabulary_fingerprint: str
    data_fingerprint: str
    evidence_count: int
    max_questions: int
    manifest_json: str
    rules: _containers.RepeatedCompositeFieldContainer[SafetyRule]
    novelty_threshold: float
    def __init__(self, model_version: _Optional[str] = ..., vocabulary_fingerprint: _Optional[str] = ..., data_fingerprint: _Optional[str] = ..., evidence_count: _Optional[int] = ..., max_questions: _Optional[int] = ..., manifest_json: _Optional[str] = ..., rules: _Optional[_Iterable[_Union[SafetyRule, _Mapping]]] = ..., novelty_threshold: _Optional[float] = ...) -> None: ...

class SafetyRule(_message.Message):
    __slots__ = ("rule_id", "reason", "urgency", "stops_asking", "source")
    RULE_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    URGENCY_FIELD_NUMBER: _ClassVar[int]
    STOPS_ASKING_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    rule_id: str
    reason: str
    urgency: _triage_pb2.TriageAction
    stops_asking: bool
    source: RuleSource
    def __init__(self, rule_id: _Optional[str] = ..., reason: _Optional[str] = ..., urgency: _Optional[_Union[_triage_pb2.TriageAction, str]] = ..., stops_asking: bool = ..., source: _Optional[_Union[RuleSource, str]] = ...) -> None: ...

class GetVocabularyRequest(_message.Message):
    __slots__ = ("model",)
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: str
    def __init__(self, model: _Optional[str] = ...) -> None: ...

class GetVocabularyResponse(_message.Message):
    __slots__ = ("entries", "vocabulary_fingerprint")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    VOCABULARY_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[VocabularyEntry]
    vocabulary_fingerprint: str
    def __init__(self, entries: _Optional[_Iterable[_Union[VocabularyEntry, _Mapping]]] = ..., vocabulary_fingerprint: _Optional[str] = ...) -> None: ...

class VocabularyEntry(_message.Message):
    __slots__ = ("code", "kind", "name", "question", "synonyms", "parent", "exclusive", "band", "instrument", "red_flag")
    CODE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    SYNONYMS_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    BAND_FIELD_NUMBER: _ClassVar[int]
    INSTRUMENT_FIELD_NUMBER: _ClassVar[int]
    RED_FLAG_FIELD_NUMBER: _ClassVar[int]
    code: str
    kind: EvidenceKind
    name: str
    question: str
    synonyms: _containers.RepeatedScalarFieldContainer[str]
    parent: str
    exclusive: str
    band: str
    instrument: str
    red_flag: bool
    def __init__(self, code: _Optional[str] = ..., kind: _Optional[_Union[EvidenceKind, str]] = ..., name: _Optional[str] = ..., question: _Optional[str] = ..., synonyms: _Optional[_Iterable[str]] = ..., parent: _Optional[str] = ..., exclusive: _Optional[str] = ..., band: _Optional[str] = ..., instrument: _Optional[str] = ..., red_flag: bool = ...) -> None: ...

class UnknownCode(_message.Message):
    __slots__ = ("field", "code", "nearest_codes")
    FIELD_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    NEAREST_CODES_FIELD_NUMBER: _ClassVar[int]
    field: str
    code: str
    nearest_codes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, field: _Optional[str] = ..., code: _Optional[str] = ..., nearest_codes: _Optional[_Iterable[str]] = ...) -> None: ...
