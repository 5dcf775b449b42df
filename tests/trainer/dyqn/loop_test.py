from typing import Any, NamedTuple

import numpy as np
import pytest

from schemas.triage import Action
from trainer.config import TrainConfig
from trainer.dyqn.assembly import build_loop
from trainer.dyqn.loop import TrainingDivergedError, TrainingLoop
from trainer.dyqn.network import build_network
from trainer.presets import preset

QUIET = {"ask_noise_initial": 0.0, "ask_noise_final": 0.0}
PAIR = ([1, -3], [0, 1, 2, 0])
PAIR_REWARD = [0.0, 0.5, 1.0, 0.0]


def _config(burn_in=1_000_000, **sections):
    values = {
        "network": {"hidden_sizes": [8]},
        "memory": {"batch_size": 16, "memory_capacity": 64},
        "loop": {"burn_in_steps": burn_in, "seed": 3},
    }
    for name, section in sections.items():
        values[name] = {**values.get(name, {}), **section}
    return TrainConfig.from_dict(values)


def _loop(vignettes, evidence_count=30, **settings):
    return build_loop(vignettes, evidence_count, _config(**settings))


def _set_biases(loop, biases):
    """Makes the Q-values depend on nothing: sigmoid of the biases."""
    layer = loop.network.get_layer("q_values")
    layer.set_weights([np.zeros_like(layer.get_weights()[0]), np.array(biases, np.float32)])


def _stored(loop, count):
    """(signed codes of s, action, reward, signed codes of s') of the first transitions."""
    memory = loop.memory
    columns = [column.numpy()[:count] for column in (memory.s_tm1, memory.a_tm1, memory.r_t, memory.s_t)]
    return [
        (set(now[now != 0].tolist()), int(action), reward.tolist(), set(then[then != 0].tolist()))
        for now, action, reward, then in zip(*columns, strict=True)
    ]


def _weights(loop):
    return [weight.tobytes() for weight in loop.network.get_weights()]


@pytest.fixture(scope="module")
def of_a_pair(vignettes_of, tmp_path_factory):
    """A loop with one vignette, which does not learn, and its checkpoint of step 0."""
    loop = _loop(vignettes_of([PAIR]), 4, exploration=QUIET)
    return loop, loop.checkpoint().write(str(tmp_path_factory.mktemp("pair") / "checkpoint"))


@pytest.fixture
def pair_loop(of_a_pair):
    """The same loop at step 0."""
    loop, beginning = of_a_pair
    loop.checkpoint().read(beginning).assert_consumed()
    return loop


def test_trajectory_of_an_agent_that_asks_until_nothing_is_left(pair_loop):
    loop = pair_loop
    _set_biases(loop, [0, 1, 2, 0, 9])
    loop.run(4)
    both = {1, -3}
    first, second, third, fourth = _stored(loop, 4)
    for asked, forced in ((first, second), (third, fourth)):
        assert asked[0] in ({1}, {-3})
        assert asked[1:] == (Action.ASK, PAIR_REWARD, both)
        assert forced == (both, Action.GREEN, PAIR_REWARD, both)
    assert (loop.step, loop.episode) == (4, 2)
    # Training forces a triage when no evidence is left: one question an episode; Green is appropriate and safe.
    assert loop.window.means() == {"appropriateness": 1.0, "safety": 1.0, "questions": 1.0}


@pytest.mark.parametrize(("successor", "looks_on"), [("counterfactual", True), ("same_state", False)])
def test_trajectory_of_an_agent_that_triages_at_once(pair_loop, vignettes_of, successor, looks_on):
    loop = pair_loop
    if loop.config.target.ask_successor != successor:
        loop = _loop(vignettes_of([PAIR]), 4, exploration=QUIET, target={"ask_successor": successor})
    _set_biases(loop, [9, 0, 0, 0, 0])
    loop.run(3)
    for known, action, reward, following in _stored(loop, 3):
        assert known in ({1}, {-3})
        assert (action, reward) == (Action.RED, PAIR_REWARD)
        assert following == ({1, -3} if looks_on else known)
    assert loop.episode == 3


def test_priorities_are_those_of_the_q_values_at_collection(pair_loop):
    loop = pair_loop
    _set_biases(loop, [0, 0, 0, 0, -9])  # Q = .5 for each triage decision
    loop.run(2)
    # |mean(r - .5)| = |(-.5 + 0 + .5 - .5) / 4| = .125
    np.testing.assert_allclose(loop.memory.priorities.numpy()[:2], 0.125, atol=1e-6)


def _memory(loop):
    return [variable.numpy() for variable in loop.memory.variables]


def _assert_same(ours, theirs):
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(mine, other)


def test_one_optimisation_a_step_after_the_burn_in(random_vignettes):
    loop = _loop(random_vignettes, burn_in=20)
    before = _weights(loop)
    quiet = loop.run(20)
    assert _weights(loop) == before
    assert quiet.loss is None
    learned = loop.run(21)
    assert int(loop.agent.train_step_counter) == 1
    assert _weights(loop) != before
    assert learned.loss == pytest.approx(sum(learned.action_losses.values()))
    assert list(learned.action_losses) == ["Red", "Yellow", "Green", "Blue", "ask"]
    assert int(loop.memory.stored) == 21


def test_another_seed_draws_other_weights_evidence_noise_and_batches(random_vignettes):
    loops = [_loop(random_vignettes, loop={"seed": seed}) for seed in (3, 3, 4)]
    kernels = [loop.network.get_layer("hidden_1").kernel.numpy() for loop in loops]
    assert (kernels[0] == kernels[1]).all()
    assert (kernels[0] != kernels[2]).any()
    for name in ("environment", "exploration", "memory"):
        draws = [loop.checkpoint().generators[name].uniform([9]).numpy() for loop in loops]
        assert (draws[0] == draws[1]).all(), name
        assert (draws[0] != draws[2]).all(), name


def test_a_state_may_have_more_evidence_than_questions_where_an_episode_starts_with_any_amount(vignettes_of):
    long = (list(range(1, 31)), [0, 0, 1, 0])
    environment = {"max_questions": 4, "start": "any", "environments": 8}
    loop = _loop(vignettes_of([long]), 30, environment=environment, exploration=QUIET)
    _set_biases(loop, [9, 0, 0, 0, 0])  # triage at once
    loop.run(4)
    known = [len(row[0]) for row in _stored(loop, 32)]
    following = [len(row[3]) for row in _stored(loop, 32)]
    assert max(known) > 4 + 2
    assert following == [min(count + 1, 30) for count in known]


TINY = {
    "environment": {"environments": 6},
    "network": {"hidden_sizes": [8], "networks": 2, "text_features": 0},
    "memory": {"batch_size": 16, "memory_capacity": 64},
    "validation": {"validation_interval": 20, "patience": 3, "held_out_share": 0.2, "set_apart": 0.1},
    "loop": {"burn_in_steps": 10, "steps": 200, "seed": 3, "window_episodes": 8},
}


def _default(**sections):
    """The preset `default`, made tiny."""
    values = preset("default").to_dict()
    for given in (TINY, sections):
        values = {name: {**section, **given.get(name, {})} for name, section in values.items()}
    return TrainConfig.from_dict(values)


def _train(loop, until):
    """Runs as a session does, with a validation at every multiple of 20."""
    while loop.step < until and not loop.finished:
        loop.run(min(until, (loop.step // 20 + 1) * 20))
        if loop.step % 20 == 0:
            loop.selection.validate(loop.step)
    return loop


class _Default(NamedTuple):
    """What a run of the tiny default preset leaves at its end, and on its way."""

    loop: TrainingLoop  # whoever trains it on begins with a checkpoint
    losses: list[float]  # of each validation
    validated: list[list[np.ndarray]]  # the weights
    chosen: list[np.ndarray]  # the weights, not yet calibrated
    end: dict[str, Any]
    checkpoints: list[str]  # of a validation before any weights are chosen, and between two after that


def _end(loop):
    """What a restored run must repeat."""
    settled = loop.selection.settle()
    return {
        "best step": loop.selection.best_step,
        "window": loop.window.means(),
        "weights": _weights(loop),
        "chosen": [weight.tobytes() for weight in loop.selection.chosen.get_weights()],
        "memory": [values.tobytes() for values in _memory(loop)],
        "settled": settled.outputs.tobytes(),
    }


@pytest.fixture(scope="module")
def default(random_vignettes, tmp_path_factory):
    loop, folder = build_loop(random_vignettes, 30, _default()), tmp_path_factory.mktemp("default")
    latest, losses, validated, paths = build_network(30, loop.config.network.served, seed=0), [], [], []
    for stop in (20, 40, 60, 80, 100, 120, 140, 160, 170, 180, 200):
        loop.run(stop)
        if stop % 20 == 0:
            losses.append(loop.selection.validate(loop.step))
            loop.agent.copy_weights_to(latest)
            validated.append(latest.get_weights())
        if stop in (140, 170):
            paths.append(loop.checkpoint().write(str(folder / f"checkpoint-{stop}")))
    assert loop.finished
    chosen = loop.selection.chosen.get_weights()
    return _Default(loop, losses, validated, chosen, _end(loop), paths)


def test_the_default_preset_restored_repeats_the_uninterrupted_run_bit_for_bit(default, random_vignettes):
    resumed = build_loop(random_vignettes, 30, _default())
    for path in default.checkpoints:
        resumed.checkpoint().read(path).assert_consumed()
        end = _end(_train(resumed, 200))
        for name, value in default.end.items():
            assert end[name] == value, name


def test_the_weights_with_the_lowest_validation_loss_are_kept(default):
    # Weights are chosen from three quarters on: step 10 + .75 * 190 = 152, the eighth validation.
    best = 7 + int(np.argmin(default.losses[7:]))
    assert default.end["best step"] == 20 * (best + 1)
    _assert_same(default.chosen, default.validated[best])


def test_training_ends_early_where_the_loss_does_not_fall(random_vignettes):
    loop = build_loop(random_vignettes, 30, _default(loop={"steps": 400}))
    step = loop.checkpoint().step
    while not loop.finished:
        step.assign_add(20)
        loop.selection.validate(loop.step)  # of weights that stay the same
    # Weights may be chosen from three quarters on, step 10 + .75 * 390 = 302, and three validations later it ends.
    assert (loop.selection.best_step, loop.step) == (320, 380)


def test_vignettes_from_which_no_network_learns_are_not_drawn(vignettes_of):
    # Vignette v has evidence v alone, so that the memory says which ones were met: of 50, 5 are apart and 12 held out.
    vignettes = vignettes_of([([number + 1], [0, 0, 3, 0]) for number in range(50)])
    loop = build_loop(vignettes, 50, _default(loop={"burn_in_steps": 1_000}, memory={"memory_capacity": 200}))
    loop.run(30)
    met = set(loop.memory.s_tm1.numpy()[:180].ravel().tolist()) - {0}
    assert len(met) == 33
    assert loop.selection.settle().sizes.sum() == 12


def test_a_weight_that_is_not_a_number_is_named_beside_probabilities(default):
    loop = default.loop
    loop.checkpoint().read(default.checkpoints[0]).assert_consumed()
    bias = loop.network.get_layer("q_values_of_1").bias
    poisoned = bias.numpy()
    poisoned[12] = np.nan
    bias.assign(poisoned)
    with pytest.raises(TrainingDivergedError, match=r"step 140, .*weights q_values_of_1/bias.*TD errors of safe Blue"):
        loop.run(160)
