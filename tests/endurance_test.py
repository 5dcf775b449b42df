"""That a long run holds its memory flat."""

import json
import pathlib

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
STEPS = 40_000
# What could leak is allocated once a step or once a call, whatever the size of the network.
TRAINING = """\
import json, pathlib, resource, sys
from trainer.config import TrainConfig
from trainer.training.session import open_run
from trainer.data.tfrecord import DataDirectory

data, job, steps = sys.argv[1:]
loop = {"steps": int(steps), "burn_in_steps": 100, "evaluation_interval": 5_000, "checkpoint_interval": 5_000}
tiny = {"network": {"hidden_sizes": [16]}, "memory": {"batch_size": 8, "memory_capacity": 2_000}, "loop": loop}
resident = []


def note():
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    resident.append(pages * resource.getpagesize())
    return False


open_run(pathlib.Path(job), DataDirectory.open(data), TrainConfig.from_dict(tiny)).train(note)
print(json.dumps(resident))
"""


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.skipif(not pathlib.Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
def test_memory_does_not_grow_with_the_steps(python, tmp_path):
    def run(*arguments):
        finished = python.run(*map(str, arguments), cwd=ROOT, timeout=1400)
        assert finished.returncode == 0, finished.stderr
        return finished

    run("triage_cli.py", "simulate", "--out", tmp_path / "data")
    resident = json.loads(run("-c", TRAINING, tmp_path / "data", tmp_path / "job", STEPS).stdout.splitlines()[-1])
    assert len(resident) >= STEPS / 200  # whenever the compiled loop returns
    # The first half fills memory and caches. The allocator settles by some 100 bytes a step in so short a run; a tensor
    # kept for each would be 500 and more.
    settled = np.linspace(0, STEPS, len(resident)) >= STEPS / 2
    bytes_per_step, _ = np.polyfit(np.linspace(0, STEPS, len(resident))[settled], np.array(resident)[settled], 1)
    assert bytes_per_step < 400
