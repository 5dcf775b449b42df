"""Templates and files of the pages."""

import dataclasses

from schemas.evidence import Evidence
from serving.console import view
from serving.console.application import Pages, markup
from serving.console.case import Case

RECOMMENDATION = view.Recommendation(
    decision="Red", rule="", columns=("appropriate", "safe"), rows=[view.DecisionRow("Red", 0.5, ("50%", "90%"))],
    rules=[], novelty=1.0, is_novel=True, deferred="no decision is safe", turning=[], version="1",
)  # fmt: skip


def test_what_a_vocabulary_or_a_rule_says_is_text():
    evil = "</p><script>alert(1)</script>"
    entry = Evidence("x'", "symptom", evil, evil)
    recommendation = dataclasses.replace(
        RECOMMENDATION, rule=evil, columns=("Q-value",), rows=[view.DecisionRow("Red", 0.5, (evil,))],
        rules=[{"id": evil, "reason": evil, "change": evil}], turning=[view.Turn("Red", evil, evil, 0.5)], version=evil,
    )  # fmt: skip
    page = view.CasePage(
        text=evil, findings=[view.Finding(evil, "present", evil)], number=1,
        question=entry, choices=[], together=[],
        question_why=evil, question_unit=evil, recommendation=recommendation, so_far=True, status=evil, json=evil,
    )  # fmt: skip
    found = {"typed": evil, "results": [entry], "numbers": [evil]}
    shown = Pages().show("case", page=page, case=Case(), focus="number", fault=evil, filled={"number": evil}, **found)
    assert "<script>" not in shown.body.decode()
    assert shown.body.decode().count("&lt;script&gt;") >= 19  # each of the values above


def shown_case(so_far, rule=""):
    entry = Evidence("smoker", "risk_factor", "Smoker", "Do you smoke?")
    recommendation = dataclasses.replace(RECOMMENDATION, rule=rule)
    page = view.CasePage(
        text="", findings=[view.Finding("Fever", "present", "")], number=4,
        question=entry, choices=[], together=[],
        question_why="", question_unit=None, recommendation=recommendation, so_far=so_far, status="Why.", json="{}",
    )  # fmt: skip
    return Pages().show("case", page=page, case=Case(), typed="", results=[], numbers=[]).body.decode()


def test_where_a_rule_decides_it_stands_before_the_figures_of_the_model():
    page = shown_case(so_far=False, rule="A sudden headache can be a bleed.")
    assert page.index("<strong>A sudden headache can be a bleed.</strong>") < page.index("<table>")
    assert "without the rule" in page
    assert "rely on this answer" not in page


def test_more_than_eight_results_are_a_click_away():
    entries = [Evidence(f"pain_{number}", "symptom", f"Pain {number}", "Pain?") for number in range(11)]
    shown = Pages().show("results", case=Case(), typed="pain", results=entries, numbers=[]).body.decode()
    first, _, more = shown.partition("<details><summary>3 more</summary>")
    assert [first.count("<li>"), more.count("<li>")] == [8, 3]
    assert "11 matches" in first


def test_a_model_card_becomes_html_without_any_of_its_own():
    html = markup("# Card\n\n| a | b |\n| --- | --- |\n| 1 | <img src=x onerror=alert(1)> |\n")
    assert "<h1>Card</h1>" in html
    assert "<td>1</td>" in html
    assert "<img" not in html
