"""The page of a model card, read by a Markdown parser."""

import html
import re

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from schemas.evidence import Evidence, Vocabulary
from schemas.promise import NOT_COVERED
from trainer.evaluation.estimates import (
    AgentFigures,
    Baselines,
    Calibration,
    Confusion,
    Estimate,
    SliceFigures,
)
from trainer.export.card_markdown import escape, page
from trainer.export.gate import Comparison, Means, Verdict
from trainer.export.model_card import VersionFigures, model_card, training_facts

PARSER = MarkdownIt("commonmark", {"html": True, "linkify": True}).enable("table")
EVIL = "a|b `c` *d* _e_ <script>x</script> [f](http://g) ![h](i) www.j.k l@m.n\n# o &amp; \\ \u202e"
MANIFEST = {
    "model_version": "3",
    "created": "2026-01-02",
    "package_version": "0.1.0",
    "signatures": ["serving_default", "state"],
    "max_questions": 23,
    "questions": None,
    "config": {"network": {"hidden_sizes": [8, 8]}},
    "training": {"steps": 1040, "episodes": 9},
    "safety_rules": {"source": "none", "fingerprint": None, "rules": []},
    "novelty": None,
    "decision": {"probabilities": False},
    "promise": None,
}
METRICS = ("appropriateness", "safety", "over_triage", "under_triage", "questions", "evidence_seen", "forced")


def estimates(start=0.1):
    return {name: Estimate(start + index / 100, start, start + 0.2, 20) for index, name in enumerate(METRICS)}


def evaluation_with(tag, probabilities=None):
    human = {name: estimates(0.5)[name] for name in METRICS[:2]}
    constants = {f"always {label}": estimates(0.3) for label in ("red", "yellow", "green", "blue")}
    slices = [
        SliceFigures("tag:system", tag, 20, estimates(0.7)),
        SliceFigures("majority", "Red", 7, estimates(0.8)),
    ]
    return VersionFigures(
        "sha256:data", simulated=True, split="test", seed=7, vignettes=1234, orders=6,
        baselines=Baselines(human, None, 3, constants),
        played=AgentFigures(estimates(), {}, Confusion("", "", [], []), None, probabilities, slices),
    )  # fmt: skip


SAFETY = {"safety": Means(0.9, 0.8, Estimate(0.11, 0.1, 0.3, 20))}
GATE = Verdict(True, 0.02, "3", Comparison("2", 1234, -0.0123, SAFETY, 0, []))


def page_of(evaluation=None, gate=None, stats=None, **safeguards):
    vocabulary = Vocabulary([Evidence("cough", "symptom", "Cough", "Do you cough?")])
    facts = training_facts("sha256:data", stats)
    return page(model_card(MANIFEST | safeguards, vocabulary, facts, evaluation, gate), evaluation, gate)


def cells(text):
    """The cells of each row of each table, as a reader sees them."""
    rows = re.findall(r"<tr>(.*?)</tr>", PARSER.render(text), re.DOTALL)
    return [[html.unescape(cell) for cell in re.findall(r"<t[hd]>(.*?)</t[hd]>", row, re.DOTALL)] for row in rows]


@given(st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp", "Zs")), min_size=1))
def test_escaped_text_is_shown_unchanged(text):
    shown = PARSER.render(f"| a |\n| --- |\n| x{escape(text)}x |\n")
    expected = re.sub("[\u202a-\u202e\u2066-\u2069]", "\ufffd", text)
    assert html.unescape(re.search(r"<td>(.*)</td>", shown, re.DOTALL)[1]) == f"x{expected}x"


def test_data_cannot_become_markup():
    shown = PARSER.render(page_of(evaluation_with(EVIL)))
    for mark in ("<script", "<a ", "<img", "<em>d", "\u202e"):
        assert mark not in shown
    (row,) = [row for row in cells(page_of(evaluation_with(EVIL))) if row[0].startswith("a|b")]
    assert row[0] == EVIL.replace("\n", " ").replace("\u202e", "\ufffd")
    assert row[1] == "20"


def test_every_row_has_as_many_cells_as_its_header():
    text = page_of(evaluation_with("system=x|y"), GATE)
    tables = re.findall(r"<table>.*?</table>", PARSER.render(text), re.DOTALL)
    assert len(tables) == 9
    for table in tables:
        assert (
            len({row.count("</td>") + row.count("</th>") for row in re.findall("<tr>.*?</tr>", table, re.DOTALL)}) == 1
        )


def test_the_figures_are_in_the_tables():
    rows = {row[0]: row[1:] for row in cells(page_of(evaluation_with("system=skin"), GATE))}
    assert rows["<strong>this version</strong>"][:2] == ["0.100 [0.100, 0.300]", "0.110 [0.100, 0.300]"]
    assert rows["clinicians (3 decisions or more)"] == ["0.500 [0.500, 0.700]", "0.510 [0.500, 0.700]", "-", "-"]
    assert rows["always red"][1] == "0.310 [0.300, 0.500]"
    assert rows["evidence seen"] == ["0.150 [0.100, 0.300]"]
    assert rows["system=skin"][:2] == ["20", "0.700 [0.700, 0.900]"]
    assert rows["Red"][:2] == ["7", "0.800 [0.800, 1.000]"]
    assert rows["hidden_sizes" if "hidden_sizes" in rows else "network"][-1] == "[8, 8]"
    assert rows["trained for"] == ["1,040 steps, 9 episodes"]


def test_rules_are_in_a_table_with_their_source_and_cannot_become_markup():
    rules = [
        {"rule_id": "hot_smoker", "urgency": "Red", "stop_asking": True, "reason": "Fever in a smoker."},
        {"rule_id": EVIL, "urgency": "Green", "stop_asking": False, "reason": EVIL},
    ]
    text = page_of(safety_rules={"source": "ward_7.toml", "fingerprint": "sha256:0123", "rules": rules})
    rows = cells(text)
    first = rows.index(["hot_smoker", "Red", "yes", "Fever in a smoker."])
    shown = EVIL.replace("\n", " ").replace("\u202e", "\N{REPLACEMENT CHARACTER}")
    assert rows[first + 1] == [shown, "Green", "no", shown]
    assert "Source: ward_7.toml, fingerprint sha256:0123;" in html.unescape(PARSER.render(text))
    assert "This version has no safety rules." in page_of()


PROMISE = {
    "asked": {"confidence": 0.9, "question_limit": 20, "rules": "sha256:r", "given": None},
    "levels": {"red": 0.05, "over": 0.4},
    "whole_patients": False,
    "not_covered": NOT_COVERED,
    "operating_point": {"safety_weight": 1.0, "hand_over_from": None},
    "found": {
        setting: {
            "red": {"errors": red, "patients": 180}, "yellow": {"errors": 9, "patients": 400},
            "under": {"errors": 11, "patients": 1200}, "over": {"errors": 300, "patients": 1200},
            "handed_over": {"errors": 240, "patients": 1200},
        }
        for setting, red in (("interview", 4), ("all_evidence", 3))
    },
}  # fmt: skip


def test_levels_and_confidence_are_not_rounded():
    """A level of 12.3449% rounded down would promise more than was tested, and 99.95% up to 100% nothing uncertain."""
    asked = PROMISE["asked"] | {"confidence": 0.9995}
    text = page_of(promise=PROMISE | {"levels": {"red": 0.123449}, "asked": asked})
    assert "At most 12.3449% of patients" in text
    assert "With 99.95% confidence" in text


def test_what_is_promised_for_whom_by_how_many_and_what_is_not():
    text = page_of(promise=PROMISE)
    assert "With 90% confidence, all of this holds for new patients like those" in text
    assert "- At most 5% of patients whom clinicians call Red leave with a less urgent decision than Red.\n" in text
    assert "\n- At most 40% of patients leave" in text
    assert "of at most 20 questions, and for all evidence at once, both with its safety rules" in text
    rows = cells(text)
    assert [
        "patients whom clinicians call Red who leave with a less urgent decision than Red",
        "5%",
        "180",
        "4 (2.22%)",
        "3 (1.67%)",
    ] in rows
    # The share of all patients stands beside that of each colour.
    under = "patients who leave with a less urgent decision than any clinician gave"
    assert [under, "nothing promised", "1,200", "11 (0.917%)", "11 (0.917%)"] in rows
    assert "Not covered:\n\n- patients unlike those of the vignettes" in text
    assert "- interviews with instruments at hand (can_measure)" in text
    assert "No promise was asked for" in page_of()


def test_how_a_version_with_probabilities_decides():
    estimate = estimates()["safety"]
    both = dict.fromkeys(("appropriate", "safe"), Calibration([], *[estimate] * 5))
    evaluation = evaluation_with("x", {"own_decision": both, "every_decision": both})
    decision = {
        "probabilities": True, "safety_weight": 1.5, "sure_enough": 0.92, "price": 0.008, "chosen": "given",
        "held_out": {"vignettes": 2000, "under_triage": 0.041, "under_triage_of_red": 0.203, "over_triage": 0.1},
    }  # fmt: skip
    rows = dict(row for row in cells(page_of(evaluation, decision=decision)) if len(row) == 2)
    expected = {
        "safety weight w": "1.5", "price of a question": "0.008", "stopping threshold": "0.92",
        "chosen": "as options of the export", "probabilities": "calibrated on held-out vignettes",
        "held-out vignettes": "2,000", "under-triage on them, without safety rules": "0.041",
        "over-triage on them": "0.100",
        # A small share of all may be a large one of the emergencies.
        "decided below Red, of those whom clinicians call Red": "0.203",
    }  # fmt: skip
    assert rows | expected == rows
    assert ["P(safe) of its decision", *["0.110 [0.100, 0.300]"] * 3] in cells(page_of(evaluation, decision=decision))
    for more, chosen in (({}, "in training, by the held-out vignettes"), ({"held_out": None}, "not, as training had")):
        rows = dict(row for row in cells(page_of(decision=decision | {"chosen": "default", **more})) if len(row) == 2)
        assert rows["chosen"].startswith(chosen)
    assert rows["probabilities"] == "not calibrated"
    assert "By its Q-values: the triage decision with the highest one" in page_of()
