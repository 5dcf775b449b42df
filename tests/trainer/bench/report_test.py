import dataclasses

import pytest

from trainer.bench import report
from trainer.bench.contestants import FLOOR, SB3
from trainer.bench.settings import Settings

SETTINGS = Settings("v.npz", evidence_count=3, hidden_sizes=(4,), batch_size=10)
STEPS = 10


def _timed(*ms):
    return [{"seconds": STEPS * value / 1e3, "peak_bytes": 100 + value} for value in ms]


def _answers():
    return {
        "ours: fused": _timed(2, 4),
        "ours: fused, bfloat16": _timed(1, 2),
        "ours: plain": _timed(8, 8),
        "TF-Agents: Python loop": _timed(8, 16),
        "TF-Agents: one graph": _timed(6, 12),
        FLOOR: [{"products": 1e6, "bandwidth": 1e9, "peak_bytes": 5}] * 2,
    }


def test_ratios_are_against_the_faster_form_of_tf_agents():
    figures = report.report(SETTINGS, STEPS, _answers())
    assert figures["tf_agents_form"] == "TF-Agents: one graph"
    assert figures["contestants"]["ours: fused"]["speed_over"]["tf_agents"] == {"median": 3.0, "low": 3.0, "high": 3.0}
    assert figures["contestants"]["ours: fused"]["ms"] == {"median": 3.0, "low": 2.0, "high": 4.0}
    assert figures["contestants"]["ours: fused"]["peak_bytes"] == 104


def test_the_floor_is_in_milliseconds_and_a_contestant_of_its_own():
    figures = report.report(SETTINGS, STEPS, _answers())
    # 3 -> 4 -> 5, batch 10: 2 * 10 * (3 * 32 + 20) = 2,320 operations, 2.32 ms; (16 + 25) weights * 12 bytes: 0.5 us.
    assert figures["floor"]["operations"] == 2320
    assert figures["contestants"][FLOOR]["ms"]["median"] == pytest.approx(2.32 + 0.000492)
    assert figures["contestants"]["ours: plain"]["speed_over"]["floor"]["median"] == pytest.approx(2.320492 / 8)


def test_large_batches_are_judged_by_their_share_of_the_floors_speed():
    # Batch 1000 takes the floor 232 ms and .000492 s of the update, so 272.9 ms are 85%.
    slow = {**_answers(), "ours: fused": _timed(273, 273), "ours: fused, bfloat16": _timed(230, 230)}
    large = dataclasses.replace(SETTINGS, batch_size=1000)
    goals = report.report(large, STEPS, slow)["goals"]
    assert [(goal["at_least"], goal["met"]) for goal in goals.values()] == [(0.85, False), (1.0, True)]
    assert goals["ours: fused"]["measured"] == pytest.approx(232 / 273, abs=1e-4)
    assert report.report(SETTINGS, STEPS, slow)["goals"] == {}


def test_a_peer_that_did_not_take_part_has_no_ratio():
    peers = report.report(SETTINGS, STEPS, _answers())["contestants"]["ours: fused"]["speed_over"]
    assert peers.keys() == {"tf_agents", "floor"}
    beside = report.report(SETTINGS, STEPS, {**_answers(), SB3: _timed(7, 14)})["contestants"]["ours: fused"]
    assert beside["speed_over"]["stable_baselines3"]["median"] == 3.5


def test_the_table_lists_every_contestant_with_its_states_a_second(capsys):
    report.show(report.report(SETTINGS, STEPS, _answers()))
    shown = capsys.readouterr().out
    for name in _answers():
        assert name in shown
    assert "3,333" in shown  # 10 states in a median of 3 ms


def test_goals_that_are_not_met_are_printed(capsys):
    slow = {**_answers(), "ours: fused": _timed(928, 928)}  # the floor of 2,000 is 464 ms
    report.show(report.report(dataclasses.replace(SETTINGS, batch_size=2000), STEPS, slow))
    assert "ours: fused: 50% of the floor's speed, goal 85%, NOT met" in capsys.readouterr().out
