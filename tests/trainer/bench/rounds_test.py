import pytest

from trainer.bench import rounds


def test_ratios_are_taken_round_by_round():
    # Round by round 2, 3 and 4; the quotient of the medians would be 6 / 3 = 2.
    assert rounds.ratios([2.0, 9.0, 40.0], [1.0, 3.0, 10.0]) == (3.0, 2.0, 4.0)


def test_a_spread_is_median_lowest_highest():
    assert rounds.spread([5.0, 1.0, 3.0]) == (3.0, 1.0, 5.0)


def test_rounds_of_unequal_number_are_refused():
    with pytest.raises(ValueError, match="shorter"):
        rounds.ratios([1.0, 2.0], [1.0])


def test_each_contestant_takes_one_turn_a_round_and_the_first_one_changes():
    turns = []
    contestants = {name: (lambda name=name: turns.append(name) or {"name": name}) for name in "abc"}
    ticks = []
    answers = rounds.play(contestants, 3, lambda: ticks.append(len(turns)))
    assert turns == list("abcbcacab")
    assert answers == {name: [{"name": name}] * 3 for name in "abc"}
    assert ticks == list(range(1, 10))
