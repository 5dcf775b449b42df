"""Who may call what: a token for every service but health, and changes of what is served."""

from collections.abc import Callable
from typing import Any

import grpc
from grpc_health.v1 import health

from serving.addresses import is_loopback_target
from serving.errors import ForbiddenError, UnauthenticatedError
from serving.status import end, refusal
from serving.tokens import TokenFile

RELOAD = "/tensorflow.serving.ModelService/HandleReloadConfigRequest"
"""The call that changes what is served."""

_OPEN = f"/{health.SERVICE_NAME}/"
_SCHEME = "bearer "
_WANTED = "this server wants a token: send one as the metadata `authorization: Bearer TOKEN`"


class TokenInterceptor(grpc.ServerInterceptor):
    """Ends each call without a valid token with UNAUTHENTICATED, before anything of it is read."""

    def __init__(self, tokens: TokenFile):
        self._tokens = tokens

    def intercept_service(self, continuation: Callable[..., Any], details: grpc.HandlerCallDetails) -> Any:
        """Hands the call on, or answers it with its refusal."""
        if details.method.startswith(_OPEN):
            return continuation(details)
        values = [value for key, value in details.invocation_metadata if key == "authorization"]
        if len(values) != 1 or not isinstance(values[0], str) or not values[0].lower().startswith(_SCHEME):
            return refusal(UnauthenticatedError(_WANTED))
        if not self._tokens.accepts(values[0][len(_SCHEME) :].strip()):
            return refusal(UnauthenticatedError("the token is not valid here: ask for one of this server's"))
        return continuation(details)


class ReloadInterceptor(grpc.ServerInterceptor):
    """Ends a HandleReloadConfigRequest from another machine with PERMISSION_DENIED; for servers without tokens."""

    def intercept_service(self, continuation: Callable[..., Any], details: grpc.HandlerCallDetails) -> Any:
        """Hands the call on, with a look at its peer where it is to change what is served."""
        handler = continuation(details)
        if details.method != RELOAD or handler is None:
            return handler

        def reload(request: Any, context: grpc.ServicerContext) -> Any:
            if not is_loopback_target(context.peer()):
                end(
                    context,
                    ForbiddenError(
                        "what is served can be changed from the server's own machine only, or on a server with --tokens"
                    ),
                    RELOAD,
                )
            return handler.unary_unary(request, context)

        return grpc.unary_unary_rpc_method_handler(reload, handler.request_deserializer, handler.response_serializer)
