"""The call in progress: its request id, and how long each of its stages took.

Each protocol sets it when a call arrives, and code that runs for the call reads it with `current`. A batch sets
a call of its own, and then adds its stages to those of every call in the batch.
"""

import contextlib
import contextvars
import dataclasses
import random
import re
import time
from collections.abc import Iterator
from typing import Any

QUEUE = "queue"
"""Waiting: for the request, for a thread, and for a batch."""
PARSE = "parse"
"""From bytes to validated messages and the model's input tensors."""
MODEL = "model"
"""The model itself, or the round trip to a TensorFlow Serving."""
RESPOND = "respond"
"""From the model's output tensors to messages and bytes."""
STAGES = (QUEUE, PARSE, MODEL, RESPOND)

REQUEST_ID = "x-request-id"
"""The metadata key of a call's id, in requests and in answers."""

_RANDOM = random.Random()  # noqa: S311 (ids are not secret, and the system's source costs a system call)
# Ids that are safe in a log line. Any other id is replaced by a new one.
_REQUEST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+=@-]{0,127}")


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """What is known of a call when it arrives.

    Attributes:
        method: `/package.Service/Method`.
        id: the caller's, or a generated one.
        metadata: gRPC's, or the headers of an HTTP request: (key, value) pairs with keys in lower case.
        peer: address of the other end of the connection, "" if unknown.
        deadline: when its caller stops waiting, by `time.monotonic`; None if it waits for ever.
        arrived: time of arrival, by `time.perf_counter`.
    """

    method: str = ""
    id: str = ""
    metadata: Any = ()
    peer: str = ""
    deadline: float | None = None
    arrived: float = dataclasses.field(default_factory=time.perf_counter)

    @property
    def id_metadata(self) -> tuple[tuple[str, str], ...]:
        """Metadata with the id of the call, (key, value) pairs; empty for a call without an id."""
        return ((REQUEST_ID, self.id),) if self.id else ()

    def remaining_seconds(self) -> float | None:
        """Returns what is left of the caller's deadline, negative after it, None if there is none."""
        return None if self.deadline is None else self.deadline - time.monotonic()


@dataclasses.dataclass(slots=True, eq=False)
class Call:
    """One call in progress: its request, and the record of how it is served; one thread at a time writes the record.

    Attributes:
        request: the call as it arrived.
        caller: who shares the server fairly with others, see `serving.security.access`; "" if unknown.
        models: the names of the models that it may ask, None for all.
        large: whether it has its turn as a large request, whose work would block the event loop for too long.
        had_turn: whether it had such a turn, see `serving.admission.budget`.
        model_name: the model that was asked, "" until that is known.
        model_version: the version that answered, "" until then.
        signature: the signature that answered, "" until then.
        states: number of answered evidence states.
        runs: number of states in each run of the model that this call counts, as others may share a run; None if the
            call was not batched.
        stages: (stage, begin, end) by `time.perf_counter`; a stage may occur several times.
        reason: why the call failed, as in google.rpc.ErrorInfo; "" if it did not.
        unknown_codes: number of unknown codes that the call was refused for.
        span: OpenTelemetry's, None without traces.
        outgoing: metadata for calls to other servers on behalf of this one, (key, value) pairs.
    """

    request: Request = dataclasses.field(default_factory=Request)
    caller: str = ""
    models: frozenset[str] | None = None
    large: bool = False
    had_turn: bool = False
    model_name: str = ""
    model_version: str = ""
    signature: str = ""
    states: int = 0
    runs: list[int] | None = None
    stages: list[tuple[str, float, float]] = dataclasses.field(default_factory=list)
    reason: str = ""
    unknown_codes: int = 0
    span: Any = None
    outgoing: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        self.outgoing = self.request.id_metadata

    def add(self, stage: str, begin: float, end: float) -> None:
        """Adds the begin and end, by `time.perf_counter`, of one of `STAGES`."""
        self.stages.append((stage, begin, end))

    @contextlib.contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Adds the time of a `with` block to a stage."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.add(stage, begin, time.perf_counter())


_CURRENT: contextvars.ContextVar[Call | None] = contextvars.ContextVar("call", default=None)


def enter(call: Call) -> None:
    """Makes `call` the current one in this context."""
    _CURRENT.set(call)


def current() -> Call:
    """Returns the current call, or outside of a call a new one that is discarded."""
    return _CURRENT.get() or Call()


def request_id_of(metadata: Any) -> str:
    """Returns the request id among (key, value) pairs, or a new one if there is no valid id."""
    for key, value in metadata or ():
        if key == REQUEST_ID and isinstance(value, str) and _REQUEST_ID.fullmatch(value):
            return value
    return format(_RANDOM.getrandbits(128), "032x")
