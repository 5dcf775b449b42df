import tensorflow as tf

from schemas.triage import Action
from trainer.window import EpisodeWindow


def _record(window, decision, counts, questions):
    window.record(tf.constant(int(decision)), tf.constant(counts, tf.uint8), tf.constant(questions))


def test_means_over_what_has_ended_so_far():
    window = EpisodeWindow(3)
    assert window.means() == {}
    _record(window, Action.YELLOW, [1, 0, 1, 0], 2)  # between Red and Green
    _record(window, Action.RED, [0, 0, 1, 0], 4)  # over-triage: safe, not appropriate
    assert window.means() == {"appropriateness": 0.5, "safety": 1.0, "questions": 3.0}


def test_the_oldest_episode_leaves_the_window():
    window = EpisodeWindow(2)
    for questions in (10, 1, 3):
        _record(window, Action.BLUE, [0, 0, 1, 0], questions)
    assert window.means() == {"appropriateness": 0.0, "safety": 0.0, "questions": 2.0}
