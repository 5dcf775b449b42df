"""Figures as inline SVG and as PNG files."""

import html.parser
import re
import xml.etree.ElementTree

import pytest

from trainer.reports import drawing
from trainer.reports.drawing import PALETTE, Drawing, Subplot

EVIL = '<script>alert(1)</script> $\\frac{ $ "onload=x #0067a5 & \N{CJK UNIFIED IDEOGRAPH-6F22}'


def panel(title="Title"):
    def draw(axes):
        axes.plot([0, 1], [0, 1], color=drawing.colour("blue"))
        axes.set_xlabel("across")

    return Subplot(title, draw)


def figure(*panels, name="curves", keys=()):
    return Drawing(name, "caption", "alt", panels, keys)


def texts(svg):
    return [element.text for element in xml.etree.ElementTree.fromstring(svg).iter("text")]  # noqa: S314


def luminance(tone):
    channels = [int(tone[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("name", sorted(set(PALETTE) - {"page", "grid"}))
def test_every_colour_reads_on_its_page(name, mode):
    """Contrast as WCAG 2.2 defines it: 4.5 for text; labels, lines and markers share the colours."""
    over, under = sorted((luminance(getattr(PALETTE[key], mode)) for key in (name, "page")), reverse=True)
    assert (over + 0.05) / (under + 0.05) >= 4.5


def test_svg_text_stays_text_and_data_stay_data():
    (svg,) = drawing.svgs(figure(panel(EVIL)))
    assert EVIL in texts(svg)
    tags = []
    reader = html.parser.HTMLParser()
    reader.handle_starttag = lambda tag, attributes: tags.append(tag)
    reader.feed(svg)
    assert "script" not in tags
    assert "style" not in tags


def test_the_labels_of_both_axes_do_not_overlap_at_the_origin():
    def draw(axes):
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        axes.xaxis.set_major_formatter("across {x:g}")
        axes.yaxis.set_major_formatter("up {x:g}")

    (svg,) = drawing.svgs(figure(Subplot("Title", draw)))
    text = {found[1]: found[0] for found in re.findall(r'<text[^>]* y="([\d.]+)"[^>]*>(across 0|up 0)<', svg)}
    assert float(text["across 0"]) - float(text["up 0"]) >= 13  # a line of the font


def test_ids_of_two_figures_on_a_page_differ():
    one, two = (drawing.svgs(figure(panel(), panel(), name=name)) for name in ("one", "two"))
    id_sets = [set(re.findall(r'\bid="([^"]*)"', svg)) for svg in (*one, *two)]
    assert all(id_sets)
    assert len(set.union(*id_sets)) == sum(map(len, id_sets))
    for svg, ids in zip((*one, *two), id_sets, strict=True):
        assert set(re.findall(r'(?:url\(|href=")#([^)"]*)', svg)) <= ids
