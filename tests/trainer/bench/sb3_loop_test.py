import numpy as np
import pytest

from schemas.triage import Action
from trainer.bench.sb3_loop import Episodes
from trainer.bench.settings import BenchVignettes

# One vignette: present 0 and 4, absent 2; decisions Yellow twice, Green once.
ONE = BenchVignettes(np.array([0, 3]), np.array([1, -3, 5], np.int32), np.array([[0, 2, 1, 0]], np.uint8))
FULL = [1, 0, -1, 0, 1]


def test_asking_reveals_piece_by_piece_and_asking_in_vain_ends_the_episode():
    episodes = Episodes(ONE, 5, max_questions=23, seed=0)
    state = episodes.begin()
    for known in (2, 3):
        assert np.count_nonzero(state) == known - 1
        state, reward, ended = episodes.act(Action.ASK)
        assert (np.count_nonzero(state), reward, ended) == (known, 0.0, False)
    np.testing.assert_array_equal(state, FULL)
    assert episodes.act(Action.ASK)[1:] == (0.0, True)


def test_questions_are_limited():
    episodes = Episodes(ONE, 5, max_questions=1, seed=0)
    episodes.begin()
    assert not episodes.act(Action.ASK)[2]
    assert episodes.act(Action.ASK)[2]


@pytest.mark.parametrize(("decision", "reward"), [(0, 0.0), (1, 1.0), (2, 0.5), (3, 0.0)])
def test_a_triage_ends_the_episode_with_its_reward(decision, reward):
    episodes = Episodes(ONE, 5, max_questions=23, seed=0)
    before = episodes.begin()
    state, rewarded, ended = episodes.act(decision)
    np.testing.assert_array_equal(state, before)
    assert (rewarded, ended) == (reward, True)
