import pytest

from trainer.studies.claims import claims


def _agent(appropriateness, safety, questions=None, evidence=None, train_questions=None, width=0.0):
    def figure(mean):
        return None if mean is None else {"mean": mean, "low": mean - width, "high": mean + width}

    names = ("appropriateness", "safety", "questions", "evidence_seen")
    return {
        "label": "an agent",
        "learns": train_questions is not None,
        "metrics": dict(zip(names, map(figure, (appropriateness, safety, questions, evidence)), strict=True)),
        "train": None if train_questions is None else {"questions": train_questions},
    }


def _verdicts(agents=None, by_evidence=None, k_fold=None):
    empty = {"calibrated": [], "uncalibrated": [], "dyqn_or": []}
    judged = claims({"agents": agents or {}, "by_evidence": by_evidence or empty, "k_fold": k_fold})
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
    ("appropriateness", "safety", "width", "expected"),
    [
        (0.82, 0.92, 0.0, True),  # .02 and .01 below: within .03
        (0.80, 0.92, 0.0, False),  # .04 below, and no interval covers it
        (0.80, 0.92, 0.05, True),  # .80 + .05 covers .84
        (0.84, 0.85, 0.05, False),  # safety: .85 + .05 does not reach .93
        (0.90, 0.93, 0.0, False),  # .06 above is not on a par either
    ],
)
def test_on_a_par_is_near_or_covered_in_both_shares(appropriateness, safety, width, expected):
    agents = {"dyqn_or": _agent(appropriateness, safety, 13, 6, 5, width), "human": _agent(0.84, 0.93)}
    assert _holds("DyQN-OR is on a par with the clinicians", agents=agents) is expected


def test_the_numbers_of_a_par_are_told():
    agents = {"dyqn_or": _agent(0.82, 0.80, 13, 6, 5, 0.01), "human": _agent(0.84, 0.93)}
    [numbers] = [each["numbers"] for claim, each in _verdicts(agents).items() if "with the clinicians" in claim]
    assert numbers == (
        "DyQN-OR and the clinicians: appropriateness .820 [.810, .830] against .840 (within .030); safety .800 [.790, "
        ".810] against .930 (outside of both)."
    )


@pytest.mark.parametrize(("seen", "expected"), [(6.6, True), (6.7, False)])
def test_less_evidence_is_clearly_less(seen, expected):
    # 95% of 7 pieces are 6.65.
    agents = {"dyqn_or": _agent(0.8, 0.9, 13, seen, 5), "fully_observed": FULL}
    assert _holds("DyQN-OR needs less evidence", agents=agents) is expected


@pytest.mark.parametrize(
    ("and_query", "expected"),
    [((0.76, 1.4), True), ((0.76, 7.0), False), ((0.83, 1.4), False)],
)
def test_the_and_query_stops_much_earlier_and_is_worse(and_query, expected):
    # Half of 13 questions are 6.5; worse is more than .03 below .85.
    right, asked = and_query
    agents = {"dyqn_or": _agent(0.85, 0.93, 13, 6, 5), "dyqn_and": _agent(right, 0.9, asked, 2, 1)}
    assert _holds("DyQN-AND", agents=agents) is expected


@pytest.mark.parametrize(("asked", "never", "near"), [(23.0, True, False), (21.0, False, False), (12.0, False, True)])
def test_how_long_the_partially_observed_agents_ask(asked, never, near):
    agent = _agent(0.8, 0.9, asked, 7, 5)
    assert _holds("Partially observed OR", agents={"partially_observed_or": agent}) is never
    assert _holds("Partially observed AND", agents={"partially_observed_and": agent}) is near


@pytest.mark.parametrize(("train_questions", "expected"), [(14.0, True), (22.0, False)])
def test_asking_more_on_test_is_asked_of_the_mean_of_the_learning_agents(train_questions, expected):
    # 13 questions on the test split for both; on the training split (5 + 14) / 2 = 9.5, or (5 + 22) / 2 = 13.5.
    agents = {"dyqn_or": _agent(0.8, 0.9, 13, 6, 5.0), "dyqn_and": _agent(0.8, 0.9, 13, 6, train_questions), "x": FULL}
    assert _holds("On average the learning agents ask more", agents=agents) is expected


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
    assert _holds("K-fold", agents={"dyqn_or": _agent(0.85, 0.9, 13, 6, 5)}, k_fold=k_fold) is expected


@pytest.mark.parametrize(
    ("appropriateness", "evidence", "expected"),
    [(0.86, 5.6, True), (0.85, 5.6, False), (0.86, 5.7, False)],
)
def test_the_goal_is_the_better_of_both_with_four_fifths_of_the_evidence(appropriateness, evidence, expected):
    # 80% of 7 pieces are 5.6.
    agents = {
        "dyqn_or": _agent(appropriateness, 0.95, 13, evidence, 5),
        "human": _agent(0.84, 0.93),
        "fully_observed": FULL,
    }
    assert _holds("Goal", agents=agents) is expected
