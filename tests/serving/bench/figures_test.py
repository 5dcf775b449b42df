"""The figures of `triage bench serve`, from measurements with round numbers."""

import math

import pytest

from serving.bench.figures import HALF_LOAD, LEVELS, SERVERS, Round, figures, goals, table
from serving.bench.load import Measurement

PEERS = ("triage", "empty", "plain")


def a_round(triage=3000.0, empty=4000.0, plain=1000.0, half=(0.002, 0.008), single=0.0012, model=0.0007, servers=PEERS):
    """A round in which all is as given, and each server answers in one millisecond elsewhere."""
    throughput = {"triage": triage, "http": 2000.0, "empty": empty, "plain": plain}
    measured = {
        (server, level): Measurement(throughput[server], 0.001, 0.003, 0)
        for server in servers
        for level in (*LEVELS, HALF_LOAD)
    }
    measured["triage", HALF_LOAD] = Measurement(triage / 2, *half, 0)
    measured["triage", 1] = Measurement(800.0, single, 0.003, 2)
    return Round(measured, dict.fromkeys(measured, 0.0003), model)


def reached(rounds):
    return [(goal["reached"]["median"], goal["met"]) for goal in goals(rounds)]


def test_each_goal_is_compared_with_what_was_reached():
    # 3600 of 4000 calls; 3600 for 1000; 5 ms for 2 ms; 1.2 ms for 1 ms
    assert reached([a_round(triage=3600.0, half=(0.002, 0.005))]) == [
        (pytest.approx(0.9), True),
        (pytest.approx(3.6), True),
        (pytest.approx(2.5), True),
        (pytest.approx(1.2), True),
    ]


def test_a_missed_goal_is_reported():
    missed = a_round(triage=2000.0, half=(0.001, 0.003), single=0.0022)
    assert reached([missed]) == [
        (pytest.approx(0.5), False),
        (pytest.approx(2.0), False),
        (pytest.approx(3.0), False),
        (pytest.approx(2.2), False),
    ]


def test_ratios_are_taken_within_a_round_and_their_median_counts():
    # A machine that is half as fast in one round changes no ratio: 3000/4000 and 1500/2000 are both 3/4.
    share = goals([a_round(), a_round(triage=1500.0, empty=2000.0), a_round(triage=2000.0)])[0]
    assert share["reached"] == pytest.approx({"median": 0.75, "least": 0.5, "largest": 0.75})


def test_the_table_has_a_row_for_each_server_and_level_and_one_for_each_goal():
    measured = figures([a_round(), a_round(triage=2800.0)])
    lines = table(measured).splitlines()
    assert "| 64 | triage | 2,900 (2,800 to 3,000) | 1.00 (1.00 to 1.00) | 3.00 (3.00 to 3.00) | 300 | 0 |" in lines
    assert "| throughput at 64, share of the empty handler's: at least 0.85 | 0.72 (0.70 to 0.75) | no |" in lines
    assert sum(line.startswith("| half load |") for line in lines) == len(PEERS)
    assert [row["failed"] for row in measured["rows"] if (row["server"], row["concurrent"]) == ("triage", 1)] == [4]


def test_http_has_its_own_rows_and_its_goal_is_grpcs_median_at_one_caller():
    rounds = [a_round(single=0.0008, servers=SERVERS)]
    assert reached(rounds)[-1] == (pytest.approx(1.25), True)  # 1 ms for 0.8
    assert reached([a_round(single=0.0005, servers=SERVERS)])[-1] == (pytest.approx(2.0), False)
    assert "| 64 | http | 2,000 (2,000 to 2,000) |" in table(figures(rounds))


def test_processor_time_that_is_not_known_is_left_out():
    unknown = a_round()
    unknown = Round(unknown.measured, dict.fromkeys(unknown.measured, math.nan), unknown.model)
    measured = figures([unknown])
    assert {row["processor_us_per_call"] for row in measured["rows"]} == {None}
    assert "| - | 0 |" in table(measured)
