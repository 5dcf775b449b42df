"""Names used in files and on the wire: tf.Example keys, SavedModel signatures and their tensors."""

# tf.Example feature keys, each a bytes list (see vignette.pbtxt).
VIGNETTE_ID = "vignette_id"
PRESENT = "present"
ABSENT = "absent"
DECISIONS = "decisions"
TAGS = "tags"

# SavedModel signatures.
SERVING_DEFAULT = "serving_default"
"""Evidence codes in, decision tensors out."""
TRIAGE = "triage"
"""Serialized `triage.v1.EvidenceState` in, serialized `triage.v1.TriageResponse` out."""
STATE = "state"
"""Dense state vectors in, decision tensors out."""
QUESTIONS = "questions"
"""Dense state vectors in, the best next questions out; only if the model has a question policy."""

# Input tensors. PRESENT and ABSENT, string [B, N] padded with "", are inputs of `serving_default` too.
QUESTIONS_ASKED = "questions_asked"  # int32 [B]
EVIDENCE_STATES = "evidence_states"  # string [B]
STATES = "states"  # float32 [B, E] in {-1, 0, 1}
NOT_TO_ASK = "not_to_ask"  # bool [B, E], codes that nobody can answer, or that the caller does not want to be asked

# Output tensors.
Q_VALUES = "q_values"  # float32 [B, A], urgency order, ask last
ACTION = "action"  # int32 [B], index of the chosen action
ACTION_LABEL = "action_label"  # string [B]
BEST_TRIAGE = "best_triage"  # int32 [B], index of the best triage decision
BEST_TRIAGE_LABEL = "best_triage_label"  # string [B]
FORCED = "forced"  # bool [B]
P_APPROPRIATE = "p_appropriate"  # float32 [B, 4], of each triage decision; only if the model has probabilities
P_SAFE = "p_safe"  # float32 [B, 4]; beside P_APPROPRIATE
MODEL_ACTION = "model_action"  # int32 [B], the action before the rules; only if there are any
MODEL_BEST_TRIAGE = "model_best_triage"  # int32 [B], the best triage decision before the rules; beside MODEL_ACTION
RULES_FIRED = "rules_fired"  # bool [B, R], in the order of the manifest's rules; only if there are any
NOVELTY = "novelty"  # float32 [B] in [0, 1]; only if the model scores novelty
IS_NOVEL = "is_novel"  # bool [B]; beside NOVELTY
DEFERRED = "deferred"  # int32 [B], a triage.v1.DeferralReason, 0 where the case is not handed over; beside any answer
NEXT = "next"  # int32 [1], an index of trainer.export.conversion.STEPS; only in files for phones
UNKNOWN_CODES = "unknown_codes"  # string [B, U] padded with ""
CONFLICTING_CODES = "conflicting_codes"  # string [B, C] padded with ""
TRIAGE_RESPONSES = "triage_responses"  # string [B]
QUESTION_CODES = "question_codes"  # int32 [B, Q], cells of the state, the best question first, -1 behind the last
QUESTION_GAINS = "question_gains"  # float32 [B, Q], expected information in bits
QUESTION_LIKELY = "question_likely"  # float32 [B, Q], probability of a yes
QUESTION_RED_FLAGS = "question_red_flags"  # bool [B, Q], see trainer.graph.rules
QUESTION_WORTH_ASKING = "question_worth_asking"  # bool [B, Q], worth more than a question costs
QUESTION_TOGETHER = "question_together"  # int32 [B, T], all codes of the first question if it asks several, else -1
QUESTION = (
    QUESTION_CODES, QUESTION_GAINS, QUESTION_LIKELY, QUESTION_RED_FLAGS, QUESTION_WORTH_ASKING, QUESTION_TOGETHER,
)  # fmt: skip
"""The outputs of the signature `questions`, in the order of `trainer.graph.questions.Questions`."""
MOST_QUESTIONS = 10
"""Q; fewer where the vocabulary is smaller."""
