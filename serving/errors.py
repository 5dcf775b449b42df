"""Failures of a call. `serving.admission.status` maps each to a gRPC status.

The messages are for the caller and contain no evidence, except those of `FaultyRequestError`. Other bad input is
`schemas.errors.InputError`.
"""

import dataclasses
from collections.abc import Sequence

from schemas.errors import InputError

UNKNOWN_CODE = "UNKNOWN_CODE"
"""The reason of a fault: the model does not know the code."""


@dataclasses.dataclass(frozen=True)
class Fault:
    """What is wrong with one field of a request.

    Attributes:
        field: path of the field, such as `states[3].evidence[2].code`.
        description: what is wrong, and what to do.
        reason: the kind of fault, for programs, such as `UNKNOWN_CODE`.
        code: the unknown code, "" for other faults.
        nearest: the known codes most similar to an unknown one, the most similar first.
    """

    field: str
    description: str
    reason: str
    code: str = ""
    nearest: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.field}: {self.description}"


class FaultyRequestError(InputError):
    """Fields of a request are faulty; the message lists them.

    Args:
        faults: at least one.
        more: whether there are further faults.
    """

    def __init__(self, faults: Sequence[Fault], more: bool = False):
        super().__init__("; ".join([*map(str, faults), *(["and more"] if more else [])]))
        self.faults = tuple(faults)


class UnauthenticatedError(Exception):
    """The call has no token, or an invalid one."""


class ForbiddenError(Exception):
    """The caller lacks permission for the call."""


class NotFoundError(Exception):
    """This server does not serve the model or version."""


class PreconditionError(Exception):
    """The request is well formed, but the server is not in the state that it requires."""


class UnsupportedError(Exception):
    """The server does not offer the method; the message says what to use."""


class UnavailableError(Exception):
    """The server cannot answer now; a later call may succeed."""


class GoneError(UnavailableError):
    """A TensorFlow Serving no longer serves the version that was to answer; it may serve another."""


class DeadlineError(Exception):
    """The caller's deadline passed before the answer."""


class ExhaustedError(Exception):
    """The request is too large, or the server has too many.

    Args:
        message: what there is too much of.
        retry_seconds: when to try again, None where nobody can tell.
        hold_seconds: how long to keep the caller waiting for this refusal, so that it cannot come back at once.
    """

    def __init__(self, message: str, retry_seconds: float | None = None, hold_seconds: float = 0.0):
        super().__init__(message)
        self.retry_seconds = retry_seconds
        self.hold_seconds = hold_seconds


class EngineError(Exception):
    """The engine behind the service failed."""
