"""Scoring answers cases as the server does."""

import dataclasses

import numpy as np
import pytest

from schemas import features
from schemas.errors import InputError
from schemas.triage import ACTION_LABELS, DECISION_LABELS
from serving.engine.saved_model import SavedModelEngine
from serving.messages import action_label
from serving.scoring.answers import Scorer
from serving.scoring.cases import Cases
from tests.builders import served
from triage_client import TriageClient, evidence_state

STATES = 10_000


@pytest.fixture(scope="module")
def client_of_guarded(guarded_base_path):
    with served(guarded_base_path) as server, TriageClient(server.address, timeout_seconds=60) as client:
        yield client


@pytest.fixture(scope="module")
def scorer(guarded_base_path):
    return Scorer(SavedModelEngine(guarded_base_path / "4"), 0, allow_unknown_codes=True)


def _cases(codes, count):
    """Random cases: each code is present, absent or left out."""
    generator = np.random.default_rng(0)
    drawn = generator.integers(-1, 2, [count, len(codes)])
    present, absent = ([[codes[place] for place in np.flatnonzero(row == sign)] for row in drawn] for sign in (1, -1))
    asked = generator.integers(0, 8, count).astype(np.int32)
    return Cases([""] * count, [f"v{number}" for number in range(count)], present, absent, asked)


def test_ten_thousand_cases_get_the_answers_of_the_server(scorer, client_of_guarded):
    cases = _cases([*scorer.engine.vocabulary.codes, "gout"], STATES)
    columns = scorer.answer(cases.ids, scorer.encode(cases))
    assert columns["vignette_id"] == cases.ids
    served = []
    for start in range(0, STATES, 1000):
        rows = zip(*(part[start : start + 1000] for part in cases[2:]), strict=True)
        states = [evidence_state(present, absent, questions_asked=int(asked)) for present, absent, asked in rows]
        served += client_of_guarded.batch_triage(states, allow_unknown_codes=True)
    assert columns["action"] == [action_label(each.action) for each in served]
    assert columns["best_triage"] == [action_label(each.best_triage) for each in served]
    assert columns["forced"] == [each.forced for each in served]
    assert columns["fired_rules"] == [[rule.rule_id for rule in each.fired_rules] for each in served]
    assert columns["is_novel"] == [each.is_novel for each in served]
    assert columns["unknown_codes"] == [list(each.unknown_codes) for each in served]
    q_values = np.transpose([columns[f"q_{label.lower()}"] for label in ACTION_LABELS])
    np.testing.assert_allclose(q_values, [[q.value for q in each.q_values] for each in served], atol=1e-6)
    np.testing.assert_allclose(columns["novelty"], [each.novelty for each in served], atol=1e-6)


def test_probabilities_have_a_column_each_where_the_model_has_them(scorer, monkeypatch):
    cases = _cases(scorer.engine.vocabulary.codes, 2)
    outputs = scorer.engine.decide(np.zeros([2, 3], np.float32), np.zeros(2, np.int32))
    appropriate, safe = np.arange(16).reshape(2, 2, 4) / 16
    judged = {**outputs, features.P_APPROPRIATE: appropriate, features.P_SAFE: safe}
    monkeypatch.setattr(scorer.engine, "decide", lambda states, asked: judged)
    monkeypatch.setattr(scorer.engine, "info", dataclasses.replace(scorer.engine.info, probabilities=True))
    columns = scorer.answer(cases.ids, scorer.encode(cases))
    for prefix, values in (("appropriate", appropriate), ("safe", safe)):
        assert (
            np.transpose([columns[f"{prefix}_{each.lower()}"] for each in DECISION_LABELS]).tolist() == values.tolist()
        )


def test_cases_are_handed_over_for_the_reasons_of_the_server(guarded_base_path, monkeypatch):
    scorer = Scorer(SavedModelEngine(guarded_base_path / "4"), 0, allow_unknown_codes=False, defer_below=0.85)
    present, absent = [["fever"]] * 5, [[], [], [], ["fever"], []]
    cases = Cases([""] * 5, list("abcde"), present, absent, np.zeros(5, np.int32))
    red, yellow, ask = 0, 1, 4
    judged = {
        **scorer.engine.decide(np.zeros([5, 3], np.float32), np.zeros(5, np.int32)),
        features.ACTION: np.array([yellow, red, yellow, ask, ask]),
        features.BEST_TRIAGE: np.array([yellow, red, yellow, yellow, yellow]),
        features.IS_NOVEL: np.array([False, False, True, True, True]),
        features.P_APPROPRIATE: np.full([5, 4], 0.5),
        features.P_SAFE: np.tile([1.0, 0.8, 0.7, 0.6], (5, 1)),
    }
    monkeypatch.setattr(scorer.engine, "decide", lambda states, asked: judged)
    monkeypatch.setattr(scorer.engine, "info", dataclasses.replace(scorer.engine.info, probabilities=True))
    columns = scorer.answer(cases.ids, scorer.encode(cases))
    assert columns["deferred"] == ["unsure", "", "novel", "contradictory", ""]
    assert columns["next"] == ["hand_over", "decide", "hand_over", "hand_over", "ask"]
    assert columns["conflicting_codes"] == [[], [], [], ["fever"], []]
    # A model that hands over what may be Red: P(Red) is .5 everywhere.
    judged[features.P_SAFE] = np.ones([5, 4])
    for red, first in ((0.5, "unsure"), (0.6, "")):
        info = dataclasses.replace(scorer.engine.info, hand_over_from=red)
        monkeypatch.setattr(scorer.engine, "info", info)
        columns = scorer.answer(cases.ids, scorer.encode(cases))
        assert columns["deferred"] == [first, "", "novel", "contradictory", ""]


def test_an_unknown_code_is_refused_by_case_and_line(guarded_base_path):
    strict = Scorer(SavedModelEngine(guarded_base_path / "4"), 0, allow_unknown_codes=False)
    cases = Cases(["line 7", "line 8"], ["a", "b"], [["fever"], ["chest_pian"]], [[], []], np.zeros(2, np.int32))
    with pytest.raises(InputError, match=r"^line 8: .*'chest_pian'.*chest_pain") as error:
        strict.encode(cases)
    assert "--allow-unknown-codes" in str(error.value)


def test_a_code_that_is_present_and_absent_is_refused_as_the_server_does(scorer):
    cases = Cases(
        ["record 4", "record 5"], ["a", "b"], [["fever"], ["fever", "smoker"]], [[], ["smoker"]], np.zeros(2, np.int32)
    )
    with pytest.raises(InputError, match=r"^record 5: 'smoker' .*absent"):
        scorer.encode(cases)


def test_questions_are_refused_of_a_version_that_cannot_choose_them(guarded_base_path):
    with pytest.raises(InputError, match="--questions 2: "):
        Scorer(SavedModelEngine(guarded_base_path / "4"), 2, allow_unknown_codes=False)


def test_red_flags_that_are_asked_together_have_a_column(grouping_base_path):
    scorer = Scorer(SavedModelEngine(grouping_base_path / "1"), 2, allow_unknown_codes=False)
    flags = ["fever", "rash", "stiff_neck"]
    asked = np.array([0, 0, 23], np.int32)  # the last is over
    cases = Cases([""] * 3, ["a", "b", "c"], [["headache"]] * 3, [[], flags, []], asked)
    columns = scorer.answer(cases.ids, scorer.encode(cases))
    assert [sorted(codes) for codes in columns["asked_together"]] == [flags, [], []]
    assert columns["next_questions"][0][0] == columns["asked_together"][0][0]
    assert columns["next"][::2] == ["ask", "decide"]
