"""Several processes that train one agent together, as the environment variable `TF_CONFIG` describes them.

`tf.distribute.MultiWorkerMirroredStrategy` starts the servers of the processes and notices when one is lost. What goes
between them is one sum a step: its replica context refuses to sum inside a loop in a graph, which the training cycle
is, so that the collective operation below it is called here.
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
"""Exit code of a worker that has lost another one. Kubeflow's training operator keeps it for errors of the user's code
after which a process is to be started again."""

_COLLECTIVE_ROLES = ("chief", "worker")
_GROUP = 1_000  # apart from the strategy's own groups, which count up from 1


class LostWorkerError(RuntimeError):
    """Another worker has ended, or cannot be reached, and no step can be taken without it."""


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a process stands among those that train together."""

    index: int = 0  # 0 is the chief
    count: int = 1


_ALONE = Place()


class Workers:
    """The processes that train one agent; by itself, this one alone."""

    def __init__(self, place: Place = _ALONE, strategy: tf.distribute.Strategy | None = None):
        """Makes the workers.

        Args:
            place: of this process.
            strategy: that connects the processes, and watches them for as long as it is referred to.
        """
        self.index, self.count = place.index, place.count
        self._strategy = strategy
        self._sums = 0
        self._exchange = tf.function(self._sum, autograph=False)

    @property
    def chief(self) -> bool:
        """Whether this is the process that evaluates, and writes what later commands read."""
        return self.index == 0

    def mean(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Returns the mean over the workers of each tensor, float32 of a static shape, in the graph of a step.

        The workers build the same graphs in the same order, and execute every mean together; the result is the same,
        bit for bit, on each of them.
        """
        if self.count == 1:
            return list(tensors)
        # One message for all: many small ones would wait for each other.
        flat = tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], axis=0)
        parts = tf.split(self._sum(flat) / self.count, [tensor.shape.num_elements() for tensor in tensors])
        return [tf.reshape(part, tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]

    def exchange(self, value: int) -> list[int]:
        """Returns the `value` that each worker gave, the chief's first; waits until all have given one.

        Raises:
            LostWorkerError: one never will.
        """
        if self.count == 1:
            return [value]
        with self.watched():
            mine = [value if place == self.index else 0 for place in range(self.count)]
            return self._exchange(tf.constant(mine, tf.int64)).numpy().tolist()

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Turns what TensorFlow raises where a worker is lost into a LostWorkerError."""
        try:
            yield
        except tf.errors.OpError as error:
            told = [line for line in error.message.splitlines() if "ollective" in line]
            if self.count == 1 or not told:
                raise
            raise LostWorkerError(told[0]) from error

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

    Must be called before TensorFlow has done anything.

    Raises:
        InputError: `TF_CONFIG` is not what TensorFlow documents, or has roles that this training has no use for.
    """
    place = place_of(environment.get(TF_CONFIG, ""))
    if place.count == 1:
        return ALONE
    return Workers(place, tf.distribute.MultiWorkerMirroredStrategy())


def place_of(text: str) -> Place:
    """Returns the place of this process that a `TF_CONFIG` states, "" or a cluster of one being a process alone.

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
    return Place(before + number, sum(counts.values()))


def _check(cluster: Mapping[str, Any], counts: Mapping[str, int], role: str, number: int) -> None:
    useless = sorted(set(cluster) - set(_COLLECTIVE_ROLES))
    if useless or role not in _COLLECTIVE_ROLES:
        named = ", ".join(useless or [str(role)])
        raise _malformed(f"the role {named}: this training has a chief and workers only, which are all alike")
    if not 0 <= number < counts[role]:
        raise _malformed(f"the task is {role} {number}, the cluster has {counts[role]} of them")
    if counts["chief"] > 1:
        raise _malformed(f"{counts['chief']} chiefs: there can be one")


def _malformed(problem: str) -> InputError:
    return InputError(
        f'{TF_CONFIG}: {problem}; expected such as {{"cluster": {{"worker": ["host0:2222", "host1:2222"]}}, '
        '"task": {"type": "worker", "index": 0}}'
    )
