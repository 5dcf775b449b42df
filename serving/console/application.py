"""The pages of the console, and what their forms do.

Forms send everything in their body; no address, cookie or log names a finding. A form leads to a page with a random
address of its own, so that the browser's Back and Reload send nothing again. All pages work without script.
"""

import collections
import pathlib
import re
import secrets
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

import jinja2
import markdown_it
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from schemas.bands import NumberError
from schemas.directories import CARD_FOR_MAKERS, MODEL_CARD
from schemas.errors import InputError
from schemas.evidence import code_fault
from schemas.questions import ANY_OF, GROUPS, NONE_OF
from serving.client.search import Search
from serving.console import view
from serving.console.case import ABSENT, PRESENT, STATUSES, Case, Statement
from serving.console.guard import Guard, Shared
from serving.console.served_model import NoAnswerError, ServedModel
from serving.messages import ANSWERS, IN_DANGER, MEANINGS

NUMBER = "number"
"""In place of a status: a measured number follows, see `schemas.bands`."""
EACH = "each"
"""In place of a status: each of several codes has its own, in a field of its name."""
_FOR_MAKERS = re.compile(rf"^## (?:{'|'.join(CARD_FOR_MAKERS)})\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_NO_BUTTON = "this page has no such button: start over"
_MOST_BYTES = 1 << 20
_MOST_PAGES = 500  # some 10 MB

_HERE = pathlib.Path(__file__).parent
_FILES = {"console.css": "text/css", "console.js": "text/javascript"}
_MARKDOWN = markdown_it.MarkdownIt("commonmark", {"html": False}).enable("table")


class _FaultyAnswerError(Exception):
    """An answer is invalid and changes nothing; the message says why."""


class Pages:
    """The templates."""

    def __init__(self) -> None:
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_HERE), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True,
            lstrip_blocks=True,
        )  # fmt: skip
        self._templates.globals |= {
            "meanings": MEANINGS, "answers": tuple(zip(ANSWERS, STATUSES, strict=True)), "groups": GROUPS,
            "any_of": ANY_OF, "none_of": NONE_OF, "in_danger": IN_DANGER,
            "focus": "step", "fault": "", "filled": {},  # unless a form was faulty
        }  # fmt: skip

    def show(self, template: str, status: int = 200, **values: Any) -> Response:
        """Returns a page; all values are shown as text, except for Markup."""
        return HTMLResponse(self._templates.get_template(f"{template}.html.jinja").render(**values), status)

    def error(self, status: int, title: str, message: str) -> Response:
        """Returns a page that says what went wrong."""
        return self.show("error", status, title=title, message=message)


class Console:
    """Answers requests for pages.

    `models` is the folder with a folder for each version, None if the server has it elsewhere.
    """

    def __init__(self, served: ServedModel, pages: Pages, models: pathlib.Path | None = None):
        self._served, self.pages = served, pages
        self._models = models

    def start(self, form: dict[str, str]) -> Response:
        """Returns the page of a new case."""
        return self._case(Case(), "", "search")

    def go_on(self, form: dict[str, str]) -> Response:
        """Returns the page of a case after its form was sent."""
        case, do = Case.parse(form.get("case", "")), form.get("do", "")
        searches = do == "search" or do.startswith("add ")
        typed, focus = form.get("search", "") if searches else "", "search" if do == "search" else "step"
        try:
            return self._case(self._after(case, form), typed, focus)
        except (_FaultyAnswerError, NoAnswerError) as error:  # the case stays as it is, and the page says why
            field = "number" if do.startswith(f"answer {NUMBER} ") else "search" if searches else "question"
            return self._case(case, typed, field, fault=str(error), filled=form)

    def search(self, form: dict[str, str]) -> Response:
        """Returns the results of a search alone, which the script puts into the page while somebody types."""
        case, typed, search = Case.parse(form.get("case", "")), form.get("search", ""), self._served.version().search
        return self.pages.show("results", case=case, **_found(search, typed))

    def model_card(self, form: dict[str, str]) -> Response:
        """Returns the model card of the version that answers, where it can be read, without the sections for makers."""
        model = self._served.version()
        path = self._models / model.info.model_version / MODEL_CARD if self._models else None
        card = None
        if path is not None and path.exists():
            card = markup(_FOR_MAKERS.sub("", path.read_text(encoding="utf-8")))
        return self.pages.show("model", info=model.info, manifest=model.manifest, card=card)

    def _case(self, case: Case, typed: str, focus: str, fault: str = "", filled: Mapping[str, str] = {}) -> Response:
        """Returns the page of a case.

        Args:
            case: what is known of the patient.
            typed: what was typed into the search.
            focus: part of the page that has the focus: its step, search, or the number or the question that is faulty.
            fault: why a form changed nothing, "" if it did.
            filled: fields of that form, which are shown again.
        """
        answer = self._served.answer(case) if case.present or case.absent else None
        model = answer.model if answer else self._served.version()
        page = view.case_page(case, answer, model)
        shown: dict[str, Any] = {"focus": focus, "fault": fault, "filled": filled, **_found(model.search, typed)}
        return self.pages.show("case", 422 if fault else 200, page=page, case=case, **shown)

    def _after(self, case: Case, form: dict[str, str]) -> Case:
        """Returns a case after the button that `do` names.

        It is search, undo, end, or `add` or `answer` with a status and a code, or with several that are said together.
        In place of a status, `number` says that a measured number follows, or stands in a field, and `each` that each
        code has a field with its own. What such fields say counts before a status for all.

        Raises:
            InputError: the page has no such button.
            _FaultyAnswerError: the number is faulty, or a code has no status.
        """
        do = form.get("do", "")
        if do in ("", "search"):
            return case
        if do == "undo":
            return case.without_last()
        if do == "end":
            return case.ending()
        verb, _, rest = do.partition(" ")
        status, _, rest = rest.partition(" ")
        codes = rest.split(" ")
        model = self._served.version()
        vocabulary = model.vocabulary
        asked = verb == "answer" and case.counts(codes[0], vocabulary)
        if verb not in ("add", "answer") or status not in (*STATUSES, NUMBER, EACH):
            raise InputError(_NO_BUTTON)
        statuses = {code: form.get(f"says {code}", status) for code in codes}
        if status == NUMBER:
            bands = vocabulary.bands
            typed, measure = form.get("number", "").strip(), bands.measure_of(codes[0])
            text = codes[0] if verb == "add" else model.search.number(measure, typed) or f"{measure}={typed}"
            if not bands.is_number(text):
                raise InputError(_NO_BUTTON)
            if not typed and verb == "answer":
                raise _FaultyAnswerError("No number yet: enter one, or choose an answer.")
            case = case.without(bands.codes_of(text))  # an earlier number of the same measure
            try:
                findings = [*bands.read([*case.present, text])]
            except NumberError as error:
                number, why = text.replace("_", " ").replace("=", " "), error.reason.partition(" (")[0]  # without codes
                raise _FaultyAnswerError(f"{number[0].upper()}{number[1:]}: {why}.") from error
            statuses = {each.code: PRESENT if each.present else ABSENT for each in findings}
        elif any(map(code_fault, codes)) or not {*statuses.values()} <= {*STATUSES, EACH}:
            raise InputError(_NO_BUTTON)
        elif open_codes := [code for code, said in statuses.items() if said == EACH]:
            names = ", ".join(model.evidence[code].name for code in open_codes if code in model.evidence)
            raise _FaultyAnswerError(f"No answer yet: {names}.")
        return case.after(*(Statement(code, said, asked) for code, said in statuses.items()))


def _found(search: Search, typed: str) -> dict[str, Any]:
    """Returns what results.html.jinja shows of a search."""
    return {"typed": typed, "results": search.find(typed), "numbers": search.numbers(typed)}


class _ResultPages:
    """The latest pages that forms lead to, in memory only."""

    def __init__(self) -> None:
        self._pages: collections.OrderedDict[str, Response] = collections.OrderedDict()

    def keep(self, page: Response) -> Response:
        """Returns a response that leads to a page."""
        name = secrets.token_urlsafe(16)
        self._pages[name] = page
        if len(self._pages) > _MOST_PAGES:
            self._pages.popitem(last=False)
        return RedirectResponse(f"/page/{name}", 303)

    async def show(self, request: Request) -> Response:
        """Returns a page; raises a 404 where it is no longer here."""
        page = self._pages.get(request.path_params["name"])
        if page is None:
            raise HTTPException(404)
        return page


def application(console: Console, shared: Shared | None = None) -> Starlette:
    """Returns the ASGI application; `shared` is None for this machine alone."""
    results = _ResultPages()

    def endpoint(answer: Callable[[dict[str, str]], Response], leads: bool = False) -> Callable[[Request], Any]:
        async def respond(request: Request) -> Response:
            try:
                page = await run_in_threadpool(answer, await _form(request))
                return results.keep(page) if leads else page
            except InputError as error:
                return console.pages.error(400, "Invalid request", str(error))
            except NoAnswerError as error:
                return console.pages.error(502, "No answer from the model", str(error))

        return respond

    async def missing(request: Request, error: Any) -> Response:
        return console.pages.error(
            error.status_code, "No such page", "The console does not have this page, or no longer has it."
        )

    routes = [
        Route("/", endpoint(console.start)),
        Route("/", endpoint(console.go_on, leads=True), methods=["POST"]),
        Route("/page/{name}", results.show),
        Route("/search", endpoint(console.search), methods=["POST"]),
        Route("/model", endpoint(console.model_card)),
        *files(),
    ]
    return Starlette(
        routes=routes, middleware=[Middleware(Guard, shared)], exception_handlers={404: missing, 405: missing}
    )


async def _form(request: Request) -> dict[str, str]:
    """Returns the fields of a form, the last of each name; none of a GET.

    Raises:
        InputError: the body is too large or no form.
    """
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MOST_BYTES:
            raise InputError(f"a form of more than {_MOST_BYTES} bytes: start over")
    try:
        return dict(urllib.parse.parse_qsl(body.decode(), errors="strict", max_num_fields=100))
    except ValueError:
        raise InputError("the request is not a form of this console: start over") from None


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
