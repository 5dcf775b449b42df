import numpy as np
import pytest

from schemas.evidence import Evidence, Vocabulary
from trainer.evaluation import slices

RED, GREEN = [1, 0, 0, 0], [0, 0, 1, 0]


def _groups(tags, counts=None, evidence=None):
    counts = np.array([RED] * len(tags) if counts is None else counts)
    return slices.groups(tags, counts, np.array([5] * len(tags) if evidence is None else evidence))


def _sizes(groups, by):
    return {group.value: len(group.rows) for group in groups if group.by == by}


def test_majority_and_evidence_bands_divide_the_vignettes():
    counts = [RED, GREEN, [1, 0, 1, 0], [0, 0, 1, 2]]
    groups = _groups([()] * 4, counts, evidence=[4, 5, 10, 11])
    # The tie of Red and Green counts as Red. Nobody is Yellow: no slice.
    assert [(group.value, group.rows.tolist()) for group in groups if group.by == "majority"] == [
        ("Red", [0, 2]),
        ("Green", [1]),
        ("Blue", [3]),
    ]
    assert [(group.value, group.rows.tolist()) for group in groups if group.by == "evidence"] == [
        ("1-4", [0]),
        ("5-7", [1]),
        ("8-10", [2]),
        ("11+", [3]),
    ]


def test_rare_values_of_a_tag_are_merged_and_frequent_ones_come_first():
    tags = [("system=skin",)] * 12 + [("system=eye",)] * 20 + [("system=jaw",)] * 10
    tags += [("system=ear",)] * 9 + [("system=bone",)] * 3
    sizes = _sizes(_groups(tags), "tag:system")
    assert list(sizes.items()) == [("eye", 20), ("skin", 12), ("jaw", 10), (slices.OTHER, 12)]


def test_a_tag_without_a_value_divides_the_vignettes_into_those_with_and_without_it():
    groups = _groups([("unseen", "system=skin")] * 10 + [("system=skin",)] * 15)
    assert _sizes(groups, "tag") == {"unseen": 10, slices.NONE: 15}
    # Every vignette is of one system: that slice would repeat the whole.
    assert _sizes(groups, "tag:system") == {}


def test_a_vignette_with_two_values_of_a_key_is_in_both_slices():
    groups = _groups([("risk=a", "risk=b")] * 10 + [("risk=b", "note=x=y")] * 10)
    assert _sizes(groups, "tag:risk") == {"b": 20, "a": 10}
    assert _sizes(groups, "tag:note") == {"x=y": 10, slices.NONE: 10}


def test_figures_are_the_means_of_the_slice_and_few_vignettes_have_no_interval():
    safety, questions = np.repeat([1.0, 0.0, 1.0], [10, 10, 4]), np.arange(24.0)
    groups = _groups([()] * 24, [RED] * 20 + [GREEN] * 4)
    red, green, _ = slices.slice_figures({"safety": safety, "questions": questions}, groups, seed=0)
    assert (red.by, red.value, red.vignettes) == ("majority", "Red", 20)
    assert red.metrics["safety"].mean == 0.5
    assert red.metrics["questions"].mean == 9.5
    # 1.96 * .5 / sqrt(20) = .22 on each side; samples of 20 move in steps of .05.
    assert red.metrics["safety"].low == pytest.approx(0.28, abs=0.06)
    assert red.metrics["safety"].high == pytest.approx(0.72, abs=0.06)
    assert green.metrics["safety"] == (1.0, None, None, 4)


VOCABULARY = Vocabulary(
    Evidence(code, "risk_factor", name, "?")
    for code, name in (("cough", "Cough"), ("age_0_17", "Child"), ("age_18_plus", "Adult"), ("sex_male", "Male"))
)


def _evidence_groups(codes, chosen=()):
    offsets = np.cumsum([0, *map(len, codes)])
    groups = slices.evidence_groups(offsets, np.concatenate(codes), VOCABULARY, chosen)
    return [(group.by, group.value, group.rows.tolist()) for group in groups]


def test_age_bands_sexes_and_codes_divide_the_vignettes_and_those_that_do_not_say_come_last():
    # A child, an adult who does not cough, a coughing adult, one of whom only an absent age band is known.
    codes = [[2], [3, -1], [3, 1], [-2]]
    assert _evidence_groups(codes, ["cough"]) == [
        ("age", "Child", [0]),
        ("age", "Adult", [1, 2]),
        ("age", "(not stated)", [3]),  # nobody says a sex: it has no slices
        ("code:cough", "present", [2]),
        ("code:cough", "absent", [1]),
        ("code:cough", "(not stated)", [0, 3]),
    ]


def test_a_slice_that_is_worse_than_the_others_is_named():
    safe = np.ones(100)
    safe[:10] = 0.5  # ten of the twenty children
    metrics = {"appropriateness": np.ones(100), "safety": safe, "questions": np.zeros(100)}
    groups = [slices.Group("age", "Child", np.arange(20)), slices.Group("age", "Adult", np.arange(20, 100))]
    groups.append(slices.Group("age", "Baby", np.arange(9)))  # nine are too few to be compared
    [gap], comparisons = slices.gaps(metrics, groups, seed=0)
    assert (gap.value, gap.vignettes, gap.metric, comparisons) == ("Child", 20, "safety", 4)
    assert (gap.mean, gap.others) == (pytest.approx(0.75), pytest.approx(1.0))
    assert gap.difference.low < gap.difference.mean == pytest.approx(-0.25)
    assert gap.difference.high < 0


def test_many_comparisons_name_no_gap_that_chance_explains():
    draws = np.random.default_rng(0)
    metrics = {name: (draws.random(400) < 0.8).astype(float) for name in ("appropriateness", "safety")}
    groups = [slices.Group("code", str(n), np.flatnonzero(draws.random(400) < 0.2)) for n in range(94)]
    uncorrected = [slices.gaps(metrics, [group], seed=0)[0] for group in groups]
    assert len(list(filter(None, uncorrected))) >= 2  # of 188 comparisons, some 5 are below 0 by chance
    assert slices.gaps(metrics, groups, seed=0) == ([], 188)
    metrics["safety"][groups[7].rows] *= draws.random(len(groups[7].rows)) < 0.6  # this one is real
    worse, _ = slices.gaps(metrics, groups, seed=0)
    assert ("7", "safety") in {(gap.value, gap.metric) for gap in worse}
