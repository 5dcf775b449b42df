import numpy as np
import pytest

from trainer.study.state_values import StateValues, prefixes


def test_prefixes_grow_by_one_piece_and_end_at_the_last_or_at_the_deepest():
    orders = np.array([[3, -1, 2, 0], [-4, 0, 0, 0], [1, 2, 3, 4]], np.int32)
    codes, offsets = prefixes(orders, 3)
    assert offsets.tolist() == [0, 3, 4, 7]
    assert codes.tolist() == [[3, 0, 0], [3, -1, 0], [3, -1, 2], [-4, 0, 0], [1, 0, 0], [1, 2, 0], [1, 2, 3]]


def _recorded():
    seen = []

    def judge(states):
        seen.append(states.toarray().tolist())
        values = np.zeros([states.shape[0], 4])
        values[:, 0] = (
            states.toarray()[:, 0] / 2 + 0.5
        )  # Red: 0, .5 or 1 where evidence 0 is absent, not known, present
        return values

    return seen, judge


def test_each_state_is_judged_once_whatever_the_order_and_width_of_its_codes():
    seen, judge = _recorded()
    values = StateValues(judge, 3)
    first = values.of(np.array([[1, -2, 0], [-2, 1, 0], [-1, 0, 0]], np.int32))
    again = values.of(np.array([[0, 0, -1, 0], [3, 0, 0, 0], [0, -2, 0, 1]], np.int32))
    assert first[:, 0].tolist() == [1.0, 1.0, 0.0]
    assert again[:, 0].tolist() == [0.0, 0.5, 1.0]
    assert (first.dtype, first.shape) == (np.float32, (3, 4))
    assert [sorted(call) for call in seen] == [[[-1, 0, 0], [1, -1, 0]], [[0, 0, 1]]]
    assert len(values) == 3


def test_known_states_cost_no_call_and_no_states_have_no_values():
    seen, judge = _recorded()
    values = StateValues(judge, 3)
    codes = np.array([[1], [2]], np.int32)
    values.of(codes)
    values.of(codes)
    assert values.of(np.zeros([0, 3], np.int32)).shape == (0, 4)
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros([1, 5]), r"expected values \[1, 4\], found \[1, 5\]"),
        ([[0.0, 0.0, np.nan, 0.0]], r"expected values in \[0, 1\]"),
        ([[0.0, 0.0, 1.5, 0.0]], r"expected values in \[0, 1\]"),
    ],
)
def test_values_that_are_no_probabilities_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        StateValues(lambda states: values, 3).of(np.array([[1]], np.int32))
