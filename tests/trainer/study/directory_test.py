import json

import pytest

from schemas.errors import InputError
from trainer.study.directory import StudyDirectory, write_json
from trainer.study.study import Task
from triage_runtime.storage import whole_file

TASK = Task("dyqn_or-seed-0", "dyqn", {"seed": 0}, "0123456789abcdef" * 4)
OTHER = Task("dyqn_or-seed-0", "dyqn", {"seed": 0}, "fedcba9876543210" * 4)
SAME_NAME = Task("dyqn_or-seed-0", "dyqn", {"seed": 0}, TASK.fingerprint[:12] + "0" * 52)


@pytest.fixture
def study(tmp_path):
    directory = StudyDirectory(tmp_path / "out")
    with directory.claimed("sha256:data"):
        yield directory


def test_a_recorded_outcome_is_found_by_a_task_of_the_same_inputs_only(study):
    study.record(TASK, 1.5, {"x": 1})
    assert study.outcome(TASK)["result"] == {"x": 1}
    assert study.outcome(TASK)["seconds"] == 1.5
    assert study.outcome(OTHER) is None
    # The file's name tells twelve digits, the file all of them.
    assert study.outcome_path(SAME_NAME) == study.outcome_path(TASK)
    assert study.outcome(SAME_NAME) is None


@pytest.mark.parametrize("content", ["", '{"fingerprint": ', "[]", "null"])
def test_a_damaged_outcome_counts_as_none(study, content):
    study.record(TASK, 1.0, {})
    study.outcome_path(TASK).write_text(content)
    assert study.outcome(TASK) is None


def test_figures_that_are_not_finite_are_not_recorded(study):
    with pytest.raises(ValueError, match="not JSON compliant"):
        study.record(TASK, 1.0, {"mean": float("nan")})
    assert study.outcome(TASK) is None


def test_a_second_study_is_kept_out(study):
    second = StudyDirectory(study.path)
    with pytest.raises(InputError, match="another study is running in it"), second.claimed("sha256:data"):
        pass


def test_the_same_data_continues_and_clears_what_a_kill_left(tmp_path):
    study = StudyDirectory(tmp_path)
    with study.claimed("sha256:data"):
        study.record(TASK, 1.0, {})
        finished = study.outcome_path(OTHER)
        left_over = finished.with_name(f"{whole_file.UNFINISHED}{finished.name}")
        left_over.write_text("{")
    with study.claimed("sha256:data"):
        assert study.outcome(TASK) is not None
        assert not left_over.exists()


def test_a_study_of_other_data_is_refused(tmp_path):
    with StudyDirectory(tmp_path).claimed("sha256:data"):
        pass
    other = StudyDirectory(tmp_path)
    with pytest.raises(InputError, match="holds a study of other data"), other.claimed("sha256:other"):
        pass


def test_a_directory_of_something_else_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    study = StudyDirectory(tmp_path)
    with pytest.raises(InputError, match="and is not a study: choose another directory"), study.claimed("sha256:data"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_file_in_the_place_of_the_directory_is_refused(tmp_path):
    place = tmp_path / "out"
    place.write_text("a file")
    study = StudyDirectory(place)
    with pytest.raises(InputError, match="cannot write: Not a directory"), study.claimed("sha256:data"):
        pass


def test_a_failed_write_leaves_the_old_content(tmp_path):
    path = tmp_path / "results.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError, match="not JSON serializable"):
        write_json(path, {"a": object()})
    assert json.loads(path.read_text()) == {"a": 1}
