import jinja2

from trainer.reports.drawing import Drawing, Panel
from trainer.reports.page import clean, page


def test_control_characters_are_replaced_and_line_ends_stay():
    assert clean({"a\x1b": ["x\u202ey\x00\udc80", "one\ntwo\té", 1, None]}) == {
        "a\ufffd": ["x\ufffdy\ufffd\ufffd", "one\ntwo\té", 1, None]
    }


def test_figures_are_numbered_in_order_without_those_that_are_missing(monkeypatch):
    templates = {"t": "{% for name, each in figures.items() %}{{ name }} {{ each.number }} {{ text }};{% endfor %}"}
    monkeypatch.setattr(jinja2, "PackageLoader", lambda *_, **__: jinja2.DictLoader(templates))
    drawing = Drawing("d", "caption", "alt", (Panel("p", lambda axes: None),))
    assert page("t", {"a": drawing, "b": None, "c": drawing}, text="<b>") == "a 1 &lt;b&gt;;c 2 &lt;b&gt;;"
