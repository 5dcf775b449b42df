"""Who may call what: a token for every service but health, and changes of what is served."""

from typing import Any, Protocol

from grpc_health.v1 import health

from serving.errors import ForbiddenError, UnauthenticatedError
from serving.security.addresses import is_loopback_target
from serving.security.tokens import TokenFile

RELOAD = "/tensorflow.serving.ModelService/HandleReloadConfigRequest"
"""The call that changes what is served."""

_OPEN = f"/{health.SERVICE_NAME}/"
_SCHEME = "bearer "
_WANTED = "this server wants a token: send one as the metadata `authorization: Bearer TOKEN`"


class Access(Protocol):
    """Lets calls in, or does not."""

    def check(self, method: str, context: Any) -> None:
        """Raises an error of `serving.errors` for a call that may not be made, before anything of it is read."""


class OpenAccess:
    """Lets everybody in."""

    def check(self, method: str, context: Any) -> None:
        """Does nothing."""


class TokenAccess:
    """Lets whoever shows a token of a file call everything, and nobody else anything but health."""

    def __init__(self, tokens: TokenFile):
        self._tokens = tokens

    def check(self, method: str, context: Any) -> None:
        """Looks for the token in the metadata of a call.

        Raises:
            UnauthenticatedError: there is none, or it is not valid.
        """
        if method.startswith(_OPEN):
            return
        values = [value for key, value in context.invocation_metadata() if key == "authorization"]
        if len(values) != 1 or not isinstance(values[0], str) or not values[0].lower().startswith(_SCHEME):
            raise UnauthenticatedError(_WANTED)
        if not self._tokens.accepts(values[0][len(_SCHEME) :].strip()):
            raise UnauthenticatedError("the token is not valid here: ask for one of this server's")


class LocalReloads:
    """Lets everybody in, but changes of what is served from this machine only; for servers without tokens."""

    def check(self, method: str, context: Any) -> None:
        """Looks at the peer of a call that is to change what is served.

        Raises:
            ForbiddenError: it comes from another machine.
        """
        if method == RELOAD and not is_loopback_target(context.peer()):
            raise ForbiddenError(
                "what is served can be changed from the server's own machine only, or on a server with --tokens"
            )
