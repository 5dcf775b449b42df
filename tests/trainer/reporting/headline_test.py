"""The first sentences of a report, favourable or not."""

import pytest

from trainer.reporting import headline


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


@pytest.mark.parametrize(
    ("safety", "appropriateness", "told"),
    [
        ((-0.09, -0.03), (-0.02, 0.02), "no, it is less safe than the clinicians."),
        ((-0.09, -0.03), (-0.2, -0.1), "no, it is less safe and less often appropriate than the clinicians."),
        ((-0.09, 0.03), (-0.02, 0.02), "not shown, as 90 vignettes cannot tell it from the clinicians to within 5 "
         "points."),
        ((-0.04, -0.01), (0.06, 0.1),
         "yes, it is as safe as and more often appropriate than the clinicians, to within 5 points."),
        ((0.01, 0.08), (-0.02, 0.02),
         "yes, it is safer than and as often appropriate as the clinicians, to within 5 points."),
    ],
)  # fmt: skip
def test_the_verdict_follows_both_intervals(safety, appropriateness, told):
    assert headline.headline(study(safety, appropriateness)) == [f"The preset default: {told}"]


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


def test_one_agent_is_answered_in_one_sentence(agent_report):
    assert headline.agent_headline(agent_report) == (
        "No: it is less safe than the clinicians; it found about one in five emergencies (with safety rules about "
        "three in four; the clinicians about two in three)."
    )


@pytest.mark.parametrize(("red", "told"), [(0.5, "points; but it found about one in two"), (0.63, "points; it found")])
def test_a_yes_is_qualified_where_fewer_emergencies_are_found(agent_report, red, told):
    for difference in agent_report["as_clinicians"]["less_clinicians"].values():
        difference |= {"low": -0.01, "high": 0.01}
    agent_report["as_clinicians"]["by_all_but_one"]["red_sensitivity"]["mean"] = red
    answer = headline.agent_headline(agent_report)
    assert answer.startswith("Yes: it is as safe as and as often appropriate as the clinicians, to within 5 ")
    assert told in answer


def test_nothing_is_said_of_fewer_than_ten_emergencies_or_without_clinicians(poor_agent_report):
    assert headline.agent_headline(poor_agent_report) == (
        "Not known: no vignette has the decisions of 3 clinicians to compare it with; with 7 emergencies nobody can "
        "say how many it finds."
    )
