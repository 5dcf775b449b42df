"""Shows whether the memory of a long training run stays constant.

    python benchmarks/endurance.py --data DIR --steps 200000 --json FILE

It runs `triage train` with evaluations, checkpoints and summaries in a separate process. The network and its batch are
tiny, so that it ends in minutes; what could leak is allocated once a step or once a call, whatever the size of the
network. The resident memory is recorded whenever the compiled loop returns. After half of the steps, which fill memory
and caches, a line is fitted; its slope is the growth.
"""

import argparse
import pathlib
import resource
import tempfile
import time
from typing import Any

import numpy as np
from rich.console import Console

from triage_runtime.command_line import figures

TINY = {"network": {"hidden_sizes": [16]}, "memory": {"batch_size": 8, "memory_capacity": 2_000}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="data directory")
    parser.add_argument("--steps", type=int, default=200_000, help="training steps (default 200000)")
    figures.add_argument(parser)
    arguments = parser.parse_args()
    figures.check(arguments.json)
    start = time.monotonic()
    noted = watch(arguments.data, arguments.steps)
    summary = {"steps": arguments.steps, "seconds": time.monotonic() - start, **growth(noted)}
    Console(stderr=True).print(summary)
    figures.write({**summary, "noted": noted}, arguments.json)


def watch(data_path: pathlib.Path, steps: int) -> list[tuple[int, int]]:
    """Trains; returns numbers of steps and the resident bytes after them."""
    from trainer.config import TrainConfig
    from trainer.session import open_run
    from trainer.vignettes.tfrecord import DataDirectory

    loop = {"steps": steps, "burn_in_steps": 100, "evaluation_interval": 5_000, "checkpoint_interval": 5_000}
    noted = []
    with tempfile.TemporaryDirectory() as job:
        config = TrainConfig.from_dict({**TINY, "loop": loop})
        session = open_run(pathlib.Path(job), DataDirectory.open(data_path), config)

        def note() -> bool:
            noted.append((session._loop.step, _resident_bytes()))
            return False

        session.train(note)
        note()
    return noted


def growth(noted: list[tuple[int, int]]) -> dict[str, Any]:
    """Returns the growth in bytes per step and over all steps, and the memory at the start and the end of the fit."""
    settled = np.array([row for row in noted if row[0] >= noted[-1][0] / 2], np.float64)
    slope, _ = np.polyfit(settled[:, 0], settled[:, 1], 1)
    return {
        "bytes_per_step": float(slope),
        "megabytes_in_all_steps": float(slope * noted[-1][0] / 1e6),
        "settled_megabytes": float(settled[0, 1] / 1e6),
        "final_megabytes": float(settled[-1, 1] / 1e6),
    }


def _resident_bytes() -> int:
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    main()
