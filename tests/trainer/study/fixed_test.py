import numpy as np
import pytest

from trainer.study.fixed import RandomPlay, fixed_figures
from trainer.vignettes.arrays import VignetteArrays


def _arrays(*rows):
    """Vignettes from (pieces of evidence, [Red, Yellow, Green, Blue] counts)."""
    pieces = [count for count, _ in rows]
    codes = np.concatenate([np.arange(1, count + 1) for count in pieces]).astype(np.int16)
    ids = np.array([f"v{row}" for row in range(len(rows))], object)
    counts = np.array([counts for _, counts in rows], np.uint8)
    return VignetteArrays(ids, np.cumsum([0, *pieces]), codes, counts, ((),) * len(rows))


PLAY = RandomPlay([1, 2, 3], 23)


def test_the_random_agent_asks_a_quarter_of_a_question():
    many = _arrays(*[(3, [0, 2, 1, 0])] * 1000)
    metrics = fixed_figures(many, many, 3, PLAY, seed=0)["random"]["metrics"]
    # Yellow and Green are 2 of 4 decisions; Red is above, Blue below. 1/5 + 1/25 + ... = 1/4 of a question.
    # Of 3,000 episodes: standard errors .009 and sqrt(.3125 / 3000) = .01.
    assert metrics["appropriateness"].mean == pytest.approx(0.5, abs=0.04)
    assert metrics["questions"].mean == pytest.approx(0.25, abs=0.04)


@pytest.mark.usefixtures("eager")
def test_always_green_asks_nothing_and_clinicians_see_all():
    train = _arrays((2, [0, 0, 3, 0]))
    test = _arrays((4, [0, 0, 2, 1]), (6, [3, 0, 0, 0]), (8, [1, 1, 0, 0]))
    figures = fixed_figures(train, test, 8, PLAY, seed=0)
    green = figures["always_green"]
    # Green is right in the first test vignette only; in the other two it is less urgent than all.
    assert green["metrics"]["appropriateness"].mean == pytest.approx(1 / 3)
    assert green["metrics"]["questions"].mean == 0.0
    assert green["train"]["appropriateness"] == 1.0
    human = figures["human"]["metrics"]
    # Two vignettes have three decisions. {Green, Green, Blue}: Green among {Green, Blue} twice, Blue among {Green} not:
    # 2/3. {Red, Red, Red}: 1.
    assert human["appropriateness"].mean == pytest.approx((2 / 3 + 1) / 2)
    assert human["evidence_seen"].mean == pytest.approx((4 + 6) / 2)
    assert "questions" not in human
    assert figures["human"]["as_clinicians"]["appropriateness"] == pytest.approx([2 / 3, 1.0])
    assert figures["human"]["judged"] == {"train": [0], "test": [0, 1]}
    # In the place of each clinician of {Green, Green, Blue}, Green is always among the others; {Red, Red}: not safe.
    assert green["as_clinicians"]["safety"] == [1.0, 0.0]
    assert green["as_clinicians"]["evidence_seen"] == [1.0, 1.0]
    # Three Red ones of three, all found: only the vignettes with three decisions count.
    assert figures["human"]["beside_agents"]["red_sensitivity"].mean == 1.0


@pytest.mark.usefixtures("eager")
def test_clinicians_are_left_out_where_too_few_decided():
    few = _arrays((2, [0, 1, 1, 0]))
    assert fixed_figures(few, few, 2, PLAY, seed=0)["human"] is None
