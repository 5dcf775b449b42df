"""Measures how the cost of training grows with the vocabulary, the memory and the number of vignettes.

    python benchmarks/scaling.py --json scaling.json --plot scaling.svg
    python benchmarks/scaling.py --data DIR --json startup.json

Each point is a separate process: a training loop with a full memory, on random vignettes of about seven pieces. The
time of a step is the least of several stretches, as load by other programs only adds to it. With `--data`, the start of
a training run on that data directory is measured instead: from the start of the process to the end of the first step.
"""

import argparse
import dataclasses
import json
import pathlib
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from triage_runtime.command_line import figures, options

BASE = {"evidence": 597, "memory": 10_000, "vignettes": 1_000}
AXES = {
    "evidence": (597, 2_000, 5_000, 20_000),
    "memory": (10_000, 100_000, 1_000_000),
    "vignettes": (1_000, 10_000, 100_000, 1_000_000),
}
TITLES = {"evidence": "pieces of evidence |E|", "memory": "transitions in the memory", "vignettes": "vignettes"}
PIECES = 7
KNOWN_LIMIT = 25  # as the paper's 23 questions allow
BATCH = 5_000  # transitions stored at once while the memory is filled


@dataclasses.dataclass(frozen=True)
class Effort:
    """The batch and the stretches of each point."""

    batch_size: int
    steps: int
    stretches: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--axes", nargs="+", choices=AXES, default=list(AXES), help="what to vary (default: all)")
    parser.add_argument("--batch-size", type=int, default=100, help="transitions in an optimisation (default 100)")
    parser.add_argument("--steps", type=int, default=20, help="steps in a stretch (default 20)")
    parser.add_argument("--stretches", type=int, default=20, help="stretches, of which the fastest counts (default 20)")
    parser.add_argument("--plot", type=pathlib.Path, metavar="FILE", help="figure to write (SVG or PNG)")
    parser.add_argument("--data", type=pathlib.Path, help="measure the start of a run on this data directory instead")
    parser.add_argument("--point", type=json.loads, help=argparse.SUPPRESS)
    figures.add_argument(parser)
    arguments = parser.parse_args()
    figures.check(arguments.json)
    effort = options.read(Effort, arguments)
    if arguments.point is not None:
        print(json.dumps(measure(arguments.point, effort)))
        return
    if arguments.data is not None:
        measured = _in_a_process(effort, {"data": str(arguments.data)})
        Console().print(measured)
    else:
        measured = {axis: _axis(axis, effort) for axis in arguments.axes}
        if arguments.plot is not None:
            plot(measured, arguments.plot)
    figures.write(measured, arguments.json)


def _axis(axis: str, effort: Effort) -> list[dict[str, Any]]:
    points = [_in_a_process(effort, {**BASE, axis: value}) for value in AXES[axis]]
    table = Table("value", "ms/step", "against the first", "memory of the replay (MB)", "peak of the process (MB)")
    for point in points:
        point["ratio"] = point["milliseconds_per_step"] / points[0]["milliseconds_per_step"]
        table.add_row(
            f"{point[axis]:,}", f"{point['milliseconds_per_step']:.2f}", f"{point['ratio']:.2f}",
            f"{point['replay_bytes'] / 1e6:.0f}", f"{point['peak_bytes'] / 1e6:.0f}",
        )  # fmt: skip
    Console().print(TITLES[axis], table)
    return points


def _in_a_process(effort: Effort, point: dict[str, Any]) -> dict[str, Any]:
    flags = [text for name, value in dataclasses.asdict(effort).items() for text in (options.flag(name), str(value))]
    command = [sys.executable, __file__, *flags, "--point", json.dumps(point)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure(point: dict[str, Any], effort: Effort) -> dict[str, Any]:
    """Returns the point with its figures."""
    if "data" in point:
        return {**point, **_measure_start(pathlib.Path(point["data"]))}
    from trainer.config import TrainConfig
    from trainer.dyqn.assembly import build_loop

    memory = {"memory_capacity": point["memory"], "batch_size": effort.batch_size}
    loop = build_loop(
        _vignettes(point["vignettes"], point["evidence"]),
        point["evidence"],
        TrainConfig.from_dict({"memory": memory, "loop": {"burn_in_steps": 1}}),
    )
    before = _resident_bytes()
    _fill(loop.memory, point["memory"], point["evidence"])
    loop.run(20)  # compiles
    replay = sum(variable.dtype.size * int(np.prod(variable.shape)) for variable in loop.memory.variables)
    seconds = []
    for _ in range(effort.stretches):
        start = time.perf_counter()
        loop.run(loop.step + effort.steps)
        seconds.append(time.perf_counter() - start)
    return {
        **point,
        "batch_size": effort.batch_size,
        "milliseconds_per_step": min(seconds) / effort.steps * 1e3,
        "replay_bytes": replay,
        "growth_bytes": _resident_bytes() - before,
        "peak_bytes": _peak_bytes(),
    }


def _vignettes(count: int, evidence: int) -> Any:
    from trainer.dyqn.rollout import Slice

    generator = np.random.default_rng(0)
    pieces = np.clip(generator.poisson(PIECES, count), 1, KNOWN_LIMIT)
    # The longest vignette is the same at every point, as it determines the width of a stored state.
    pieces[0] = KNOWN_LIMIT
    offsets = np.concatenate([[0], np.cumsum(pieces)]).astype(np.int64)
    # Consecutive codes from a random one on, so that none occurs twice in a vignette.
    starts = np.repeat(generator.integers(evidence - KNOWN_LIMIT, size=count), pieces)
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], pieces)
    codes = (1 + starts + within) * generator.choice([-1, 1], offsets[-1])
    counts = generator.multinomial(3, [0.25] * 4, count).astype(np.uint8)
    return Slice(offsets, codes.astype(np.int16 if evidence < np.iinfo(np.int16).max else np.int32), counts)


def _fill(memory: Any, count: int, evidence: int) -> None:
    """Fills the memory with random transitions."""
    import tensorflow as tf

    from trainer.dyqn.targets import Transition

    generator = np.random.default_rng(1)
    for start in range(0, count, BATCH):
        size = min(BATCH, count - start)
        codes = 1 + generator.integers(evidence - PIECES, size=(size, 1)) + np.arange(KNOWN_LIMIT)
        codes[:, PIECES:] = 0
        batch = Transition(
            tf.constant(np.where(np.arange(KNOWN_LIMIT) < PIECES - 1, codes, 0), tf.int32),
            tf.constant(generator.integers(5, size=size), tf.int32),
            tf.constant(generator.uniform(size=(size, 4)), tf.float32),
            tf.constant(codes, tf.int32),
        )
        memory.add(batch, tf.constant(10.0 ** generator.uniform(-4, -1, size), tf.float32))


def _measure_start(data_path: pathlib.Path) -> dict[str, Any]:
    import tempfile

    from trainer.config import TrainConfig
    from trainer.session import open_run
    from trainer.vignettes.tfrecord import DataDirectory

    with tempfile.TemporaryDirectory() as job:
        data = DataDirectory.open(data_path)
        session = open_run(pathlib.Path(job), data, TrainConfig())
        session._loop.run(1)
    return {
        "vignettes": {split: data.stats["splits"][split]["vignettes"] for split in ("train", "test")},
        "seconds": time.time() - _process_start(),
        "peak_bytes": _peak_bytes(),
    }


def _process_start() -> float:
    """Returns the time at which this process started, in seconds since the epoch."""
    uptime = float(pathlib.Path("/proc/uptime").read_text().split()[0])
    ticks = int(pathlib.Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19])
    return time.time() - (uptime - ticks / 100)  # 100 ticks a second on every Linux


def _resident_bytes() -> int:
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def plot(axes_points: dict[str, list[dict[str, Any]]], path: pathlib.Path) -> None:
    """Draws the time of a step against each axis."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, len(axes_points), figsize=(4 * len(axes_points), 3), sharey=True, squeeze=False)
    for panel, (axis, points) in zip(panels[0], axes_points.items(), strict=True):
        panel.plot([point[axis] for point in points], [point["milliseconds_per_step"] for point in points], marker="o")
        panel.set(xscale="log", xlabel=TITLES[axis])
        panel.grid(alpha=0.3)
    slowest = max(point["milliseconds_per_step"] for points in axes_points.values() for point in points)
    panels[0][0].set(ylabel="ms per step", ylim=(0, 1.2 * slowest))
    figure.tight_layout()
    figure.savefig(path)


if __name__ == "__main__":
    main()
