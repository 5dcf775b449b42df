import numpy as np
import pytest

from tests.builders import arrays_of, outcomes_of
from trainer.study.detail import detail_figures

GREEN = [0.1, 0.2, 0.8, 0.1, 0.5]


def test_agreement_and_reliability_of_two_vignettes():
    q_values = np.array([[[0.75, 0.2, 0.1, 0.1, 0.5], [0.1, 0.2, 0.85, 0.1, 0.5]]], np.float32)
    figures = detail_figures(outcomes_of([[0, 2]], q_values=q_values), arrays_of([[2, 0, 0, 0], [0, 1, 1, 0]]), seed=0)
    # Half of the vignettes is Red for all and Red for the agent; the other half Yellow and Green, and Green for it.
    assert figures["agreement"]["confusion"] == [[0.5, 0, 0, 0], [0, 0, 0.25, 0], [0, 0, 0.25, 0], [0, 0, 0, 0]]
    assert figures["agreement"]["red_sensitivity"].mean == 1.0
    bins = {each["low"]: (each["count"], each["observed"]) for each in figures["reliability"]["bins"] if each["count"]}
    assert bins == {0.7: (1, 1.0), 0.8: (1, 1.0)}
    # Both are right with Q-values of .75 and .85: the distance is .2 on average.
    assert figures["reliability"]["ece"] == pytest.approx(0.2, abs=1e-6)
    assert figures["reliability"]["brier"] == pytest.approx((0.25**2 + 0.15**2) / 2, abs=1e-6)
    assert figures["unseen"] is None
    assert {"slice", "vignettes", "appropriateness", "safety", "questions"} == set(figures["slices"][0])
    assert "majority=Red" in {each["slice"] for each in figures["slices"]}


def test_unseen_conditions_are_named_and_compared():
    tags = (("condition=flu", "unseen"), ("condition=gout", "unseen"), ("condition=cold",))
    vignettes = arrays_of([[0, 0, 1, 0]] * 3, tags=tags)
    outcomes = outcomes_of([[2, 2, 2]], questions=[[6, 8, 3]], q_values=np.array([[GREEN] * 3], np.float32))
    unseen = detail_figures(outcomes, vignettes, seed=0)["unseen"]
    assert unseen["conditions"] == ["flu", "gout"]
    assert unseen["unseen"]["questions"].mean == 7.0
    assert unseen["seen"]["questions"].mean == 3.0
    assert unseen["difference"]["questions"].mean == 4.0
