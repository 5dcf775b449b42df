import argparse
import json

import pytest

from schemas.errors import InputError
from trainer.bench import learn


def parsed(*arguments):
    parser = argparse.ArgumentParser()
    learn.add_arguments(parser)
    return parser.parse_args([str(argument) for argument in arguments])


def point(seconds, appropriateness, safety, finished=False):
    return {"seconds": seconds, "appropriateness": appropriateness, "safety": safety, "finished": finished}


GOOD = point(6.0, 0.83, 0.91)


def test_the_goal_is_reached_where_one_look_has_both():
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


def test_looks_are_frequent_at_first_and_one_is_at_the_end():
    looks = learn.looks(100.0)
    assert looks[0] == 5.0
    assert looks[-1] == 100.0
    assert looks[2] - looks[1] > looks[1] - looks[0]
    assert learn.looks(2.0) == [2.0]


def test_the_table_says_who_never_gets_there(capsys):
    curves = {learn.OURS: [GOOD], learn.TF_AGENTS: [point(100.2, 0.7, 0.8)], learn.FOREST: [point(3, 0.7, 0.8, True)]}
    learn.show(learn.report(curves, budget=100.0))
    shown = capsys.readouterr().out
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
