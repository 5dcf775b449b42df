"""The interface of an engine, which runs one version of a model, and what engines in this process have in common."""

import abc
import functools
import os
import pathlib
import types
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from schemas import features
from schemas.evidence import Vocabulary
from schemas.model_directory import ModelInfo, read_version
from serving.call import MODEL, PARSE, RESPOND, current
from serving.engine.batching import Queue
from serving.engine.state_tensors import NO_WISH, MessageEncoder, Responses, Wish, to_questions
from serving.messages import state_message
from triage.v1 import triage_pb2

if TYPE_CHECKING:  # loads TensorFlow
    from tensorflow.core.protobuf import meta_graph_pb2
THREADS = "TF_NUM_INTRAOP_THREADS"
"""TensorFlow's variable for the number of threads that share one operation."""


class Engine(abc.ABC):
    """One version of a model, wherever it runs. All methods may be called from several threads at once.

    Attributes:
        info: the model that answers.
        vocabulary: the evidence that the model knows.
        signatures: the signatures that `predict` runs, by name, as the SavedModel declares them. None where the graph
            belongs to a TensorFlow Serving, which offers them itself.
    """

    info: ModelInfo
    vocabulary: Vocabulary
    signatures: Mapping[str, "meta_graph_pb2.SignatureDef"] = types.MappingProxyType({})

    @property
    def brief(self) -> bool:
        """Whether one evidence state takes less time to answer than to hand to a thread."""
        return False

    @abc.abstractmethod
    def triage(
        self, states: Sequence[triage_pb2.EvidenceState], wishes: Sequence[Wish] = ()
    ) -> list[triage_pb2.TriageResponse]:
        """Returns one response for each state, in the same order.

        A code that the model does not know, or that is both present and absent, has no part in the decision and is
        listed in the response. Where nothing is known the answer is ASK.

        Args:
            states: evidence states.
            wishes: which questions each response is to suggest; by default none does. What has no part in a decision
                has none in them. Where asking is not possible, none is suggested.
        """

    @functools.cached_property
    def queues(self) -> tuple[Queue, Queue]:
        """Of requests without questions, and of those with some, which take longer: no other waits for them."""
        return Queue(self), Queue(self)

    async def answer(
        self, states: Sequence[triage_pb2.EvidenceState], wish: Wish = NO_WISH
    ) -> list[triage_pb2.TriageResponse]:
        """Returns what `triage` does, in a batch with other calls, see `Queue.answer`."""
        return await self.queues[wish.questions > 0].answer(states, wish)

    def predict(self, signature: str, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Returns the outputs of one signature for inputs of the types and shapes that it declares.

        Raises:
            KeyError: `signatures` has no such name.
        """
        raise KeyError(signature)


def warm_up(engine: Engine, states: int = 1) -> None:
    """Runs some states as the typed service would, with a question for each if the model can choose any."""
    wish = Wish(int(engine.info.questions))
    engine.triage([state_message(engine.vocabulary.codes[:1])] * states, [wish] * states)


def run_in_one_thread() -> None:
    """Makes TensorFlow run each operation in one thread, unless TF_NUM_INTRAOP_THREADS is set.

    Splitting the products of a small batch costs more than it gains, and the other cores have other calls to answer.
    TensorFlow reads the variable once, when it first runs an operation in this process.
    """
    os.environ.setdefault(THREADS, "1")


class EncodingEngine(Engine):
    """Answers from the signatures `state` and `questions` of the version in a folder, `<model base path>/<number>`.

    Codes are looked up here, as that takes less time.

    Raises:
        InputError: the version's manifest or vocabulary is damaged.
    """

    def __init__(self, folder: pathlib.Path):
        self.info, self.vocabulary = read_version(folder)
        self._encoder = MessageEncoder(self.vocabulary)
        self._responses = Responses(self.info)

    def triage(
        self, states: Sequence[triage_pb2.EvidenceState], wishes: Sequence[Wish] = ()
    ) -> list[triage_pb2.TriageResponse]:
        """Returns one response for each state, in the same order, from one run of each signature.

        Questions are chosen only for the states in which some are wished for and asking is possible.

        Raises:
            Exception: what `decide` and `choose_questions` raise.
        """
        if not states:
            return []
        call = current()
        with call.timed(PARSE):
            encoded = self._encoder.encode(states)
        with call.timed(MODEL):
            outputs = self.decide(encoded.states, encoded.questions_asked)
            forced = outputs[features.FORCED].tolist()
            asking = [row for row, wish in enumerate(wishes) if wish.questions and not forced[row]]
            wished = [wishes[row] for row in asking]
            inputs = {
                features.STATES: encoded.states[asking],
                features.NOT_TO_ASK: self._encoder.not_to_ask(wished),
            }
            chosen = self.choose_questions(inputs) if asking else {}
        with call.timed(RESPOND):
            codes = {
                features.UNKNOWN_CODES: encoded.unknown_codes,
                features.CONFLICTING_CODES: encoded.conflicting_codes,
            }
            responses = self._responses.of({**outputs, **codes})
            if asking:
                questions = to_questions(chosen, inputs, self.vocabulary, wished)
                for row, suggested in zip(asking, questions, strict=True):
                    responses[row].next_questions.extend(suggested)
            return responses

    def decide(self, states: np.ndarray, questions_asked: np.ndarray) -> Mapping[str, np.ndarray]:
        """Returns the outputs of the signature `state` for states float32 `[B, E]` and questions asked int32 `[B]`."""
        return self.predict(features.STATE, {features.STATES: states, features.QUESTIONS_ASKED: questions_asked})

    def choose_questions(self, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Returns the outputs of the signature `questions` for its inputs, `[B, E]` each."""
        return self.predict(features.QUESTIONS, inputs)
