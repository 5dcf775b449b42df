"""`triage bench learn`: seconds until an agent reaches a goal, for ours, other libraries, and a random forest."""

import argparse
import dataclasses
import functools
import importlib.util
import itertools
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from schemas.errors import InputError
from trainer import presets
from trainer.bench.settings import BenchVignettes, Settings, save_vignettes
from trainer.bench.worker import Worker, WorkerFailedError
from triage_runtime.command_line import json_output, options
from triage_runtime.command_line.progress import print_table, progress_bar
from triage_runtime.storage import locations

GOAL = {"appropriateness": 0.82, "safety": 0.90}
"""The metrics that an agent must reach, both in the same evaluation."""
OURS, TF_AGENTS, SB3, FOREST = "ours", "TF-Agents", "Stable-Baselines3", "random forest"
TIMES_AS_FAST = 10.0
"""Speed-up over each library of reinforcement learning that we aim at."""

_FIRST_EVALUATION, _EVALUATIONS_APART = 5.0, 1.2  # seconds, factor

Points = list[dict[str, float]]


@dataclasses.dataclass(frozen=True)
class LearnOptions:
    """The options of `triage bench learn`, see its help."""

    vignettes: int
    test: int
    seconds: float
    seed: int
    only: list[str] | None
    sb3_python: str | None
    plot: pathlib.Path | None
    json: str | pathlib.Path | None

    def __post_init__(self) -> None:
        options.check_bounds("vignettes", self.vignettes, 10)
        options.check_bounds("test", self.test, 1)
        options.check_bounds("seed", self.seed, 0)
        if not 0.1 <= self.seconds < float("inf"):
            raise InputError(f"--seconds {self.seconds:g}: expected 0.1 or more")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage bench learn`."""
    parser.add_argument("--vignettes", type=int, default=1248, help="simulated vignettes to learn from (default 1248)")
    parser.add_argument(
        "--test", type=int, default=3000, help="new vignettes of the same panel to test on (default 3000)"
    )
    parser.add_argument("--seconds", type=float, default=300.0, help="training time of each contestant (default 300)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the vignettes and of training (default 0)")
    parser.add_argument(
        "--only", nargs="+", metavar="WHO", choices=(OURS, TF_AGENTS, SB3, FOREST),
        help=f"contestants, of {OURS}, {TF_AGENTS!r}, {SB3!r} and {FOREST!r} (default: all that are installed)",
    )  # fmt: skip
    parser.add_argument(
        "--sb3-python",
        metavar="FILE",
        help="Python with Stable-Baselines3; default: this one; if it is not installed, it is left out",
    )
    parser.add_argument("--plot", type=locations.result, metavar="PNG", help="picture of quality against seconds")
    json_output.add_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Measures one contestant after the other and prints; returns the exit code.

    Raises:
        InputError: a value out of range, `--sb3-python` has no Stable-Baselines3, a file cannot be written, or a
            contestant failed.
    """
    given = options.read(LearnOptions, arguments)
    sb3_python = find_sb3(given.sb3_python)
    console = Console(stderr=True)
    curves: dict[str, Points] = {}
    with tempfile.TemporaryDirectory() as scratch:
        commands, counts = _prepare(pathlib.Path(scratch), given, sb3_python)
        chosen = {name: command for name, command in commands.items() if name in (given.only or commands)}
        with progress_bar(console) as bar:
            for name, command in chosen.items():
                task = bar.add_task(name, total=given.seconds, unit=f"of {given.seconds:g} s", remark="")
                try:
                    advance = functools.partial(bar.update, task)
                    curves[name] = curve(name, command, given.seconds, counts, advance)
                except WorkerFailedError as error:
                    raise InputError(str(error)) from error
    if sb3_python is None:
        console.print(f"{SB3} is not installed: left out (see --sb3-python)", highlight=False)
    measured = report(curves, given.seconds)
    if given.json != "-":
        show(measured)
    if given.plot:
        plot(measured, given.plot)
    sizes = {"train_vignettes": given.vignettes, "test_vignettes": given.test, "seed": given.seed}
    json_output.write({"format": 1, "machine": _machine(), **sizes, **measured}, given.json)
    return 0


def find_sb3(given: str | None) -> str | None:
    """Returns a Python that has Stable-Baselines3, None if there is none.

    Raises:
        InputError: the given one does not have it.
    """
    if given is None:
        return sys.executable if importlib.util.find_spec("stable_baselines3") else None
    path = shutil.which(given)
    code = "import stable_baselines3, torch"
    if path is None or subprocess.run([path, "-c", code], capture_output=True, check=False).returncode:  # noqa: S603
        raise InputError(f"--sb3-python {given}: expected a Python that can import stable_baselines3 and torch")
    return path


def _prepare(
    folder: pathlib.Path, given: LearnOptions, sb3_python: str | None
) -> tuple[dict[str, list[str]], np.ndarray]:
    """Simulates the vignettes; returns the commands of the contestants, and the test decisions `[V, 4]`."""
    from trainer.commands.simulate import simulate_splits
    from trainer.vignettes.tfrecord import DataDirectory

    simulate_splits(folder / "data", given.vignettes, given.test, given.seed)
    data = DataDirectory.open(folder / "data")
    files = {name: str(folder / f"{name}.npz") for name in ("train", "test")}
    for name, file in files.items():
        split = data.read(name, names=False)
        rows = BenchVignettes(split.offsets, split.signed_codes, split.decision_counts)
        save_vignettes(pathlib.Path(file), rows)
    config = presets.preset("default").to_dict()
    config["loop"] |= {"seed": given.seed, "evaluation_interval": 0}
    peer = Settings(files["train"], len(data.vocabulary), seed=given.seed).to_json()

    def learner(name: str, settings: Mapping[str, Any]) -> list[str]:
        return [sys.executable, "-m", "trainer.bench.learners", name, json.dumps(settings)]

    forest = {"train": files["train"], "tests": files["test"], "evidence_count": len(data.vocabulary)}
    commands = {
        OURS: learner("ours", {"data": str(folder / "data"), "config": config}),
        TF_AGENTS: learner("tf_agents", {"settings": peer, "tests": files["test"]}),
        FOREST: learner("forest", {**forest, "seed": given.seed}),
    }
    if sb3_python is not None:
        commands[SB3] = [sb3_python, "-m", "trainer.bench.sb3_loop", peer, files["test"]]
    return commands, data.read("test", names=False).decision_counts


def evaluation_times(seconds: float) -> list[float]:
    """Returns when a contestant is evaluated, in seconds: often at first, then rarely, and at the end."""
    times = []
    at = _FIRST_EVALUATION
    while at < seconds:
        times.append(at)
        at *= _EVALUATIONS_APART
    return [*times, seconds]


def curve(
    name: str, command: list[str], seconds: float, decision_counts: np.ndarray, done: Callable[..., None]
) -> Points:
    """Returns the quality of a contestant at each evaluation.

    A point has the `seconds` of training, the `steps` taken in them (None for a contestant that takes none), the
    metrics of `metrics.triage_quality`, and whether the training is `finished`; then there is no further one.

    Args:
        name: of the contestant.
        command: that starts it.
        seconds: of training, including its start but not the evaluations.
        decision_counts: `[V, 4]` of the test vignettes.
        done: called with the seconds at each evaluation, as `completed`.

    Raises:
        WorkerFailedError: it ended.
    """
    from trainer.evaluation import metrics

    points: Points = []
    began = time.time()
    with Worker(name, command) as worker:
        for until in evaluation_times(seconds):
            answer = worker.ask(began=began, until=until)
            quality = metrics.triage_quality(np.array(answer["decisions"]), decision_counts)
            means = {metric: float(values.mean()) for metric, values in quality.items()}
            points.append({name: answer[name] for name in ("seconds", "steps", "finished")} | means)
            done(completed=answer["seconds"])
            if answer["finished"]:
                break
    return points


def report(curves: Mapping[str, Points], budget: float) -> dict[str, Any]:
    """Returns the curves with the seconds to the goal, None for never, and whether ours reaches `TIMES_AS_FAST`."""
    contestants: dict[str, dict[str, Any]] = {
        name: {"seconds_to_goal": seconds_to_goal(points), "ms_per_step": ms_per_step(points), "curve": points}
        for name, points in curves.items()
    }
    ours = contestants.get(OURS, {}).get("seconds_to_goal")
    peers = [contestants[name]["seconds_to_goal"] for name in (TF_AGENTS, SB3) if name in contestants]
    met = None
    if OURS in contestants and peers:
        met = ours is not None and all(peer is None or peer >= TIMES_AS_FAST * ours for peer in peers)
    return {"goal": GOAL, "budget_seconds": budget, "contestants": contestants, "ten_times_as_fast": met}


def seconds_to_goal(points: Sequence[Mapping[str, float]]) -> float | None:
    """Returns the seconds of the first evaluation in which both metrics reach the goal; None if none does."""
    return next(
        (point["seconds"] for point in points if all(point[name] >= least for name, least in GOAL.items())), None
    )


def ms_per_step(points: Sequence[Mapping[str, Any]]) -> float | None:
    """Returns the milliseconds of a training step; None where there are no steps between two evaluations.

    It is the median over the stretches between evaluations, so that the start and the end of the training do not count.
    """
    stretches = [
        1e3 * (after["seconds"] - before["seconds"]) / (after["steps"] - before["steps"])
        for before, after in itertools.pairwise(points)
        if before["steps"] and after["steps"] > before["steps"]
    ]
    return statistics.median(stretches) if stretches else None


def show(measured: Mapping[str, Any]) -> None:
    """Prints a row for each contestant."""
    goal = " / ".join(f"{least:.2f}" for least in GOAL.values())
    table = Table("", f"seconds to {goal}", "trained for", "ms a training step", "appropriate", "safe")
    for name, each in measured["contestants"].items():
        last, reached = each["curve"][-1], each["seconds_to_goal"]
        never = "never: its training ended" if last["finished"] else f"never within {measured['budget_seconds']:g} s"
        step = "" if each["ms_per_step"] is None else f"{each['ms_per_step']:.1f}"
        cells = (f"{last['seconds']:.0f} s", step, f"{last['appropriateness']:.3f}", f"{last['safety']:.3f}")
        table.add_row(name, never if reached is None else f"{reached:.1f}", *cells)
    print_table(table)
    text = "Appropriateness and safety on fresh vignettes. The start of the process counts; evaluations do not."
    Console().print(text, highlight=False)
    if measured["ten_times_as_fast"] is not None:
        met = "met" if measured["ten_times_as_fast"] else "NOT met"
        Console().print(f"Goal of {TIMES_AS_FAST:g} times as fast as the other libraries: {met}.", highlight=False)


def plot(measured: Mapping[str, Any], path: pathlib.Path) -> None:
    """Draws both metrics of each contestant against seconds.

    Raises:
        InputError: the picture cannot be written.
    """
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(GOAL), figsize=(11, 4.2), layout="constrained")
    for axis, (metric, least) in zip(axes, GOAL.items(), strict=True):
        for name, each in measured["contestants"].items():
            seconds, values = ([point[key] for point in each["curve"]] for key in ("seconds", metric))
            axis.plot(seconds, values, marker="o", markersize=4, label=name)
        axis.axhline(least, color="black", linewidth=0.8, linestyle="--")
        axis.set(xscale="log", xlabel="seconds since the start of the process", title=metric)
        axis.grid(alpha=0.3)
    axes[0].legend()
    try:
        figure.savefig(path, dpi=110)
    except OSError as error:
        raise InputError(f"--plot {path}: cannot write: {error.strerror or error}") from error
    finally:
        plt.close(figure)


def _machine() -> dict[str, Any]:
    """Returns the processor and the versions that the figures depend on."""
    import numpy as np
    import tensorflow as tf

    model = platform.processor()
    described = pathlib.Path("/proc/cpuinfo")
    if described.exists():
        names = [line.partition(":")[2].strip() for line in described.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    return {
        "processor": model,
        "cores": len(os.sched_getaffinity(0)),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "numpy": np.__version__,
    }
