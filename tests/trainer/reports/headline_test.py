"""The first sentences of a report, favourable or not."""

import pytest

from trainer.evaluation.estimates import Estimate
from trainer.reports import headline


def study(safety, appropriateness, **red):
    """Differences as (low, high), and the share of Red cases that each row found."""
    ends = {"safety": safety, "appropriateness": appropriateness}
    differences = {
        name: {"mean": (low + high) / 2, "low": low, "high": high, "vignettes": 90}
        for name, (low, high) in ends.items()
    }
    labels = {"alone": "Preset default", "ruled": "Preset default, with safety rules", "clinicians": "Clinicians"}
    rows = [{"label": labels[name], "metrics": {"red_sensitivity": {"mean": share}}} for name, share in red.items()]
    return {
        "comparisons": {"margin": 0.05, "default_preset": {"human": differences}, "dyqn_or": {}},
        "beside_clinicians": rows,
    }


NON_INFERIOR = "the clinicians (non-inferior with a margin of 5 percentage points, on 90 vignettes)."


@pytest.mark.parametrize(
    ("safety", "appropriateness", "expected"),
    [
        ((-0.09, -0.03), (-0.02, 0.02), "no, it is less safe than the clinicians."),
        ((-0.09, -0.03), (-0.2, -0.1), "no, it is less safe and less often appropriate than the clinicians."),
        ((-0.09, 0.03), (-0.02, 0.02), "not shown, as on 90 vignettes it may still be less safe than the clinicians by "
         "more than 5 percentage points."),
        ((-0.09, 0.03), (-0.2, 0.1), "not shown, as on 90 vignettes it may still be less safe or less often "
         "appropriate than the clinicians by more than 5 percentage points."),
        ((-0.04, -0.01), (0.06, 0.1), f"yes, it is as safe as and more often appropriate than {NON_INFERIOR}"),
        ((0.01, 0.08), (-0.02, 0.02), f"yes, it is safer than and as often appropriate as {NON_INFERIOR}"),
        ((-0.01, 0.2), (-0.02, 0.12), f"yes, it is as safe as and as often appropriate as {NON_INFERIOR}"),
    ],
)  # fmt: skip
def test_as_good_as_the_clinicians_is_non_inferiority_in_both(safety, appropriateness, expected):
    assert headline.headline(study(safety, appropriateness)) == [f"The preset default: {expected}"]


@pytest.mark.parametrize(("margin", "least"), [(0.05, 60), (0.1, 30)])
def test_too_few_vignettes_for_the_margin_have_no_verdict(margin, least):
    """The rule of three: n cases without a difference leave room for one in a share of 3/n."""
    results = study((0.01, 0.02), (0.01, 0.02))
    results["comparisons"]["margin"] = margin
    for difference in results["comparisons"]["default_preset"]["human"].values():
        difference["vignettes"] = least - 1
    [sentence] = headline.headline(results)
    assert sentence == (
        f"The preset default: not shown, as {least - 1} vignettes are too few to compare it with clinicians (a margin "
        f"of {100 * margin:g} percentage points takes {least})."
    )


def test_emergencies_are_given_as_fractions_in_words():
    sentences = headline.headline(study((-0.09, -0.03), (0, 0.01), alone=0.43, ruled=0.97, clinicians=0.64))
    assert sentences == [
        "The preset default: no, it is less safe than the clinicians; it found about two in five emergencies (with "
        "safety rules almost all; the clinicians about two in three)."
    ]


def test_what_was_not_compared_has_no_headline():
    assert headline.headline({}) == []
    assert headline.headline({"comparisons": {"margin": 0.05, "dyqn_or": {}}}) == []
    assert headline.beside_table({}) is None


@pytest.mark.parametrize(
    ("share", "words"), [(0.0, "almost no"), (0.19, "about one in five"), (0.3, "about one in three"),
                         (0.88, "about nine in ten"), (1.0, "almost all")],
)  # fmt: skip
def test_a_share_is_the_nearest_one_that_there_is_a_word_for(share, words):
    assert headline.in_words(share) == words


def test_one_agent_is_answered_in_one_sentence_without_textbook_cases(agent_report):
    assert headline.agent_headline(agent_report._replace(textbook_cases=None)) == (
        "No: it is less safe than the clinicians; it found about one in five emergencies (with safety rules about "
        "three in four; the clinicians about two in three)."
    )


def as_good_as_clinicians(report, **red):
    """With changes of the estimate of the Red cases that it finds."""
    judged = report.as_clinicians
    for name in judged.less_clinicians:
        judged.less_clinicians[name] = Estimate(0.0, -0.01, 0.01, 150)
    judged.by_all_but_one["red_sensitivity"] = judged.by_all_but_one["red_sensitivity"]._replace(**red)
    return report


@pytest.mark.parametrize(("red", "expected"), [(0.5, "; but it found about one in two"), (0.63, "; it found")])
def test_a_yes_is_qualified_where_fewer_emergencies_are_found(agent_report, red, expected):
    answer = headline.agent_headline(as_good_as_clinicians(agent_report, mean=red))
    assert answer.startswith(
        "Yes: it is as safe as and as often appropriate as the clinicians (non-inferior with a margin of 5 percentage "
        "points, on 150 vignettes)"
    )
    assert expected in answer


def test_there_is_no_yes_on_few_emergencies(agent_report):
    assert headline.agent_headline(as_good_as_clinicians(agent_report, vignettes=9)).startswith(
        "Not shown: 150 vignettes test it on too few emergencies (10 are needed); with 9 emergencies nobody can say"
    )


def test_there_is_no_yes_where_a_constant_answer_is_as_good(agent_report):
    as_good_as_clinicians(agent_report).constants["always green"]["appropriateness"] = Estimate(0.8)
    assert headline.agent_headline(agent_report).startswith(
        "Not shown: on these vignettes it is no better than deciding “always green”; it found about one in five"
    )


@pytest.mark.parametrize(
    ("played", "expected"),
    [
        ({}, "In its interviews with safety rules, none of 3 textbook emergencies come too late."),
        ({"with_rules": None}, "In its interviews without safety rules, 1 of 3 textbook emergencies comes too late."),
    ],
)
def test_the_second_sentence_counts_the_textbook_emergencies_that_come_late(agent_report, played, expected):
    textbook = agent_report.textbook_cases._replace(**played)
    assert headline.agent_headline(agent_report._replace(textbook_cases=textbook)).endswith(f". {expected}")


def test_nothing_is_said_of_fewer_than_ten_emergencies_or_without_clinicians(poor_agent_report):
    assert headline.agent_headline(poor_agent_report) == (
        "Not known: no vignette has the decisions of 3 clinicians to compare it with; with 7 emergencies nobody can "
        "say how many it finds."
    )
