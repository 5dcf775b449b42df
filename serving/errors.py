"""What can go wrong with a call apart from its input; `serving.status` says which gRPC status each becomes.

The messages are for the caller and hold no evidence. Bad input is `schemas.errors.InputError`.
"""


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


class ExhaustedError(Exception):
    """The request is too large, or comes at a time of too many."""


class EngineError(Exception):
    """The engine behind the service failed."""
