"""The signatures of an exported model: three kinds of input for one decision.

`serving_default` takes evidence codes, `triage` takes `triage.v1.EvidenceState` messages and `state` takes state
vectors. Each turns its input into states for the same `_Decider`, so all three give the same answers.
"""

import os
import pathlib
from collections.abc import Callable
from typing import NamedTuple

import keras
import tensorflow as tf

from schemas import features
from schemas.danger_signs import NO_SIGNS, DangerSigns
from schemas.evidence import Vocabulary
from schemas.safety_rules import NO_RULES, RuleSet
from schemas.triage import ACTION_LABELS, is_forced, next_step
from trainer.data import state
from trainer.export import messages
from trainer.graph.closure import Closure
from trainer.graph.decide import (
    NEUTRAL,
    OperatingPoint,
    anything_known,
    best_triage,
    decide,
    handed_over,
    with_floor,
)
from trainer.graph.mixture import Mixture
from trainer.graph.novelty import Novelty
from trainer.graph.questions import Network, QuestionGraph
from trainer.graph.rules import RuleGraph

SIGNATURES = (features.SERVING_DEFAULT, features.TRIAGE, features.STATE)


class Identity(NamedTuple):
    """What the graph says about its version."""

    model_version: str
    vocabulary_fingerprint: str
    evidence_count: int
    max_questions: int


class Safeguards(NamedTuple):
    """The rules, novelty and operating point that are applied to the network's outputs."""

    rules: RuleSet = NO_RULES
    novelty: Novelty | None = None
    operating_point: OperatingPoint = NEUTRAL
    questions: Mixture | None = None  # from which questions are chosen
    signs: DangerSigns = NO_SIGNS


UNGUARDED = Safeguards()


class AssetLookup:
    """Maps codes to state cells by the vocabulary file itself, which the SavedModel keeps as an asset.

    The state cell is the line number in the file, less one for the header. A string that is not in the file gets the
    table's default, 0, which becomes `state.UNKNOWN`; so does "code" in the header, line 0.
    """

    def __init__(self, vocabulary: pathlib.Path):
        initializer = tf.lookup.TextFileInitializer(
            str(vocabulary),
            key_dtype=tf.string,
            key_index=0,
            value_dtype=tf.int64,
            value_index=tf.lookup.TextFileIndex.LINE_NUMBER,
            delimiter=",",
        )
        self.table = tf.lookup.StaticHashTable(initializer, default_value=0)

    def __call__(self, codes: tf.Tensor) -> tf.Tensor:
        """Returns the state cells of `codes`, int64 of the same shape, `state.UNKNOWN` for other strings."""
        return self.table.lookup(codes) - 1


def write(
    folder: pathlib.Path,
    model: keras.Model,
    vocabulary: pathlib.Path,
    identity: Identity,
    safeguards: Safeguards = UNGUARDED,
) -> None:
    """Writes a SavedModel with all three signatures, and `questions` if they can be chosen, to `folder`.

    The folder is created if missing, and the vocabulary file becomes an asset.

    Raises:
        InputError: a rule has a code that is not in the vocabulary.
    """
    lookup, evidence = AssetLookup(vocabulary), Vocabulary.load(vocabulary)
    decider = _Decider(model, evidence, safeguards)
    module = tf.Module()
    module.weights = [variable.value for variable in model.variables]  # it would not look for them in a Keras 3 model
    module.table = lookup.table

    def serving_default(present: tf.Tensor, absent: tf.Tensor, questions_asked: tf.Tensor) -> dict[str, tf.Tensor]:
        with tf.control_dependencies(_size_checks(present=present, absent=absent, questions_asked=questions_asked)):
            present, absent = tf.identity(present), tf.identity(absent)
        encoded = state.from_codes(present, absent, lookup, identity.evidence_count)
        forced = is_forced(questions_asked, identity.max_questions)
        return decider(encoded.states, forced, encoded.conflicting_codes) | _codes(encoded)

    def triage(evidence_states: tf.Tensor) -> dict[str, tf.Tensor]:
        known = messages.decode_evidence_states(evidence_states)
        encoded = state.from_codes(known.present, known.absent, lookup, identity.evidence_count)
        own_limit = (known.max_questions <= 0) | (known.max_questions > identity.max_questions)
        limit = tf.where(own_limit, identity.max_questions, known.max_questions)  # [B]
        decision = decider(encoded.states, is_forced(known.questions_asked, limit, known.no_more_evidence))
        fired = decider.fired_rules(decision)
        of_version = identity.model_version, identity.vocabulary_fingerprint
        return {features.TRIAGE_RESPONSES: messages.encode_responses(decision | _codes(encoded), fired, *of_version)}

    def dense(states: tf.Tensor, questions_asked: tf.Tensor) -> dict[str, tf.Tensor]:
        with tf.control_dependencies(_size_checks(states=states, questions_asked=questions_asked)):
            states = _known(states)
        return decider(states, is_forced(questions_asked, identity.max_questions))

    questions_asked = tf.TensorSpec([None], tf.int32, features.QUESTIONS_ASKED)
    present = tf.TensorSpec([None, None], tf.string, features.PRESENT)
    absent = tf.TensorSpec([None, None], tf.string, features.ABSENT)
    evidence_states = tf.TensorSpec([None], tf.string, features.EVIDENCE_STATES)
    states = tf.TensorSpec([None, identity.evidence_count], tf.float32, features.STATES)
    functions = {
        features.SERVING_DEFAULT: _traced(serving_default, present, absent, questions_asked),
        features.TRIAGE: _traced(triage, evidence_states),
        features.STATE: _traced(dense, states, questions_asked),
    }
    if safeguards.questions is not None:
        graph = QuestionGraph(
            safeguards.questions,
            evidence,
            safeguards.rules.rules,
            safeguards.signs,
            model if "safe" in model.output else None,
            safeguards.operating_point,
        )

        def ask(states: tf.Tensor, not_to_ask: tf.Tensor) -> dict[str, tf.Tensor]:
            with tf.control_dependencies(_size_checks(states=states, not_to_ask=not_to_ask)):
                states = _known(states)
            return dict(zip(features.QUESTION, graph(states, not_to_ask), strict=True))

        not_to_ask = tf.TensorSpec([None, identity.evidence_count], tf.bool, features.NOT_TO_ASK)
        functions[features.QUESTIONS] = _traced(ask, states, not_to_ask)
    # Not keras.export.ExportArchive, which traces every signature twice.
    tf.saved_model.save(module, os.fspath(folder), signatures=functions)


def _traced(function: Callable[..., dict[str, tf.Tensor]], *specs: tf.TensorSpec) -> tf.types.experimental.Callable:
    return tf.function(function, input_signature=specs, autograph=False).get_concrete_function()


def _size_checks(**inputs: tf.Tensor) -> list[tf.Operation]:
    """Returns operations that refuse inputs of different batch sizes, some of which the graph would broadcast.

    Whatever uses the inputs has to wait for them, or another operation may fail first with its own words. They raise
    tf.errors.InvalidArgumentError when the graph runs. A TFLite file does not check this, as the converter leaves
    assertions out.
    """
    (first, batch), *others = ((name, tf.shape(value)[0]) for name, value in inputs.items())
    return [
        tf.debugging.assert_equal(size, batch, f"Expects {name} to have the batch size of {first}")
        for name, size in others
    ]


def _known(states: tf.Tensor) -> tf.Tensor:
    """Returns `states` after a check that cells are -1, 0 or 1, which a TFLite file lacks."""
    states = tf.debugging.assert_all_finite(states, f"Expects {features.STATES} to be finite")
    valid = tf.reduce_all(tf.equal(states, tf.sign(states)))
    with tf.control_dependencies([tf.debugging.Assert(valid, [f"Expects {features.STATES} to be -1, 0 or 1"])]):
        return tf.identity(states)


class _Decider:
    """Computes the decision tensors of states, for all signatures."""

    def __init__(self, network: Network, vocabulary: Vocabulary, safeguards: Safeguards):
        self._network = network
        self._rules = safeguards.rules
        self._graph = RuleGraph(self._rules.rules, vocabulary) if len(self._rules) else None
        self._novelty = safeguards.novelty
        self._closure = Closure(vocabulary)
        self._point = safeguards.operating_point

    def __call__(
        self, states: tf.Tensor, forced: tf.Tensor, conflicting_codes: tf.Tensor | None = None
    ) -> dict[str, tf.Tensor]:
        """Returns the decision tensors of states float32 `[B, E]`, of which some are `forced`, bool `[B]`.

        What was both present and absent is in `conflicting_codes`, string `[B, C]`, padded with ""; None without codes.
        """
        heads = self._network(states)
        action = decide(heads["q"], forced, anything_known(states), self._point)
        triage = best_triage(heads["q"])
        computed: dict[str, tf.Tensor] = {}
        if "safe" in heads:
            computed |= {features.P_APPROPRIATE: heads["appropriate"], features.P_SAFE: heads["safe"]}
        if self._graph is not None:
            fired = self._graph.fired(states)
            computed |= {
                features.RULES_FIRED: fired, features.MODEL_ACTION: action, features.MODEL_BEST_TRIAGE: triage,
            }  # fmt: skip
            action, triage = self._graph.apply(fired, action, triage)
        is_novel = tf.zeros_like(forced)
        if self._novelty is not None:
            novelty = self._novelty.percentiles(self._closure.reduced(states))
            is_novel = self._novelty.is_novel(novelty)
            computed |= {features.NOVELTY: novelty, features.IS_NOVEL: is_novel}
        contradictory = self._closure.contradicts(states)
        if conflicting_codes is not None:
            contradictory |= tf.reduce_any(conflicting_codes != "", axis=1)
        unsure = handed_over(heads, triage, self._point)
        flags = next_step(action, triage, forced, contradictory, is_novel, unsure).reasons
        labels = tf.constant(ACTION_LABELS)
        return computed | {
            features.Q_VALUES: with_floor(heads["q"], self._point),
            features.ACTION: action,
            features.ACTION_LABEL: tf.gather(labels, action),
            features.BEST_TRIAGE: triage,
            features.BEST_TRIAGE_LABEL: tf.gather(labels, triage),
            features.FORCED: forced,
            features.DEFERRED: tf.add_n([number * tf.cast(flag, tf.int32) for number, flag in enumerate(flags, 1)]),
        }

    def fired_rules(self, decision: dict[str, tf.Tensor]) -> tf.Tensor:
        """Returns the rules that fired as serialized messages, string `[B, F]`, for what `__call__` returned."""
        rows = tf.shape(decision[features.ACTION])[0]
        if self._graph is None:
            return tf.zeros(tf.stack([rows, 0]), tf.string)
        fired = decision[features.RULES_FIRED]
        before, after = self._graph.steps(fired, decision[features.MODEL_ACTION], decision[features.MODEL_BEST_TRIAGE])
        places = tf.where(fired)  # [F, 2]
        texts = {name: [getattr(rule, name) for rule in self._rules] for name in ("rule_id", "reason")}
        return messages.encode_fired_rules(
            places[:, 0],
            rows,
            {name: tf.gather(values, places[:, 1]) for name, values in texts.items()},
            {"from_action": tf.gather_nd(before, places), "to_action": tf.gather_nd(after, places)},
        )


def _codes(encoded: state.EncodedEvidence) -> dict[str, tf.Tensor]:
    return {features.UNKNOWN_CODES: encoded.unknown_codes, features.CONFLICTING_CODES: encoded.conflicting_codes}
