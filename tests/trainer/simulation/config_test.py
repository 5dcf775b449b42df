import numpy as np
import pytest

from trainer.simulation.config import DECISIONS_PER_VIGNETTE


def test_numbers_of_decisions_have_the_papers_moments():
    numbers, shares = np.arange(1, 12), np.array(DECISIONS_PER_VIGNETTE)
    assert shares.sum() == pytest.approx(1.0)
    mean = numbers @ shares
    assert mean == pytest.approx(3.36, abs=0.02)
    assert np.sqrt((numbers - mean) ** 2 @ shares) == pytest.approx(1.44, abs=0.02)
    assert shares[2:].sum() == pytest.approx(1073 / 1374, abs=0.005)
