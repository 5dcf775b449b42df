import numpy as np
import pytest
import scipy.sparse

from schemas.triage import Action
from trainer.config import (
    EnvironmentConfig,
    ExplorationConfig,
    LoopConfig,
    MemoryConfig,
    NetworkConfig,
    OptimiserConfig,
    TargetConfig,
    TrainConfig,
)
from trainer.dyqn.loop import TrainingDivergedError
from trainer.dyqn.network import build_network
from trainer.dyqn.rollout import Rollout, greedy_policy
from trainer.study.partially_observed import (
    JudgedOrders,
    PartiallyObservedLoop,
    evaluation_orders,
    greedy_outcomes,
)

E = 6
NO_NOISE = ExplorationConfig(0.0, 0.0)


def _config(query="or", over="all", successor="counterfactual", **sections):
    return TrainConfig(
        **{
            "target": TargetConfig(ask_query=query, best_triage_over=over, ask_successor=successor),
            "network": NetworkConfig((16,)),
            "exploration": NO_NOISE,
            "memory": MemoryConfig(memory_capacity=500, batch_size=20),
            "optimiser": OptimiserConfig("sgd", 3.0),
            "loop": LoopConfig(burn_in_steps=20),
            **sections,
        }
    )


def _always(*values):
    return lambda states: np.tile(np.float32(values), [states.shape[0], 1])


def _by_pieces(table):
    """A classifier whose values depend on how many pieces of evidence are known."""
    return lambda states: np.array([table[known] for known in np.diff(states.indptr)], np.float32)


def _codes(*rows):
    width = max(map(len, rows))
    return np.array([[*row, *[0] * (width - len(row))] for row in rows], np.int32)


def _trained(vignettes, triage, config, steps=400):
    loop = PartiallyObservedLoop(vignettes, E, triage, config)
    loop.run(steps)
    return loop


@pytest.fixture(scope="module")
def one_vignette(vignettes_of):
    """Two pieces of evidence, Red alone is appropriate."""
    return vignettes_of([([1, -2], [3, 0, 0, 0])])


STATES = _codes([1], [-2], [1, -2])


@pytest.mark.parametrize(
    ("query", "one", "both", "expected"),
    [
        # One piece: 1 - .5 + .5 * .7 = .85. With all evidence asking leads nowhere: 1 - .7 + .7 * .7 = .79.
        ("or", [0.5, 0.5, 0, 0], [0.7, 0.3, 0, 0], (0.85, 0.79)),
        # All evidence: x = .5 * (.5 + .5 x) = 1/3. One piece: .8 * (.5 + .5 / 3) = .5333, more than .2: it is asked.
        ("and", [0.2, 0.1, 0, 0], [0.5, 0.3, 0, 0], (0.5333, 0.3333)),
    ],
)
def test_the_target_looks_at_the_state_that_asking_leads_to(one_vignette, query, one, both, expected):
    loop = _trained(one_vignette, _by_pieces({1: one, 2: both}), _config(query))
    np.testing.assert_allclose(loop.ask_values(STATES), [expected[0], *expected], atol=0.01)


def test_q_m_is_that_of_each_episodes_own_vignette(vignettes_of):
    # Red: 1 - .4 + .4 * .4 = .76. Blue: 1 - .2 + .2 * .2 = .84.
    vignettes = vignettes_of([([1, -2], [1, 0, 0, 0]), ([4], [0, 0, 0, 1])])
    loop = _trained(vignettes, _always(0.4, 0.0, 0.0, 0.2), _config("or", "appropriate"))
    np.testing.assert_allclose(loop.ask_values(_codes([1, 0], [1, -2], [4, 0])), [0.76, 0.76, 0.84], atol=0.01)


@pytest.mark.parametrize(
    ("successor", "expected"),
    [
        # The agent is sure (.8 against some .5 for asking), triages at once, and never asks.
        # What asking would have revealed: .2 * (1 + 0 * x') = .2.
        ("counterfactual", 0.2),
        # The same state: x = .2 * (.8 + .2 x), so that x = .16 / .96 = .1667.
        ("same_state", 0.1667),
    ],
)
def test_after_a_triage_the_successor_is_the_configured_one(one_vignette, successor, expected):
    triage = _by_pieces({1: [0.2, 0.8, 0, 0], 2: [1, 0, 0, 0]})
    loop = _trained(one_vignette, triage, _config("and", successor=successor), steps=400)
    assert loop.episode == 400
    np.testing.assert_allclose(loop.ask_values(STATES[:2]), [expected] * 2, atol=0.003)


@pytest.mark.parametrize(
    ("codes", "max_questions", "steps_an_episode"),
    [
        ([1, 2, 3, 4], 23, 4),  # three questions, then there is nothing left to ask
        ([1, 2, 3, 4], 1, 2),  # one question, then the limit
        ([5], 23, 1),  # nothing to ask
    ],
)
def test_who_always_asks_is_forced_when_evidence_ends_and_at_the_limit(
    vignettes_of, codes, max_questions, steps_an_episode
):
    config = _config(environment=EnvironmentConfig(max_questions))
    loop = PartiallyObservedLoop(vignettes_of([(codes, [1, 0, 0, 0])]), E, _always(0, 0, 0, 0), config)
    loop.run(60)
    assert loop.episode == 60 // steps_an_episode


@pytest.mark.slow
def test_noise_makes_the_agent_ask_in_the_first_episodes_only(one_vignette):
    # Triage is worth .999, more than a sigmoid of this network: only noise asks. An episode is one step, or two.
    def episodes(initial, episodes_of_decay, steps):
        config = _config(exploration=ExplorationConfig(initial, 0.0, episodes_of_decay), loop=LoopConfig())
        loop = PartiallyObservedLoop(one_vignette, E, _always(0.999, 0, 0, 0), config)
        loop.run(steps)
        return loop.episode

    assert episodes(0.0, 1, 300) == 300
    # Noise of deviation 100 is above the difference in about half of the episodes: 300 / 1.5 = 200.
    assert 170 < episodes(100.0, 10**9, 300) < 230
    assert episodes(100.0, 1, 300) >= 299


def test_after_the_burn_in_the_output_of_asking_alone_is_trained(one_vignette):
    loop = PartiallyObservedLoop(one_vignette, E, _always(0.1, 0.2, 0.6, 0.1), _config())
    layer = loop.network.get_layer("q_values")
    before, values = layer.get_weights()[0], loop.ask_values(STATES)
    loop.run(20)
    np.testing.assert_array_equal(loop.ask_values(STATES), values)
    loop.run(21)
    assert (loop.ask_values(STATES) != values).all()
    after = layer.get_weights()[0]
    np.testing.assert_array_equal(after[:, :4], before[:, :4])
    assert (after[:, 4] != before[:, 4]).any()


def _small_run(random_vignettes, seed, stops):
    config = TrainConfig(
        target=TargetConfig("and"), network=NetworkConfig((16,)), loop=LoopConfig(burn_in_steps=50, seed=seed)
    )
    generator = np.random.default_rng(3)
    weights = generator.normal(size=[30, 4])

    def triage(states):
        odds = np.exp(states.toarray() @ weights)
        return odds / odds.sum(axis=1, keepdims=True)

    loop = PartiallyObservedLoop(random_vignettes, 30, triage, config)
    for stop in stops:
        loop.run(stop)
    return loop.ask_values(np.arange(1, 31, dtype=np.int32)[:, np.newaxis])


@pytest.mark.slow
def test_a_seed_gives_one_result_wherever_the_calls_of_run_end(random_vignettes):
    whole = _small_run(random_vignettes, 0, [300])
    np.testing.assert_array_equal(_small_run(random_vignettes, 0, [1, 120, 300]), whole)
    assert (_small_run(random_vignettes, 1, [300]) != whole).any()


def test_a_loss_that_is_not_finite_ends_the_training_with_a_clear_error(one_vignette):
    loop = PartiallyObservedLoop(one_vignette, E, _always(0.1, 0.2, 0.6, 0.1), _config())
    loop.run(30)
    hidden = loop.network.get_layer("hidden_1")
    kernel, bias = hidden.get_weights()
    hidden.set_weights([np.full_like(kernel, np.nan), bias])
    with pytest.raises(TrainingDivergedError, match=r"step 30"):
        loop.run(60)
    assert loop.step == 30
    np.testing.assert_array_equal(hidden.get_weights()[1], bias)


def test_of_equal_values_triage_comes_before_asking_and_the_more_urgent_first():
    values = np.zeros([2, 2, 4], np.float32)
    values[0, 0, Action.GREEN] = 0.5
    values[0, 1] = 0.9
    values[1, 1, [Action.RED, Action.BLUE]] = 0.5
    orders = JudgedOrders(np.zeros([2, 2, 2], np.int32), np.ones([2, 2], bool), values)
    ends = greedy_outcomes([orders], lambda codes: np.full(len(codes), 0.5, np.float32), max_questions=23)
    assert ends.decisions.tolist() == [[Action.GREEN, Action.RED]]
    assert ends.questions.tolist() == [[0, 1]]


@pytest.mark.parametrize(("seed", "max_questions"), [(2, 5)])
def test_outcomes_are_those_of_the_rollout_of_the_same_agent(random_vignettes, seed, max_questions):
    network = build_network(30, NetworkConfig(hidden_sizes=(8,)), seed)
    kernel, bias = network.get_layer("q_values").get_weights()
    network.get_layer("q_values").set_weights([4 * kernel, bias + np.eye(5)[4] * 1.5])  # some ask for long, some not
    seeds = [5, 6, 7]
    played = Rollout(random_vignettes, 30, max_questions, greedy_policy(network)).run(seeds)

    def ask(codes):
        rows, columns = np.nonzero(codes)
        known = codes[rows, columns]
        states = scipy.sparse.csr_matrix((np.sign(known), (rows, abs(known) - 1)), [len(codes), 30])
        return network(states.toarray().astype(np.float32))["q"].numpy()[:, 4]

    def triage(states):
        return network(states.toarray())["q"].numpy()[:, :4]

    orders = evaluation_orders(random_vignettes, triage, 30, max_questions, seeds)
    outcomes = greedy_outcomes(orders, ask, max_questions)
    assert 0 < played.forced.mean() < 1
    for name in ("decisions", "questions", "evidence_seen", "forced"):
        np.testing.assert_array_equal(getattr(outcomes, name), getattr(played, name), err_msg=name)
