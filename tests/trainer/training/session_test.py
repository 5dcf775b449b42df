import collections
import dataclasses
import json
import shutil

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from schemas.errors import InputError
from trainer.config import TrainConfig
from trainer.dyqn.network import build_network, copy_weights, logits_of
from trainer.dyqn.rollout import Rollout, greedy_policy, order_seeds
from trainer.evaluation import metrics
from trainer.graph.decide import NEUTRAL
from trainer.presets import preset
from trainer.training import held_out, set_apart
from trainer.training.job import JobDirectory, load_network
from trainer.training.session import EVALUATION_SEED, RunHooks
from trainer.training.session import open_run as opened
from trainer.vignettes.tfrecord import DataDirectory

NEVER = lambda: False  # noqa: E731


def open_run(job, data, config, **hooks):
    return opened(job, data, config, hooks=RunHooks(metrics.episode_metrics, **hooks))


@pytest.fixture(scope="module")
def data(data_directory):
    return DataDirectory.open(data_directory)


def test_a_training_starts_from_another_agent_and_continues_with_the_same_one_only(settled, data, tmp_path, capsys):
    begun = settled[0]
    session = open_run(tmp_path, data, _default(steps=20), start_from=begun)
    assert f"starts from {settled[0]}: 12 of 12 codes match\n" in capsys.readouterr().err
    theirs, ours = load_network(settled[0]).model, build_network(12, _default().network.served, seed=0)
    copy_weights(session.loop.network, ours)
    states = np.eye(12, dtype=np.float32)
    np.testing.assert_allclose(logits_of(ours)(states), logits_of(theirs)(states), atol=1e-6)
    session.train(lambda: True)
    steps = settled[1]["steps"]
    assert load_network(tmp_path).start_from == f"{data.data_fingerprint} after {steps} steps"
    with pytest.raises(InputError, match=rf"--start-from sha256:\w+ after {steps} steps"):
        open_run(tmp_path, data, _default(steps=20))


DEFAULT = {
    "environment": {"environments": 6},
    "network": {"hidden_sizes": [8], "networks": 2, "text_features": 3},
    "memory": {"batch_size": 16, "memory_capacity": 64},
    "validation": {"validation_interval": 20, "patience": 2, "set_apart": 0.3},
    "loop": {"burn_in_steps": 10, "steps": 60, "window_episodes": 8, "evaluation_interval": 40,
             "checkpoint_interval": 20, "steps_per_call": 25},
}  # fmt: skip


def _default(**loop):
    """The preset `default`, made tiny."""
    values = preset("default").to_dict()
    values = {name: {**section, **DEFAULT.get(name, {})} for name, section in values.items()}
    return TrainConfig.from_dict({**values, "loop": {**values["loop"], **loop}})


@pytest.fixture(scope="module")
def settled(data, made_once):
    """The job directory of a finished run of the tiny default preset, and its report; whoever trains takes a copy."""

    def make(folder):
        report = open_run(folder / "job", data, _default()).train(NEVER)
        (folder / "report.json").write_text(json.dumps(report))

    folder = made_once("settled", make)
    return folder / "job", json.loads((folder / "report.json").read_text())


def test_evaluations_and_checkpoints_are_made_when_due_and_at_the_end_and_reach_tensorboard(settled):
    path, report = settled
    due = sorted({40, report["steps"]})
    assert [json.loads(line)["step"] for line in (path / "evaluations.jsonl").read_text().splitlines()] == due
    assert (path / "checkpoints" / f"ckpt-{report['steps']}.index").exists()
    assert report["steps_this_session"] == report["steps"]
    assert report["last_evaluation"]["metrics"]["safety"]["vignettes"] == 10
    events = EventAccumulator(str(path / "logs"))
    events.Reload()
    tags = set(events.Tags()["tensors"])
    assert {"train/loss", "train/squared_td_error_ask", "train/ask_noise", "test/appropriateness"} <= tags
    assert sorted({event.step for event in events.Tensors("test/safety")}) == due


@pytest.mark.slow
def test_a_full_disk_is_an_input_error_and_the_last_good_checkpoint_stays(settled, data, tmp_path, full_disk):
    path, steps = shutil.copytree(settled[0], tmp_path / "job"), settled[1]["steps"]
    [content] = (path / "checkpoints").glob(f"ckpt-{steps}.data*")
    session = open_run(path, data, _default(steps=120, evaluation_interval=0))
    with full_disk(content.stat().st_size // 2), pytest.raises(InputError, match=f"^{path}: cannot write"):
        session.train(NEVER)
    assert load_network(path).training["steps"] == steps


def test_a_run_ends_with_a_calibrated_agent_and_its_operating_point(settled, data):
    path, report = settled
    job, network = JobDirectory(path), load_network(path)
    assert report["finished"]
    assert 0 < report["best_step"] <= report["steps"] <= 60
    losses = {each["step"]: each["loss"] for each in job.validation_losses()}
    assert list(losses) == list(range(20, report["steps"] + 1, 20))
    assert min(losses.values()) > 0
    judged = job.held_out()
    assert len(judged.sizes) == 10  # a quarter of 40, as .1 of them would be too few
    assert judged.outputs.shape == (judged.sizes.sum(), 32)
    assert network.operating_point == job.operating_point() != NEUTRAL
    # The last evaluation is that of the chosen weights, calibrated, with their operating point.
    test = data.read("test", names=False)
    rollout = Rollout(test, len(data.vocabulary), 23, greedy_policy(network.model, point=network.operating_point))
    outcomes = rollout.run(order_seeds(EVALUATION_SEED, 3))
    expected = metrics.summary(metrics.agent_metrics(outcomes, test.decision_counts), EVALUATION_SEED)
    last = report["last_evaluation"]
    assert last["step"] == report["steps"]
    assert last["metrics"]["appropriateness"]["mean"] == pytest.approx(expected["appropriateness"].mean)
    assert last["metrics"]["evidence_seen"]["mean"] == pytest.approx(expected["evidence_seen"].mean)


@pytest.mark.slow
def test_without_held_out_vignettes_the_last_evaluation_is_of_the_average_that_is_kept(data, tmp_path):
    config = _default(evaluation_interval=60, steps=60)
    validation = dataclasses.replace(config.validation, held_out_share=0.0)
    optimiser = dataclasses.replace(config.optimiser, learning_rate=0.1, average=0.999)  # the average hardly moves
    session = open_run(tmp_path, data, dataclasses.replace(config, validation=validation, optimiser=optimiser))
    last = session.train(NEVER)["last_evaluation"]["metrics"]["safety"]["mean"]
    test, kept = data.read("test", names=False), load_network(tmp_path).model
    played = [
        Rollout(test, len(data.vocabulary), 23, policy).run(order_seeds(EVALUATION_SEED, 3))
        for policy in (greedy_policy(kept), session.loop.agent.policy)
    ]
    safety = [metrics.agent_metrics(each, test.decision_counts)["safety"].mean() for each in played]
    assert last == pytest.approx(safety[0])
    assert safety[0] != safety[1]  # the latest weights decide otherwise


def test_nothing_is_learned_of_questions_and_novelty_from_what_is_set_apart(data, tmp_path, monkeypatch):
    fitted = []
    monkeypatch.setattr(JobDirectory, "prepare_statistics", lambda _, vignettes, vocabulary: fitted.append(vignettes))
    open_run(tmp_path, data, _default())
    apart = set_apart.read(tmp_path)
    train = data.read("train", names=False)
    everything, learned, kept = (
        collections.Counter(set_apart.keys(part, data.vocabulary).tolist())
        for part in (train, fitted[0], apart.vignettes)
    )
    assert kept.total() == 12  # .3 of 40
    assert learned + kept <= everything  # each vignette is on one side, though two of them may be alike
    assert set(set_apart.read_seen(tmp_path).all.tolist()) == set(everything - kept)


def test_what_the_agent_to_start_from_has_learned_from_is_not_held_out(settled, data, tmp_path, monkeypatch):
    job, _ = settled
    fitted = []
    monkeypatch.setattr(JobDirectory, "prepare_statistics", lambda _, vignettes, vocabulary: fitted.append(vignettes))
    config = _default(seed=5)
    config = dataclasses.replace(config, validation=dataclasses.replace(config.validation, set_apart=0.0))
    session = open_run(tmp_path / "new", data, config, start_from=job)
    everything, learned = (
        collections.Counter(set_apart.keys(part, data.vocabulary).tolist())
        for part in (data.read("train", names=False), fitted[0])
    )
    held_out = everything - learned
    assert (held_out.total(), session.learned) == (10, 30)
    assert held_out.keys().isdisjoint(set_apart.read_seen(job).learned.tolist())
    assert len(session.loop.selection.settle().sizes) == 10  # the loop divides them alike


def test_a_run_that_has_chosen_its_operating_point_is_left_as_it_is(settled, data, tmp_path):
    path, report = shutil.copytree(settled[0], tmp_path / "job"), settled[1]
    before = {file: file.read_bytes() for file in path.iterdir() if file.is_file() and file.name != "lock"}
    again = open_run(path, data, _default()).train(NEVER)
    assert again["steps_this_session"] == 0
    assert again["last_evaluation"] == report["last_evaluation"]
    assert {file: file.read_bytes() for file in before} == before


def test_a_run_stopped_before_any_weights_are_chosen_leaves_the_latest_and_ends_as_one_that_was_not(
    settled, data, tmp_path
):
    session, asked = open_run(tmp_path, data, _default()), iter([False, True])
    assert not session.train(lambda: next(asked))["finished"]
    assert session.loop.selection.best_step == 0
    latest = build_network(len(data.vocabulary), _default().network.served, seed=0)
    session.loop.agent.copy_weights_to(latest)
    for mine, theirs in zip(load_network(tmp_path).model.get_weights(), latest.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert JobDirectory(tmp_path).held_out() is None
    assert load_network(tmp_path).operating_point == NEUTRAL
    report = session.train(NEVER)
    assert report["last_evaluation"] == settled[1]["last_evaluation"]
    assert report["best_step"] == settled[1]["best_step"]
    for mine, theirs in zip(
        load_network(tmp_path).model.get_weights(), load_network(settled[0]).model.get_weights(), strict=True
    ):
        assert mine.tobytes() == theirs.tobytes()
    assert JobDirectory(tmp_path).operating_point() == JobDirectory(settled[0]).operating_point()


@pytest.mark.slow
def test_a_run_that_got_more_steps_ends_as_one_that_had_them_from_the_start(settled, data, tmp_path):
    path = shutil.copytree(settled[0], tmp_path / "more")
    assert settled[1]["best_step"] < 92  # weights may be chosen from 10 + .75 * 110 on
    runs = [open_run(job, data, _default(steps=120)) for job in (path, tmp_path / "whole")]
    more, whole = (run.train(NEVER) for run in runs)
    losses = {each["step"]: each["loss"] for each in JobDirectory(path).validation_losses()}
    assert losses[60] < losses[100]  # so that the shorter run's weights would stay
    assert more["steps_this_session"] == whole["steps"] - settled[1]["steps"]
    assert more["best_step"] == whole["best_step"] >= 92
    for mine, theirs in zip(
        load_network(path).model.get_weights(), load_network(tmp_path / "whole").model.get_weights(), strict=True
    ):
        assert mine.tobytes() == theirs.tobytes()


def test_a_run_killed_while_it_chose_its_operating_point_chooses_it_again(settled, data, tmp_path):
    path = shutil.copytree(settled[0], tmp_path / "job")
    held_out.remove(path)  # as if it had been killed before it wrote its last files
    report = open_run(path, data, _default()).train(NEVER)
    assert report["steps_this_session"] == 0
    assert JobDirectory(path).evaluations() == JobDirectory(settled[0]).evaluations()
    assert report["last_evaluation"] == settled[1]["last_evaluation"]
    assert JobDirectory(path).operating_point() == JobDirectory(settled[0]).operating_point()
    mine, theirs = (JobDirectory(job).held_out() for job in (path, settled[0]))
    np.testing.assert_array_equal(mine.outputs, theirs.outputs)


def test_a_run_that_goes_on_forgets_the_operating_point(settled, data, tmp_path):
    path = shutil.copytree(settled[0], tmp_path / "job")
    assert JobDirectory(path).held_out() is not None
    assert not open_run(path, data, _default(steps=120)).train(lambda: True)["finished"]  # stopped as it begins
    assert JobDirectory(path).held_out() is None


def test_the_operating_point_belongs_only_to_the_newest_checkpoint(settled):
    job, _ = settled
    steps = sorted(int(path.stem.split("-")[1]) for path in (job / "checkpoints").glob("ckpt-*.index"))
    assert len(steps) > 1
    assert load_network(job, steps[-1]).operating_point == JobDirectory(job).operating_point()
    assert load_network(job, steps[0]).operating_point == NEUTRAL
    assert load_network(job, steps[0]).held_out is None
