"""The call in progress: its request id, and how long each of its stages took.

Each protocol sets it when a call arrives, and code that runs for the call reads it with `current`. A batch sets
a call of its own, and then adds its stages to those of every call in the batch.
"""

import contextvars
import random
import re
import time
from collections.abc import Iterable
from types import TracebackType
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
LANGUAGES = "accept-language"
"""The metadata key of the languages that a caller prefers, such as `de-CH, de;q=0.9, en;q=0.5`."""

_RANDOM = random.Random()  # noqa: S311 (ids are not secret, and the system's source costs a system call)
# Ids that are safe in a log line. Any other id is replaced by a new one.
_REQUEST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+=@-]{0,127}")
_MOST_CHARACTERS = 200
_RANGE = re.compile(r"\s*([A-Za-z0-9-]+)\s*(?:;\s*q=([01](?:\.\d{0,3})?)\s*)?")


class Call:
    """One call in progress; one thread at a time fills in its fields.

    Attributes:
        method: `/package.Service/Method`.
        request_id: the caller's, or a generated one.
        large: whether work for it would block the event loop for too long.
        had_turn: whether it had a turn as a large request, see `serving.admission.budget`.
        arrived: time of arrival, by `time.perf_counter`.
        stages: (stage, begin, end) by `time.perf_counter`; a stage may occur several times.
        model_name: the model that was asked, "" until that is known.
        model_version: the version that answered, "" until then.
        signature: the signature that answered, "" until then.
        states: number of answered evidence states.
        runs: number of states in each run of the model that this call counts, as others may share a run; None if the
            call was not batched.
        reason: why the call failed, as in google.rpc.ErrorInfo; "" if it did not.
        unknown_codes: number of unknown codes that the call was refused for.
        trace_id: OpenTelemetry's, "" without traces.
        span: OpenTelemetry's, None without traces.
        outgoing: metadata for calls to other servers on behalf of this one, (key, value) pairs.
        metadata: gRPC's, or the headers of an HTTP request: (key, value) pairs with keys in lower case.
        peer: address of the other end of the connection, "" if unknown.
        admitted: whether the call counts among those in progress.
        deadline: when its caller stops waiting, by `time.monotonic`; None if it waits for ever.
        caller: who shares the server fairly with others, see `serving.security.access`; "" if unknown.
        models: the names of the models that it may ask, None for all.
    """

    __slots__ = (
        "admitted", "arrived", "caller", "deadline", "had_turn", "large", "metadata", "method", "model_name",
        "model_version", "models", "outgoing", "peer", "reason", "request_id", "runs", "signature", "span", "stages",
        "states", "trace_id", "unknown_codes",
    )  # fmt: skip

    def __init__(self, method: str = "", request_id: str = ""):
        self.arrived = time.perf_counter()
        self.method = method
        self.request_id = request_id
        self.large = self.had_turn = False
        self.admitted = False
        self.deadline: float | None = None
        self.stages: list[tuple[str, float, float]] = []
        self.model_name = ""
        self.model_version = ""
        self.signature = ""
        self.states = 0
        self.runs: list[int] | None = None
        self.reason = ""
        self.unknown_codes = 0
        self.trace_id = ""
        self.span: Any = None
        self.outgoing: tuple[tuple[str, str], ...] = self.id_metadata
        self.metadata: Any = ()
        self.peer = ""
        self.caller = ""
        self.models: frozenset[str] | None = None

    @property
    def id_metadata(self) -> tuple[tuple[str, str], ...]:
        """Metadata with the id of the call, (key, value) pairs; empty for a call without an id."""
        return ((REQUEST_ID, self.request_id),) if self.request_id else ()

    def remaining_seconds(self) -> float | None:
        """Returns what is left of the caller's deadline, negative after it, None if there is none."""
        return None if self.deadline is None else self.deadline - time.monotonic()

    def add(self, stage: str, begin: float, end: float) -> None:
        """Adds the begin and end, by `time.perf_counter`, of one of `STAGES`."""
        self.stages.append((stage, begin, end))

    def timed(self, stage: str) -> "_Timed":
        """Returns a context manager that adds the time of its block to a stage."""
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


def preferred_language(metadata: Any, own: str, others: Iterable[str]) -> str:
    """Returns the one of `others` that `LANGUAGES` among (key, value) pairs prefers, "" for a text's `own` language.

    What is malformed is ignored.
    """
    asked = next((value for key, value in metadata or () if key == LANGUAGES and isinstance(value, str)), "")
    known = {own: "", **{language.lower(): language for language in others}}
    matches = filter(None, map(_RANGE.fullmatch, asked[:_MOST_CHARACTERS].split(",")))
    ranges = [(float(match[2] or 1), match[1].lower()) for match in matches]
    for weight, tag in sorted(ranges, key=lambda each: -each[0]):
        for wanted in (tag, tag.partition("-")[0]):
            if weight and wanted in known:
                return known[wanted]
    return ""
