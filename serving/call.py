"""The call that is being answered: its request id, and how long each stage of it took.

`serving.calls.front` sets it when the call arrives; code that runs for the call reads it with `current`. Code that
answers several calls at once sets one of its own, and its stages are added to each of them afterwards.
"""

import contextvars
import random
import re
import time
from types import TracebackType
from typing import Any

QUEUE = "queue"
"""Waiting: for the request, for a thread, and to be answered together with other calls."""
PARSE = "parse"
"""From bytes to checked messages and to the tensors of the model."""
MODEL = "model"
"""The model itself, or the way to a TensorFlow Serving and back."""
RESPOND = "respond"
"""From the model's tensors to messages and to bytes."""
STAGES = (QUEUE, PARSE, MODEL, RESPOND)

REQUEST_ID = "x-request-id"
"""The metadata key under which a caller names a call, and the answer names it back."""

_CHANCE = random.Random()  # noqa: S311 (ids are no secrets, and the system's chance takes a call of the system)
# What can stand in a log line without being taken for anything else. Others are replaced, as no id is.
_REQUEST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+=@-]{0,127}")


class Call:
    """One call while it is answered; its fields are filled in on the way, by one thread at a time.

    Attributes:
        method: `/package.Service/Method`.
        request_id: the caller's, or one of its own.
        request_bytes: length of its only request, or 0.
        arrived: when the call came, by `time.perf_counter`.
        stages: (stage, begin, end) by `time.perf_counter`; a stage may come several times.
        model_version: the version that answered, "" before.
        signature: the signature that answered, "" before.
        states: number of evidence states answered.
        run_states: number of states in the run that answered it together with others, 0 where another call counts that
            run; None where it had a run of its own.
        reason: of a call that failed, why, as in google.rpc.ErrorInfo; "" otherwise.
        unknown_codes: number of unknown codes for which it was refused.
        trace_id: of OpenTelemetry, "" without traces.
        span: of OpenTelemetry, None without traces.
        outgoing: metadata for a server that is asked on behalf of the call, (key, value) pairs.
    """

    __slots__ = (
        "arrived", "method", "model_version", "outgoing", "reason", "request_bytes", "request_id", "run_states",
        "signature", "span", "stages", "states", "trace_id", "unknown_codes",
    )  # fmt: skip

    def __init__(self, method: str = "", request_id: str = ""):
        self.arrived = time.perf_counter()
        self.method = method
        self.request_id = request_id
        self.request_bytes = 0
        self.stages: list[tuple[str, float, float]] = []
        self.model_version = ""
        self.signature = ""
        self.states = 0
        self.run_states: int | None = None
        self.reason = ""
        self.unknown_codes = 0
        self.trace_id = ""
        self.span: Any = None
        self.outgoing: tuple[tuple[str, str], ...] = self.named

    @property
    def named(self) -> tuple[tuple[str, str], ...]:
        """The metadata that name the call, (key, value) pairs; none for a call without an id."""
        return ((REQUEST_ID, self.request_id),) if self.request_id else ()

    def add(self, stage: str, begin: float, end: float) -> None:
        """Adds a stretch of one of `STAGES`, in seconds of `time.perf_counter`."""
        self.stages.append((stage, begin, end))

    def timed(self, stage: str) -> "_Timed":
        """Returns a context manager that adds what its block takes."""
        return _Timed(self, stage)


class _Timed:
    __slots__ = ("_begin", "_call", "_stage")

    def __init__(self, call: Call, stage: str):
        self._call = call
        self._stage = stage

    def __enter__(self) -> None:
        self._begin = time.perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        self._call.stages.append((self._stage, self._begin, time.perf_counter()))


_CURRENT: contextvars.ContextVar[Call | None] = contextvars.ContextVar("call", default=None)


def enter(call: Call) -> None:
    """Makes `call` the current one, for as long as the context that runs is used."""
    _CURRENT.set(call)


def current() -> Call:
    """Returns the call that is being answered; outside of one, a call that nobody looks at."""
    return _CURRENT.get() or Call()


def request_id_of(metadata: Any) -> str:
    """Returns the caller's request id among (key, value) pairs, or a new one where there is none that will do."""
    for key, value in metadata or ():
        if key == REQUEST_ID and isinstance(value, str) and _REQUEST_ID.fullmatch(value):
            return value
    return format(_CHANCE.getrandbits(128), "032x")
