"""What a model card says, what it leaves out where nothing is known, and its page, read by a Markdown parser."""

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from schemas.directories import CARD_FOR_MAKERS
from schemas.evidence import Evidence, Vocabulary
from schemas.promise import NOT_COVERED
from trainer.evaluation.estimates import AgentFigures, Baselines, Calibration, Confusion, Estimate, SliceFigures
from trainer.export.gate import GateVerdict, Means, VersionComparison
from trainer.export.model_card import VersionFigures, escape, model_card, page, training_facts

PARSER = MarkdownIt("commonmark", {"html": True, "linkify": True}).enable("table")
EVIL = "a|b `c` *d* _e_ <script>x</script> [f](http://g) ![h](i) www.j.k l@m.n\n# o &amp; \\ \u202e"
SHOWN = EVIL.replace("\n", " ").replace("\u202e", "\N{REPLACEMENT CHARACTER}")
VOCABULARY = Vocabulary(
    [
        Evidence("cough", "symptom", "Cough", "Do you cough?"),
        Evidence("fever", "symptom", "Fever", "Do you have a fever?"),
        Evidence("smoker", "risk_factor", "Smoker", "Do you smoke?"),
    ]
)
MANIFEST = {
    "model_version": "3",
    "created": "2026-01-02T03:04:05+00:00",
    "package_version": "0.1.0",
    "signatures": ["serving_default", "state"],
    "max_questions": 23,
    "danger_signs": {"complaints": 31, "fingerprint": "sha256:4567"},
    "questions": None,
    "config": {"network": {"hidden_sizes": [8, 8]}},
    "training": {"steps": 1040, "episodes": 9},
    "safety_rules": {"source": "none", "fingerprint": None, "rules": []},
    "novelty": None,
    "decision": {"probabilities": False},
    "promise": None,
}
DECISIONS = {"Red": 1, "Yellow": 2, "Green": 3, "Blue": 4}
STATS = {
    "format": "simulate",
    "seed": 5,
    "test_fraction": 0.25,
    "sources": [],
    "data_fingerprint": "sha256:data",
    "splits": {split: {"vignettes": count, "decisions": DECISIONS} for split, count in (("train", 30), ("test", 10))},
}
METRICS = ("appropriateness", "safety", "over_triage", "under_triage", "questions", "evidence_seen", "forced")


def estimates(start=0.1):
    return {name: Estimate(start + index / 100, start, start + 0.2, 20) for index, name in enumerate(METRICS)}


def evaluation_with(tag="skin", probabilities=None, agent=None):
    human = {name: estimates(0.5)[name] for name in METRICS[:2]}
    constants = {f"always {label}": estimates(0.3) for label in ("red", "yellow", "green", "blue")}
    slices = [
        SliceFigures("tag:system", tag, 20, estimates(0.7)),
        SliceFigures("majority", "Red", 7, estimates(0.8)),
    ]
    return VersionFigures(
        "sha256:data", simulated=True, split="test", seed=7, vignettes=1234, orders=6,
        baselines=Baselines(human, None, 3, constants),
        played=AgentFigures(agent or estimates(), {}, Confusion("", "", [], []), None, probabilities, slices),
    )  # fmt: skip


EVALUATION = evaluation_with()
SAFETY = {"safety": Means(0.9, 0.8, Estimate(0.11, 0.1, 0.3, 20))}
GATE = GateVerdict(True, 0.02, "3", VersionComparison("2", 1234, -0.0123, SAFETY, 0, []))


def card_of(stats=STATS, evaluation=EVALUATION, gate=None, **manifest):
    return model_card(MANIFEST | manifest, VOCABULARY, training_facts("sha256:data", stats), evaluation, gate)


def page_of(evaluation=None, gate=None, stats=None, **manifest):
    return page(card_of(stats, evaluation, gate, **manifest))


def cells(text):
    """The cells of each row of each table, as a reader sees them."""
    rows = re.findall(r"<tr>(.*?)</tr>", PARSER.render(text), re.DOTALL)
    return [[html.unescape(cell) for cell in re.findall(r"<t[hd]>(.*?)</t[hd]>", row, re.DOTALL)] for row in rows]


def facts(text):
    """The rows of two cells, by the first one."""
    return dict(row for row in cells(text) if len(row) == 2)


def limits(card):
    return " ".join(card["limits"])


def test_the_training_data_are_described_by_their_own_statistics():
    data = card_of()["training_data"]
    assert (data["format"], data["simulated"], data["seed"]) == ("simulate", True, 5)
    assert data["splits"]["train"] == {"vignettes": 30, "decisions": DECISIONS}


@pytest.mark.parametrize("stats", [None, STATS | {"data_fingerprint": "sha256:other"}])
def test_statistics_of_other_data_are_ignored(stats):
    assert card_of(stats)["training_data"] == {"data_fingerprint": "sha256:data", "known": False}


def test_statistics_of_another_program_may_state_no_more_than_the_counts():
    splits = {"train": {"vignettes": 3}, "test": {"vignettes": 1}}
    data = card_of({"data_fingerprint": "sha256:data", "splits": splits})["training_data"]
    assert [data[key] for key in ("format", "simulated", "seed", "test_fraction", "sources")] == [None] * 4 + [[]]
    assert data["splits"]["train"] == {"vignettes": 3, "decisions": dict.fromkeys(DECISIONS)}


RULES = {
    "source": "ward_7.toml",
    "fingerprint": "sha256:0123",
    "rules": [
        {"rule_id": "hot_smoker", "urgency": "Red", "stop_asking": True, "reason": "Fever in a smoker."},
        {"rule_id": EVIL, "urgency": "Green", "stop_asking": False, "reason": EVIL},
    ],
}
DECISION = {
    "probabilities": True, "safety_weight": 2.0, "sure_enough": None, "price": 0.008, "chosen": "given",
    "held_out": None,
}  # fmt: skip
PROMISE = {
    "asked": {"confidence": 0.9, "question_limit": 20, "rules": "sha256:r", "given": None},
    "levels": {"red": 0.05, "over": 0.4},
    "whole_patients": False,
    "not_covered": NOT_COVERED,
    "operating_point": {"hand_over_from": None},
    "found": {
        setting: {
            "red": {"errors": red, "patients": 180}, "yellow": {"errors": 9, "patients": 400},
            "under": {"errors": 11, "patients": 1200}, "over": {"errors": 300, "patients": 1200},
            "handed_over": {"errors": 240, "patients": 1200},
        }
        for setting, red in (("interview", 4), ("all_evidence", 3))
    },
}  # fmt: skip


def test_the_limits_come_from_the_figures():
    assert re.search("1,234 vignettes, .*safety is 0.200 wide", limits(card_of()))
    other = card_of(evaluation=EVALUATION._replace(data_fingerprint="sha256:new", simulated=None))
    assert len(other["limits"]) == len(card_of()["limits"]) - 1
    assert "single vignette" in limits(card_of(evaluation=evaluation_with(agent={"safety": Estimate(0.9)})))
    decisions = (MANIFEST["decision"], DECISION, DECISION | {"held_out": {"vignettes": 100}})
    assert len({limits(card_of(decision=decision)) for decision in decisions}) == 3  # of uncalibrated ones a warning


@given(st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp", "Zs")), min_size=1))
def test_escaped_text_is_shown_unchanged(text):
    shown = PARSER.render(f"| a |\n| --- |\n| x{escape(text)}x |\n")
    expected = re.sub("[\u202a-\u202e\u2066-\u2069]", "\ufffd", text)
    assert html.unescape(re.search(r"<td>(.*)</td>", shown, re.DOTALL)[1]) == f"x{expected}x"


def test_data_cannot_become_markup():
    text = page_of(evaluation_with(EVIL), GATE, safety_rules=RULES)
    shown = PARSER.render(text)
    for mark in ("<script", "<a ", "<img", "<em>d", "\u202e"):
        assert mark not in shown
    (row,) = [row for row in cells(text) if row[0].startswith("a|b") and row[1] == "20"]
    assert row[0] == SHOWN
    assert [SHOWN, "Green", "no", SHOWN] in cells(text)
    for table in re.findall(r"<table>.*?</table>", shown, re.DOTALL):
        rows = re.findall("<tr>.*?</tr>", table, re.DOTALL)
        assert len({row.count("</td>") + row.count("</th>") for row in rows}) == 1


def test_the_figures_are_in_the_tables():
    rows = {row[0]: row[1:] for row in cells(page_of(EVALUATION, GATE))}
    assert rows["<strong>this version</strong>"][:2] == ["0.100 [0.100, 0.300]", "0.110 [0.100, 0.300]"]
    assert rows["clinicians (3 decisions or more)"] == ["0.500 [0.500, 0.700]", "0.510 [0.500, 0.700]", "-", "-"]
    assert rows["always red"][1] == "0.310 [0.300, 0.500]"
    assert rows["evidence seen"] == ["0.150 [0.100, 0.300]"]
    assert rows["skin"][:2] == ["20", "0.700 [0.700, 0.900]"]
    assert rows["Red"][:2] == ["7", "0.800 [0.800, 1.000]"]
    assert rows["network"] == ["hidden_sizes", "[8, 8]"]
    assert rows["trained for"] == ["1,040 steps, 9 episodes"]
    assert rows["vocabulary"] == ["3 pieces of evidence: 2 symptoms, 1 risk factors"]


def test_the_comparison_names_both_versions_and_the_bound():
    rows = cells(page_of(EVALUATION, GATE))
    for row in (["passed the gate", "yes"], ["lower bound of the difference in safety", "-0.0123"]):
        assert row in rows
    assert ["", "this version", "version 2", "difference [95% interval]"] in rows
    assert facts(page_of(EVALUATION, GATE._replace(passed=False)))["passed the gate"] == "<strong>no</strong>"
    assert "no version to compare" in page_of(EVALUATION, GATE._replace(compared=None))
    assert "Comparison with the serving version" not in page_of(EVALUATION)


def test_what_only_makers_of_models_need_has_sections_of_its_own():
    assert set(CARD_FOR_MAKERS) <= set(re.findall("^## (.*)$", page_of(), re.MULTILINE))


@pytest.mark.parametrize(("origin", "words"), [("simulate", "are simulated.**"), ("jsonl", "do not record")])
def test_the_origin_of_the_vignettes_is_stated_as_far_as_it_is_known(origin, words):
    split = {"vignettes": 3, "decisions": {"Red": 1}}
    stats = {"format": origin, "data_fingerprint": "sha256:data", "splits": {"train": split, "test": split}}
    text = page_of(stats=STATS | stats | {"sources": [{"file": "my_file.jsonl", "sha256": "0"}]})
    assert words in text
    assert r"Files: my\_file.jsonl." in text
    assert "| train | 3 | 1 | - | - | - |" in text


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ({"safety_rules": RULES}, r"ward\_7.toml"),
        ({}, "no safety rules"),
        ({"questions": {"most": 10}}, "up to 10 questions"),
        ({"questions": {"most": 10}}, "its table of 31 complaints"),
        ({}, "whether to ask, not what"),
        ({"novelty": {"threshold": 0.99, "reference_moments": 4000}}, "novel above 0.99, compared with 4,000 moments"),
        ({}, "does not estimate"),
        ({}, "makes no promise"),
        ({}, "highest Q-value"),
    ],
)
def test_safeguards_are_stated_or_that_there_are_none(manifest, words):
    assert words in page_of(**manifest)


def test_levels_and_confidence_are_not_rounded():
    """A level of 12.3449% rounded down would promise more than was tested, and 99.95% up to 100% nothing uncertain."""
    asked = PROMISE["asked"] | {"confidence": 0.9995}
    text = page_of(promise=PROMISE | {"levels": {"red": 0.123449}, "asked": asked})
    assert "At most 12.3449% of patients" in text
    assert "With 99.95% confidence" in text


def test_what_is_promised_for_whom_by_how_many_and_what_is_not():
    text = page_of(promise=PROMISE)
    rows = cells(text)
    red = "patients whom clinicians call Red who get a less urgent decision than Red"
    assert [red, "5%", "180", "4 (2.22%)", "3 (1.67%)"] in rows
    # The share of all patients stands beside that of each colour.
    under = "patients who get a less urgent decision than any clinician gave"
    assert [under, "no promise", "1,200", "11 (0.917%)", "11 (0.917%)"] in rows
    assert "of at most 20 questions" in text
    assert [each for each in NOT_COVERED if f"- {escape(each)}" not in text] == []


def test_a_promise_with_handing_over_says_how_many_and_for_whom_it_holds():
    assert "handing over" not in page_of(promise=PROMISE)
    levels, point = {"red": 0.1, "handed_over": 0.25}, {"hand_over_from": 0.15}
    text = page_of(promise=PROMISE | {"levels": levels, "operating_point": point})
    assert "defer_below" in text
    assert "P(appropriate) of Red is 0.15 or more" in text
    assert ["patients who are handed over to a person", "25%", "1,200", "240 (20%)", "240 (20%)"] in cells(text)


def test_whether_the_evaluation_contradicts_a_promise():
    assert "The vignettes of the evaluation" not in page_of(promise=PROMISE)
    holds = {"holds": True, "broken": {}, "confidence": 0.95}
    assert "not contradict it" in page_of(promise=PROMISE | {"newer": holds})
    broken = PROMISE | {"newer": holds | {"holds": False, "broken": {"interview": ["red"]}}}
    assert "red in interviews" in page_of(promise=broken)


def test_how_a_version_with_probabilities_decides():
    both = dict.fromkeys(("appropriate", "safe"), Calibration([], *[estimates()["safety"]] * 5))
    evaluation = evaluation_with(probabilities={"own_decision": both, "every_decision": both})
    held_out = {"vignettes": 2000, "under_triage": 0.041, "under_triage_of_red": 0.203, "over_triage": 0.1}
    decision = DECISION | {"sure_enough": 0.92, "held_out": held_out}
    text = page_of(evaluation, decision=decision)
    rows = facts(text)
    expected = {
        "safety weight w": "2", "price of a question": "0.008",
        "asking is worth at least": "0.92",
        "chosen": "by an option of the export",
        "held-out vignettes": "2,000",
        "under-triage on them, without safety rules": "0.041", "over-triage on them": "0.100",
        # A small share of all may be a large one of the emergencies.
        "decided below Red, of those whom clinicians call Red": "0.203",
    }  # fmt: skip
    assert rows | expected == rows
    assert ["P(safe) of its decision", *["0.110 [0.100, 0.300]"] * 3] in cells(text)
    assert facts(page_of(decision=DECISION))["asking is worth at least"] == "its Q-value"
