import numpy as np
import pytest

from trainer.config import TrainConfig
from trainer.evaluation.figures import Estimate
from trainer.study.claims import above, claims, every, ordered_share, within
from trainer.study.folds import fold_rows
from trainer.study.measured import Measured
from trainer.study.study import ALL_DECISIONS, StudySettings, ablation_task
from triage_runtime.command_line.json_output import plain

V = 200
SETTINGS = StudySettings(
    mode="full", seeds=1, partially_observed_seeds=1, folds=2, fold_seeds=2, powerset_rows=500, members=("tree",),
    ablations=False, config=TrainConfig(), default_preset_seeds=1,
)  # fmt: skip


def estimate(low, high):
    return Estimate((low + high) / 2, low, high, 100)


UNKNOWN = Estimate(0.3, None, None, 1)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.001, 0.018, "holds"),
        (-0.001, 0.017, "not shown"),  # so little less is no contrary
        (-0.2, 0.0, "fails"),
    ],
)
def test_better_is_not_shown_between_shown_and_contrary(low, high, expected):
    assert above(estimate(low, high)) == expected


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-0.05, 0.05, "holds"),
        (-0.06, 0.01, "not shown"),  # few vignettes show nothing
        (-0.04, 0.06, "not shown"),
        (-0.09, -0.06, "fails"),
        (0.06, 0.09, "fails"),  # better is not on a par either
    ],
)
def test_on_a_par_is_an_interval_within_the_margin(low, high, expected):
    assert within(estimate(low, high), -0.05, 0.05) == expected


def test_a_single_vignette_shows_nothing():
    assert {above(UNKNOWN), within(UNKNOWN, -1, 1)} == {"not shown"}


def test_small_test_sets_show_an_ordering_as_often_as_chance_lets_them():
    # Better on 103 of 1,000 vignettes, worse on 97: the mean of 126 is .006 with an SD of about
    # sqrt(.2 / 126 * 874 / 999) = .037, so that it is above 0 in about 56% of the sets.
    gains = np.concatenate([np.ones(103), -np.ones(97), np.zeros(800)])
    assert ordered_share(gains[np.newaxis], seed=0) == pytest.approx(0.56, abs=0.06)
    assert ordered_share(np.stack([gains, -gains]), seed=0) == 0.0  # both at once
    assert ordered_share(np.ones([1, 251]), seed=0) is None


def test_a_claim_of_several_parts_fails_with_one_of_them():
    assert every(["holds", "holds"]) == "holds"
    assert every(["holds", "not shown"]) == "not shown"
    assert every(["not shown", "fails", "holds"]) == "fails"


def values(right, safe=None, questions=5.0, seen=4.0, forced=0.0):
    """Vignettes with a tenth of each share around its mean, so that intervals are narrow but not empty."""
    around = np.where(np.arange(V) % 2, 0.05, -0.05)
    safe = right if safe is None else safe
    found = {"appropriateness": right + around, "safety": safe + around, "questions": questions + around,
             "evidence_seen": seen + around, "forced": np.full(V, forced)}  # fmt: skip
    return {name: each.tolist() for name, each in found.items()}


def learned(test, train=None, first=None, as_clinicians=None):
    return {
        "vignettes": {"test": test, "train": train or test},
        "as_clinicians": as_clinicians or test,
        "judged": list(range(V)),
        "first": first or test,
        "converged": {"test": {name: float(np.mean(each)) for name, each in test.items()}},
    }


def judged(**outcomes):
    return {each["claim"]: each for each in claims(Measured(SETTINGS, outcomes))}


def outcome(beginning, **outcomes):
    [found] = [each for claim, each in judged(**outcomes).items() if claim.startswith(beginning)]
    return found["outcome"]


def agents(**by_name):
    return {f"{name}-seed-0": each if "first" in each else learned(each) for name, each in by_name.items()}


def fixed(human):
    found = learned(human)
    return {"fixed": {"human": {**found, "judged": {split: list(range(V)) for split in ("train", "test")}},
                      "always_green": learned(values(0.5))}}  # fmt: skip


def test_what_was_not_measured_is_open():
    found = judged().values()
    assert {each["outcome"] for each in found} == {"not measured"}
    assert {each["numbers"] for each in found} == {"Not measured in this study."}


@pytest.mark.parametrize(
    ("right", "safe", "expected"), [(0.83, 0.9, "holds"), (0.83, 0.8, "fails"), (0.7, 0.9, "fails")]
)
def test_agents_and_clinicians_are_judged_by_the_same_references(right, safe, expected):
    # Judged by all clinicians it is right in .95: that must not count.
    agent = learned(values(0.95), as_clinicians=values(right, safe))
    found = outcome("DyQN-OR is on a par with the clin", **agents(dyqn_or=agent), **fixed(values(0.85, 0.92)))
    assert found == expected


def test_the_numbers_name_vignettes_reference_and_intervals():
    found = judged(**agents(dyqn_or=values(0.83, 0.8)), **fixed(values(0.85, 0.92)))
    assert found["DyQN-OR is on a par with the clinicians"]["numbers"] == (
        "On 200 vignettes, by all clinicians but one: appropriateness -.020 [-.020, -.020], safety -.120 [-.120, "
        "-.120]."
    )


@pytest.mark.parametrize(
    ("right", "expected"), [((0.85, 0.79, 0.79), "holds"), ((0.85, 0.79, 0.9), "fails"), ((0.78, 0.79, 0.79), "fails")]
)
def test_the_central_claim_is_about_both_partially_observed_agents(right, expected):
    ours, known_or, known_and = (values(each) for each in right)
    found = agents(dyqn_or=ours, partially_observed_or=known_or, partially_observed_and=known_and)
    assert outcome("DyQN-OR is more often appropriate than the partially", **found) == expected
    assert outcome("DyQN-OR is safer than the partially", **found) == expected
    del found["partially_observed_and-seed-0"]
    assert outcome("DyQN-OR is safer than the partially", **found) == "not measured"


@pytest.mark.parametrize(("seen", "expected"), [(6.4, "holds"), (6.9, "fails")])
def test_less_evidence_is_clearly_less(seen, expected):
    # 95% of 7 pieces are 6.65.
    full = {"fully_observed": learned(values(0.9, seen=7.0))}
    assert outcome("DyQN-OR needs less evidence", **agents(dyqn_or=values(0.8, seen=seen)), **full) == expected


@pytest.mark.parametrize(("asked", "expected"), [(1.4, "holds"), (7.0, "fails")])
def test_much_earlier_is_half_the_questions(asked, expected):
    found = agents(dyqn_or=values(0.8, questions=13), dyqn_and=values(0.8, questions=asked))
    assert outcome("DyQN-AND stops much earlier", **found) == expected


@pytest.mark.parametrize(("worse", "expected"), [(0.76, "holds"), (0.84, "fails")])
def test_the_cost_of_and_is_compared_with_its_cost_elsewhere(worse, expected):
    # AND costs the partially observed agents .04: from .85, DyQN must fall below .81.
    rights = {"dyqn_or": 0.85, "dyqn_and": worse, "partially_observed_or": 0.79, "partially_observed_and": 0.75}
    found = agents(**{name: values(right) for name, right in rights.items()})
    assert outcome("The AND query costs", **found) == expected


@pytest.mark.parametrize(
    ("asked", "never", "near"), [(23.0, "holds", "fails"), (21.0, "fails", "fails"), (12.0, "fails", "holds")]
)
def test_how_long_the_partially_observed_agents_ask(asked, never, near):
    found = agents(
        partially_observed_or=values(0.8, questions=asked), partially_observed_and=values(0.8, questions=asked)
    )
    assert outcome("Partially observed OR never", **found) == never
    assert outcome("Partially observed AND stops", **found) == near


def test_agents_that_do_not_improve_end_as_they_began():
    steady = learned(values(0.79), first=values(0.79))
    for first, expected in ((0.79, "holds"), (0.8, "holds"), (0.77, "fails")):
        found = agents(partially_observed_or=steady, partially_observed_and=learned(values(0.79), first=values(first)))
        assert outcome("The partially observed agents do not improve", **found) == expected


@pytest.mark.parametrize(
    ("questions", "forced", "expected"),
    [
        (8.0, 0.2, "holds"),  # it ends by itself after (8 - .2 * 23) / .8 = 4.25 questions on the test split
        (8.0, 0.4, "fails"),  # after (8 - .4 * 23) / .6 < 0 questions: all that it asks more, it was forced to
        (4.0, 0.0, "fails"),
        (23.0, 1.0, "fails"),  # it never ends by itself
    ],
)
def test_asking_more_on_test_is_asked_without_forced_episodes(questions, forced, expected):
    # On training vignettes it ends by itself after (5 - .1 * 23) / .9 = 3 questions.
    agent = learned(values(0.8, questions=questions, forced=forced), train=values(0.8, questions=5.0, forced=0.1))
    assert outcome("DyQN-OR asks more on test", **agents(dyqn_or=agent)) == expected


def test_calibration_is_judged_by_its_paired_interval():
    for low, high, expected in ((0.01, 0.02, "holds"), (-0.02, 0.01, "not shown"), (-0.03, -0.01, "fails")):
        changed = {"appropriateness": estimate(low, high), "safety": estimate(0, 0.1)}
        found = plain({"calibration": {"small_sets": changed, "rise": estimate(low, high)}})
        assert outcome("Calibration makes decisions", **found) == expected
        assert outcome("The calibrated model improves", **found) == expected


@pytest.mark.parametrize(
    ("low", "high", "expected"), [(-0.02, -0.01, "holds"), (-0.02, 0.01, "not shown"), (0, 0.01, "fails")]
)
def test_a_more_consistent_model_scatters_less(low, high, expected):
    found = plain({"calibration": {"scatter": estimate(low, high)}})
    assert outcome("Calibration makes the model more consistent", **found) == expected


@pytest.mark.parametrize(("right", "expected"), [(0.87, "holds"), (0.85, "fails")])
def test_slightly_better_needs_no_margin(right, expected):
    found = {"fully_observed": learned(values(right)), **fixed(values(0.85))}
    assert outcome("The fully observed model is slightly better", **found) == expected


def test_the_best_of_the_appropriate_decisions_is_compared_with_that_of_all():
    variant = {ablation_task(ALL_DECISIONS, 0): learned(values(0.7))}
    for right, expected in ((0.72, "holds"), (0.7, "fails")):
        found = agents(dyqn_or=values(right)) | variant
        assert outcome("DyQN-OR is better with Q_m over app", **found) == expected


def k_fold(right, seeds=2):
    """Both folds of 400 vignettes, in which `right` is the share of each vignette, training vignettes first."""
    outcomes = {}
    for seed in range(seeds):
        for fold in range(2):
            _, rows = fold_rows(2 * V, 2, fold, seed)
            test = {name: np.resize(each, 2 * V)[rows].tolist() for name, each in values(0.5).items()}
            test["appropriateness"] = right[rows].tolist()
            outcomes[f"k_fold-seed-{seed}-fold-{fold}"] = learned(test)
    return outcomes


@pytest.mark.parametrize(("right", "expected"), [(0.81, "holds"), (0.87, "fails"), (0.7, "fails")])
def test_folds_are_slightly_worse(right, expected):
    # On the common split .85; .70 is more than slightly worse.
    found = {**k_fold(np.full(2 * V, right)), **agents(dyqn_or=values(0.85))}
    assert outcome("Cross-validation is slightly less often appropriate", **found) == expected
    # Half of both splits' vignettes are safe in the folds, .85 on the common split: far more than slightly.
    assert outcome("Cross-validation is slightly less often safe", **found) == "fails"


def test_folds_meet_the_clinicians_vignette_by_vignette():
    # In all repetitions the same: .2 below the clinicians' own values, which differ widely.
    theirs = np.array(values(0.85)["appropriateness"])
    right = np.concatenate([theirs, theirs]) - 0.2
    found = judged(**k_fold(right), **fixed(values(0.85)))
    each = found["In cross-validation, DyQN-OR is less often appropriate than the clinicians"]
    assert each["outcome"] == "holds"
    assert each["numbers"] == (
        "On all 400 vignettes with enough decisions, by all clinicians but one: -.200 [-.200, -.200]."
    )
    del (whole := k_fold(right))["k_fold-seed-1-fold-0"]
    assert Measured(SETTINGS, {**whole, **fixed(values(0.85))}).folds().repetitions == 1
