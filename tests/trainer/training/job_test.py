import errno
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from schemas.errors import InputError
from schemas.evidence import Vocabulary
from tests.builders import symptoms
from tests.trainer.conftest import make_vignettes
from trainer.config import TrainConfig
from trainer.dyqn.assembly import build_loop
from trainer.graph.operating_point import HeldOutOutputs
from trainer.training.job import EVALUATIONS, FORMAT, NOVELTY, QUESTIONS, RUN, JobDirectory, load_network

CONFIG = TrainConfig.from_dict(
    {"network": {"hidden_sizes": [8]}, "memory": {"batch_size": 4, "memory_capacity": 32}, "loop": {"burn_in_steps": 5}}
)
VOCABULARY = symptoms(*(f"c{index}" for index in range(30)))
OUTPUTS = HeldOutOutputs(np.zeros([1, 5]), np.zeros([1, 4]), np.ones(1, np.int64), np.array([[1, 0, 0, 0]]))


@pytest.fixture(scope="module")
def finished(tmp_path_factory, random_vignettes):
    """A job with checkpoints of steps 10 and 20, and the weights of each."""
    loop = build_loop(random_vignettes, 30, CONFIG)
    job = JobDirectory(tmp_path_factory.mktemp("finished") / "job")
    job.prepare(CONFIG, VOCABULARY, "sha256:data")
    manager = job.manager(loop.checkpoint())
    weights = {}
    for step in (10, 20):
        loop.run(step)
        manager.save(checkpoint_number=step)
        job.append_evaluation({"step": step, "metrics": {"safety": step}})
        weights[step] = loop.network.get_weights()
    return job.path, weights


@pytest.fixture
def trained(finished, tmp_path):
    """The same job, to be changed."""
    path, weights = finished
    return JobDirectory(shutil.copytree(path, tmp_path / "job")), weights


@pytest.mark.parametrize(("step", "expected"), [(None, 20), (10, 10)])
def test_loads_the_network_of_a_checkpoint(trained, step, expected):
    job, weights = trained
    network = load_network(job.path, step)
    for weight, saved in zip(network.model.get_weights(), weights[expected], strict=True):
        np.testing.assert_array_equal(weight, saved)
    assert network.training["steps"] == expected
    assert network.metrics == {"step": expected, "metrics": {"safety": expected}}
    assert network.vocabulary == VOCABULARY
    assert network.data_fingerprint == "sha256:data"
    assert network.max_questions == 23
    assert TrainConfig.from_dict(network.config) == CONFIG


def test_a_folder_without_a_run_or_without_a_checkpoint_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="a job directory"):
        load_network(tmp_path)
    JobDirectory(tmp_path).prepare(CONFIG, VOCABULARY, "sha256:data")
    with pytest.raises(InputError, match="no checkpoint yet"):
        load_network(tmp_path)


def test_a_changed_vocabulary_is_refused(trained):
    job, _ = trained
    Vocabulary([*VOCABULARY][::-1]).save(job.path / "vocabulary.csv")
    with pytest.raises(InputError, match=r"vocabulary\.csv: "):
        load_network(job.path)


@pytest.mark.parametrize(("there", "said"), [(None, 1), (FORMAT + 1, FORMAT + 1)])
def test_an_agent_of_another_version_is_refused_before_anything_is_loaded_or_written(trained, there, said):
    job, _ = trained
    run = {name: value for name, value in job.run().items() if name != "format"}
    written = json.dumps(run if there is None else {**run, "format": there})
    (job.path / RUN).write_text(written)
    for use in (load_network, lambda path: JobDirectory(path).prepare(CONFIG, VOCABULARY, run["data_fingerprint"])):
        with pytest.raises(InputError, match=rf"run\.json: format {said}, .* {FORMAT}"):
            use(job.path)
    assert (job.path / RUN).read_text() == written


def test_the_same_run_may_be_prepared_again_for_more_steps_but_no_other_run(tmp_path):
    job = JobDirectory(tmp_path)
    job.prepare(CONFIG, VOCABULARY, "sha256:data")
    longer = TrainConfig.from_dict({**CONFIG.to_dict(), "loop": {"burn_in_steps": 5, "steps": 99}})
    job.prepare(longer, VOCABULARY, "sha256:data")
    assert json.loads((tmp_path / RUN).read_text())["config"]["loop"]["steps"] == 99
    falling = {**CONFIG.to_dict(), "optimiser": {"schedule": "cosine"}}
    of_cosine = JobDirectory(tmp_path / "cosine")
    of_cosine.prepare(TrainConfig.from_dict(falling), VOCABULARY, "sha256:data")
    of_more_steps = TrainConfig.from_dict(falling | {"loop": longer.to_dict()["loop"]})
    with pytest.raises(InputError, match="steps 6000 there, 99"):
        of_cosine.prepare(of_more_steps, VOCABULARY, "sha256:data")
    other = TrainConfig.from_dict({**CONFIG.to_dict(), "memory": {"batch_size": 5, "memory_capacity": 32}})
    for config, codes, data, workers, named in (
        (other, VOCABULARY, "sha256:data", 1, "batch_size 4 there, 5"),
        (CONFIG, VOCABULARY, "sha256:other", 1, r"sha256:data\.\.\. there, sha256:other"),
        (CONFIG, Vocabulary([*VOCABULARY][:-1]), "sha256:data", 1, r"lacks 1 \('c29'\)"),
        (CONFIG, Vocabulary([*VOCABULARY][::-1]), "sha256:data", 1, "'c29', not 'c0'"),
        (CONFIG, VOCABULARY, "sha256:data", 2, "workers 1 there, 2 in TF_CONFIG"),
    ):
        with pytest.raises(InputError, match=named):
            job.prepare(config, codes, data, workers=workers)


def test_a_worker_looks_for_the_chief_s_run_and_leaves_it_as_it_is(tmp_path):
    job = JobDirectory(tmp_path)
    with pytest.raises(InputError, match="--job-dir"):
        job.prepare(CONFIG, VOCABULARY, "sha256:data", workers=2, write=False)
    job.prepare(CONFIG, VOCABULARY, "sha256:data", workers=2)
    before = (tmp_path / RUN).stat().st_mtime_ns
    job.prepare(CONFIG, VOCABULARY, "sha256:data", workers=2, write=False)
    assert (tmp_path / RUN).stat().st_mtime_ns == before


def test_each_worker_has_a_lock_and_checkpoints_of_its_own(tmp_path):
    job = JobDirectory(tmp_path)
    with job.locked(), job.locked(worker=1):
        pass
    with pytest.raises(InputError, match="another training run"), job.locked(worker=1), job.locked(worker=1):
        pass
    empty = tf.train.Checkpoint()
    assert job.manager(empty).directory == str(tmp_path / "checkpoints")
    assert job.manager(empty, worker=2).directory == str(tmp_path / "checkpoints" / "worker-2")


def _flock_fails_with(monkeypatch, number):
    def fail(*arguments):
        raise OSError(number, "not locked")

    monkeypatch.setattr("fcntl.flock", fail)


def test_a_lock_is_held_by_another_run_where_permission_is_denied(tmp_path, monkeypatch):
    _flock_fails_with(monkeypatch, errno.EACCES)
    with pytest.raises(InputError, match="another training run"), JobDirectory(tmp_path).locked():
        pass


def test_a_file_system_without_locks_does_not_prevent_training(tmp_path, monkeypatch):
    _flock_fails_with(monkeypatch, errno.ENOLCK)
    with JobDirectory(tmp_path).locked():
        pass


def test_evaluations_behind_the_checkpoint_are_forgotten_and_those_of_a_repeated_step_replaced(tmp_path):
    job = JobDirectory(tmp_path)
    job.forget_after(2)
    assert (job.evaluations(), list(tmp_path.iterdir())) == ([], [])
    for number, step in enumerate((1, 2, 3, 3)):
        job.append_evaluation({"step": step, "number": number})
    assert [(each["step"], each["number"]) for each in job.evaluations()] == [(1, 0), (2, 1), (3, 3)]
    with pytest.raises(ValueError, match="Out of range"):
        job.append_evaluation({"step": 4, "number": float("nan")})
    job.forget_after(2)
    assert [evaluation["step"] for evaluation in job.evaluations()] == [1, 2]


@pytest.mark.parametrize("content", [b"garbage", b'{"step": 1}\n{"metrics": {}}', b"\xff"])
def test_a_damaged_file_of_evaluations_is_an_input_error_that_names_it(tmp_path, content):
    (tmp_path / EVALUATIONS).write_bytes(content)
    with pytest.raises(InputError, match=EVALUATIONS):
        JobDirectory(tmp_path).evaluations()


def test_a_damaged_checkpoint_is_an_input_error_that_names_it(trained):
    job, _ = trained
    for index in (job.path / "checkpoints").glob("ckpt-20.index"):
        index.write_text("garbage")
    with pytest.raises(InputError, match="ckpt-20: "):
        load_network(job.path)
    load_network(job.path, step=10)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("file", "--job-dir .*file: "),
        ("file/job", "Not a directory: .*--job-dir$"),
    ],
)
def test_a_job_directory_that_cannot_be_made_is_an_input_error_about_that_alone(tmp_path, name, message):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=message), JobDirectory(tmp_path / name).locked():
        pass


def vignettes(count):
    """As many vignettes of two present pieces each, of 30."""
    return make_vignettes([([row % 30 + 1, (row + 7) % 30 + 1], [0, 0, 1, 2]) for row in range(count)])


def test_the_statistics_of_novelty_are_made_once_and_go_with_the_network(trained):
    job, _ = trained
    assert load_network(job.path).novelty is None  # it is not made by loading
    job.prepare_statistics(vignettes(200), VOCABULARY)
    written = (job.path / NOVELTY).read_bytes()
    novelty = load_network(job.path).novelty
    assert novelty.moments == 640  # 16 of each of the 40 vignettes, a fifth, that the mixture is not fitted to
    assert novelty.log_literals.shape[0] == 60
    job.prepare_statistics(vignettes(300), VOCABULARY)  # as a resumed run does: what is there stays
    assert (job.path / NOVELTY).read_bytes() == written


def test_what_is_usual_in_interviews_goes_with_the_network(trained):
    job, _ = trained
    job.prepare_statistics(vignettes(200), VOCABULARY)
    job.widen_novelty(None)  # an agent that led none
    assert not len(load_network(job.path).novelty.led)
    led = np.random.default_rng(0).integers(-1, 2, [20 * 24, 30]).astype(np.int8)
    job.widen_novelty(led)
    novelty = load_network(job.path).novelty
    assert (len(novelty.led), novelty.moments) == (45, 640)


def test_where_novelty_is_written_anew_training_ends_again_to_add_the_interviews(trained):
    job, _ = trained
    job.prepare_statistics(vignettes(200), VOCABULARY)
    job.write_held_out(OUTPUTS)
    job.prepare_statistics(vignettes(200), VOCABULARY)
    assert job.held_out() is not None
    (job.path / NOVELTY).unlink()
    job.prepare_statistics(vignettes(200), VOCABULARY)
    assert job.held_out() is None


def test_danger_signs_that_are_given_are_kept_as_they_are_and_a_run_goes_on_with_no_others(tmp_path):
    job, given = JobDirectory(tmp_path), '# Reviewed by a clinician.\nc1 = [["c2", "c3"], ["c4"]]\n'
    for signs in (given, given, None):
        job.prepare_statistics(vignettes(20), VOCABULARY, signs)
        assert (tmp_path / "danger_signs.toml").read_text() == given
    assert job.signs(VOCABULARY).groups == {"c1": (("c2", "c3"), ("c4",))}
    with pytest.raises(InputError, match="--danger-signs"):
        job.prepare_statistics(vignettes(20), VOCABULARY, 'c1 = [["c2"]]\n')


def test_the_classes_for_questions_are_made_once(tmp_path):
    job = JobDirectory(tmp_path)
    assert job.questions(30) is None
    job.prepare_statistics(vignettes(200), VOCABULARY)
    written = (tmp_path / QUESTIONS).read_bytes()
    assert job.questions(30).present.shape[1] == 30
    job.prepare_statistics(vignettes(300), VOCABULARY)  # as a resumed run does: what is there stays
    assert (tmp_path / QUESTIONS).read_bytes() == written


def test_without_a_file_there_are_no_outputs(tmp_path):
    JobDirectory(tmp_path).forget_held_out()  # nothing to remove is no error
    assert JobDirectory(tmp_path).held_out() is None
    JobDirectory(tmp_path).write_held_out(OUTPUTS)
    JobDirectory(tmp_path).forget_held_out()
    assert list(tmp_path.iterdir()) == []
