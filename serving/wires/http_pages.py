"""Refuses requests from pages of other sites to a server without tokens: any site can make browsers send them."""

import urllib.parse

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from serving.config.settings import ServeConfig
from serving.security import is_loopback, is_loopback_header
from serving.wires.http_problems import problem


class KnownPages:
    """ASGI middleware; answers 403 to requests from pages of other origins than the server's own and `cors_origins`.

    A server on the loopback address is asked under a loopback name, or one in `cors_origins` where a proxy hands it on:
    a foreign name that resolves to this machine (DNS rebinding) would give its pages the answers. With tokens all
    requests pass, as no page knows one.
    """

    def __init__(self, app: ASGIApp, config: ServeConfig):
        self._app = app
        self._origins = frozenset(filter(None, config.cors_origins.split(",")))
        self._names = {urllib.parse.urlsplit(origin).netloc for origin in self._origins}
        self._local = is_loopback(config.http_host or config.host)
        self._all_pass = bool(config.tokens)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        refusal = "" if self._all_pass or scope["type"] != "http" else self._refusal(Headers(scope=scope))
        app: ASGIApp = self._app
        if refusal:
            app = problem(403, {"detail": refusal, "reason": "FOREIGN_PAGE"})
        await app(scope, receive, send)

    def _refusal(self, headers: Headers) -> str:
        """Returns why a request is refused, "" if it is not."""
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        host = hosts[0] if len(hosts) == 1 else ""
        if self._local and host not in self._names and not is_loopback_header(host):
            return (
                "this server answers only under the name localhost or a loopback address: use that, or give the origin "
                "with --cors-origins"
            )
        if any(origin not in self._origins and origin.partition("://")[2] != host for origin in origins):
            return "the request comes from a page of another origin: give that with --cors-origins"
        return ""
