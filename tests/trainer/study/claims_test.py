import pytest

from trainer.study.claims import claims


def _agent(appropriateness, safety, questions=None, evidence=None, forced=None, train=None):
    values = {"appropriateness": appropriateness, "safety": safety, "questions": questions, "evidence_seen": evidence,
              "forced": forced}  # fmt: skip
    return {
        "label": "an agent",
        "metrics": {name: None if value is None else {"mean": value} for name, value in values.items()},
        "train": train,
    }


def _difference(mean, half=0.01, vignettes=100):
    return {"mean": mean, "low": mean - half, "high": mean + half, "vignettes": vignettes}


def _verdicts(agents=None, by_evidence=None, k_fold=None, comparisons=None):
    empty = {"calibrated": [], "uncalibrated": [], "dyqn_or": []}
    judged = claims(
        {
            "agents": agents or {},
            "comparisons": {"margin": 0.05, **(comparisons or {})},
            "by_evidence": by_evidence or empty,
            "k_fold": k_fold,
        }
    )
    return {each["claim"]: each for each in judged}


def _holds(beginning, **results):
    [verdict] = [each for claim, each in _verdicts(**results).items() if claim.startswith(beginning)]
    return verdict["holds"]


FULL = _agent(0.86, 0.94, evidence=7.0)


def test_what_was_not_measured_is_open():
    verdicts = _verdicts()
    assert {each["holds"] for each in verdicts.values()} == {None}
    assert {each["numbers"] for each in verdicts.values()} == {"Not measured in this study."}


@pytest.mark.parametrize(
    ("appropriateness", "safety", "half", "expected"),
    [
        (-0.02, 0.01, 0.02, True),  # both intervals lie between -.05 and .05
        (-0.02, 0.01, 0.03, True),  # -.02 - .03 is the margin itself
        (-0.02, 0.01, 0.04, False),  # the same means on fewer vignettes show nothing
        (0.0, -0.06, 0.02, False),
        (0.06, 0.06, 0.02, False),  # better is not on a par either
    ],
)
def test_on_a_par_is_an_interval_within_the_margin_in_both_shares(appropriateness, safety, half, expected):
    differences = {"appropriateness": _difference(appropriateness, half), "safety": _difference(safety, half)}
    for name, label in (("dyqn_or", "DyQN-OR"), ("default_preset", "The preset default")):
        beginning = f"{label} is on a par with the clinicians"
        assert _holds(beginning, comparisons={name: {"human": differences}}) is expected


def test_a_single_vignette_shows_no_equivalence():
    differences = {name: _difference(0.0) | {"low": None, "high": None} for name in ("appropriateness", "safety")}
    assert (
        _holds("DyQN-OR is on a par with the fully", comparisons={"dyqn_or": {"fully_observed": differences}}) is False
    )


def test_the_numbers_of_a_par_are_reported():
    differences = {"appropriateness": _difference(-0.02, 0.04), "safety": _difference(-0.13)}
    verdicts = _verdicts(comparisons={"dyqn_or": {"human": differences}})
    assert verdicts["DyQN-OR is on a par with the clinicians"]["numbers"] == (
        "Difference on the same 100 vignettes, with its 95% interval and a margin of .050: appropriateness -.020 "
        "[-.060, +.020] (not known to within .050); safety -.130 [-.140, -.120] (below)."
    )


@pytest.mark.parametrize(("seen", "expected"), [(6.6, True), (6.7, False)])
def test_less_evidence_is_clearly_less(seen, expected):
    # 95% of 7 pieces are 6.65.
    agents = {"dyqn_or": _agent(0.8, 0.9, 13, seen), "fully_observed": FULL}
    assert _holds("DyQN-OR needs less evidence", agents=agents) is expected


@pytest.mark.parametrize(
    ("and_query", "expected"),
    [((0.76, 1.4), True), ((0.76, 7.0), False), ((0.83, 1.4), False)],
)
def test_the_and_query_stops_much_earlier_and_is_worse(and_query, expected):
    # Half of 13 questions are 6.5; worse is more than .03 below .85.
    right, asked = and_query
    agents = {"dyqn_or": _agent(0.85, 0.93, 13, 6), "dyqn_and": _agent(right, 0.9, asked, 2)}
    assert _holds("DyQN-AND", agents=agents) is expected


@pytest.mark.parametrize(("asked", "never", "near"), [(23.0, True, False), (21.0, False, False), (12.0, False, True)])
def test_how_long_the_partially_observed_agents_ask(asked, never, near):
    agent = _agent(0.8, 0.9, asked, 7)
    assert _holds("Partially observed OR", agents={"partially_observed_or": agent}) is never
    assert _holds("Partially observed AND", agents={"partially_observed_and": agent}) is near


@pytest.mark.parametrize(
    ("questions", "forced", "expected"),
    [
        (8.0, 0.2, True),  # it ends by itself after (8 - .2 * 23) / .8 = 4.25 questions on the test split
        (8.0, 0.4, False),  # after (8 - .4 * 23) / .6 < 0 questions: all that it asks more, it was forced to
        (4.0, 0.0, False),
        (23.0, 1.0, False),  # it never ends by itself
    ],
)
def test_asking_more_on_test_is_asked_of_dyqn_or_without_its_forced_episodes(questions, forced, expected):
    # On training vignettes it ends by itself after (5 - .1 * 23) / .9 = 3 questions.
    train = {"questions": 5.0, "forced": 0.1, "evidence_seen": 3.6}
    agents = {"dyqn_or": _agent(0.8, 0.9, questions, 6, forced, train), "dyqn_and": _agent(0.8, 0.9, 0, 1, 0, train)}
    assert _holds("DyQN-OR asks more", agents=agents) is expected


def test_asking_more_reports_forced_episodes_and_the_papers_count():
    train = {"questions": 5.0, "forced": 0.1, "evidence_seen": 3.6}
    verdicts = _verdicts({"dyqn_or": _agent(0.8, 0.9, 8.0, 6, 0.2, train)})
    assert verdicts["DyQN-OR asks more on test vignettes than on training vignettes"]["numbers"] == (
        "Questions on test and on training vignettes: 8.0 and 5.0 in all episodes, 4.2 and 3.0 in those that it ended "
        "by itself; forced at the limit in 20% and 10%. Counted as in the paper, whose training episodes end with the "
        "evidence: 8.0 and 2.6; the paper's four agents 15.6 and 4.9."
    )


def _points(*shares):
    return [
        {"pieces": pieces, "vignettes": 10, "appropriateness": share, "safety": share, "confidence": share}
        for pieces, share in enumerate(shares, start=1)
    ]


@pytest.mark.parametrize(
    ("calibrated", "uncalibrated", "expected"),
    [
        ((0.6, 0.7, 0.8, 0.1), (0.5, 0.7, 0.8, 0.9), True),  # the fourth piece does not count
        ((0.6, 0.6, 0.6), (0.5, 0.7, 0.9), False),
    ],
)
def test_calibration_is_judged_on_small_evidence_sets(calibrated, uncalibrated, expected):
    by_evidence = {"calibrated": _points(*calibrated), "uncalibrated": _points(*uncalibrated), "dyqn_or": []}
    assert _holds("Calibration helps", by_evidence=by_evidence) is expected


@pytest.mark.parametrize(("folds", "expected"), [((0.80, 0.82), True), ((0.85, 0.87), False), ((0.5, 0.6), False)])
def test_folds_are_a_little_worse(folds, expected):
    # On the common split .85; the means are .81 (.04 worse), .86 (better), .55 (more than a little worse).
    k_fold = {"runs": [{"appropriateness": share} for share in folds]}
    assert _holds("K-fold", agents={"dyqn_or": _agent(0.85, 0.9, 13, 6)}, k_fold=k_fold) is expected


@pytest.mark.parametrize(
    ("appropriateness", "evidence", "expected"),
    [(0.86, 5.6, True), (0.85, 5.6, False), (0.86, 5.7, False)],
)
def test_the_goal_is_the_better_of_both_with_four_fifths_of_the_evidence(appropriateness, evidence, expected):
    # 80% of 7 pieces are 5.6.
    agent = _agent(appropriateness, 0.95, 13, evidence)
    agents = {"dyqn_or": agent, "default_preset": agent, "human": _agent(0.84, 0.93), "fully_observed": FULL}
    assert _holds("Goal: DyQN-OR", agents=agents) is expected
    assert _holds("Goal: The preset default", agents=agents) is expected
