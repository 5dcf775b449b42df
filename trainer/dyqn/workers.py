"""Several processes that train one agent together, as the environment variable `TF_CONFIG` describes them.

`tf.distribute.MultiWorkerMirroredStrategy` starts the servers of the processes and notices when one fails. The
processes exchange one sum in each step. The strategy's replica context cannot sum inside a loop of a graph, such as the
training cycle, so the collective operation is called directly.
"""

import contextlib
import dataclasses
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from schemas.errors import InputError

TF_CONFIG = "TF_CONFIG"
LOST_WORKER = 138
"""Exit code of a worker after another one has failed. Kubeflow's training operator restarts a process with it."""

_COLLECTIVE_ROLES = ("chief", "worker")
_GROUP = 1_000  # the strategy's own groups are numbered from 1


class LostWorkerError(RuntimeError):
    """Another worker has ended or cannot be reached, so no step can be taken."""


@dataclasses.dataclass(frozen=True)
class WorkerPlace:
    """The place of a process among those that train together."""

    index: int = 0  # 0 is the chief
    count: int = 1


_ALONE = WorkerPlace()


class Workers:
    """The processes that train one agent; by default only this one.

    `strategy` connects them, and watches them as long as it is referenced.
    """

    def __init__(self, place: WorkerPlace = _ALONE, strategy: tf.distribute.Strategy | None = None):
        self.index, self.count = place.index, place.count
        self._strategy = strategy
        self._sums = 0
        self._exchange = tf.function(self._sum, autograph=False)

    @property
    def chief(self) -> bool:
        """Whether this is the process that evaluates, and writes the files that later commands read."""
        return self.index == 0

    def mean(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Returns the mean of each tensor over the workers, float32 of a static shape, in the graph of a step.

        The workers build the same graphs in the same order, and compute every mean together. The result is bit for bit
        the same on each of them.
        """
        if self.count == 1:
            return list(tensors)
        # A single message, as many small ones would wait for each other.
        flat = tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], axis=0)
        parts = tf.split(self._sum(flat) / self.count, [tensor.shape.num_elements() for tensor in tensors])
        return [tf.reshape(part, tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]

    def exchange(self, value: int) -> list[int]:
        """Returns the `value` of each worker, the chief's first; waits for all of them.

        Raises:
            LostWorkerError: another worker has failed.
        """
        if self.count == 1:
            return [value]
        with self.watched():
            mine = [value if place == self.index else 0 for place in range(self.count)]
            return self._exchange(tf.constant(mine, tf.int64)).numpy().tolist()

    def leave(self) -> None:
        """Waits until every other worker has all sums, or has failed; no sum can be taken after it.

        A worker hands its part of a sum to the others when they ask for it, which may be after it has the whole sum
        itself: one that ended then would take their sum with it. But nobody gets a further sum before all have begun
        it, which shows that they have those before. Whoever gets it first may end, so for the others it may fail.
        """
        if self.count > 1:
            with contextlib.suppress(tf.errors.OpError):
                self._exchange(tf.zeros([self.count], tf.int64))

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Turns the errors that TensorFlow raises after the loss of a worker into a LostWorkerError."""
        try:
            yield
        except tf.errors.OpError as error:
            causes = [line for line in error.message.splitlines() if "ollective" in line]
            if self.count == 1 or not causes:
                raise
            raise LostWorkerError(causes[0]) from error

    def _sum(self, tensor: tf.Tensor) -> tf.Tensor:
        self._sums += 1  # when the graph is built: the same number on every worker
        return tf.raw_ops.CollectiveReduceV2(
            input=tensor,
            group_size=self.count,
            group_key=_GROUP,
            instance_key=_GROUP + self._sums,
            ordering_token=[],
            merge_op="Add",
            final_op="Id",
            communication_hint="auto",
        )


ALONE = Workers()


def join(environment: Mapping[str, str] = os.environ) -> Workers:
    """Returns the workers that `TF_CONFIG` describes, once all have joined; without it, or with one task, this process.

    Must be called before any TensorFlow operation.

    Raises:
        InputError: `TF_CONFIG` is not in TensorFlow's documented form, or has roles that this training does not use.
    """
    place = place_of(environment.get(TF_CONFIG, ""))
    if place.count == 1:
        return ALONE
    return Workers(place, tf.distribute.MultiWorkerMirroredStrategy())


def place_of(text: str) -> WorkerPlace:
    """Returns the place of this process in a `TF_CONFIG`; "" or a cluster of one is a single process.

    Raises:
        InputError: see `join`.
    """
    if not text.strip():
        return _ALONE
    try:
        given = json.loads(text)
        cluster = {role: list(addresses) for role, addresses in given.get("cluster", {}).items() if addresses}
        counts = {role: len(cluster.get(role, [])) for role in _COLLECTIVE_ROLES}
        if not cluster:
            return _ALONE
        role, number = given["task"]["type"], int(given["task"]["index"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _malformed(f"{type(error).__name__}: {error}") from error
    _check(cluster, counts, role, number)
    before = 0 if role == "chief" else counts["chief"]
    return WorkerPlace(before + number, sum(counts.values()))


def _check(cluster: Mapping[str, Any], counts: Mapping[str, int], role: str, number: int) -> None:
    useless = sorted(set(cluster) - set(_COLLECTIVE_ROLES))
    if useless or role not in _COLLECTIVE_ROLES:
        named = ", ".join(useless or [str(role)])
        raise _malformed(f"the role {named}: this training has only a chief and workers")
    if not 0 <= number < counts[role]:
        raise _malformed(f"the task is {role} {number}, but the cluster has {counts[role]} of them")
    if counts["chief"] > 1:
        raise _malformed(f"{counts['chief']} chiefs: expected at most one")


def _malformed(problem: str) -> InputError:
    return InputError(
        f'{TF_CONFIG}: {problem}; expected such as {{"cluster": {{"worker": ["host0:2222", "host1:2222"]}}, '
        '"task": {"type": "worker", "index": 0}}'
    )
