import numpy as np
import pytest

from trainer.dyqn.decision import Dial
from trainer.evaluation.question_report import policy_figures, print_report, quality
from trainer.questions.patients import Patients
from trainer.questions.play import NOTHING, Interviews

RED, BLUE = [0.9, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.8]
ASKS, DECIDES = [0.5, 0, 0, 0, 0.9], [0.9, 0, 0, 0, 0.5]


def _outputs(q_values, appropriate):
    return [*q_values, *appropriate, 1, 1, 1, 1]


@pytest.fixture(scope="module")
def patients():
    """Two emergencies with the red flag 2, and a harmless patient without it; all come with 0."""
    answers = np.array([[1, -1, 1], [1, 1, 1], [1, -1, -1]], np.int8)
    counts = np.array([[3, 0, 0, 0], [2, 1, 0, 0], [0, 0, 0, 2]])
    return Patients(np.zeros(3, np.int64), answers, counts)


@pytest.fixture(scope="module")
def interviews():
    """The first is asked about 2 and decided Red at once; the second is asked about 1; the third never is decided."""
    outputs = [
        [_outputs(ASKS, BLUE), _outputs(ASKS, BLUE), _outputs(ASKS, BLUE)],
        [_outputs(DECIDES, RED), _outputs(ASKS, BLUE), _outputs(ASKS, BLUE)],
        [_outputs(ASKS, BLUE), _outputs(DECIDES, RED), _outputs(ASKS, BLUE)],
    ]
    return Interviews(
        np.array(outputs, np.float32),
        np.array([[2, 1, 1], [NOTHING, 2, 2]]),
        np.array([[1, 1, -1], [0, 1, -1]], np.int8),
    )


@pytest.fixture(scope="module")
def found(interviews, patients):
    against = {name: np.zeros([3, 3], bool) for name in ("appropriateness", "safety")}
    return policy_figures(interviews, patients, Dial(), np.array([2]), against, seed=0)


def test_quality_is_that_of_the_decision_after_each_number_of_questions(interviews, patients, found):
    right = quality(interviews, patients.decision_counts, Dial())["appropriateness"]
    assert right.tolist() == [[False, False, True], [True, False, True], [False, True, True]]
    assert [each.mean for each in found["appropriateness"]] == pytest.approx([1 / 3, 2 / 3, 2 / 3])
    assert [each.mean for each in found["appropriateness_difference"]] == pytest.approx([1 / 3, 2 / 3, 2 / 3])


def test_a_red_flag_of_an_emergency_is_known_after_so_many_questions(found):
    assert found["first_red_flag"]["questions"].mean == pytest.approx((1 + 2) / 2)
    assert found["first_red_flag"]["questions"].vignettes == 2
    assert found["first_red_flag"]["known"].mean == 1


def test_without_emergencies_there_is_nothing_to_tell_of_red_flags(interviews, patients):
    harmless = patients._replace(decision_counts=np.tile([0, 0, 0, 1], [3, 1]))
    assert policy_figures(interviews, harmless, Dial(), np.array([2]), None, 0)["first_red_flag"] is None


def test_interviews_end_where_the_agent_decides_or_nothing_is_left(found):
    # After 1, 2 and all 2 questions, with Red, Red and Blue: all appropriate.
    assert found["stopping"]["questions"].mean == pytest.approx(5 / 3)
    assert found["stopping"]["appropriateness"].mean == 1


def test_the_report_prints_a_row_for_each_number_of_questions(found, capsys):
    from schemas.figures import plain

    of_first = {name: value for name, value in plain(found).items() if not name.endswith("_difference")}
    report = {
        "split": "test",
        "track": "own-card",
        "patients": 3,
        "policies": {"learned": of_first, "random": plain(found)},
    }
    print_report(report)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["0", ".333", "/", ".333", ".333", "/", ".333"] in lines
    assert ["red", "flag", "after", "1.5", "1.5"] in lines
