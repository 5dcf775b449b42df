import argparse
import json

import pytest

from schemas.errors import InputError
from trainer.commands import bench_learn as learn


def parsed(*arguments):
    parser = argparse.ArgumentParser()
    learn.add_arguments(parser)
    return parser.parse_args([str(argument) for argument in arguments])


def point(seconds, appropriateness, safety, finished=False, steps=None):
    quality = {"appropriateness": appropriateness, "safety": safety}
    return {"seconds": seconds, "steps": steps, "finished": finished, **quality}


GOOD = point(6.0, 0.83, 0.91)


def test_the_goal_is_reached_where_one_evaluation_has_both():
    points = [point(1.0, 0.83, 0.80), point(2.0, 0.70, 0.95), point(3.0, 0.82, 0.90), GOOD]
    assert learn.seconds_to_goal(points) == 3.0
    assert learn.seconds_to_goal(points[:2]) is None


@pytest.mark.parametrize(
    ("ours", "peer", "met"),
    [
        ([GOOD], [point(60.0, 0.83, 0.91)], True),  # just ten times 6 s
        ([GOOD], [point(59.0, 0.83, 0.91)], False),
        ([GOOD], [point(100.0, 0.7, 0.8)], True),  # it never got there
        ([point(6.0, 0.7, 0.8)], [point(100.0, 0.7, 0.8)], False),
    ],
)
def test_ours_is_to_be_ten_times_as_fast_as_the_other_libraries(ours, peer, met):
    measured = learn.report({learn.OURS: ours, learn.TF_AGENTS: peer, learn.FOREST: [GOOD]}, budget=100.0)
    assert measured["ten_times_as_fast"] is met


def test_without_another_library_there_is_nothing_to_judge():
    assert learn.report({learn.OURS: [GOOD], learn.FOREST: [GOOD]}, budget=100.0)["ten_times_as_fast"] is None


def test_a_step_is_timed_between_evaluations_without_start_and_end():
    # From 5 s to 7 s 100 steps, to 10 s 100, and to the end, with its calibration, 10: 20, 30 and 1,000 ms a step.
    times = [(5.0, 40), (7.0, 140), (10.0, 240), (20.0, 250)]
    points = [point(seconds, 0.8, 0.9, steps=steps) for seconds, steps in times]
    assert learn.ms_per_step(points) == pytest.approx(30.0)
    assert learn.ms_per_step(points[:1]) is None
    assert learn.ms_per_step([point(3.0, 0.8, 0.9, finished=True)]) is None
    assert learn.ms_per_step([point(5.0, 0.1, 0.1, steps=0), point(6.0, 0.8, 0.9, steps=10)]) is None


def test_looks_are_frequent_at_first_and_one_is_at_the_end():
    times = learn.evaluation_times(100.0)
    assert times[0] == 5.0
    assert times[-1] == 100.0
    assert times[2] - times[1] > times[1] - times[0]
    assert learn.evaluation_times(2.0) == [2.0]


def test_the_table_says_who_never_gets_there(capsys):
    slow = [point(50.0, 0.6, 0.7, steps=100), point(100.2, 0.7, 0.8, steps=200)]
    curves = {learn.OURS: [GOOD], learn.TF_AGENTS: slow, learn.FOREST: [point(3, 0.7, 0.8, True)]}
    learn.show(learn.report(curves, budget=100.0))
    shown = capsys.readouterr().out
    assert "502.0" in shown, "milliseconds a step"
    assert "6.0" in shown
    assert "never within 100 s" in shown
    assert "never: its training ended" in shown


@pytest.mark.slow
def test_a_run_writes_table_figures_and_picture(tmp_path, capsys):
    files = {"--json": tmp_path / "measured.json", "--plot": tmp_path / "curve.png"}
    flags = [text for pair in files.items() for text in pair]
    small = ["--vignettes", 60, "--test", 40, "--seconds", 60, "--only", learn.FOREST]
    assert learn.run(parsed(*small, *flags)) == 0
    written = json.loads(files["--json"].read_text())
    [curve] = [each["curve"] for each in written["contestants"].values()]
    assert curve[-1]["finished"]
    assert 0 < curve[-1]["appropriateness"] <= 1
    assert (written["train_vignettes"], written["test_vignettes"]) == (60, 40)
    assert files["--plot"].stat().st_size > 1000
    assert "random forest" in capsys.readouterr().out


def test_a_python_without_stable_baselines3_is_refused(tmp_path):
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\nexit 1\n")
    bare.chmod(0o755)
    for given in (str(bare), str(tmp_path / "absent")):
        with pytest.raises(InputError, match="expected a Python that can import stable_baselines3"):
            learn.find_sb3(given)


def test_a_python_with_stable_baselines3_is_used(tmp_path):
    there = tmp_path / "python"
    there.write_text("#!/bin/sh\nexit 0\n")
    there.chmod(0o755)
    assert learn.find_sb3(str(there)) == str(there)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--vignettes", 9], "--vignettes 9: expected 10 or more"),
        (["--seconds", 0], r"--seconds 0: expected 0\.1 or more"),
        (["--sb3-python", "nowhere"], "--sb3-python nowhere: expected a Python"),
    ],
)
def test_bad_input_is_one_clear_error(flags, message):
    with pytest.raises(InputError, match=message):
        learn.run(parsed(*flags))
