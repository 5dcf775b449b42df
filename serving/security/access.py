"""Who may call what: tokens with roles, which every service but health requires, and reloads."""

import logging
import math
import time
import urllib.parse
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from grpc_health.v1 import health

from serving.errors import ForbiddenError, UnauthenticatedError
from serving.security.addresses import caller_at, is_loopback_target
from serving.security.tokens import CALL, Holder, TokenFile
from serving.security.tokens import RELOAD as MAY_RELOAD

RELOAD = "/tensorflow.serving.ModelService/HandleReloadConfigRequest"
"""The method that changes which versions are served."""

_LOGGER = logging.getLogger(__name__)
_LOG_SECONDS = 10.0
_OPEN = f"/{health.SERVICE_NAME}/"
_SCHEME = "bearer "
Caller = tuple[str, frozenset[str] | None]
"""Who calls, and the names of the models that it may ask, None for all."""
_REQUIRED = "this server requires a token: send one as the metadata `authorization: Bearer TOKEN`"


class Access(Protocol):
    """Decides which calls are allowed, and tells callers apart by the address of the other end, or by their token."""

    def check(self, method: str, peer: str, metadata: Iterable[tuple[str, Any]]) -> Caller:
        """Returns who calls, or raises an error of `serving.errors`, before the request is read."""


class TokenAccess:
    """Allows every call that a token from a file permits, and health without one."""

    def __init__(self, tokens: TokenFile):
        self._tokens = tokens
        self._refused = 0  # since the last line in the log
        self._logged = -math.inf

    def check(self, method: str, peer: str, metadata: Iterable[tuple[str, Any]]) -> Caller:
        """Checks the token in the metadata of a call, and returns the caller by its token.

        Raises:
            UnauthenticatedError: it is missing or not valid.
            ForbiddenError: it does not permit the call.
        """
        if method.startswith(_OPEN):
            return caller_at(peer), None
        values = [value for key, value in metadata if key == "authorization"]
        try:
            holder = holder_of(values, self._tokens)
        except UnauthenticatedError:
            self._log(peer)
            raise
        check_role(holder, MAY_RELOAD if method == RELOAD else CALL)
        return holder.name, holder.models

    def _log(self, peer: str) -> None:
        """Logs where a token was refused, and how often, but not more often than every few seconds."""
        self._refused += 1
        now = time.monotonic()
        if now - self._logged >= _LOG_SECONDS:
            peer = urllib.parse.unquote(peer)
            _LOGGER.warning("%d calls without a valid token were refused, the last one from %s", self._refused, peer)
            self._refused, self._logged = 0, now


def holder_of(values: Sequence[Any], tokens: TokenFile) -> Holder:
    """Returns who sent the values of a call's `authorization`.

    Raises:
        UnauthenticatedError: they are not one valid token.
    """
    if len(values) != 1 or not isinstance(values[0], str) or not values[0].lower().startswith(_SCHEME):
        raise UnauthenticatedError(_REQUIRED)
    holder = tokens.holder_of(values[0][len(_SCHEME) :].strip())
    if holder is None:
        raise UnauthenticatedError("the token is not valid for this server")
    return holder


def check_role(holder: Holder, role: str) -> None:
    """Raises ForbiddenError if a token does not permit something."""
    if role not in holder.roles:
        raise ForbiddenError(
            f"the token has no role {role!r}: use one that has, or add it in the server's file of tokens"
        )


class LocalReloads:
    """Allows every call, except reloads from other machines; for servers without tokens."""

    def check(self, method: str, peer: str, metadata: Iterable[tuple[str, Any]]) -> Caller:
        """Checks where a reload comes from, and returns the caller by its address.

        Raises:
            ForbiddenError: another machine.
        """
        if method == RELOAD and not is_loopback_target(peer):
            raise ForbiddenError(
                "the configuration can be reloaded from the server's own machine only, or on a server with --tokens"
            )
        return caller_at(peer), None
