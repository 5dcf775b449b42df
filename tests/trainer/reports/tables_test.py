"""The tables of a study's report."""

from trainer.reports import tables


def estimate(mean, spread=None, low=None, high=None):
    return {"mean": mean, "sd_over_seeds": spread, "low": low, "high": high}


def test_a_row_of_the_results_has_mean_spread_interval_and_the_papers_figure():
    agent = {
        "label": "DyQN",
        "learns": True,
        "split": "test",
        "metrics": {"appropriateness": estimate(0.842, 0.023, 0.78, 0.9), "questions": estimate(11.2), "safety": None},
        "paper": {"appropriateness": 0.85, "safety": 0.93, "questions": 13.34},
    }
    (row,) = tables.results_rows({"agents": {"dyqn_or": agent}})
    appropriateness, safety, over, under, questions, evidence, forced = row.cells
    assert (row.label, row.split) == ("DyQN", "test")
    assert appropriateness == ("84.2%", "2.3", "78.0\u201390.0%", "85.0%")
    assert safety == ("\u2013", None, None, "93.0%")
    assert questions == ("11.20", None, None, "13.34")
    # The paper has no figures for these.
    assert [cell.paper for cell in (over, under, evidence, forced)] == [None] * 4


def test_who_sees_the_whole_vignette_asks_no_questions():
    agents = {name: {"label": name, "metrics": {"questions": None}, "paper": None} for name in ("human", "random")}
    human, random = tables.results_rows({"agents": agents})
    assert human.cells[4].mean == human.cells[4].paper == "all"
    assert random.cells[4].mean == random.cells[4].paper == "\u2013"


def test_claims_say_what_the_paper_has_and_what_came_out():
    outcomes = ("holds", "fails", "not shown")
    claims = [{"claim": "a", "paper": ".93", "outcome": outcome, "numbers": "n"} for outcome in outcomes]
    table = tables.claims_table({"claims": claims, "comparisons": {"margin": 0.05}})
    assert table.rows == tuple(("a", ".93", outcome, "n") for outcome in outcomes)
    assert "within 5 percentage points" in table.caption
    assert tables.claims_table({"claims": []}) is None


def test_ablations_have_the_spread_over_seeds_in_brackets():
    metrics = {
        "appropriateness": {"mean": 0.8, "sd_over_seeds": 0.012},
        "questions": {"mean": 9, "sd_over_seeds": None},
    }
    table = tables.ablations_table({"ablations": [{"name": "none", "metrics": metrics}]})
    assert table.rows == (("none", "80.0% (1.2)", "\u2013", "9.00", "\u2013"),)


def test_held_out_conditions_are_beside_seen_ones():
    unseen = {
        "seen": {"questions": {"mean": 8.0, "low": 7.5, "high": 8.5}},
        "unseen": {"questions": {"mean": 9.25, "low": 8.5, "high": 10.0}},
        "difference": {"questions": {"mean": 1.25, "low": 0.5, "high": 2.0}, "safety": {"mean": -0.02}},
    }
    rows = {row[0]: row[1:] for row in tables.unseen_table({"unseen": unseen}).rows}
    assert rows["Questions asked"] == ("8.00 (7.50\u20138.50)", "9.25 (8.50\u201310.00)", "+1.25 (+0.50 to +2.00)")
    assert rows["Safety"] == ("\u2013", "\u2013", "\N{MINUS SIGN}2.0")
    assert tables.unseen_table({"unseen": None}) is None


def test_a_card_counts_levels_below_the_least_urgent_clinician():
    def levels(decisions, decision):
        error = {"vignette_id": "v", "text": "t", "decisions": decisions, "decision": decision, "steps": []}
        (card,) = tables.cards([error])
        return card.levels_too_low

    assert levels(["Red", "Yellow"], "Blue") == 2  # from Yellow over Green to Blue
    assert levels(["Red", "Red"], "Yellow") == 1
    assert levels(["Red", "Blue"], "Blue") == 0
    assert levels(["Green"], "Red") == 0
    assert levels([], "Red") == levels(["Purple"], "Red") == 0


def test_steps_mark_the_highest_value_and_what_was_asked_in_vain():
    values = {"Red": 0.2, "Yellow": 0.6, "Green": None, "Blue": 0.1, "ask": 0.7}
    steps = [
        {"evidence": "Fever", "presence": presence, "values": values, "action": "ask"}
        for presence in ("present", "absent", None)
    ]
    (card,) = tables.cards([{"vignette_id": "v", "steps": steps, "decisions": ["Red"], "decision": "Blue"}])
    assert [step.answer for step in card.steps] == ["yes", "no", "not known (no evidence left)"]
    assert [action for action, _, highest in card.steps[0].values if highest] == ["ask"]
    assert card.steps[0].values[2] == ("Green", None, False)


def test_questions_in_vain_are_one_step():
    steps = [{"evidence": "Fever", "presence": "present", "values": {}, "action": "ask"}]
    steps += [{**steps[0], "evidence": "nothing new", "presence": None, "action": each} for each in ("ask", "Red")]
    (card,) = tables.cards([{"vignette_id": "v", "steps": steps, "decisions": ["Red"], "decision": "Red"}])
    assert [(step.evidence, step.action) for step in card.steps] == [("Fever", "ask"), ("nothing new, 2 times", "Red")]


def test_a_card_says_what_a_decision_rests_on_where_that_is_recorded():
    error = {"vignette_id": "v", "decisions": ["Red"], "decision": "Blue"}
    effects = [{"evidence": "Fever", "presence": "absent", "effect": 0.12345}]
    (card,) = tables.cards([{**error, "effects": effects}])
    assert card.effects == (("Fever", "no", "0.123"),)


def test_agreement_is_silent_about_what_was_not_measured():
    assert tables.agreement_sentences({"agreement": {"red_sensitivity": None, "kappa": None}}) == []
    red = {"mean": 0.88, "low": 0.7, "high": 0.97, "vignettes": 21}
    (sentence,) = tables.agreement_sentences({"agreement": {"red_sensitivity": red}})
    assert sentence == "The agent finds 88.0% (70.0\u201397.0%) of the Red cases, on 21 vignettes."


def test_nested_settings_become_dotted_lines():
    settings = {"mode": "full", "seeds": [0, 1], "powerset": {"cap": 10}, "held_out": None, "empty": []}
    assert tables.flat(settings) == [
        ("mode", "full"),
        ("seeds", "0, 1"),
        ("powerset.cap", "10"),
        ("held_out", "\u2013"),
        ("empty", "\u2013"),
    ]
