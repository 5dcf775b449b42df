"""Seconds until an agent reaches a goal: ours, TF-Agents' own DQN, Stable-Baselines3's DQN and a random forest.

    python benchmarks/learn.py --seed 1000 --sb3-python /path/to/python

Each contestant runs alone, in a process of its own, on the same simulated vignettes, and is judged on the same fresh
ones. Its imports count as training time, so each imports only what it needs; evaluations do not count. The other two
libraries have networks, batches and an optimiser like ours, as far as they support that. `make results` makes a table
of the record.
"""

import argparse
import importlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "proto")]

from schemas.triage import NUM_ACTIONS, NUM_DECISIONS, Action

GOAL = {"appropriateness": 0.82, "safety": 0.90}  # that an agent must reach, both in the same evaluation
OURS, TF_AGENTS, SB3, FOREST = "ours", "TF-Agents", "Stable-Baselines3", "random forest"
TRAIN_VIGNETTES, TEST_VIGNETTES = 1248, 3000
ORDERS = (1, 2, 3)  # seeds of the evidence orders in which the test vignettes are played

HIDDEN_SIZES = (256, 256)
BATCH_SIZE = 128
LEARNING_RATE = 0.001
MEMORY_CAPACITY = 50_000
BURN_IN_STEPS = 1000
MAX_QUESTIONS = 23
TARGET_UPDATE_STEPS = 1000
STEPS_AT_ONCE = 200  # before the clock is read again

_FIRST_EVALUATION, _EVALUATIONS_APART = 5.0, 1.2  # seconds, factor


class SparseVignettes(NamedTuple):
    """V vignettes in compressed sparse rows, which another Python environment reads from a file."""

    offsets: np.ndarray  # int64 [V + 1]
    signed_codes: np.ndarray  # int32, code + 1, negative where it is absent
    decision_counts: np.ndarray  # uint8 [V, 4]
    evidence_count: np.ndarray  # int64 [], E


Decide = Callable[[], np.ndarray]
"""Returns the decisions int `[K, V]` on the test vignettes, in K evidence orders."""
Learner = Iterator[Decide]
"""Trains until an evaluation is due, and offers its decisions; it ends where it has learned all that it can."""
QValues = Callable[[np.ndarray], np.ndarray]
"""From states float32 `[B, E]` to Q-values `[B, A]`."""


def main() -> None:
    if sys.argv[1:2] == ["contestant"]:
        name, folder, seconds, began, seed = sys.argv[2:]
        answer(name, pathlib.Path(folder), float(seconds), float(began), int(seed))
        return
    from benchmarks import records

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300.0, help="training time of each contestant (default 300)")
    parser.add_argument("--seed", type=int, default=0, help="of the vignettes and of training (default 0)")
    parser.add_argument("--sb3-python", metavar="FILE", help=f"Python with {SB3}, which is left out by default")
    records.add_argument(parser)
    arguments = parser.parse_args()
    pythons = dict.fromkeys((OURS, TF_AGENTS, FOREST), sys.executable)
    if arguments.sb3_python:
        pythons[SB3] = shutil.which(arguments.sb3_python) or parser.error(f"--sb3-python {arguments.sb3_python}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        counts = prepare(folder, TRAIN_VIGNETTES, TEST_VIGNETTES, arguments.seed)
        given = (folder, arguments.seconds, arguments.seed, counts)
        curves = {name: curve(name, python, *given) for name, python in pythons.items()}
    reached = {name: seconds_to_goal(points) for name, points in curves.items()}
    print(*(f"{name}: the goal after {reached[name]} s, at last {curves[name][-1]}" for name in curves), sep="\n")
    left_out = [name for name in CONTESTANTS if name not in curves]
    sizes = {"learned_from": TRAIN_VIGNETTES, "judged": TEST_VIGNETTES}
    figures = {"vignettes": sizes, "goal": GOAL, "curves": curves, "seconds_to_goal": reached, "left_out": left_out}
    records.write(arguments.results, f"learn-{arguments.seed}", figures, arguments.seed)


def prepare(folder: pathlib.Path, train: int, test: int, seed: int) -> np.ndarray:
    """Simulates the vignettes of both splits, and returns the test decisions `[V, 4]`."""
    import triage_cli
    from trainer.data.tfrecord import DataDirectory

    sizes = ["--vignettes", str(train + test), "--test-fraction", f"{test}/{train + test}", "--seed", str(seed)]
    if triage_cli.main(["simulate", "--out", str(folder / "data"), "--overwrite", *sizes]):
        raise SystemExit("the vignettes could not be made")
    data = DataDirectory.open(folder / "data")
    for name in ("train", "test"):
        rows = data.read(name, names=False)
        counts, width = rows.decision_counts, len(data.vocabulary)
        np.savez(folder / f"{name}.npz", *SparseVignettes(rows.offsets, rows.signed_codes, counts, np.array(width)))
    return counts


def read(folder: pathlib.Path, split: str) -> SparseVignettes:
    """Returns the vignettes of a split that `prepare` simulated."""
    with np.load(folder / f"{split}.npz") as arrays:
        return SparseVignettes(*arrays.values())


def curve(
    name: str, python: str, folder: pathlib.Path, seconds: float, seed: int, decision_counts: np.ndarray
) -> list[dict[str, Any]]:
    """Returns the evaluations of a contestant: `seconds` of training, and the metrics.

    Raises:
        SystemExit: it ended without them; its own message stands on standard error.
    """
    from trainer.evaluation import metrics

    command = [python, __file__, "contestant", name, str(folder), str(seconds), str(time.time()), str(seed)]
    environment = {"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"{name} ended with code {done.returncode}")
    points = []
    for evaluated in map(json.loads, done.stdout.splitlines()):
        quality = metrics.triage_quality(np.array(evaluated["decisions"]), decision_counts)
        means = {metric: float(values.mean()) for metric, values in quality.items()}
        points.append({"seconds": evaluated["seconds"], **means})
    return points


def seconds_to_goal(points: Sequence[Mapping[str, Any]]) -> float | None:
    """Returns the seconds of the first evaluation in which both metrics reach the goal; None if none does."""
    reached = (point["seconds"] for point in points if all(point[name] >= least for name, least in GOAL.items()))
    return next(reached, None)


def answer(name: str, folder: pathlib.Path, seconds: float, began: float, seed: int) -> None:
    """Trains a contestant, and prints a line of JSON for each evaluation; other output goes to standard error.

    `seconds` of training count from `began`, by `time.time`, without the evaluations.
    """
    evaluating, due_at = 0.0, min(_FIRST_EVALUATION, seconds)

    def elapsed() -> float:
        return time.time() - began - evaluating

    with os.fdopen(os.dup(1), "w") as results:
        os.dup2(2, 1)
        for decide in CONTESTANTS[name](folder, seed, lambda: elapsed() >= due_at):  # noqa: B023 (as it changes)
            trained_for = elapsed()
            results.write(json.dumps({"seconds": trained_for, "decisions": decide().tolist()}) + "\n")
            results.flush()
            evaluating += elapsed() - trained_for
            if due_at >= seconds:
                break
            due_at = min(due_at * _EVALUATIONS_APART, seconds)  # often at first, then rarely, and at the end


def ours(folder: pathlib.Path, seed: int, due: Callable[[], bool]) -> Learner:
    """Trains as `triage train` does, in a job directory from which each evaluation takes the agent."""
    from trainer import presets
    from trainer.config import TrainConfig
    from trainer.data.tfrecord import DataDirectory
    from trainer.evaluation.measurement import agent_outcomes
    from trainer.training.job import load_network
    from trainer.training.session import open_run

    config = presets.preset("default").to_dict()
    config["loop"] |= {"seed": seed, "evaluation_interval": 0}
    data, job = DataDirectory.open(folder / "data"), folder / "job"
    session = open_run(job, data, TrainConfig.from_dict(config))
    test = data.read("test", names=False)

    def decide() -> np.ndarray:
        trained = load_network(job)
        return agent_outcomes(trained.model, test, list(ORDERS), trained.max_questions).decisions

    finished = False
    while not finished:
        finished = session.train(due)["finished"]
        yield decide


def forest(folder: pathlib.Path, seed: int, due: Callable[[], bool]) -> Learner:
    """A random forest of 300 trees, which sees all evidence and expects the share of clinicians for each decision."""
    import scipy.sparse

    def states(vignettes: SparseVignettes) -> scipy.sparse.csr_matrix:
        codes, shape = vignettes.signed_codes, (len(vignettes.decision_counts), int(vignettes.evidence_count))
        return scipy.sparse.csr_matrix((np.sign(codes), np.abs(codes) - 1, vignettes.offsets), shape, np.float32)

    train = read(folder, "train")
    trees = fitted_forest(states(train), train.decision_counts, seed)
    yield lambda: trees.predict(states(read(folder, "test")))[np.newaxis]


def fitted_forest(states: Any, decision_counts: np.ndarray, seed: int) -> Any:
    """Returns a forest of 300 trees of states `[V, E]` and their decisions `[V, 4]`, each weighted by its number."""
    from sklearn.ensemble import RandomForestClassifier

    rows, decisions = np.nonzero(decision_counts)
    trees = RandomForestClassifier(300, min_samples_leaf=2, n_jobs=-1, random_state=seed)
    return trees.fit(states[rows], decisions, sample_weight=decision_counts[rows, decisions])


def stepping(
    folder: pathlib.Path, q_values: QValues, take_steps: Callable[[int], Any], due: Callable[[], bool]
) -> Learner:
    """A learner with Q-values that takes a number of training steps at once, without end."""
    test = read(folder, "test")
    while True:
        while not due():
            take_steps(STEPS_AT_ONCE)
        yield lambda: greedy_decisions(q_values, test, ORDERS)


def greedy_decisions(q_values: QValues, vignettes: SparseVignettes, orders: Sequence[int]) -> np.ndarray:
    """Returns the triage decisions of the greedy agent, int64 `[K, V]`, in evidence orders of K seeds.

    It sees one piece of evidence, and one more for each question; it must triage when none is left, and after
    `MAX_QUESTIONS`. Ties go to the triage decision, and to the more urgent one.
    """
    lengths = np.diff(vignettes.offsets)
    rows: np.ndarray = np.repeat(np.arange(len(lengths)), lengths)
    made: np.ndarray = np.empty([len(orders), len(lengths)], np.int64)
    for place, seed in enumerate(orders):
        keys = np.random.default_rng(seed).random(len(rows))
        codes = vignettes.signed_codes[np.lexsort((keys, rows))]  # in a random order within each vignette
        states: np.ndarray = np.zeros([len(lengths), int(vignettes.evidence_count)], np.float32)
        open_rows = np.arange(len(lengths))
        for known in range(1, int(lengths.max()) + 1):
            revealed = codes[vignettes.offsets[open_rows] + known - 1]
            states[open_rows, np.abs(revealed) - 1] = np.sign(revealed)
            values = q_values(states[open_rows])
            ends = (values.argmax(axis=1) != Action.ASK) | (lengths[open_rows] == known) | (known > MAX_QUESTIONS)
            made[place, open_rows[ends]] = values[ends, :NUM_DECISIONS].argmax(axis=1)
            open_rows = open_rows[~ends]
            if not len(open_rows):
                break
    return made


def tf_agents(folder: pathlib.Path, seed: int, due: Callable[[], bool]) -> Learner:
    """TF-Agents' stock DQN loop in our environment, all of it in one compiled function, one optimisation a step.

    The settings favour its speed: the optimiser is TensorFlow's own, and the dataset of the replay buffer prefetches.
    """
    importlib.import_module("trainer")  # before TensorFlow, as its legacy-Keras switch demands
    import tensorflow as tf
    from tf_agents.agents.dqn import dqn_agent
    from tf_agents.drivers import dynamic_step_driver
    from tf_agents.networks import q_network
    from tf_agents.replay_buffers import tf_uniform_replay_buffer
    from tf_agents.utils import common

    tf.random.set_seed(seed)
    environment = scalar_reward_environment(read(folder, "train"), seed)
    actions = environment.action_spec()
    network = q_network.QNetwork(environment.observation_spec()[0], actions, fc_layer_params=HIDDEN_SIZES)
    agent = dqn_agent.DqnAgent(
        environment.time_step_spec(),
        actions,
        q_network=network,
        optimizer=tf.compat.v1.train.AdamOptimizer(LEARNING_RATE),
        observation_and_action_constraint_splitter=lambda observation: observation,
        target_update_period=TARGET_UPDATE_STEPS,
        td_errors_loss_fn=common.element_wise_squared_loss,
    )
    agent.initialize()
    memory = tf_uniform_replay_buffer.TFUniformReplayBuffer(agent.collect_data_spec, 1, MEMORY_CAPACITY)

    def driver(steps: int) -> Any:
        return dynamic_step_driver.DynamicStepDriver(
            environment, agent.collect_policy, observers=[memory.add_batch], num_steps=steps
        )

    common.function(driver(BURN_IN_STEPS).run)()
    dataset = memory.as_dataset(sample_batch_size=BATCH_SIZE, num_steps=2, num_parallel_calls=2)
    batches, one_step = iter(dataset.prefetch(3)), driver(1)

    @tf.function
    def take_steps(steps: tf.Tensor) -> None:
        for _ in tf.range(steps):
            one_step.run()
            experience, _ = next(batches)
            agent.train(experience)

    values = tf.function(lambda states: network(states)[0], autograph=False, reduce_retracing=True)
    q_values: QValues = lambda states: values(tf.constant(states)).numpy()  # noqa: E731
    return stepping(folder, q_values, lambda steps: take_steps(tf.constant(steps)), due)


def scalar_reward_environment(vignettes: SparseVignettes, seed: int) -> Any:
    """Returns the environment of `trainer.dyqn` with one number as reward, as stock DQN expects.

    The reward is that of the triage decision taken, 0 for asking. The observation is the state float32 `[B, E]` and a
    mask int32 `[B, A]` of the actions that are allowed. The LAST state is the one in which triage happened.
    """
    import tensorflow as tf
    from tf_agents.environments import tf_environment
    from tf_agents.specs import tensor_spec
    from tf_agents.trajectories import time_step as ts

    from trainer.dyqn.environment import Mode, VignetteEnvironment

    class ScalarRewardEnvironment(tf_environment.TFEnvironment):
        def __init__(self, inner: VignetteEnvironment):
            self._inner = inner
            self._taken = tf.Variable(tf.zeros([inner.batch_size], tf.int32), name="taken")
            mask = tensor_spec.BoundedTensorSpec([NUM_ACTIONS], tf.int32, 0, 1, name="mask")
            spec = ts.time_step_spec((inner.time_step_spec().observation.state, mask))
            super().__init__(spec, inner.action_spec(), inner.batch_size)

        def _convert(self, inner: ts.TimeStep) -> ts.TimeStep:
            triage = tf.minimum(self._taken, NUM_DECISIONS - 1)
            reward = tf.where(self._taken == Action.ASK, 0.0, tf.gather(inner.reward, triage, batch_dims=1))
            may_ask = tf.cast(~inner.observation.forced, tf.int32)[:, tf.newaxis]
            mask = tf.concat([tf.ones([self.batch_size, NUM_DECISIONS], tf.int32), may_ask], axis=1)
            reward = tf.where(inner.is_last(), reward, 0.0)
            return ts.TimeStep(inner.step_type, reward, inner.discount, (inner.observation.state, mask))

        def _current_time_step(self) -> ts.TimeStep:
            return self._convert(self._inner.current_time_step())

        def _reset(self) -> ts.TimeStep:
            return self._convert(self._inner.reset())

        def _step(self, action: tf.Tensor) -> ts.TimeStep:
            self._taken.assign(action)
            return self._convert(self._inner.step(action))

    mode = Mode(training=True, max_questions=MAX_QUESTIONS, counterfactual=False)
    generator = tf.random.Generator.from_seed(seed, alg="philox")
    return ScalarRewardEnvironment(VignetteEnvironment(vignettes, int(vignettes.evidence_count), mode, generator))


class Episodes:
    """The same episodes in NumPy, for a Python without TensorFlow; asking in vain ends one with reward 0."""

    def __init__(self, vignettes: SparseVignettes, seed: int):
        self._vignettes = vignettes
        self._state: np.ndarray = np.zeros(int(vignettes.evidence_count), np.float32)
        self._generator = np.random.default_rng(seed)

    def begin(self) -> np.ndarray:
        """Draws a vignette and returns the state float32 `[E]` with its first piece of evidence."""
        chosen = self._generator.integers(len(self._vignettes.decision_counts))
        counts = self._vignettes.decision_counts[chosen]
        first, last = self._vignettes.offsets[chosen : chosen + 2]
        self._order = self._generator.permutation(self._vignettes.signed_codes[first:last])
        self._rewards = (counts / counts.max()).astype(np.float32)
        self._state[:] = 0.0
        self._known = 0
        self._reveal()
        return self._state.copy()

    def act(self, action: int) -> tuple[np.ndarray, float, bool]:
        """Returns (state, reward, whether the episode has ended)."""
        ended = action != Action.ASK or self._known >= min(len(self._order), MAX_QUESTIONS + 1)
        if not ended:
            self._reveal()
        return self._state.copy(), 0.0 if action == Action.ASK else float(self._rewards[action]), ended

    def _reveal(self) -> None:
        code = self._order[self._known]
        self._state[abs(code) - 1] = np.sign(code)
        self._known += 1


def stable_baselines3(folder: pathlib.Path, seed: int, due: Callable[[], bool]) -> Learner:
    """The stock `DQN` of Stable-Baselines3 with `MlpPolicy`, one optimisation a step."""
    gymnasium, torch = importlib.import_module("gymnasium"), importlib.import_module("torch")
    vignettes = read(folder, "train")

    class VignetteEnvironment(gymnasium.Env):  # type: ignore[name-defined]
        observation_space = gymnasium.spaces.Box(-1.0, 1.0, (int(vignettes.evidence_count),), np.float32)
        action_space = gymnasium.spaces.Discrete(NUM_ACTIONS)
        episodes = Episodes(vignettes, seed)

        def reset(self, **_: Any) -> tuple[np.ndarray, dict[str, Any]]:
            return self.episodes.begin(), {}

        def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
            return *self.episodes.act(int(action)), False, {}

    model = importlib.import_module("stable_baselines3").DQN(
        "MlpPolicy",
        VignetteEnvironment(),
        learning_rate=LEARNING_RATE,
        buffer_size=MEMORY_CAPACITY,
        learning_starts=BURN_IN_STEPS,
        batch_size=BATCH_SIZE,
        train_freq=1,
        target_update_interval=TARGET_UPDATE_STEPS,
        policy_kwargs={"net_arch": list(HIDDEN_SIZES)},
        seed=seed,
        device="cpu",
    )
    model.learn(BURN_IN_STEPS + 1)

    def q_values(states: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return model.q_net(torch.from_numpy(states)).numpy()

    return stepping(folder, q_values, lambda steps: model.learn(steps, reset_num_timesteps=False), due)


CONTESTANTS: dict[str, Callable[[pathlib.Path, int, Callable[[], bool]], Learner]] = {
    OURS: ours,
    TF_AGENTS: tf_agents,
    FOREST: forest,
    SB3: stable_baselines3,
}


if __name__ == "__main__":
    main()
