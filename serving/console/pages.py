"""Renders the pages from their templates, and hands out what they load."""

import pathlib
from typing import Any

import jinja2
import markdown_it
from markupsafe import Markup
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from serving.console.case import STATUSES
from serving.messages import ANSWERS, ANY_OF, GROUPS, IN_DANGER, MEANINGS

_HERE = pathlib.Path(__file__).parent
_FILES = {"console.css": "text/css", "console.js": "text/javascript"}
_MARKDOWN = markdown_it.MarkdownIt("commonmark", {"html": False}).enable("table")


class Pages:
    """The templates.

    Args:
        language: of the vocabulary's questions, one of `ANSWERS`.
    """

    def __init__(self, language: str = "en"):
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_HERE), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True,
            lstrip_blocks=True,
        )  # fmt: skip
        answers = tuple(zip(ANSWERS[language], STATUSES, strict=True))
        any_of, none_of = ANY_OF[language]
        self._templates.globals |= {
            "meanings": MEANINGS, "answers": answers, "language": language, "groups": GROUPS[language],
            "any_of": any_of, "none_of": none_of, "in_danger": IN_DANGER,
        }  # fmt: skip

    def show(self, template: str, status: int = 200, **values: Any) -> Response:
        """Returns a page; all values are shown as text, except for Markup."""
        return HTMLResponse(self._templates.get_template(f"{template}.html.jinja").render(**values), status)

    def error(self, status: int, title: str, message: str) -> Response:
        """Returns a page that says what went wrong."""
        return self.show("error", status, title=title, message=message)


def markup(markdown: str) -> Markup:
    """Returns Markdown as HTML; tags in it are text."""
    return Markup(_MARKDOWN.render(markdown))  # noqa: S704


def files() -> list[Route]:
    """Returns the routes of the style sheet and the script."""
    return [Route(f"/{name}", _file((_HERE / name).read_bytes(), kind)) for name, kind in _FILES.items()]


def _file(content: bytes, kind: str) -> Any:
    async def endpoint(request: object) -> Response:
        return Response(content, media_type=kind)

    return endpoint
