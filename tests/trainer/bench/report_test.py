import pytest

from trainer.bench import report
from trainer.bench.contestants import FLOOR, OURS, SB3
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


def test_goals_are_judged_and_left_out_if_the_peer_did_not_take_part():
    goals = report.report(SETTINGS, STEPS, _answers())["goals"]
    assert set(goals) == set(OURS)
    assert goals["ours: fused"]["tf_agents"] == {"at_least": 3.0, "measured": 3.0, "met": True}
    assert not goals["ours: plain"]["tf_agents"]["met"]
    assert goals["ours: fused"]["stable_baselines3"] is None
    beside = report.report(SETTINGS, STEPS, {**_answers(), SB3: _timed(7, 14)})["goals"]
    assert beside["ours: fused"]["stable_baselines3"] == {"at_least": 3.5, "measured": 3.5, "met": True}


def test_the_table_lists_every_contestant_and_the_goals_that_are_not_met(capsys):
    report.show(report.report(SETTINGS, STEPS, _answers()))
    shown = capsys.readouterr().out
    for name in _answers():
        assert name in shown
    assert "ours: plain: TF-Agents 1.12, goal 3.0, NOT met" in shown
    assert "ours: fused: TF-Agents 3.00, goal 3.0, met" in shown
