"""The model behind the server that the console asks: its vocabulary, and its answer to a case."""

import contextlib
import dataclasses
import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from schemas.evidence import Evidence, Vocabulary
from serving.client import channel
from serving.client.search import Search
from serving.console.case import Case
from serving.messages import MOST_EXPLAINED
from triage_client import (
    EvidenceState,
    InvalidArgumentError,
    NextQuestion,
    NextStep,
    TriageError,
    TriageResponse,
    evidence_state,
)
from triage_client.v1 import triage_service_pb2


class NoAnswerError(Exception):
    """The server refuses or cannot be reached; the message is one line for a person."""


@dataclasses.dataclass(frozen=True)
class ModelVersion:
    """What pages need to know of a version."""

    info: triage_service_pb2.GetModelInfoResponse
    manifest: Mapping[str, Any]
    vocabulary: Vocabulary
    evidence: Mapping[str, Evidence]
    """The vocabulary by code."""
    search: Search

    @property
    def chooses_questions(self) -> bool:
        """Whether the model chooses questions; otherwise they come in the order of the vocabulary."""
        return self.manifest.get("questions") is not None


class Answer(NamedTuple):
    """A model's answer to a case."""

    model: ModelVersion
    response: TriageResponse
    asks: bool
    """Whether the next step is to ask, and there is a question."""
    question: str
    """The code to ask about next, "" if there is none."""
    chosen: NextQuestion | None
    """The model's reasons for the question, None if it comes from the vocabulary's order."""


class ServedModel:
    """Asks a server; threads may share it. Use it as a context manager.

    Raises:
        InputError: an option of the connection is wrong.
    """

    def __init__(self, connection: channel.ConnectionOptions):
        self._connection = connection
        self._client = channel.open_client(connection)
        self._version: ModelVersion | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> "ServedModel":
        return self

    def __exit__(self, *exception: object) -> None:
        self._client.close()

    def version(self, anew: bool = False) -> ModelVersion:
        """Returns the version that answered last, or, asked anew, the one that answers now.

        Raises:
            NoAnswerError: the server cannot tell.
        """
        with self._lock, self._in_plain_words():
            if self._version is None or anew:
                self._version = self._load()
            return self._version

    def answer(self, case: Case, defer_below: float = 0.0) -> Answer:
        """Returns the model's answer to a case in which something is known.

        It is handed over where P(safe) of the decision is below `defer_below`, and where cases always are.

        Raises:
            NoAnswerError: the server refuses or fails.
        """
        known = self.version()
        nothing_left = not known.chooses_questions and not _open(known, case)
        state = evidence_state(
            case.present,
            case.absent,
            questions_asked=case.questions_asked,
            no_more_evidence=case.ended or nothing_left,
        )
        with self._in_plain_words():
            model, response = self._ask(state, case.not_known, defer_below)
        chosen = next(iter(response.next_questions), None)
        question = chosen.code if chosen else ""
        if not model.chooses_questions and not response.forced:
            question = _open(model, case)
        asks = response.next == NextStep.NEXT_STEP_ASK and bool(question)
        return Answer(model, response, asks, question, chosen)

    def _ask(
        self, state: EvidenceState, not_to_ask: list[str], defer_below: float
    ) -> tuple[ModelVersion, TriageResponse]:
        """Returns a response and the model that gave it, which may be newer than the one that answered before."""
        model = self.version()
        try:
            response = self._triage(model, state, not_to_ask, defer_below)
        except InvalidArgumentError:  # by a newer version, which knows other evidence or chooses no questions
            model = self.version(anew=True)
            response = self._triage(model, state, not_to_ask, defer_below)
        if response.model_version != model.info.model_version:
            model = self.version(anew=True)
        return model, response

    def _triage(
        self, model: ModelVersion, state: EvidenceState, not_to_ask: list[str], defer_below: float
    ) -> TriageResponse:
        return self._client.triage(
            state,
            questions=int(model.chooses_questions),
            not_to_ask=not_to_ask,
            explain=len(state.evidence) <= MOST_EXPLAINED,
            defer_below=defer_below,
        )

    def _load(self) -> ModelVersion:
        info, listed = self._client.model_info(), self._client.vocabulary()
        vocabulary = channel.vocabulary_of(listed)
        evidence = {entry.code: entry for entry in vocabulary}
        return ModelVersion(info, json.loads(info.manifest_json), vocabulary, evidence, Search(tuple(vocabulary)))

    @contextlib.contextmanager
    def _in_plain_words(self) -> Iterator[None]:
        """Turns errors of the client into NoAnswerErrors."""
        try:
            yield
        except InvalidArgumentError as error:
            faults = [each.description for each in error.violations if each.field.startswith("state")]
            raise NoAnswerError("; ".join(faults) or error.message) from error
        except TriageError as error:
            raise NoAnswerError(channel.why_it_failed(error, self._connection)) from error


def _open(model: ModelVersion, case: Case) -> str:
    """Returns the first code of the vocabulary that is not in a case, "" if all are."""
    return next((code for code in model.vocabulary.codes if code not in case.codes), "")
