"""Lets only pages of the console itself talk to it, and tells the browser what they may load.

Any site that somebody visits can make their browser send requests to this machine. A request counts only if it names a
loopback host (against DNS rebinding, where a foreign name resolves to this machine) and comes from no other origin.
"""

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
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


class Guard:
    """ASGI middleware; refuses with 403.

    Args:
        app: answers the other requests.
    """

    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refusal = _refusal(Headers(scope=scope))
        app = self._app
        if refusal:
            app = PlainTextResponse(f"refused: {refusal}\n", 403)
        await app(scope, receive, send_with_headers)


def _refusal(headers: Headers) -> str:
    """Returns why a request is refused, "" if it is not."""
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not is_loopback_header(hosts[0]):
        return "the console answers only under the name localhost or a loopback address"
    origins = headers.getlist("origin")
    if origins and origins != [f"http://{hosts[0]}"]:
        return "the request comes from a page of another origin"
    if headers.get("sec-fetch-site", "none") not in _OURS:
        return "the request comes from a page of another site: type the address into the address bar"
    return ""
