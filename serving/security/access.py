"""Who may call what: tokens, which every service but health requires, and reloads."""

import logging
import math
import time
import urllib.parse
from typing import Any, Protocol

from grpc_health.v1 import health

from serving.errors import ForbiddenError, UnauthenticatedError
from serving.security.addresses import caller_at, is_loopback_target
from serving.security.tokens import TokenFile

RELOAD = "/tensorflow.serving.ModelService/HandleReloadConfigRequest"
"""The method that changes which versions are served."""

_LOGGER = logging.getLogger(__name__)
_LOG_SECONDS = 10.0
_OPEN = f"/{health.SERVICE_NAME}/"
_SCHEME = "bearer "
_REQUIRED = "this server requires a token: send one as the metadata `authorization: Bearer TOKEN`"


class Access(Protocol):
    """Decides which calls are allowed, and tells callers apart."""

    def check(self, method: str, context: Any) -> str:
        """Returns who calls, or raises an error of `serving.errors`, before the request is read."""


class OpenAccess:
    """Allows every call."""

    def check(self, method: str, context: Any) -> str:
        """Returns the caller by its address."""
        return caller_at(context.peer())


class TokenAccess:
    """Allows every call with a token from a file, and health without one."""

    def __init__(self, tokens: TokenFile):
        self._tokens = tokens
        self._refused = 0  # since the last line in the log
        self._logged = -math.inf

    def check(self, method: str, context: Any) -> str:
        """Checks the token in the metadata of a call, and returns the caller by its token.

        Raises:
            UnauthenticatedError: it is missing or not valid.
        """
        if method.startswith(_OPEN):
            return caller_at(context.peer())
        try:
            return self._name(context)
        except UnauthenticatedError:
            self._log(context.peer())
            raise

    def _log(self, peer: str) -> None:
        """Logs where a token was refused, and how often, but not more often than every few seconds."""
        self._refused += 1
        now = time.monotonic()
        if now - self._logged >= _LOG_SECONDS:
            peer = urllib.parse.unquote(peer)
            _LOGGER.warning("%d calls without a valid token were refused, the last one from %s", self._refused, peer)
            self._refused, self._logged = 0, now

    def _name(self, context: Any) -> str:
        values = [value for key, value in context.invocation_metadata() if key == "authorization"]
        if len(values) != 1 or not isinstance(values[0], str) or not values[0].lower().startswith(_SCHEME):
            raise UnauthenticatedError(_REQUIRED)
        name = self._tokens.name_of(values[0][len(_SCHEME) :].strip())
        if name is None:
            raise UnauthenticatedError("the token is not valid for this server")
        return name


class LocalReloads:
    """Allows every call, except reloads from other machines; for servers without tokens."""

    def check(self, method: str, context: Any) -> str:
        """Checks where a reload comes from, and returns the caller by its address.

        Raises:
            ForbiddenError: another machine.
        """
        if method == RELOAD and not is_loopback_target(context.peer()):
            raise ForbiddenError(
                "the configuration can be reloaded from the server's own machine only, or on a server with --tokens"
            )
        return caller_at(context.peer())
