"""Figures as inline SVG, which takes the colours of the page: rows of small panels, which it lays out for its width."""

import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import matplotlib
import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from trainer.reports.numbers import Table


class Tone(NamedTuple):
    """A colour on a light and on a dark page."""

    light: str
    dark: str


PALETTE = {
    "page": Tone("#ffffff", "#14171a"),
    "ink": Tone("#1c2024", "#eceef1"),
    "muted": Tone("#545c65", "#aab3bd"),
    "grid": Tone("#dadee2", "#3a4149"),
    "blue": Tone("#0067a5", "#5ab4e8"),
    "orange": Tone("#b84700", "#f0854a"),
    "green": Tone("#00755a", "#35c79b"),
    "purple": Tone("#98407a", "#e29ac6"),
}
"""Told apart with each kind of colour blindness (after Okabe and Ito), and readable on both pages."""

FILLS = {
    "triage-red": Tone("#d11a2a", "#e5404e"),
    "triage-yellow": Tone("#f5c400", "#b89300"),
    "triage-green": Tone("#1d9a57", "#1d9a58"),
    "triage-blue": Tone("#2a7fd4", "#2a7fd5"),
}
"""The colours of the triage decisions, for areas; the decision's name always stands beside them."""

COLOURS = PALETTE | FILLS

SERIES = ("blue", "orange", "green", "purple")
DASHES = {"-": "", "--": "7 3", "-.": "7 3 1.5 3", ":": "1.5 3"}
"""Line styles, and the same as SVG dash patterns."""

WIDTH = 5.0  # inches; 360 units of the SVG, which a phone shows one to one
_STYLE = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "triage",  # the same study gives the same page
    "text.parse_math": False,  # a $ in the data is a dollar
    "font.size": 13,
    "axes.titlesize": 14,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 9,
    "axes.facecolor": "none",
    "axes.edgecolor": PALETTE["muted"].light,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.labelcolor": PALETTE["muted"].light,
    "axes.titlecolor": PALETTE["ink"].light,
    "text.color": PALETTE["ink"].light,
    "grid.color": PALETTE["grid"].light,
    "grid.linewidth": 0.8,
    "xtick.color": PALETTE["muted"].light,
    "ytick.color": PALETTE["muted"].light,
    "xtick.major.size": 0,
    "xtick.major.pad": 10,  # below the lowest label of the other axis
    "ytick.major.size": 0,
    "lines.linewidth": 2.0,
    "legend.frameon": False,
}


class Subplot(NamedTuple):
    """One pair of axes."""

    title: str
    draw: Callable[[Axes], None]
    height: float = 3.5  # inches


class Key(NamedTuple):
    """What a colour with a line style stands for."""

    label: str
    colour: str  # in PALETTE
    line: str  # in DASHES


class Drawing(NamedTuple):
    """A figure with all that a reader needs to understand it."""

    name: str  # of the file; letters and _ only
    caption: str  # what to see
    alt: str  # the message, for those who do not see it
    panels: tuple[Subplot, ...]
    keys: tuple[Key, ...] = ()
    numbers: Table | None = None


def colour(name: str) -> str:
    """Returns the colour of `COLOURS` to draw with; the SVG puts the page's own in its place."""
    return COLOURS[name].light


def svgs(drawing: Drawing) -> list[str]:
    """Returns each panel as an `<svg>` element whose colours are CSS variables of the names in `PALETTE`.

    Text is escaped; ids begin with the drawing's name, so that many figures stand on one page.
    """
    pages = []
    for place, panel in enumerate(drawing.panels):
        with _style():
            figure = Figure(figsize=(WIDTH, panel.height), layout="constrained", facecolor="none")
            FigureCanvasSVG(figure)
            axes = figure.subplots()
            axes.set_title(panel.title)
            panel.draw(axes)
            buffer = io.StringIO()
            figure.savefig(buffer, format="svg", facecolor="none", metadata={"Date": None})
        pages.append(_for_page(buffer.getvalue(), f"{drawing.name}-{place}-"))
    return pages


@contextmanager
def _style() -> Iterator[None]:
    """Our style on top of Matplotlib's own, regardless of the user's settings file."""
    with warnings.catch_warnings(), matplotlib.style.context(["default", _STYLE]):
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        yield


def _for_page(text: str, prefix: str) -> str:
    """Returns Matplotlib's SVG document as an element of a page."""
    text = text[text.index("<svg") :]
    # The style element would hold for the whole page.
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"<[^>]*>", lambda tag: _for_page_tag(tag[0], prefix), text)  # never the data between the tags
    return text.strip()


def _for_page_tag(tag: str, prefix: str) -> str:
    if tag.startswith("<svg"):
        size = re.search(r'viewBox="[^"]*"', tag)
        return f'<svg {size[0] if size else ""} aria-hidden="true" focusable="false">'
    tag = re.sub(r'\bid="', f'id="{prefix}', tag)
    tag = re.sub(r"(url\(#|href=\"#)", rf"\g<1>{prefix}", tag).replace("xlink:href", "href")
    tag = re.sub(r"font-family:[^;\"]*;?", "", tag)
    tag = re.sub(r"-?\d+\.\d{3,}", lambda match: f"{float(match[0]):.2f}", tag.replace("\n", " "))
    return re.sub(r"#[0-9a-f]{6}\b", lambda match: _VARIABLES.get(str(match[0]), str(match[0])), tag)


_VARIABLES = {tone.light: f"var(--{name})" for name, tone in COLOURS.items()}
