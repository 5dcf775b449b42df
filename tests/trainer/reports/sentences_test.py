"""The answer in words follows the numbers, also where they are unfavourable."""

import pytest

from trainer.reports import sentences


def study(agent=None, human=None, green=0.7, train=None, **data):
    """Returns results of DyQN-OR, the clinicians and Always Green; `agent` overrides single metrics."""

    def means(values):
        return {name: value if isinstance(value, dict) else {"mean": value} for name, value in values.items()}

    measured = {
        "appropriateness": {"mean": 0.84, "low": 0.78, "high": 0.9, "per_seed": [0.83, 0.85]},
        "safety": {"mean": 0.93, "low": 0.9, "high": 0.96},
        "over_triage": 0.09,
        "under_triage": 0.07,
        "questions": 11.2,
        "evidence_seen": 6.6,
        **(agent or {}),
    }
    return {
        "agents": {
            "dyqn_or": {"metrics": means(measured), "train": train},
            "human": {"metrics": means(human if human is not None else {"appropriateness": 0.85, "safety": 0.94})},
            "always_green": {"metrics": means({"appropriateness": green})},
        },
        "data": {"simulated": False, "vignettes": {"test": 1000}, "mean_evidence": 7.3, **data},
    }


def answers(results):
    return dict(sentences.answer(results))


def test_the_verdict_counts_the_claims():
    outcomes = ("holds", "holds", "fails", "not shown", "not measured")
    claims = [{"outcome": outcome} for outcome in outcomes]
    assert sentences.verdict({"claims": claims}) == (
        "Of 5 claims about the agents, 2 held here, 1 failed here, 1 not shown and 1 not measured."
    )
    assert sentences.verdict({"claims": [{"outcome": "fails"}]}) == "Of 1 claim about the agents, 1 failed here."
    assert "none" in sentences.verdict({"claims": []})


def test_quality_comes_with_its_uncertainty():
    assert answers(study())["How good is it?"] == (
        "On 1,000 vignettes it had not seen before, the agent (DyQN, OR query) triaged appropriately in 84.0% "
        "of cases (95% interval 78.0% to 90.0%) and safely in 93.0% of cases (95% interval 90.0% to 96.0%)."
    )


def test_the_agent_is_compared_with_clinicians_where_both_are_judged_alike():
    results = study()
    results["agents"]["dyqn_or"]["as_clinicians"] = {"appropriateness": {"mean": 0.8}, "safety": {"mean": 0.9}}
    difference = {"mean": -0.05, "low": -0.09, "high": -0.01, "vignettes": 700}
    results["comparisons"] = {
        "margin": 0.05,
        "dyqn_or": {"human": dict.fromkeys(("appropriateness", "safety"), difference)},
    }
    apart = "-5.0 (-9.0 to -1.0)".replace("-", "\N{MINUS SIGN}")
    assert answers(results)["Compared with clinicians"] == (
        "On the 700 vignettes with three or more decisions, each judged by all clinicians but one: appropriateness "
        "80.0% against 85.0% and safety 90.0% against 94.0%. The differences, vignette by vignette, are "
        f"{apart} percentage points and {apart} percentage points with their 95% intervals. On a par means that both "
        "intervals lie within 5 points."
    )


def test_without_a_comparison_there_is_none():
    assert "was not compared" in answers(study())["Compared with clinicians"]


def test_an_agent_that_a_constant_answer_equals_is_no_better():
    assert "4.0 percentage points better" in answers(study(green=0.8))["Compared with a constant answer"]
    assert "the agent is no better" in answers(study(green=0.84))["Compared with a constant answer"]
    assert "the agent is no better" in answers(study(green=0.9))["Compared with a constant answer"]


@pytest.mark.parametrize(
    ("questions", "words"),
    [(11.2, "the limit is 23"), (22.9, "almost never stopped"), (0.3, "on the first piece")],
)
def test_stopping_is_described_as_measured(questions, words):
    assert words in answers(study(agent={"questions": questions}))["When does it stop?"]


def test_stopping_names_the_share_of_decisions_that_the_limit_forced():
    answer = answers(study(agent={"questions": 11.2, "forced": 0.32}))["When does it stop?"]
    assert answer.endswith("the limit is 23, which forced the decision in 32.0% of episodes.")
    assert "by itself" not in answer


@pytest.mark.parametrize(
    ("outcome", "words"),
    [("holds", "It asks more"), ("fails", "It does not ask more"), ("not shown", "not shown (11.2 against 5.6")],
)
def test_adapting_is_what_the_claim_shows(outcome, words):
    """Not what two means seem to: 11.2 questions are more than 5.6 in all three."""
    results = study(train={"questions": 5.6})
    results["claims"] = [{"claim": sentences.ASKS_MORE, "outcome": outcome}]
    assert words in answers(results)["On new cases"]
    assert "On new cases" not in answers(study())
    forced = study(agent={"forced": 0.3}, train={"questions": 5.6, "forced": 0.1})
    assert "forced in 30.0% against 10.0% of episodes" in answers(forced)["On new cases"]


def test_the_red_cases_found_are_reported_with_the_dangerous_errors():
    red = {"red_sensitivity": {"mean": 0.2, "low": 0.04, "high": 0.4, "vignettes": 11}}
    sentence = answers({**study(), "agreement": red})["Dangerous errors"]
    assert sentence.endswith("It found 20.0% of the 11 cases that most clinicians called Red.")
    assert "Red" not in answers({**study(), "agreement": None})["Dangerous errors"]


def test_under_triage_is_named_as_the_dangerous_error():
    assert answers(study())["Dangerous errors"].startswith(
        "In 7.0% of cases, the agent's decision was less urgent than every"
    )


def test_an_agent_that_was_not_measured_gives_no_answer():
    assert list(answers({"agents": {}})) == ["No answer yet"]


@pytest.mark.parametrize(
    ("known", "words"), [(True, "are simulated by"), (False, "not simulated"), (None, "not recorded")]
)
def test_it_says_whether_the_data_are_simulated(known, words):
    assert words in sentences.simulated({"data": {"simulated": known}})


def test_limits_name_what_this_study_left_out():
    everything = study()
    few = study(simulated=True, vignettes={"test": 50})
    few["settings"] = {"mode": "quick"}
    few["agents"]["dyqn_or"]["metrics"]["appropriateness"]["per_seed"] = [0.8]
    text = " ".join(sentences.limits(few))
    for words in (
        "quick mode",
        "Simulated clinicians",
        "Only one seed",
        "50 vignettes: each changes a share by 2.0",
    ):  # 1/50
        assert words in text
        assert words not in " ".join(sentences.limits(everything))
