import collections
import dataclasses
import json
import shutil

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from schemas.errors import InputError
from tests.trainer.conftest import tiny_default
from trainer.data.tfrecord import DataDirectory
from trainer.dyqn.network import build_network
from trainer.dyqn.rollout import Rollout, greedy_policy, order_seeds
from trainer.evaluation import metrics
from trainer.training import set_apart
from trainer.training.job import JobDirectory, load_network
from trainer.training.session import EVALUATION_SEED, RunHooks
from trainer.training.session import open_run as opened

NEVER = lambda: False  # noqa: E731


def open_run(job, data, config, **hooks):
    return opened(job, data, config, hooks=RunHooks(metrics.episode_metrics, **hooks))


@pytest.fixture(scope="module")
def data(many):
    return DataDirectory.open(many)


@pytest.fixture(scope="module")
def finished(settled):
    """The job directory of `settled`, and its report."""
    return settled / "job", json.loads((settled / "report.json").read_text())


def test_a_training_starts_from_another_agent_and_continues_with_the_same_one_only(finished, data, tmp_path, capsys):
    begun = finished[0]
    session = open_run(tmp_path, data, tiny_default(steps=20), start_from=begun)
    assert f"starts from {finished[0]}: 12 of 12 codes match\n" in capsys.readouterr().err
    theirs, ours = load_network(finished[0]).model, session.loop.network
    for mine, kept in zip(ours.trainable_weights, theirs.trainable_weights, strict=True):
        np.testing.assert_array_equal(mine, kept)
    session.train(lambda: True)
    steps = finished[1]["steps"]
    assert load_network(tmp_path).start_from == f"{data.data_fingerprint} after {steps} steps"
    with pytest.raises(InputError, match=rf"--start-from sha256:\w+ after {steps} steps"):
        open_run(tmp_path, data, tiny_default(steps=20))


def test_evaluations_and_checkpoints_are_made_when_due_and_at_the_end_and_reach_tensorboard(finished):
    path, report = finished
    due = sorted({40, report["steps"]})
    assert [json.loads(line)["step"] for line in (path / "evaluations.jsonl").read_text().splitlines()] == due
    assert (path / "checkpoints" / f"ckpt-{report['steps']}.index").exists()
    assert report["steps_this_session"] == report["steps"]
    events = EventAccumulator(str(path / "logs"))
    events.Reload()
    tags = set(events.Tags()["tensors"])
    assert {"train/loss", "train/loss_ask", "train/episodes", "test/appropriateness"} <= tags
    assert sorted({event.step for event in events.Tensors("test/safety")}) == due


@pytest.mark.slow
def test_a_full_disk_is_an_input_error_and_the_last_good_checkpoint_stays(finished, data, tmp_path, full_disk):
    path, steps = shutil.copytree(finished[0], tmp_path / "job"), finished[1]["steps"]
    [content] = (path / "checkpoints").glob(f"ckpt-{steps}.data*")
    session = open_run(path, data, tiny_default(steps=120, evaluation_interval=0))
    with full_disk(content.stat().st_size // 2), pytest.raises(InputError, match=f"^{path}: cannot write"):
        session.train(NEVER)
    assert load_network(path).training["steps"] == steps


def test_a_run_ends_with_a_calibrated_agent_that_led_interviews_with_held_out_patients(finished, data):
    path, report = finished
    network = load_network(path)
    assert report["finished"]
    outputs = network.model.get_layer("outputs")
    assert outputs.scale.numpy().tolist() != [1] * 7
    judged = JobDirectory(path).held_out()
    train, test = (data.read(split, names=False) for split in ("train", "test"))
    assert len(judged.sizes) == len(train.decision_counts) // 4  # as .1 of them would be too few
    assert judged.sizes.tolist() == [24] * len(judged.sizes)  # before each of 23 questions, and after the last
    assert (judged.q.shape, judged.appropriate.shape) == ((judged.sizes.sum(), 5), (judged.sizes.sum(), 4))
    assert len(network.novelty.led)
    # The last evaluation is that of the chosen weights, calibrated.
    rollout = Rollout(test, len(data.vocabulary), 23, greedy_policy(network.model))
    outcomes = rollout.run(order_seeds(EVALUATION_SEED, 3))
    expected = metrics.summary(metrics.agent_metrics(outcomes, test.decision_counts), EVALUATION_SEED)
    last = report["last_evaluation"]
    assert last["step"] == report["steps"]
    assert last["metrics"]["appropriateness"]["mean"] == pytest.approx(expected["appropriateness"].mean)
    assert last["metrics"]["evidence_seen"]["mean"] == pytest.approx(expected["evidence_seen"].mean)


@pytest.mark.slow
def test_without_held_out_vignettes_the_last_evaluation_is_of_the_average_that_is_kept(data, tmp_path):
    config = tiny_default(evaluation_interval=60, steps=60)
    validation = dataclasses.replace(config.validation, held_out_share=0.0)
    optimiser = dataclasses.replace(config.optimiser, learning_rate=0.1, average=0.999)  # the average hardly moves
    target = dataclasses.replace(config.target, safety_weight=0.0)  # so that not everybody is decided alike
    changed = dataclasses.replace(config, validation=validation, optimiser=optimiser, target=target)
    session = open_run(tmp_path, data, changed)
    last = session.train(NEVER)["last_evaluation"]["metrics"]["appropriateness"]["mean"]
    test, kept = data.read("test", names=False), load_network(tmp_path).model
    played = [
        Rollout(test, len(data.vocabulary), 23, policy).run(order_seeds(EVALUATION_SEED, 3))
        for policy in (greedy_policy(kept), session.loop.agent.policy)
    ]
    right = [metrics.agent_metrics(each, test.decision_counts)["appropriateness"].mean() for each in played]
    assert last == pytest.approx(right[0])
    assert right[0] != right[1]  # the latest weights decide otherwise


def test_nothing_is_learned_of_questions_and_novelty_from_what_is_set_apart(data, tmp_path, monkeypatch):
    fitted = []
    monkeypatch.setattr(JobDirectory, "prepare_statistics", lambda _, vignettes, *more: fitted.append(vignettes))
    open_run(tmp_path, data, tiny_default())
    apart = set_apart.read(tmp_path)
    train = data.read("train", names=False)
    everything, learned, kept = (
        collections.Counter(set_apart.keys(part, data.vocabulary).tolist())
        for part in (train, fitted[0], apart.vignettes)
    )
    assert kept.total() == round(0.1 * everything.total())
    assert learned + kept <= everything  # each vignette is on one side, though two of them may be alike
    assert set(set_apart.read_seen(tmp_path).all.tolist()) == set(everything - kept)


def test_what_the_agent_to_start_from_has_learned_from_is_not_held_out(finished, data, tmp_path, monkeypatch):
    job, _ = finished
    fitted, prepare_statistics = [], JobDirectory.prepare_statistics

    def noted(run, vignettes, *more):
        fitted.append(vignettes)
        prepare_statistics(run, vignettes, *more)

    monkeypatch.setattr(JobDirectory, "prepare_statistics", noted)
    config = tiny_default(seed=5)
    config = dataclasses.replace(config, validation=dataclasses.replace(config.validation, set_apart=0.0))
    session = open_run(tmp_path / "new", data, config, start_from=job)
    everything, learned = (
        collections.Counter(set_apart.keys(part, data.vocabulary).tolist())
        for part in (data.read("train", names=False), fitted[0])
    )
    held_out = everything - learned
    assert (held_out.total(), learned.total()) == (everything.total() // 4, session.learned)
    assert held_out.keys().isdisjoint(set_apart.read_seen(job).learned.tolist())


def test_a_run_that_was_killed_repeats_the_uninterrupted_one_bit_for_bit(finished, data, tmp_path):
    path, whole = shutil.copytree(finished[0], tmp_path / "job"), finished[1]
    for file in (path / "checkpoints").glob(f"ckpt-{whole['steps']}.*"):
        file.unlink()  # as if it had been killed before it wrote them
    report = open_run(path, data, tiny_default()).train(NEVER)
    assert 0 < report["steps_this_session"] < whole["steps"]
    assert report["last_evaluation"] == whole["last_evaluation"]
    mine, theirs = (JobDirectory(job) for job in (path, finished[0]))
    assert mine.evaluations() == theirs.evaluations()
    assert mine.held_out().q.tobytes() == theirs.held_out().q.tobytes()
    assert weights(path) == weights(finished[0])


def weights(job):
    return [weight.tobytes() for weight in load_network(job).model.get_weights()]


@pytest.mark.slow
def test_a_run_that_was_stopped_leaves_the_latest_weights_and_ends_as_one_that_was_not(finished, data, tmp_path):
    session, asked = open_run(tmp_path, data, tiny_default()), iter([False, True])
    assert not session.train(lambda: next(asked))["finished"]
    patients = JobDirectory(tmp_path).questions(len(data.vocabulary))
    latest = build_network(data.vocabulary, tiny_default().network, 0, patients)
    session.loop.agent.copy_weights_to(latest)
    for mine, theirs in zip(load_network(tmp_path).model.get_weights(), latest.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert JobDirectory(tmp_path).held_out() is None
    report = session.train(NEVER)
    assert report["last_evaluation"] == finished[1]["last_evaluation"]
    assert weights(tmp_path) == weights(finished[0])


@pytest.mark.slow
def test_a_run_that_got_more_steps_ends_as_one_that_had_them_from_the_start(finished, data, tmp_path):
    path = shutil.copytree(finished[0], tmp_path / "more")
    runs = [open_run(job, data, tiny_default(steps=120)) for job in (path, tmp_path / "whole")]
    more, whole = (run.train(NEVER) for run in runs)
    assert (more["steps_this_session"], whole["steps_this_session"]) == (60, 120)
    assert weights(path) == weights(tmp_path / "whole")


@pytest.mark.slow
def test_a_run_killed_while_it_was_calibrated_is_calibrated_again(finished, data, tmp_path):
    path = shutil.copytree(finished[0], tmp_path / "job")
    JobDirectory(path).forget_held_out()  # as if it had been killed before it wrote its last files
    report = open_run(path, data, tiny_default()).train(NEVER)
    assert report["steps_this_session"] == 0
    assert JobDirectory(path).evaluations() == JobDirectory(finished[0]).evaluations()
    assert report["last_evaluation"] == finished[1]["last_evaluation"]
    mine, theirs = (JobDirectory(job).held_out() for job in (path, finished[0]))
    np.testing.assert_array_equal(mine.q, theirs.q)


def test_a_run_that_goes_on_forgets_its_outputs_for_held_out_patients(finished, data, tmp_path):
    path = shutil.copytree(finished[0], tmp_path / "job")
    assert JobDirectory(path).held_out() is not None
    assert not open_run(path, data, tiny_default(steps=120)).train(lambda: True)["finished"]  # stopped as it begins
    assert JobDirectory(path).held_out() is None


def test_outputs_for_held_out_patients_belong_only_to_the_newest_checkpoint(finished):
    job, _ = finished
    steps = sorted(int(path.stem.split("-")[1]) for path in (job / "checkpoints").glob("ckpt-*.index"))
    assert len(steps) > 1
    assert load_network(job, steps[-1]).held_out is not None
    assert load_network(job, steps[0]).held_out is None


@pytest.mark.parametrize("whole", [True, False], ids=["complete patients", "cards"])
def test_what_is_asked_in_interviews_with_held_out_patients_is_kept_for_novelty(data, tmp_path, monkeypatch, whole):
    monkeypatch.setattr(DataDirectory, "whole_patients", whole)
    session = open_run(tmp_path, data, tiny_default())
    led = session.loop.selection.interview_states
    assert led.shape == (24 * (len(data.read("train", names=False).decision_counts) // 4), 12)
    assert (led < 0).any()
