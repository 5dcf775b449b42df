"""The page about one agent, read as a browser reads it."""

import dataclasses
import html.parser
import re

from schemas.promise import NOT_COVERED
from trainer.graph.decide import NEUTRAL
from trainer.reports.agent_page import agent_page
from trainer.reports.numbers import MEASURES
from trainer.training.promises import Promise, PromiseRequest

PROVENANCE = {"command": "triage evaluate --html report.html", "python": "3.11", "finished": None}
HOSTILE = '<script>alert(1)</script> "><img src=x onerror=alert(1)> $\\frac{ {{ 7*7 }} \u202eevil\x00'
KEPT = (
    "Red", "Yellow", "Green", "Blue", "ask", "present", "absent", "emergency", "too_late", "safety", "default",
    "appropriate", "safe", *(measure.key for measure in MEASURES),
)  # fmt: skip
SECTIONS = ["answer", "order", "confusion", "confidence", "slices", "errors", "textbook", "limits", "reproduce"]


class Reader(html.parser.HTMLParser):
    """Collects tags, attributes, and the text of each section, by the id of its title; `folded` are in details."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.sections, self.section, self.folded = set(), [], {}, "head", []
        self.feed(page)
        self.sections = {name: " ".join(text.split()) for name, text in self.sections.items()}

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes += attributes
        if tag == "section":
            self.section = dict(attributes)["aria-labelledby"].removesuffix("-title")
        if tag == "summary" and not self.sections.get(self.section, "").strip():
            self.folded.append(self.section)

    def handle_endtag(self, tag):
        self.section = None if tag == "section" else self.section

    def handle_data(self, data):
        if self.section:
            self.sections[self.section] = f"{self.sections.get(self.section, '')} {data}"


def poisoned(tree):
    if isinstance(tree, str):
        return tree if tree in KEPT else HOSTILE
    if isinstance(tree, dict):
        return {key: poisoned(value) for key, value in tree.items()}
    if hasattr(tree, "_fields"):
        return type(tree)(*map(poisoned, tree))
    return [poisoned(value) for value in tree] if isinstance(tree, list) else tree


def test_each_section_has_its_figures(agent_report):
    page = Reader(agent_page(agent_report, PROVENANCE))
    assert "as the clinicians" not in page.sections.pop("head")  # no verdict before the figures
    assert list(page.sections) == SECTIONS
    assert page.folded == [name for name in SECTIONS if name not in ("answer", "limits")]
    shown = {
        "answer": "Red sensitivity 70.0% (60.0\u201380.0%) 65.0% (55.0\u201375.0%) +5.0 (\u22125.0 to +15.0)",
        "order": "95.0% (93.0\u201397.0%) \u22126.0 (\u22129.0 to \u22123.0)",
        "confidence": "Figure 1.",
        "confusion": "A clinician: Red 50.0% 25.0% 25.0% 0.0%",
        "slices": "age: 75 years old or over 30 Safety 80.0% 92.0% \u221212.0 (\u221218.0 to \u22126.0)",
        "errors": "would make it Red: Too hot.",
        "textbook": "emergency 3 2 (1 late, 0 early) 2 (1 late, 0 early) 3 (0 late, 0 early)",
        "limits": "never forced",
        "reproduce": "triage evaluate --html report.html",
    }
    assert {name: words in page.sections[name] for name, words in shown.items()} == dict.fromkeys(shown, True)
    assert "Current smoker: present 25" in page.sections["slices"]
    assert sum(text.count("Red sensitivity") for text in page.sections.values()) == 2  # the row and what it means
    assert re.search(r"safety weight 1\.5, price 0\.004; .*below 0\.9", page.sections["answer"])
    assert "Stroke at noon Red Green ! Green !" in page.sections["textbook"]


def test_textbook_emergencies_come_first_with_their_exact_interval(agent_report):
    answer = Reader(agent_page(agent_report, PROVENANCE)).sections["answer"]
    # With rules 3 of 3: the lower end is .025 to the power of 1/3.
    assert "Textbook emergencies in time, of 3 100.0% (29.2\u2013100.0%) \u2013 \u2013 Red sensitivity" in answer
    assert "Textbook emergencies too late" not in answer
    without = agent_report._replace(textbook_cases=agent_report.textbook_cases._replace(with_rules=None))
    answer = Reader(agent_page(without, PROVENANCE)).sections["answer"]
    assert "Textbook emergencies in time, of 3 66.7% (9.4\u201399.2%)" in answer
    assert "Textbook emergencies too late Stroke at noon (Green)" in answer


def test_a_worst_case_in_which_no_rule_had_fired_says_so(agent_report):
    agent_report.errors[0]["rules"] = []
    assert "none had fired yet" in agent_page(agent_report, PROVENANCE)
    assert "had fired" not in agent_page(agent_report._replace(safety_rules=None), PROVENANCE)


def test_figures_on_few_vignettes_are_left_out(agent_report):
    agent_report.confusion.matrix[0] = [6.0, 2.0, 1.0, 0.5]
    [old, *_] = agent_report.slices
    agent_report.slices.extend(old._replace(by="tag:ward", value=f"w{size}", vignettes=size) for size in range(30))
    sections = Reader(agent_page(agent_report, PROVENANCE)).sections
    assert "A clinician: Red \u2013 \u2013 \u2013 \u2013" in sections["confusion"]
    assert "sex: Female 9 too few (9) too few (9) too few (9)" in sections["slices"]
    assert re.findall(r"ward: w(\d+)", sections["slices"]) == [str(size) for size in range(22, 30)]


def test_calibration_leaves_out_bins_of_few_vignettes(agent_report, poor_agent_report):
    confidence = Reader(agent_page(agent_report, PROVENANCE)).sections["confidence"]
    # The second bin has decisions of five vignettes, the third none.
    assert re.findall(r"(P\(\w+\)) (0\.\d to \d\.\d) (\d+)", confidence) == [
        ("P(appropriate)", "0.7 to 0.8", "40"),
        ("P(safe)", "0.7 to 0.8", "40"),
    ]
    for calibration, said in ((poor_agent_report.calibration, "Appropriate, by Q-value"), (None, "Not measured")):
        assert said in agent_page(poor_agent_report._replace(calibration=calibration), {})


def test_what_is_missing_is_said_where_it_would_stand(poor_agent_report):
    page = agent_page(poor_agent_report, {})
    sections = Reader(page).sections
    said = {
        "answer": "no interviews",
        "slices": "No group",
        "errors": "no case shows",
        "textbook": "Not played",
        "reproduce": "not recorded",
    }
    assert {name: words in sections[name] for name, words in said.items()} == dict.fromkeys(said, True)
    assert "do not fit" in sections["answer"]
    assert "None" not in re.sub(r"<[^>]*>", "", page)


def test_beside_what_was_promised_stands_what_is_not_covered(agent_report):
    refused = Promise(
        PromiseRequest({"red": 0.1}, 0.9, 12, 2000, "", "", None), False, {"red": 0.4}, NEUTRAL, {}, True, 0.1
    )
    kept = dataclasses.replace(refused, kept=True, levels={"red": 0.1})
    for promises, covered in (([], False), ([refused], False), ([refused, kept], True)):
        answer = Reader(agent_page(agent_report._replace(promises=promises), {})).sections["answer"]
        assert [each in answer for each in NOT_COVERED] == [covered] * len(NOT_COVERED)
        assert ("Refused: At most 10%" in answer) == bool(promises)


def test_the_page_loads_nothing_and_shows_hostile_texts_as_they_are(agent_report):
    text = agent_page(poisoned(agent_report), poisoned(PROVENANCE))
    page = Reader(text)
    assert not page.tags & {"script", "link", "img", "iframe", "object", "embed", "base", "form", "image"}
    for name, value in page.attributes:
        assert not name.startswith("on")
        assert name not in ("src", "action")
        assert name not in ("href", "xlink:href") or value.startswith("#")
    assert "default-src 'none'" in text
    assert "http:" not in text
    assert "https:" not in text
    assert "\u202e" not in text
    assert "\x00" not in text
    for section in ("slices", "errors", "textbook", "reproduce"):
        assert "<script>alert(1)</script>" in page.sections[section], section
    assert "49" not in page.sections["errors"]  # {{ 7*7 }} is no template
