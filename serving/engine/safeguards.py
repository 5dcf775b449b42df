"""Safety rules that the server applies after those of the model, and the source of versions that obey them."""

import dataclasses
import pathlib
from collections.abc import Sequence

from schemas import safety_rules
from schemas.errors import InputError
from schemas.evidence import Vocabulary
from schemas.model_directory import ModelInfo
from schemas.safety_rules import SafetyRule
from schemas.triage import WIRE_NUMBERS, action_on_wire
from serving.engine.batching import BatchedEngine
from serving.engine.engine import Engine, WrappedEngine
from serving.engine.state_tensors import Wish, add_fired_rules
from serving.engine.watcher import VersionSource
from serving.messages import codes_of
from triage.v1 import triage_pb2, triage_service_pb2


class SafeguardedModels:
    """Versions from another source, each with the server's rules, and with batches around both, in their own threads.

    Args:
        source: where versions come from.
        rules: file of rules, "default" for those of the package, "" for none. It is read for each version, whose
            vocabulary must have all of its codes: otherwise the version is not served.
    """

    def __init__(self, source: VersionSource, rules: str = ""):
        self._source = source
        self._rules = rules or safety_rules.NONE

    def versions(self, base: pathlib.Path) -> dict[int, pathlib.Path]:
        """Returns the versions of the other source."""
        return self._source.versions(base)

    def load(self, folder: pathlib.Path) -> BatchedEngine:
        """Returns the engine of a version, warm.

        Raises:
            InputError: the other source raises it, or the rules are faulty or do not fit the version.
        """
        engine = self._source.load(folder)
        try:
            rules, _ = safety_rules.choose(self._rules, engine.vocabulary)
        except InputError as error:
            raise InputError(f"--rules: with the vocabulary of {folder}: {error}") from error
        own = {rule.rule_id for rule in engine.info.rules}
        for rule in rules:
            if rule.rule_id in own:
                raise InputError(f"--rules {self._rules}: rule {rule.rule_id!r} is in {folder} already: rename it")
        return BatchedEngine(SafeguardedEngine(engine, rules.rules) if len(rules) else engine)


class SafeguardedEngine(WrappedEngine):
    """Applies rules to the answers of another engine."""

    def __init__(self, engine: Engine, rules: Sequence[SafetyRule]):
        super().__init__(engine)
        self._rules = rules
        self.info = dataclasses.replace(engine.info, server_rules=tuple(rules))

    def triage(
        self, states: Sequence[triage_pb2.EvidenceState], wishes: Sequence[Wish] = ()
    ) -> list[triage_pb2.TriageResponse]:
        """Returns one response for each state, in their order; see `serving.engine.engine.Engine`."""
        responses = self.engine.triage(states, wishes)
        for state, response in zip(states, responses, strict=True):
            _apply(self._rules, state, response, self.vocabulary)
        return responses


def described_rules(info: ModelInfo) -> list[triage_service_pb2.SafetyRule]:
    """Returns the rules as GetModelInfo lists them, in the order in which they apply."""
    sources = (
        (info.rules, triage_service_pb2.RULE_SOURCE_MODEL),
        (info.server_rules, triage_service_pb2.RULE_SOURCE_SERVER),
    )
    return [
        triage_service_pb2.SafetyRule(
            rule_id=rule.rule_id,
            reason=rule.reason,
            urgency=WIRE_NUMBERS[rule.urgency],
            stops_asking=rule.stop_asking,
            source=source,
        )
        for rules, source in sources
        for rule in rules
    ]


def _apply(
    rules: Sequence[SafetyRule],
    state: triage_pb2.EvidenceState,
    response: triage_pb2.TriageResponse,
    vocabulary: Vocabulary,
) -> None:
    """Changes a response to obey `rules`. None fires where nothing is known, as each requires some evidence."""
    ignored = set(response.conflicting_codes)
    known = ({code for code in codes if code in vocabulary and code not in ignored} for codes in codes_of(state))
    present, absent = vocabulary.relations.closed(*known)
    fired = [rule for rule in rules if rule.fires(present, absent)]
    steps = safety_rules.steps(fired, action_on_wire(response.action), action_on_wire(response.best_triage))
    if steps:
        add_fired_rules(response, steps)
        response.best_triage = WIRE_NUMBERS[steps[-1].best_triage]
        response.action = WIRE_NUMBERS[steps[-1].after]
