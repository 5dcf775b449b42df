import numpy as np
import pytest

from trainer.graph import rewards

# Columns: Red, Yellow, Green, Blue.
CASES = [
    # {Red, Green}: the paper's example, Yellow lies between.
    ([1, 0, 1, 0], [1, 0, 1, 0], [1, 1, 1, 0], [1, 1, 1, 0]),
    # {Yellow, Yellow, Green, Blue}: 2/2, 1/2, 1/2.
    ([0, 2, 1, 1], [0, 1, 0.5, 0.5], [0, 1, 1, 1], [1, 1, 1, 1]),
    # {Green}: more urgent ones are safe, not appropriate.
    ([0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 1, 0], [1, 1, 1, 0]),
    # {Red x4}: nothing else is either.
    ([4, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]),
]


@pytest.mark.parametrize(("counts", "reward", "appropriate", "safe"), CASES)
def test_reward_appropriate_and_safe_decisions_of_a_multiset(counts, reward, appropriate, safe):
    row = np.array([counts], np.uint8)
    np.testing.assert_allclose(rewards.counterfactual_reward(row)[0], reward)
    np.testing.assert_array_equal(rewards.appropriate(row)[0], np.array(appropriate, bool))
    np.testing.assert_array_equal(rewards.safe(row)[0], np.array(safe, bool))
