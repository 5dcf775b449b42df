"""Dynamic batching: requests that come at the same time are answered by one run of the model.

Requests wait on the event loop, and runs take place in threads. While a run is under way the next one gathers. A
request that comes alone is run at once, and where that takes less time than to hand it to a thread, on the event loop.
"""

import asyncio
import collections
import concurrent.futures
import contextlib
import contextvars
import copy
import pathlib
import time
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from schemas.evidence import Vocabulary
from schemas.model_directory import ModelInfo
from serving import call as calls
from serving.batching_parameters import BatchingParameters
from serving.errors import DeadlineError, ExhaustedError, UnavailableError
from serving.models.engine import Engine
from serving.models.watcher import Source
from triage.v1 import triage_pb2

_Engine = TypeVar("_Engine", bound=Engine)
_Responses = list[triage_pb2.TriageResponse]

# Of the engine and not of one request: asking it again for each request would make things worse.
_OF_ALL = (UnavailableError, DeadlineError, ExhaustedError)


class _Request:
    """A call that waits for its responses. A run fills in `outcome` and what follows, and the loop reads them then."""

    __slots__ = ("answered", "call", "end", "entered", "outcome", "run_states", "stages", "states")

    def __init__(self, states: Sequence[triage_pb2.EvidenceState], timeout_seconds: float | None):
        self.states = states
        self.call = calls.current()
        self.entered = time.perf_counter()
        self.end = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        # Also an error is a result: one that nobody fetches any more, asyncio would log, with its evidence.
        self.answered: asyncio.Future[_Responses | Exception] = asyncio.get_running_loop().create_future()
        self.outcome: _Responses | Exception = RuntimeError("the run was interrupted")
        self.run_states: int | None = None
        self.stages: list[tuple[str, float, float]] = []

    def remaining(self) -> float | None:
        return None if self.end is None else self.end - time.monotonic()

    def tell(self) -> None:
        """Hands the outcome to whoever waits."""
        self.call.stages.extend(self.stages)
        self.call.run_states = self.run_states
        answered, outcome = self.answered, self.outcome
        del self.answered, self.outcome  # the stack of an error holds this request
        if not answered.done():  # else the caller went away
            answered.set_result(outcome)


class BatchedEngine(Generic[_Engine]):
    """An engine that also answers on an event loop, several callers from one run; all else is the engine's own.

    All requests of a batch are answered by this one version. Whoever borrowed it waits for `answer`, so a version
    that is retired, or a server that ends, leaves no request behind in a queue.

    Args:
        engine: one version of a model. It may have `brief_states`, the most evidence states that it answers in less
            time than it takes to have a thread do it.
        parameters: how large batches become, how long they gather, and how many requests may wait.
    """

    def __init__(self, engine: _Engine, parameters: BatchingParameters):
        self.engine = engine
        self._parameters = parameters
        self._threads = concurrent.futures.ThreadPoolExecutor(parameters.num_batch_threads, thread_name_prefix="model")
        # All of this is touched on the event loop only.
        self._waiting: collections.deque[_Request] = collections.deque()
        self._waiting_states = 0
        self._running = 0
        self._company = 0  # requests that the next batch can be expected to have
        self._timer: asyncio.TimerHandle | None = None  # ends the wait for them

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    @property
    def waiting(self) -> int:
        """The number of evidence states that wait for a batch."""
        return self._waiting_states

    @property
    def gathering(self) -> bool:
        """Whether a batch waits for company."""
        return self._timer is not None

    @property
    def info(self) -> ModelInfo:
        """The model that answers."""
        return self.engine.info

    @property
    def vocabulary(self) -> Vocabulary:
        """The evidence that the model knows."""
        return self.engine.vocabulary

    async def answer(
        self,
        states: Sequence[triage_pb2.EvidenceState],
        timeout_seconds: float | None = None,
        alone: bool = False,
    ) -> _Responses:
        """Returns one response for each state, in their order, as the engine's `triage`, maybe from one run for many.

        Args:
            states: of one request, at least one.
            timeout_seconds: what is left of the caller's deadline, None where there is none.
            alone: whether the server holds no other call, which the event loop would keep waiting.

        Raises:
            ExhaustedError: too many states wait already.
            DeadlineError: the deadline passed before the model was asked.
            Exception: whatever the engine raises for these states.
        """
        if self._waiting_states >= self._parameters.max_enqueued_batches * self._parameters.max_batch_size:
            raise ExhaustedError(f"{self._waiting_states} evidence states wait for the model: try again later")
        request = _Request(states, timeout_seconds)
        answered = request.answered
        idle = not self._running and not self._waiting
        if alone and idle and len(states) <= getattr(self.engine, "brief_states", 0):
            contextvars.copy_context().run(self._find, [request])  # which makes another call the current one
            request.tell()
        else:
            self._waiting.append(request)
            self._waiting_states += len(states)
            self._begin(self._complete())
        outcome = await answered
        if isinstance(outcome, Exception):
            try:
                raise outcome
            finally:
                del outcome, request, answered  # which hold this frame
        return outcome

    def _begin(self, complete: bool) -> None:
        """Begins a run, or waits for as many requests as were under way before, but no longer than the parameters say.

        Who had no company goes at once: to wait would only make a single client slower.
        """
        if self._running == self._parameters.num_batch_threads or not self._waiting:
            return
        if not complete:
            if self._timer is None:
                seconds = self._parameters.batch_timeout_micros / 1e6
                self._timer = asyncio.get_running_loop().call_later(seconds, self._begin, True)
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch = self._take()
        if batch:
            self._running += 1
            self._threads.submit(self._run, batch, asyncio.get_running_loop())
            self._begin(self._complete())

    def _complete(self) -> bool:
        return len(self._waiting) >= self._company or self._waiting_states >= self._parameters.max_batch_size

    def _take(self) -> list[_Request]:
        """Takes a batch out of those that wait; a request that is too large is one by itself."""
        batch: list[_Request] = []
        size = 0
        while self._waiting:
            states = len(self._waiting[0].states)
            if batch and size + states > self._parameters.max_batch_size:
                break
            request = self._waiting.popleft()
            self._waiting_states -= states
            if not request.answered.done():  # else its caller went away
                batch.append(request)
                size += states
        return batch

    def _run(self, batch: list[_Request], loop: asyncio.AbstractEventLoop) -> None:
        """Runs a batch in a thread."""
        try:
            self._find(batch)
        finally:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits any more
                loop.call_soon_threadsafe(self._ended, batch)

    def _ended(self, batch: list[_Request]) -> None:
        """Begins the next run, and tells the requests of the last one."""
        self._running -= 1
        self._company = len(batch) + len(self._waiting)
        self._begin(self._complete())
        for request in batch:
            request.tell()

    def _find(self, batch: list[_Request]) -> None:
        """Finds the outcome of each request of a batch."""
        begin = time.perf_counter()
        for request in batch:
            request.stages.append((calls.QUEUE, request.entered, begin))
        self._answer([request for request in batch if not _expired(request)])

    def _answer(self, batch: list[_Request]) -> None:
        if not batch:
            return
        try:
            self._ask(batch)
        except Exception as error:
            if len(batch) == 1:
                batch[0].outcome = error
                return
            for request in batch:
                if isinstance(error, _OF_ALL):
                    request.outcome = copy.copy(error)  # each of them is raised
                else:  # it may be the fault of one of them
                    self._answer([request])

    def _ask(self, batch: Sequence[_Request]) -> None:
        """Asks the engine once, on behalf of all; raises what it raises."""
        call = calls.Call(request_id=batch[0].call.request_id)
        call.outgoing = batch[0].call.outgoing  # a server behind goes on with the ids of one of them
        calls.enter(call)
        states = [state for request in batch for state in request.states]
        remaining = [request.remaining() for request in batch]
        timeout = None if None in remaining else max(seconds for seconds in remaining if seconds is not None)
        responses = self.engine.triage(self._filled_up(states), timeout)
        batch[0].run_states = len(states)
        place = 0
        for request in batch:
            request.outcome = responses[place : place + len(request.states)]
            request.stages.extend(call.stages)
            place += len(request.states)
        for request in batch[1:]:
            request.run_states = 0  # the first one counts the run

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
    request.outcome = DeadlineError.before_the_model()
    return True
