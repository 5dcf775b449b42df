"""Dynamic batching: one run of the model answers the requests that arrive at about the same time.

Requests wait on the event loop, and the model runs in threads. While one batch runs, the next one gathers. A request
that arrives alone, as the one before it did, runs at once, and on the event loop itself if that is quicker than a
thread. A request above the largest batch, or with much evidence, runs in parts, between which others are answered.
"""

import asyncio
import concurrent.futures
import contextlib
import copy
import dataclasses
import time
from collections.abc import Sequence
from typing import Protocol

from serving import call as calls
from serving.engine.state_tensors import NO_WISH, Wish
from serving.errors import DeadlineError, ExhaustedError, UnavailableError
from serving.fair_queue import FairQueue
from triage.v1 import triage_pb2

_Responses = list[triage_pb2.TriageResponse]

_STATES_OF_A_CALL = 16
"""How many states cost as much as answering one call more."""

_PIECES_OF_A_PART = 2048
"""Pieces of evidence in a part of a call, by the mean of its states: whoever comes next waits for the part."""

# Failures of the engine, not of one request: retrying each request alone would make matters worse.
_ENGINE_FAILURES = (UnavailableError, DeadlineError, ExhaustedError)


@dataclasses.dataclass(frozen=True)
class BatchingParameters:
    """How requests are batched, with TensorFlow Serving's names. No option sets them: tests do."""

    max_batch_size: int = 64  # evidence states: LiteRT is faster than the SavedModel up to as many
    batch_timeout_micros: int = 2000  # longest time that a batch waits for more requests, about that of one run
    max_enqueued_batches: int = 16  # some 0.3 seconds of work


class _Request:
    """A call that waits for its responses. The thread of a run fills in `outcome` and the fields below it."""

    __slots__ = ("answered", "call", "entered", "outcome", "runs", "stages", "states", "wish")

    def __init__(self, states: Sequence[triage_pb2.EvidenceState], wish: Wish):
        self.states = states
        self.wish = wish
        self.call = calls.current()
        self.entered = time.perf_counter()
        # Errors are results too: asyncio would log an exception that nobody retrieves, together with its evidence.
        self.answered: asyncio.Future[_Responses | Exception] = asyncio.get_running_loop().create_future()
        self.outcome: _Responses | Exception = RuntimeError("the run was interrupted")
        self.runs: list[int] = []
        self.stages: list[tuple[str, float, float]] = []

    def resolve(self) -> None:
        """Hands the outcome to the waiting caller."""
        self.call.stages.extend(self.stages)
        self.call.runs = [*(self.call.runs or ()), *self.runs]
        answered, outcome = self.answered, self.outcome
        del self.answered, self.outcome  # an error's stack refers to this request
        if not answered.done():  # otherwise the caller has gone
            answered.set_result(outcome)


class Runs(Protocol):
    """What answers a batch: an engine."""

    @property
    def brief(self) -> bool:
        """Whether one evidence state takes less time to answer than to hand to a thread."""

    def triage(self, states: Sequence[triage_pb2.EvidenceState], wishes: Sequence[Wish] = ()) -> _Responses:
        """Returns one response for each state, in the same order."""


class Queue:
    """Requests of several callers, which one run of an engine answers together.

    Whoever borrowed the engine's version waits for `answer`, so neither retiring a version nor stopping the server
    leaves a request in a queue.
    """

    def __init__(self, engine: Runs, parameters: BatchingParameters = BatchingParameters()):
        self._engine = engine
        self._parameters = parameters
        self._threads = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="model")
        # Only the event loop touches the fields below.
        self._waiting: FairQueue[_Request] = FairQueue()
        self._waiting_states = 0
        self._running = False
        self._expected = 0  # requests that the next batch is likely to hold
        self._timer: asyncio.TimerHandle | None = None  # ends the wait for them

    @property
    def waiting(self) -> int:
        """The number of evidence states that wait for a batch."""
        return self._waiting_states

    @property
    def gathering(self) -> bool:
        """Whether a batch waits for more requests."""
        return self._timer is not None

    async def answer(self, states: Sequence[triage_pb2.EvidenceState], wish: Wish = NO_WISH) -> _Responses:
        """Returns one response for each state, in the same order, possibly from a run shared with other calls.

        Args:
            states: the states of one call, at least one.
            wish: which questions each response is to suggest.

        Raises:
            ExhaustedError: too many states wait already.
            DeadlineError: the deadline of the call passed before the model ran.
            Exception: whatever the engine raises for these states.
        """
        self._check_room(len(states))
        part = self._part_of(states)
        if len(states) <= part:
            return await self._answer_part(states, wish)
        responses: _Responses = []
        for begin in range(0, len(states), part):
            responses += await self._answer_part(states[begin : begin + part], wish)
        return responses

    def _part_of(self, states: Sequence[triage_pb2.EvidenceState]) -> int:
        """Returns how many states of a call may run together."""
        size = self._parameters.max_batch_size
        if len(states) == 1:
            return size
        part = size if len(states) <= size else -(-size // 2)  # the other half of a batch is for others
        pieces = sum(len(state.evidence) for state in states)
        return max(1, min(part, _PIECES_OF_A_PART * len(states) // max(1, pieces)))

    def _check_room(self, states: int) -> None:
        """Raises ExhaustedError if too many states wait; a quarter of the room is kept for single ones."""
        room = self._parameters.max_enqueued_batches * self._parameters.max_batch_size
        if self.waiting >= room - (room // 4 if states > 1 else 0):
            raise ExhaustedError(f"{self.waiting} evidence states wait for the model: try again later")

    async def _answer_part(self, states: Sequence[triage_pb2.EvidenceState], wish: Wish) -> _Responses:
        request = _Request(states, wish)
        answered = request.answered
        self._waiting.put(request.call.caller, request, 1 + len(states) / _STATES_OF_A_CALL)
        self._waiting_states += len(states)
        self._begin(self._complete())
        outcome = await answered
        if isinstance(outcome, Exception):
            try:
                raise outcome
            finally:
                del outcome, request, answered  # they refer to this frame
        return outcome

    def _begin(self, complete: bool) -> None:
        """Starts a run, or waits until as many requests have arrived as in the run before, up to the batch timeout.

        After a run of a single request the next one starts at once: waiting would only slow a single client down. A run
        on the event loop begins in its next turn, and not if another request arrives in this one.
        """
        if self._running or not self._waiting:
            return
        brief = self._expected <= 1 and self.waiting == 1 and self._engine.brief
        if not self.gathering and (brief or not complete):
            seconds = 0.0 if complete else self._parameters.batch_timeout_micros / 1e6
            self._timer = asyncio.get_running_loop().call_later(seconds, self._begin, True)
            return
        if not complete:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch = self._take()
        if not batch:
            return
        self._running = True
        if brief:  # called by the timer, so that another call may become the current one
            self._answer(batch)
            self._finish(batch)
        else:
            self._threads.submit(self._run, batch, asyncio.get_running_loop())

    def _complete(self) -> bool:
        return len(self._waiting) >= self._expected or self.waiting >= self._parameters.max_batch_size

    def _take(self) -> list[_Request]:
        """Removes a batch from the queue."""
        batch: list[_Request] = []
        size = 0
        while self._waiting:
            states = len(self._waiting.first.states)
            if size + states > self._parameters.max_batch_size:
                break
            request = self._waiting.pop()
            self._waiting_states -= states
            if not request.answered.done():  # otherwise the caller has gone
                batch.append(request)
                size += states
        return batch

    def _run(self, batch: list[_Request], loop: asyncio.AbstractEventLoop) -> None:
        """Answers a batch in a thread."""
        try:
            self._answer(batch)
        finally:
            with contextlib.suppress(RuntimeError):  # the loop has closed, and nobody waits any more
                loop.call_soon_threadsafe(self._finish, batch)

    def _finish(self, batch: list[_Request]) -> None:
        """Starts the next run, and hands out the outcomes of this one."""
        self._running = False
        self._expected = len(batch) + len(self._waiting)
        self._begin(self._complete())
        for request in batch:
            request.resolve()

    def _answer(self, batch: list[_Request]) -> None:
        """Sets the outcome of each request."""
        begin = time.perf_counter()
        for request in batch:
            request.stages.append((calls.QUEUE, request.entered, begin))
        in_time = [request for request in batch if not _expired(request)]
        try:
            self._ask(in_time)
        except Exception as error:
            for request in in_time:
                if len(in_time) == 1:
                    request.outcome = error
                elif isinstance(error, _ENGINE_FAILURES):
                    request.outcome = copy.copy(error)  # each caller raises its own
                else:
                    self._ask_alone(request)  # one faulty request must not fail the others

    def _ask_alone(self, request: _Request) -> None:
        try:
            self._ask([request])
        except Exception as error:
            request.outcome = error

    def _ask(self, batch: Sequence[_Request]) -> None:
        """Runs the engine once for all requests; raises what it raises."""
        if not batch:
            return
        first, deadlines = batch[0].call, [request.call.request.deadline for request in batch]
        latest = None if None in deadlines else max(each for each in deadlines if each is not None)
        call = calls.Call(calls.Request(id=first.request.id, deadline=latest))
        call.outgoing = first.outgoing  # a remote server sees the ids of one of the calls
        calls.enter(call)
        states = [state for request in batch for state in request.states]
        wishes = [request.wish for request in batch for _ in request.states]
        responses = self._engine.triage(states, wishes)
        batch[0].runs = [len(states)]  # the first request counts the run
        place = 0
        for request in batch:
            request.outcome = responses[place : place + len(request.states)]
            request.stages.extend(call.stages)
            place += len(request.states)


def _expired(request: _Request) -> bool:
    remaining = request.call.request.remaining_seconds()
    if remaining is None or remaining > 0:
        return False
    request.outcome = DeadlineError(
        "the deadline passed before the model ran: set a longer deadline, or try again later"
    )
    return True
