"""The contestants of `triage bench learn` in this Python: `python -m trainer.bench.learners NAME SETTINGS`, JSON.

Imports count as training time, so each contestant imports only what it needs.
"""

import json
import pathlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from trainer.bench import worker

Answers = Callable[[Mapping[str, Any]], dict[str, Any]]


def ours(settings: Mapping[str, Any]) -> Answers:
    """Trains as `triage train` does, in a job directory beside the data, from which each evaluation takes the agent.

    Args:
        settings: `data`, a data directory in a folder of its own; `config`, as `TrainConfig` has it.
    """
    from trainer.bench.greedy import ORDERS
    from trainer.config import TrainConfig
    from trainer.evaluation.measurement import play
    from trainer.training.job import load_network
    from trainer.training.session import open_run
    from trainer.vignettes.tfrecord import DataDirectory

    data = DataDirectory.open(pathlib.Path(settings["data"]))
    job = data.path.parent / "job"
    session = open_run(job, data, TrainConfig.from_dict(settings["config"]))
    tests = data.read("test", names=False)

    def train(stopping: Callable[[], bool]) -> worker.Trained:
        trained = session.train(stopping)
        return worker.Trained(trained["finished"], trained["steps"])

    def decide() -> list[list[int]]:
        trained = load_network(job)
        return play(
            trained.model, tests, list(ORDERS), trained.max_questions, point=trained.operating_point
        ).decisions.tolist()

    return worker.learning(train, decide)


def tf_agents(settings: Mapping[str, Any]) -> Answers:
    """Trains TF-Agents' own DQN loop.

    Args:
        settings: `settings`, as `Settings.to_json` writes them; `tests`, a file of the test vignettes.
    """
    import numpy as np
    import tensorflow as tf

    from trainer.bench import greedy, tf_agents_loop
    from trainer.bench.settings import Settings

    def build(given: Settings) -> tuple[greedy.QValues, Callable[[int], Any]]:
        network, take_steps = tf_agents_loop.learner_of(given)
        signature = [tf.TensorSpec([None, given.evidence_count], tf.float32)]
        values = tf.function(lambda states: network(states)[0], input_signature=signature, autograph=False)
        return lambda states: np.asarray(values(tf.constant(states))), take_steps

    return greedy.learner(Settings.from_json(settings["settings"]), pathlib.Path(settings["tests"]), build)


def forest(settings: Mapping[str, Any]) -> Answers:
    """Trains the random forest, which sees all evidence and is evaluated once.

    Args:
        settings: `train` and `tests`, files of vignettes; `evidence_count`; `seed`.
    """
    import numpy as np
    import scipy.sparse

    from trainer.bench.classifiers import classifier
    from trainer.bench.settings import BenchVignettes, load_vignettes

    def states(vignettes: BenchVignettes) -> scipy.sparse.csr_matrix:
        codes = vignettes.signed_codes
        parts = np.sign(codes).astype(np.float32), np.abs(codes) - 1, vignettes.offsets
        return scipy.sparse.csr_matrix(parts, shape=[len(vignettes.decision_counts), settings["evidence_count"]])

    train_vignettes, tests = (load_vignettes(pathlib.Path(settings[name])) for name in ("train", "tests"))
    trained: list[Callable[[Any], np.ndarray]] = []

    def train(_: Callable[[], bool]) -> worker.Trained:
        counts = train_vignettes.decision_counts
        trained.append(classifier("forest", states(train_vignettes), counts, settings["seed"]))
        return worker.Trained(finished=True)

    return worker.learning(train, lambda: [trained[-1](states(tests)).argmax(axis=1).tolist()])


CONTESTANTS: dict[str, Callable[[Mapping[str, Any]], Answers]] = {
    "ours": ours, "tf_agents": tf_agents, "forest": forest,
}  # fmt: skip


def main() -> None:
    """Answers until standard input ends."""
    worker.answer(CONTESTANTS[sys.argv[1]](json.loads(sys.argv[2])))


if __name__ == "__main__":
    main()
