"""The training loops that `triage bench train` compares: processes that take turns in rounds."""

import contextlib
import functools
import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

from schemas.errors import InputError
from trainer.bench import rounds
from trainer.bench.settings import Settings
from trainer.bench.worker import Worker

OURS: dict[str, dict[str, str]] = {
    "ours: fused": {},
    "ours: fused, bfloat16": {"precision": "bfloat16"},
    "ours: plain": {"engine": "plain"},
}
TF_AGENTS = {"TF-Agents: Python loop": "python", "TF-Agents: one graph": "graph"}
SB3 = "Stable-Baselines3"
FLOOR = "dense floor"
_WARM_UP_STEPS = 5


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


def commands(settings: Settings, sb3_python: str | None = None) -> dict[str, list[str]]:
    """Returns the command line of each contestant; Stable-Baselines3 is left out if no Python has it."""

    def module(name: str, *rest: str, python: str = sys.executable) -> list[str]:
        return [python, "-m", f"trainer.bench.{name}", settings.to_json(), *rest]

    chosen = {name: module("ours", json.dumps(learner)) for name, learner in OURS.items()}
    chosen |= {name: module("tf_agents_loop", form) for name, form in TF_AGENTS.items()}
    if sb3_python is not None:
        chosen[SB3] = module("sb3_loop", python=sb3_python)
    return {**chosen, FLOOR: module("floor")}


def compete(
    chosen: Mapping[str, list[str]], steps: int, count: int, done: Callable[[], None] = lambda: None
) -> dict[str, list[Mapping[str, Any]]]:
    """Returns what each contestant measured in each round.

    Args:
        chosen: some of `commands`.
        steps: training steps in a turn.
        count: number of rounds; a few steps before the first one are not measured.
        done: called after each turn.

    Raises:
        WorkerFailedError: the process of a contestant ended.
    """
    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(Worker(name, command)) for name, command in chosen.items()]
        for worker in workers:
            worker.ask(steps=_WARM_UP_STEPS)
        turns = {worker.name: functools.partial(worker.ask, steps=steps) for worker in workers}
        answers = rounds.play(turns, count, done)
    return answers  # noqa: RET504 - to mypy, ExitStack may suppress an error and leave `answers` unset
