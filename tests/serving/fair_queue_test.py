"""Callers take turns by cost, with turns that can be worked out by hand."""

import weakref

from serving.fair_queue import FairQueue


def drained(queue):
    items = []
    while queue:
        items.append(queue.first)
        assert queue.pop() == items[-1]
    return items


def test_a_caller_with_many_items_does_not_keep_another_waiting():
    queue = FairQueue()
    for number in range(100):
        queue.put("greedy", number, 1)  # turns 1, 2, 3 ...
    queue.put("modest", "mine", 1)  # turn 1
    assert drained(queue)[:3] == [0, "mine", 1]


def test_items_that_cost_little_pass_one_that_costs_much_until_it_has_waited_its_cost():
    queue = FairQueue()
    queue.put("large", "large", 3)
    passed = []
    for number in range(4):  # each caller's item takes its turn 1 later than the one before
        queue.put("small", number, 1)
        passed.append(queue.pop())
    assert passed == [0, 1, "large", 2]


def test_a_caller_who_comes_later_does_not_make_up_for_the_time_before():
    queue = FairQueue()
    for number in range(10):
        queue.put("early", number, 1)
    for _ in range(8):
        queue.pop()
    for name in ("x", "y", "z"):
        queue.put("late", name, 1)  # turns 9, 10, 11; the others are 9 and 10
    assert drained(queue) == [8, "x", 9, "y", "z"]


def test_callers_who_have_left_are_forgotten():
    class Caller(str):
        """A name whose end is seen."""

    queue, known = FairQueue(), weakref.WeakSet()
    queue.put("stays", "first", 1)
    for number in range(5000):
        caller = Caller(number)
        known.add(caller)
        queue.put(caller, number, 1)
        queue.pop()
    assert len(known) < 2000
