"""What can go wrong with a call apart from its input; `serving.calls.status` says which gRPC status each becomes.

The messages are for the caller and hold no evidence, save those of `FaultyRequestError`. Other bad input is
`schemas.errors.InputError`.
"""

import dataclasses
from collections.abc import Sequence

from schemas.errors import InputError

UNKNOWN_CODE = "UNKNOWN_CODE"
"""The reason of a fault that is a code which the model does not know."""


@dataclasses.dataclass(frozen=True)
class Fault:
    """What is wrong with one field of a request.

    Attributes:
        field: path of the field, such as `states[3].evidence[2].code`.
        description: what was expected, and what to do.
        reason: the kind of fault, for programs, such as `UNKNOWN_CODE`.
        code: of an unknown code, the code; "" otherwise.
        nearest: of an unknown code, the known ones spelt most like it, the nearest first.
    """

    field: str
    description: str
    reason: str
    code: str = ""
    nearest: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.field}: {self.description}"


class FaultyRequestError(InputError):
    """Fields of a request are faulty; the message tells each.

    Args:
        faults: at least one.
        more: whether there are others that are not told.
    """

    def __init__(self, faults: Sequence[Fault], more: bool = False):
        super().__init__("; ".join([*map(str, faults), *(["and more"] if more else [])]))
        self.faults = tuple(faults)


class UnauthenticatedError(Exception):
    """The call shows no token, or one that is not valid."""


class ForbiddenError(Exception):
    """The caller may not do what it asks for."""


class NotFoundError(Exception):
    """The model, or the version of it, is not served here."""


class PreconditionError(Exception):
    """The request is well formed, and the server is not in the state that it needs."""


class UnsupportedError(Exception):
    """The server does not offer the call; the message says what to use."""


class UnavailableError(Exception):
    """The server cannot answer now; a later call may succeed."""


class GoneError(UnavailableError):
    """The version that was to answer is not served any more where it was; another may be."""


class DeadlineError(Exception):
    """The answer did not come before the caller's deadline."""

    @classmethod
    def before_the_model(cls) -> "DeadlineError":
        """Returns the error of a call whose deadline passed while it waited for its turn."""
        return cls("the deadline passed before the model was asked: wait longer, or try again later")


class ExhaustedError(Exception):
    """The request is too large, or comes at a time of too many."""


class EngineError(Exception):
    """The engine behind the service failed."""
