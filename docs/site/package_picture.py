"""Draws the packages and their imports: `python docs/site/package_picture.py [OUT]`.

OUT is docs/assets/packages.svg by default. The layers and the imports come from tests/architecture_test.py, which fails
on an import that runs upwards. A test compares the committed picture with this one.
"""

import graphlib
import html
import pathlib
import runpy
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "assets" / "packages.svg"
COLUMNS = ("trainer", "serving")
COLUMN, GAP, MARGIN = 480, 24, 12
BOX, ROW = 26, 58
BAR = 34
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1d2b33; text-anchor: middle; dominant-baseline: central }
.title { font-weight: 600 }
.package { fill: #d7ecea; stroke: #00695c }
.module { fill: #ffffff; stroke: #78909c }
.bar { fill: #eceff1; stroke: #78909c }
path { fill: none; stroke: #90a4ae; marker-end: url(#tip) }
"""
Imports = Mapping[str, set[str]]
Place = tuple[float, float, float]  # centre of a box, and its width


def part_imports(package: str, graph: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Returns, for each part of a package (a folder or a module at its root), the parts that it imports."""
    parts: dict[str, set[str]] = {}
    for name, imported in graph.items():
        if name.startswith(f"{package}."):
            part = name.split(".")[1]
            others = {each.split(".")[1] for each in imported if each.startswith(f"{package}.")}
            parts.setdefault(part, set()).update(others - {part})
    return parts


def direct(imports: Imports) -> dict[str, set[str]]:
    """Returns the imports without those that follow from others: of a -> b -> c and a -> c, the last one."""
    reached: dict[str, set[str]] = {}
    for part in graphlib.TopologicalSorter(imports).static_order():  # what is imported comes first
        reached[part] = imports[part] | {far for near in imports[part] for far in reached[near]}
    return {
        part: {near for near in nears if not any(near in reached[other] for other in nears - {near})}
        for part, nears in imports.items()
    }


def places(layers: Sequence[Iterable[str]], left: float, bottom: float) -> dict[str, Place]:
    """Returns where the box of each part is, the first layer at the bottom."""
    boxes = {}
    for number, layer in enumerate(layers):
        names = sorted(layer)
        widths = [16 + 7.4 * len(name) for name in names]
        space = (COLUMN - sum(widths)) / (len(names) + 1)
        x = left + space
        for name, width in zip(names, widths, strict=True):
            boxes[name] = (x + width / 2, bottom - ROW * number - ROW / 2, width)
            x += width + space
    return boxes


def drawn(architecture: Mapping[str, Any]) -> str:
    """Returns the picture as SVG."""
    graph, layers = architecture["import_graph"](), {package: architecture["LAYERS"][package] for package in COLUMNS}
    height = max(map(len, layers.values())) * ROW
    top, bottom = MARGIN + BAR + GAP, MARGIN + BAR + GAP + height + BAR
    width = 2 * MARGIN + len(layers) * COLUMN + (len(layers) - 1) * GAP
    shapes = [
        bar(
            "triage_cli: the script `triage`, one subcommand per job · dyqn_triage/: the same in a notebook",
            MARGIN,
            width,
        )
    ]
    for column, package in enumerate(layers):
        left = MARGIN + column * (COLUMN + GAP)
        where = places(layers[package], left, bottom)
        shapes.append(text(f"{package}/", left + COLUMN / 2, top + BAR / 2 - 6, "title"))
        for part, imported in sorted(direct(part_imports(package, graph)).items()):
            shapes.extend(arrow(where[part], where[other]) for other in sorted(imported))
        folders = {path.parent.name for path in (ROOT / package).glob("*/__init__.py")}
        for name, place in sorted(where.items()):
            shapes.extend(box(name, place, "package" if name in folders else "module"))
    shapes.append(bar("triage_runtime/: storage · command line · LiteRT", bottom + GAP, width))
    bottom += GAP + BAR
    shapes.append(bar("schemas/: what data looks like · proto/: the wire contract triage.v1", bottom + GAP, width))
    total = bottom + GAP + BAR + MARGIN
    tip = '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {total}" width="{width}" height="{total}">'
    tip += '<path d="M0 0 8 4 0 8" style="fill: #90a4ae; stroke: none"/></marker>'
    defs = f"<style>{STYLE}</style><defs>{tip}</defs>"
    return "\n".join([head, defs, f'<rect width="{width}" height="{total}" fill="#ffffff"/>', *shapes, "</svg>", ""])


def box(name: str, place: Place, kind: str) -> list[str]:
    """Returns the shapes of one part."""
    x, y, width = place
    size = f'x="{x - width / 2:.1f}" y="{y - BOX / 2:.1f}" width="{width:.1f}" height="{BOX}"'
    return [f'<rect class="{kind}" {size} rx="5"/>', text(name, x, y)]


def bar(words: str, top: float, width: float) -> str:
    """Returns a box across the whole picture."""
    size = f'x="{MARGIN}" y="{top}" width="{width - 2 * MARGIN}" height="{BAR}"'
    return f'<rect class="bar" {size} rx="5"/>' + text(words, width / 2, top + BAR / 2)


def text(words: str, x: float, y: float, kind: str = "name") -> str:
    """Returns centred words."""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{html.escape(words)}</text>'


def arrow(start: Place, end: Place) -> str:
    """Returns the arrow from a part to one below that it imports."""
    (x1, y1, _), (x2, y2, _) = start, end
    y1, y2 = y1 + BOX / 2, y2 - BOX / 2
    bend = (y2 - y1) / 2
    return f'<path d="M{x1:.1f} {y1:.1f} C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}"/>'


if __name__ == "__main__":
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE
    out.write_text(drawn(runpy.run_path(str(ROOT / "tests" / "architecture_test.py"))), encoding="utf-8")
