"""Accepts requests only from the console's own pages, and tells the browser what they may load.

Any site that somebody visits can make their browser send requests to this machine. A request counts only if it names a
loopback host (against DNS rebinding, where a foreign name resolves to this machine) and comes from no other origin.
A console that is shared with other machines answers under its one host, to those who opened its link.
"""

import secrets
from typing import NamedTuple

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serving.security import is_loopback_header

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "cache-control": "no-store",  # a case is not to lie in the browser's cache
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",  # with no-referrer, browsers send forms with the origin "null"
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_OURS = ("same-origin", "none")  # none: typed into the address bar
_COOKIE = "triage_console"


class Shared(NamedTuple):
    """How other machines reach the console."""

    origin: str
    """As browsers write it, such as `http://192.168.1.20:8510`."""
    token: str
    """Of the link, which opens the console to anyone who has it."""

    def link(self) -> str:
        """Returns the address of the first page with the token."""
        return f"{self.origin}/?token={self.token}"

    def is_token(self, said: str) -> bool:
        """Returns whether it is the token, in constant time."""
        return secrets.compare_digest(said.encode(), self.token.encode())


class Guard:
    """ASGI middleware; refuses with 403. `shared` is how other machines reach the console, None if they do not."""

    def __init__(self, app: ASGIApp, shared: Shared | None = None):
        self._app, self._shared = app, shared

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self._answering(Request(scope))(scope, receive, send_with_headers)

    def _answering(self, request: Request) -> ASGIApp:
        """Returns what answers a request: the pages, a refusal, or where the link leads, without its token."""
        refusal = _refusal(request.headers, self._shared)
        if self._shared is not None and not refusal:
            if self._shared.is_token(request.query_params.get("token", "")):
                page = RedirectResponse("/" + request.url.path.lstrip("/"), 303)  # "//" would lead to another host
                secure = self._shared.origin.startswith("https:")
                page.set_cookie(_COOKIE, self._shared.token, httponly=True, samesite="strict", secure=secure)
                return page
            if not self._shared.is_token(request.cookies.get(_COOKIE, "")):
                refusal = "paste the link that the console printed, with its token, into the address bar"
        if refusal:
            return PlainTextResponse(f"refused: {refusal}\n", 403)
        return self._app


def _refusal(headers: Headers, shared: Shared | None) -> str:
    """Returns why a request is refused regardless of its sender, "" if it is not."""
    hosts = headers.getlist("host")
    if shared is not None:
        origin = shared.origin
        if hosts != [origin.partition("://")[2]]:
            return f"the console answers only at {origin}"
    elif len(hosts) == 1 and is_loopback_header(hosts[0]):
        origin = f"http://{hosts[0]}"
    else:
        return "the console answers only under the name localhost or a loopback address"
    origins = headers.getlist("origin")
    if origins and origins != [origin]:
        return "the request comes from a page of another origin"
    if headers.get("sec-fetch-site", "none") not in _OURS:
        return "the request comes from a page of another site: type the address into the address bar"
    return ""
