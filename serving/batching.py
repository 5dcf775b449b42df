"""Dynamic batching: requests that come at the same time are answered by one run of the model.

There is no thread for it. Of the calls that wait, the first one leads: it takes those behind it along, runs the model
for all, and hands the lead to the next call that waits. A call that comes alone so runs the model at once, in its own
thread, and while a batch runs the next one gathers.
"""

import collections
import copy
import pathlib
import threading
import time
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from schemas.evidence import Vocabulary
from serving.batching_parameters import BatchingParameters
from serving.call import MODEL, QUEUE, current
from serving.engine import Engine
from serving.errors import DeadlineError, ExhaustedError, UnavailableError
from serving.model_directory import ModelInfo
from serving.watcher import Source
from triage.v1 import triage_pb2

_Engine = TypeVar("_Engine", bound=Engine)

# Of the engine and not of one request: asking it again for each request would make things worse.
_OF_ALL = (UnavailableError, DeadlineError, ExhaustedError)


class _Request:
    """A call that waits: for its responses, for the lead, or for word to run alone."""

    def __init__(self, states: Sequence[triage_pb2.EvidenceState], timeout_seconds: float | None):
        self.states = states
        self.run_states = 0  # of the run that this request led
        self.entered = self.begin = time.perf_counter()
        self.end = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        self.responses: list[triage_pb2.TriageResponse] | None = None
        self.error: Exception | None = None
        self.done = False
        self._turn = threading.Lock()
        self._turn.acquire()

    def remaining(self) -> float | None:
        return None if self.end is None else self.end - time.monotonic()

    def wait(self, seconds: float = -1) -> bool:
        """Returns when `wake` was called, or false after so many seconds."""
        return self._turn.acquire(timeout=seconds)

    def wake(self) -> None:
        self._turn.release()


class BatchedEngine(Generic[_Engine]):
    """An engine whose `triage` answers several callers from one run; all else is the engine's own.

    All requests of a batch are answered by this one version. Whoever borrowed it waits inside `triage`, so a version
    that is retired, or a server that ends, leaves no request behind in a queue.

    Args:
        engine: one version of a model.
        parameters: how large batches become, how long they gather, and how many requests may wait.
    """

    def __init__(self, engine: _Engine, parameters: BatchingParameters):
        self.engine = engine
        self._parameters = parameters
        self._lock = threading.Lock()  # of all below
        self._waiting: collections.deque[_Request] = collections.deque()
        self._waiting_states = 0
        self._leaders = 0  # who are not among those that wait
        self._gathering: _Request | None = None  # the leader to wake when its batch is complete
        self._company = 0  # requests that the next batch can be expected to have

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    @property
    def waiting(self) -> int:
        """The number of evidence states that wait for a batch."""
        with self._lock:
            return self._waiting_states

    @property
    def gathering(self) -> bool:
        """Whether a batch waits for company."""
        with self._lock:
            return self._gathering is not None

    @property
    def info(self) -> ModelInfo:
        """The model that answers."""
        return self.engine.info

    @property
    def vocabulary(self) -> Vocabulary:
        """The evidence that the model knows."""
        return self.engine.vocabulary

    def triage(
        self, states: Sequence[triage_pb2.EvidenceState], timeout_seconds: float | None = None
    ) -> list[triage_pb2.TriageResponse]:
        """Returns one response for each state, in their order, as the engine does, maybe from one run for many.

        Raises:
            ExhaustedError: too many states wait already.
            DeadlineError: the deadline passed before the model was asked.
            Exception: whatever the engine raises for these states.
        """
        request = _Request(states, timeout_seconds)
        if not self._enter(request):
            request.wait()
        followed = request.done
        if not followed:
            self._lead(request)
        call = current()
        call.add(QUEUE, request.entered, request.begin)
        if followed:  # who leads has the stages from the engine
            call.add(MODEL, request.begin, time.perf_counter())
        call.run_states = request.run_states
        if request.error is not None:
            raise request.error
        if request.responses is None:  # the batch failed, and it may be another's fault
            call.run_states = None
            return self.engine.triage(states, request.remaining())
        return request.responses

    def _enter(self, request: _Request) -> bool:
        """Puts a request at the end of the queue, or, where nobody has to be waited for, returns that it leads."""
        limit = self._parameters.max_enqueued_batches * self._parameters.max_batch_size
        with self._lock:
            if self._leaders < self._parameters.num_batch_threads:
                self._leaders += 1
                return True
            if self._waiting_states >= limit:
                raise ExhaustedError(f"{self._waiting_states} evidence states wait for the model: try again later")
            self._waiting.append(request)
            self._waiting_states += len(request.states)
            if self._gathering is not None and self._complete(self._gathering):
                self._gathering.wake()
                self._gathering = None
            return False

    def _lead(self, leader: _Request) -> None:
        """Runs one batch, in which `leader` is the first request, and hands the lead on."""
        batch = self._gather(leader)
        try:
            self._answer([request for request in batch if not _expired(request)])
        finally:
            with self._lock:
                self._company = len(batch) + len(self._waiting)
                successor = self._waiting.popleft() if self._waiting else None
                if successor is None:
                    self._leaders -= 1
                else:
                    self._waiting_states -= len(successor.states)
            if successor is not None:
                successor.wake()
            leader.done = True
            for request in batch[1:]:
                request.done = True
                request.wake()

    def _gather(self, leader: _Request) -> list[_Request]:
        """Returns a batch: the leader and those behind it that fit in; a request that is too large is one by itself.

        It waits for as many requests as were under way before, at most for the time that the parameters give. Who had
        no company goes at once: to wait would only make a single client slower.
        """
        with self._lock:
            waits = self._gathering is None and not self._complete(leader)
            if waits:
                self._gathering = leader
        if waits and not leader.wait(self._parameters.batch_timeout_micros / 1e6):
            with self._lock:
                woken = self._gathering is not leader  # just now, so that its turn must still be taken
                if not woken:
                    self._gathering = None
            if woken:
                leader.wait()
        with self._lock:
            batch, size = [leader], len(leader.states)
            while self._waiting and size + len(self._waiting[0].states) <= self._parameters.max_batch_size:
                batch.append(self._waiting.popleft())
                size += len(batch[-1].states)
            self._waiting_states -= size - len(leader.states)
        return batch

    def _complete(self, leader: _Request) -> bool:
        size = len(leader.states) + self._waiting_states
        return 1 + len(self._waiting) >= self._company or size >= self._parameters.max_batch_size

    def _answer(self, batch: list[_Request]) -> None:
        """Gives each request its responses, or its error; or neither, where it has to run alone."""
        if not batch:
            return
        begin = time.perf_counter()
        for request in batch:
            request.begin = begin
        states = [state for request in batch for state in request.states]
        batch[0].run_states = len(states)
        remaining = [request.remaining() for request in batch]
        timeout = None if None in remaining else max(seconds for seconds in remaining if seconds is not None)
        try:
            responses = self.engine.triage(self._filled_up(states), timeout)
        except Exception as error:
            if len(batch) == 1:
                batch[0].error = error
            elif isinstance(error, _OF_ALL):
                for request in batch:
                    request.error = copy.copy(error)  # several threads raise it
            return
        place = 0
        for request in batch:
            request.responses = responses[place : place + len(request.states)]
            place += len(request.states)

    def _filled_up(self, states: list[triage_pb2.EvidenceState]) -> list[triage_pb2.EvidenceState]:
        """Repeats the first state up to the next allowed size."""
        size = next((size for size in self._parameters.allowed_batch_sizes if size >= len(states)), len(states))
        return states + states[:1] * (size - len(states))


class BatchedModels(Generic[_Engine]):
    """Versions from another source, each with a batching of its own.

    Args:
        source: where the versions come from.
        parameters: as for `BatchedEngine`.
    """

    def __init__(self, source: Source[_Engine], parameters: BatchingParameters):
        self._source = source
        self._parameters = parameters

    def versions(self, base: pathlib.Path) -> dict[int, pathlib.Path]:
        """Returns the folder of each version, and raises, as the source does."""
        return self._source.versions(base)

    def load(self, folder: pathlib.Path) -> BatchedEngine[_Engine]:
        """Returns the engine of a version, warm; raises whatever is wrong with the version."""
        return BatchedEngine(self._source.load(folder), self._parameters)


def _expired(request: _Request) -> bool:
    remaining = request.remaining()
    if remaining is None or remaining > 0:
        return False
    request.error = DeadlineError.before_the_model()
    return True
