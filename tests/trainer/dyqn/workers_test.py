"""Several workers as their users have them: processes of their own, one of which is killed."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess

import numpy as np
import pytest
import tensorflow as tf

from schemas.errors import InputError
from tests.waiting import until
from trainer.config import TrainConfig
from trainer.dyqn.agent import build_agent
from trainer.dyqn.network import build_network
from trainer.dyqn.targets import Transition
from trainer.dyqn.workers import LOST_WORKER, TF_CONFIG, WorkerPlace, Workers, join, place_of
from trainer.training.job import load_network

ROOT = pathlib.Path(__file__).resolve().parents[3]
CONFIG = TrainConfig.from_dict({"network": {"hidden_sizes": [4]}, "memory": {"batch_size": 3}})
SMALL = ["--hidden-sizes", "16", "--batch-size", "8", "--memory-capacity", "300", "--burn-in-steps", "50",
         "--checkpoint-interval", "250", "--evaluation-interval", "500"]  # fmt: skip


def free_addresses(count):
    """Addresses of this machine whose ports are free now."""
    with contextlib.ExitStack() as opened:
        servers = [opened.enter_context(socket.create_server(("localhost", 0))) for _ in range(count)]
        return [f"localhost:{server.getsockname()[1]}" for server in servers]


def _tf_config(addresses, index):
    return json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}})


def _start(python, command, tf_config=None, **streams):
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment.pop(TF_CONFIG, None)
    if tf_config:
        environment[TF_CONFIG] = tf_config
    return python.start(*command, env=environment, text=True, **streams)


def _command(data, job, steps=1500):
    return ["-m", "trainer.task", "--data", str(data), "--job-dir", str(job), "--steps", str(steps), *SMALL]


def _train_together(python, data, job, steps=1500):
    addresses = free_addresses(2)
    started = [
        _start(python, _command(data, job, steps), _tf_config(addresses, index), stderr=subprocess.PIPE)
        for index in range(2)
    ]
    return [(process.communicate(timeout=500)[1], process.returncode) for process in started]


def _batch(numbers):
    """Transitions over two pieces of evidence; each worker of `_ONE_STEP` has its own three of these six."""
    generator = np.random.default_rng(0)
    states = generator.choice([-1.0, 0.0, 1.0], (2, 6, 2)).astype(np.float32)
    rewards, actions = generator.choice([0.0, 0.5, 1.0], (6, 4)).astype(np.float32), np.arange(6, dtype=np.int32) % 5
    columns = (states[0], actions, rewards, states[1], np.ones(6, bool))
    return Transition(*(tf.constant(column[numbers]) for column in columns))


def learn(numbers, workers):
    network = build_network(2, CONFIG.network, seed=3)
    agent = build_agent(network, CONFIG, workers=workers)
    info = tf.function(agent.train, autograph=False)(_batch(numbers))
    return [weight.tolist() for weight in network.get_weights()], float(info.loss)


# What each of two processes does with the functions above; the second one ends before the last exchange.
_TOGETHER = """
import json, os, sys
import trainer
sys.path.insert(0, sys.argv[1])
import workers_test as ours
from trainer.dyqn.workers import LostWorkerError
workers = ours.join()
import tensorflow as tf
mine = float(workers.index)
@tf.function(autograph=False)
def looped():  # 5 means inside a loop in the graph, each of the one before
    def body(step, first, second):
        return step + 1, *workers.mean([first + mine, second * (1 + mine)])
    return tf.while_loop(lambda step, *_: step < 5, body, (0, tf.zeros([2, 3]), tf.ones([])))[1:]
means = [value.numpy().tolist() for value in looped()]
weights, loss = ours.learn(slice(0, 3) if workers.chief else slice(3, 6), workers)
values = workers.exchange(10 + workers.index)
print(json.dumps(dict(chief=workers.chief, values=values, means=means, weights=weights, loss=loss)), flush=True)
if not workers.chief:
    sys.stdin.read()
    os._exit(1)
try:
    workers.exchange(0)
except LostWorkerError:
    print("lost", flush=True)
"""
# The second of two processes leaves when the test says so.
_LEAVING = """
import sys
import trainer
from trainer.dyqn.workers import join
workers = join()
print(workers.exchange(10 + workers.index), flush=True)
if not workers.chief:
    sys.stdin.read()
workers.leave()
"""


@pytest.mark.slow
def test_a_worker_that_has_its_last_sum_ends_only_when_the_others_have_theirs(python):
    addresses, pipes = free_addresses(2), {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    chief, other = (_start(python, ["-c", _LEAVING], _tf_config(addresses, index), **pipes) for index in range(2))
    assert chief.stdout.readline() == other.stdout.readline() == "[10, 11]\n"
    with pytest.raises(subprocess.TimeoutExpired):
        chief.wait(timeout=2)
    other.communicate(timeout=200)
    assert (chief.wait(timeout=200), other.returncode) == (0, 0)


@pytest.mark.slow
def test_workers_exchange_take_means_learn_from_both_batches_and_notice_a_loss(python):
    addresses = free_addresses(2)
    command = ["-c", _TOGETHER, str(pathlib.Path(__file__).parent)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    started = [_start(python, command, _tf_config(addresses, index), **pipes) for index in range(2)]
    first, second = (json.loads(process.stdout.readline()) for process in started)
    assert (first.pop("chief"), second.pop("chief")) == (True, False)
    assert first == second  # to the last bit: JSON keeps every digit
    assert first["values"] == [10, 11]
    # Each mean adds (0 + 1) / 2 to the first, and multiplies the second by (1 + 2) / 2.
    assert first["means"] == [[[2.5] * 3] * 2, 1.5**5]
    # Two batches of three have the mean gradient, and the mean loss, of one batch of six.
    weights, loss = learn(slice(0, 6), Workers())
    assert first["loss"] == pytest.approx(loss, rel=1e-6)
    for mine, both in zip(first["weights"], weights, strict=True):
        np.testing.assert_allclose(mine, both, atol=1e-6)
    started[1].communicate(timeout=200)
    assert started[0].communicate(timeout=200)[0] == "lost\n"


@pytest.mark.parametrize(
    ("cluster", "task", "place"),
    [
        ({"worker": ["a:1", "b:1"]}, ("worker", 1), WorkerPlace(1, 2)),
        ({"chief": ["a:1"], "worker": ["b:1", "c:1"]}, ("chief", 0), WorkerPlace(0, 3)),
        ({"chief": ["a:1"], "worker": ["b:1", "c:1"]}, ("worker", 1), WorkerPlace(2, 3)),
        ({"chief": ["a:1"]}, ("chief", 0), WorkerPlace(0, 1)),
        ({"worker": ["a:1"], "ps": []}, ("worker", 0), WorkerPlace(0, 1)),
        ({}, ("worker", 0), WorkerPlace(0, 1)),
    ],
)
def test_the_chief_comes_first_and_workers_follow(cluster, task, place):
    given = {"cluster": cluster, "task": {"type": task[0], "index": task[1]}, "environment": "cloud"}
    assert place_of(json.dumps(given)) == place


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "TF_CONFIG"),
        ("[]", "TF_CONFIG"),
        ('{"cluster": {"worker": ["a:1", "b:1"]}}', "'task'"),
        (_tf_config(["a:1", "b:1"], 2), "worker 2"),
        (
            '{"cluster": {"worker": ["a:1"], "ps": ["b:1"]}, "task": {"type": "worker", "index": 0}}',
            "the role ps",
        ),
        (
            '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "evaluator", "index": 0}}',
            "the role evaluator",
        ),
        (
            '{"cluster": {"chief": ["a:1", "b:1"]}, "task": {"type": "chief", "index": 0}}',
            "2 chiefs",
        ),
    ],
)
def test_what_is_not_a_tf_config_of_ours_is_an_input_error_with_an_example(text, message):
    with pytest.raises(InputError, match=message):
        place_of(text)


def test_a_cluster_of_one_is_the_process_alone():
    alone = join({TF_CONFIG: _tf_config(["localhost:1"], 0)})
    assert (alone.index, alone.count, alone.chief, alone.exchange(7)) == (0, 1, True, [7])
    [value] = alone.mean([tf.constant([1.0, 3.0])])
    assert value.numpy().tolist() == [1.0, 3.0]


@pytest.fixture(scope="module")
def together(python, data_directory, tmp_path_factory):
    """The job directory of an undisturbed run of two workers, 1,500 steps."""
    job = tmp_path_factory.mktemp("jobs") / "together"
    for said, code in _train_together(python, data_directory, job):
        assert code == 0, said
    return job


@pytest.mark.slow
def test_two_workers_leave_one_run_that_differs_from_that_of_one(together, data_directory, tmp_path):
    run = json.loads((together / "run.json").read_text())
    assert run["workers"] == 2
    assert load_network(together).training["steps"] == 1500
    evaluated = [json.loads(line)["step"] for line in (together / "evaluations.jsonl").read_text().splitlines()]
    assert evaluated == [500, 1000, 1500]  # by the chief only
    assert len(list((together / "logs").glob("events.out.tfevents*"))) == 1
    # The other worker has collected episodes of its own, from other draws.
    parts = [tf.train.load_checkpoint(str(together / "checkpoints" / part)) for part in (".", "worker-1")]
    memories = [part.get_tensor("memory/s_tm1/.ATTRIBUTES/VARIABLE_VALUE") for part in parts]
    assert not np.array_equal(*memories)


class _JobController:
    """Starts workers, and starts each one again that ends with a code of 128 or more, as Kubeflow's does."""

    def __init__(self, python, commands):
        self._python, self._commands = python, commands
        self.running = [_start(python, *command) for command in commands]
        self.codes = [[] for _ in commands]

    def all_are_done(self):
        for place, process in enumerate(self.running):
            code = None if process is None else process.poll()
            if code is None:
                continue
            self.codes[place].append(code)
            again = code < 0 or code >= 128
            assert again or code == 0, self.codes
            self.running[place] = _start(self._python, *self._commands[place]) if again else None
        return not any(self.running)

    def stop(self):
        for process in filter(None, self.running):
            process.kill()
            process.wait()


@pytest.mark.slow
@pytest.mark.timeout(1800)  # with the undisturbed run that it is compared with
@pytest.mark.parametrize(("lost", "number"), [(1, signal.SIGKILL), (0, signal.SIGKILL), (1, signal.SIGTERM)])
def test_workers_started_again_end_with_the_weights_of_a_run_without_a_loss(
    python, together, data_directory, tmp_path, lost, number
):
    job, addresses = tmp_path / "job", free_addresses(2)
    commands = [(_command(data_directory, job), _tf_config(addresses, index)) for index in range(2)]
    controller = _JobController(python, commands)
    try:
        until((job / "checkpoints" / "checkpoint").exists, seconds=300)
        controller.running[lost].send_signal(number)
        until(controller.all_are_done, seconds=500)
    finally:
        controller.stop()
    assert controller.codes[lost][0] == (-number if number == signal.SIGKILL else 143)
    assert LOST_WORKER in controller.codes[1 - lost]
    assert [codes[-1] for codes in controller.codes] == [0, 0]
    for worker in ((), ("worker-1",)):
        parts = [tf.train.load_checkpoint(str(pathlib.Path(each, "checkpoints", *worker))) for each in (job, together)]
        for name in parts[0].get_variable_to_shape_map():
            if "save_counter" not in name and "OBJECT_GRAPH" not in name:
                mine, whole = (part.get_tensor(name) for part in parts)
                np.testing.assert_array_equal(mine, whole, err_msg=f"{worker} {name}")
