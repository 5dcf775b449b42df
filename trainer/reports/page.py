"""Pages that stand alone: they load nothing, run no script, and show all data as text."""

import datetime
import importlib.metadata
import pathlib
import platform
import shlex
import sys
import unicodedata
from collections.abc import Mapping
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup

from schemas import VERSION
from schemas.errors import InputError
from schemas.triage import ACTION_LABELS, DECISION_LABELS
from trainer.reports import numbers
from trainer.reports.drawing import COLOURS, DASHES, Drawing, svgs
from triage_runtime.storage.whole_file import removed_unless_written

# Turns the direction of text around, and could make one id read as another.
_DIRECTION = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class Numbered(NamedTuple):
    """A figure at its place in the page."""

    number: int
    drawing: Drawing
    svgs: tuple[Markup, ...]


def page(template: str, drawings: Mapping[str, Drawing | None], **values: Any) -> str:
    """Returns a page.

    Args:
        template: that extends page.html.jinja, of this package.
        drawings: its figures by name, numbered in this order; None where there is nothing to draw.
        values: what else it shows, see `clean`; texts are escaped.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("trainer.reports", package_path=""),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(
        figures=_numbered(drawings),
        actions=ACTION_LABELS,
        decision_labels=DECISION_LABELS,
        palette=COLOURS,
        dashes=DASHES,
        count=numbers.count,
        several=numbers.several,
        **values,
    )


def write(text: str, path: pathlib.Path, option: str) -> None:
    """Writes a page to `path`, which `option` names.

    Raises:
        InputError: the file cannot be written.
    """
    try:
        with removed_unless_written(path):
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{option} {path}: cannot write: {error.strerror or error}") from error


def _numbered(drawings: Mapping[str, Drawing | None]) -> dict[str, Numbered]:
    figures: dict[str, Numbered] = {}
    for name, drawing in drawings.items():
        if drawing:
            # The SVG's text is escaped by Matplotlib.
            panels = tuple(Markup(panel) for panel in svgs(drawing))  # noqa: S704
            figures[name] = Numbered(len(figures) + 1, drawing, panels)
    return figures


def clean(tree: Any) -> Any:
    """Returns `tree` with texts that a page can show: no control characters, none that turn the direction of text."""
    if isinstance(tree, str):
        return "".join(_clean_character(character) for character in tree)
    if isinstance(tree, Mapping):
        return {clean(key): clean(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        values = map(clean, tree)
        return type(tree)(*values) if hasattr(tree, "_fields") else list(values)
    return tree


def _clean_character(character: str) -> str:
    if character in "\n\t":
        return character
    if character in _DIRECTION or unicodedata.category(character) in ("Cc", "Cs", "Cn"):
        return "\N{REPLACEMENT CHARACTER}"
    return character


def provenance() -> dict[str, str]:
    """Returns what made the figures of a report, ready for JSON: command, versions, machine and time."""
    return {
        "dyqn_triage": VERSION,
        "tensorflow": importlib.metadata.version("tensorflow"),
        "scikit_learn": importlib.metadata.version("scikit-learn"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "command": shlex.join([pathlib.Path(sys.argv[0]).name, *sys.argv[1:]]),
        "finished": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    }
