"""TriageService, the typed service.

docs/how-it-works.md lists the steps of a request, of which this module is the third. What a step raises ends the
call with the status that `serving/admission/status.py` gives it.
"""

import contextlib
import functools
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

from schemas import features
from schemas.errors import InputError
from schemas.evidence import Vocabulary
from schemas.features import MOST_QUESTIONS
from schemas.questions import ANY_OF, GROUPS
from schemas.triage import WIRE_NUMBERS
from serving.admission import Cost, Workers, costs
from serving.call import PARSE, current
from serving.config.settings import ServeConfig
from serving.engine.engine import Engine
from serving.engine.served_models import ServedModels
from serving.engine.state_tensors import NO_WISH, Wish
from serving.errors import ExhaustedError, Fault, FaultyRequestError, GoneError
from serving.service.explanation import check_explainable, explain, give_rationales
from serving.service.interview import InterviewState
from serving.service.next_step import set_next_step
from serving.service.validation import (
    RequestLimits,
    are_clear,
    check_deferral,
    check_not_to_ask,
    check_number,
    check_questions,
    check_states,
)
from serving.telemetry import Telemetry
from triage.v1 import triage_pb2, triage_service_pb2, triage_service_pb2_grpc

INTERVIEW_SECONDS = 3600.0
"""The longest deadline of an interview, which holds its place until then even if its client has gone."""


class RequestOptions(NamedTuple):
    """What a request asks for beside its states."""

    wish: Wish = NO_WISH
    allow_unknown_codes: bool = False
    explain: bool = False
    model: str = ""  # its name, "" for the server's first model
    defer_below: float | None = None  # hand over what is less safe, and what is novel or contradictory
    questions_if_able: bool = False  # a model that cannot choose questions answers without, instead of refusing


# The method names are those of the .proto file, not snake case (N802).
class TriageService(triage_service_pb2_grpc.TriageServiceServicer):
    """Answers `triage.v1.TriageService` from the default version of each model."""

    def __init__(
        self,
        models: ServedModels,
        config: ServeConfig,
        workers: Workers,
        telemetry: Telemetry | None = None,
    ):
        self._models = models
        self._config = config
        self.workers = workers
        self._telemetry = telemetry or Telemetry()
        self._interviews = 0

    async def Triage(  # noqa: N802
        self, request: triage_service_pb2.TriageRequest, context: Any
    ) -> triage_pb2.TriageResponse:
        """Answers one evidence state."""
        return await self.triage(request)

    async def triage(
        self, request: triage_service_pb2.TriageRequest, questions_if_able: bool = False
    ) -> triage_pb2.TriageResponse:
        """Answers one evidence state; a model that cannot choose questions may answer without, instead of refusing."""
        if not request.HasField("state"):
            raise FaultyRequestError([Fault("state", "missing: set the evidence state to answer", "MISSING_STATE")])
        options = RequestOptions(
            Wish(request.questions, request.not_to_ask, request.can_measure), request.allow_unknown_codes,
            request.explain, request.model, _deferral(request), questions_if_able,
        )  # fmt: skip
        if request.explain:
            check_explainable(request.state)
        (response,) = await self._answer([request.state], options, batch=False)
        return response

    @costs(lambda request: Cost(len(request.states), request.ByteSize()))
    async def BatchTriage(  # noqa: N802
        self, request: triage_service_pb2.BatchTriageRequest, context: Any
    ) -> triage_service_pb2.BatchTriageResponse:
        """Answers several evidence states in their order; no states get no responses."""
        options = RequestOptions(
            Wish(request.questions, can_measure=request.can_measure), request.allow_unknown_codes,
            model=request.model, defer_below=_deferral(request),
        )  # fmt: skip
        responses = await self._answer(request.states, options, batch=True)
        return triage_service_pb2.BatchTriageResponse(responses=responses)

    async def Interview(  # noqa: N802
        self, requests: AsyncIterator[triage_service_pb2.InterviewRequest], context: Any
    ) -> AsyncIterator[triage_service_pb2.InterviewResponse]:
        """Conducts an interview with one version of the model; it holds one of a few places until it ends."""
        remaining = current().request.remaining_seconds()
        if remaining is None or remaining > INTERVIEW_SECONDS:
            raise InputError(
                f"deadline: an interview holds a place on the server: set one of at most {INTERVIEW_SECONDS:g} s"
            )
        if self._interviews >= self._config.max_interviews:
            raise ExhaustedError(
                f"{self._config.max_interviews} interviews are in progress, and no more are accepted: try again later, "
                "or call Triage with all that is known"
            )
        self._interviews += 1
        try:
            with contextlib.ExitStack() as stack:
                interview: InterviewState | None = None
                async for request in requests:
                    if interview is None:  # the first message names the model
                        versions = self._models.named(request.settings.model).versions
                        engine = stack.enter_context(versions.borrow())
                        interview = InterviewState(self._limits(engine, RequestOptions()))
                    state = await self.workers.run(_add_message, interview, request)
                    check_questions(interview.questions, "settings.questions", engine.info)
                    check_deferral(interview.defer_below, "settings.defer_below")
                    wish = Wish(interview.questions, interview.not_to_ask, interview.can_measure)
                    options = RequestOptions(wish, defer_below=interview.defer_below)
                    (response,) = await self._run(engine, [state], options)
                    self._record([state], [response])
                    message = interview.respond(response)
                    yield message
                    if message.ended:
                        return
        finally:
            self._interviews -= 1

    def GetModelInfo(  # noqa: N802
        self, request: triage_service_pb2.GetModelInfoRequest, context: Any
    ) -> triage_service_pb2.GetModelInfoResponse:
        """Describes the model that answers, and how it was made."""
        with self._models.named(request.model).versions.borrow() as engine:
            info = engine.info
        return triage_service_pb2.GetModelInfoResponse(
            model_version=info.model_version,
            vocabulary_fingerprint=info.vocabulary_fingerprint,
            data_fingerprint=info.data_fingerprint,
            evidence_count=info.evidence_count,
            max_questions=info.max_questions,
            manifest_json=info.manifest_json,
            rules=[
                triage_service_pb2.SafetyRule(
                    rule_id=rule.rule_id,
                    reason=rule.reason,
                    urgency=WIRE_NUMBERS[rule.urgency],
                    stops_asking=rule.stop_asking,
                    source=triage_service_pb2.RULE_SOURCE_MODEL,
                )
                for rule in info.rules
            ],
            novelty_threshold=info.novelty_threshold,
        )

    async def GetVocabulary(  # noqa: N802
        self, request: triage_service_pb2.GetVocabularyRequest, context: Any
    ) -> bytes:
        """Lists the evidence that the model knows, in the order of its state vector, in bytes that all calls share."""
        return _serialized(self.vocabulary(request.model))

    def check_first(self) -> None:
        """Raises ForbiddenError if the caller may not ask the first model."""
        self._models.named("")

    def vocabulary(self, model: str = "") -> Vocabulary:
        """Returns the evidence that a model knows, by default the first."""
        with self._models.named(model).versions.borrow() as engine:
            return engine.vocabulary

    def check_number(self, number: int, field: str) -> None:
        """Refuses a call with more states than the server takes, before they are made.

        Raises:
            FaultyRequestError: there are more.
        """
        check_number(number, self._config.max_batch, field)

    async def _answer(
        self, states: Sequence[triage_pb2.EvidenceState], options: RequestOptions, batch: bool
    ) -> Sequence[triage_pb2.TriageResponse]:
        """Answers with one version, or with its successor if a TensorFlow Serving has just unloaded the first one."""
        try:
            return await self._answer_with_one_version(states, options, batch)
        except GoneError:
            await self.workers.run(self._models.named(options.model).look)
            return await self._answer_with_one_version(states, options, batch)

    async def _answer_with_one_version(
        self, states: Sequence[triage_pb2.EvidenceState], options: RequestOptions, batch: bool
    ) -> Sequence[triage_pb2.TriageResponse]:
        with self._models.named(options.model).versions.borrow() as engine:
            if options.questions_if_able and not engine.info.questions:
                options = options._replace(wish=NO_WISH)
            check_questions(options.wish.questions, "questions", engine.info)
            check_deferral(options.defer_below, "defer_below")
            limits = self._limits(engine, options)
            if options.wish.not_to_ask:
                await self.workers.run(check_not_to_ask, options.wish.not_to_ask, limits)  # similar codes, as below
            await self._validate(states, limits, batch)
            if not states:
                return []
            responses = await self._run(engine, states, options)
            if options.explain:
                await self.workers.run(_add_explanation, engine, states[0], responses[0], options.wish)
        if current().large:
            await self.workers.run(self._record, states, responses)
        else:
            self._record(states, responses)
        return responses

    def _limits(self, engine: Engine, options: RequestOptions) -> RequestLimits:
        config, may_defer = self._config, options.defer_below is not None
        return RequestLimits(
            engine.vocabulary, config.max_batch, config.max_evidence, options.allow_unknown_codes, may_defer
        )

    async def _validate(self, states: Sequence[triage_pb2.EvidenceState], limits: RequestLimits, batch: bool) -> None:
        """Refuses faulty states, see `check_states`, which runs only for those that `are_clear` cannot pass."""
        call = current()
        if not call.large:
            with call.timed(PARSE):
                clear = are_clear(states, limits)
            if clear:
                return
        await self.workers.run(_check_states, states, limits, batch)  # finding similar codes takes long

    async def _run(
        self, engine: Engine, states: Sequence[triage_pb2.EvidenceState], options: RequestOptions
    ) -> list[triage_pb2.TriageResponse]:
        """Returns the answers with their next questions and their next step."""
        responses = await engine.answer(states, options.wish)
        with_questions = options.wish.questions > 0
        set_next_step(
            states, responses, engine.vocabulary, options.defer_below, engine.info.hand_over_from, with_questions
        )
        if with_questions:
            _put_texts(responses, engine.vocabulary)
        return responses

    def _record(
        self, states: Sequence[triage_pb2.EvidenceState], responses: Sequence[triage_pb2.TriageResponse]
    ) -> None:
        call = current()
        call.signature = features.SERVING_DEFAULT
        runs, call.runs = [len(states)] if call.runs is None else call.runs, None
        for run in runs:
            self._telemetry.record_run(responses[0].model_version, features.SERVING_DEFAULT, run)
        self._telemetry.record_answers(states, responses)


def _put_texts(responses: Sequence[triage_pb2.TriageResponse], vocabulary: Vocabulary) -> None:
    """Adds texts to the suggested questions."""
    for response in responses:
        for question in response.next_questions:
            entry = vocabulary[vocabulary.index(question.code)]
            if question.any_of:
                question.question = ANY_OF
            else:
                question.question = GROUPS[entry.exclusive] if question.one_of else entry.question


_OF_ENTRY = set(triage_service_pb2.VocabularyEntry.DESCRIPTOR.fields_by_name) - {"kind", "red_flag"}
"""The fields of an entry that a vocabulary has as they are."""


@functools.lru_cache(maxsize=16)
def _serialized(vocabulary: Vocabulary) -> bytes:
    return vocabulary_message(vocabulary).SerializeToString()


@functools.lru_cache(maxsize=16)
def vocabulary_message(vocabulary: Vocabulary) -> triage_service_pb2.GetVocabularyResponse:
    """Returns a vocabulary as a shared message, because making one takes a millisecond; callers must not change it."""
    entries = [
        triage_service_pb2.VocabularyEntry(
            kind=triage_service_pb2.EvidenceKind.Value(f"EVIDENCE_KIND_{entry.kind.upper()}"),
            red_flag=bool(entry.red_flag),
            **{name: getattr(entry, name) for name in _OF_ENTRY},
        )
        for entry in vocabulary
    ]
    return triage_service_pb2.GetVocabularyResponse(entries=entries, vocabulary_fingerprint=vocabulary.fingerprint)


def _deferral(request: Any) -> float | None:
    """Returns the `defer_below` of a request or of settings, None if it is not set."""
    return request.defer_below if request.HasField("defer_below") else None


def _add_explanation(
    engine: Engine, state: triage_pb2.EvidenceState, response: triage_pb2.TriageResponse, wish: Wish
) -> None:
    questions = _one_by_one(engine, state, wish) if engine.info.questions else []
    response.explanation.CopyFrom(explain(state, response, questions, engine.vocabulary, engine.triage))
    give_rationales(state, response, engine.triage)


def _one_by_one(engine: Engine, state: triage_pb2.EvidenceState, wish: Wish) -> list[triage_pb2.NextQuestion]:
    """Returns the best questions, of those that ask about several codes one for each; also where no more are asked."""
    known = triage_pb2.EvidenceState(evidence=state.evidence)
    alone: list[triage_pb2.NextQuestion] = []
    while True:
        withheld = (*wish.not_to_ask, *(question.code for question in alone))
        (answer,) = engine.triage([known], [Wish(MOST_QUESTIONS - len(alone), withheld, wish.can_measure)])
        best = list(answer.next_questions)
        if not best or not best[0].any_of or len(alone) + 1 == MOST_QUESTIONS:
            return alone + best
        alone.append(best[0])


def _check_states(states: Sequence[triage_pb2.EvidenceState], limits: RequestLimits, batch: bool) -> None:
    with current().timed(PARSE):
        check_states(states, limits, batch)


def _add_message(interview: InterviewState, request: triage_service_pb2.InterviewRequest) -> triage_pb2.EvidenceState:
    with current().timed(PARSE):
        return interview.add(request)
