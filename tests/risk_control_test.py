"""That a bound on under-triage holds: benchmarks/risk_control.py on made-up outputs, and on a trained agent."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import triage_cli
from trainer.decision.decision import ASK_POINTS, OperatingPoint
from trainer.decision.operating_point import HeldOutOutputs, least_point

ROOT = pathlib.Path(__file__).resolve().parents[1]
Q_VALUES, ASKS, STOPS = [0.0] * 5, [1.0] * len(ASK_POINTS), [0.0] * len(ASK_POINTS)
YELLOW, GREEN = [0.2, 0.7, 0.0, 0.0, 1.0, 0.7, 0.0, 0.0], [0.0, 0.2, 0.6, 0.0, 1.0, 0.9, 0.6, 0.0]


def test_a_vignette_that_a_larger_weight_makes_worse_counts_at_the_smaller_one_too():
    # After one piece of evidence the decision is Green up to the weight 4/3, then Yellow; after two pieces Yellow up to
    # 5/3, then Red. The vignette is Yellow. The second operating point is sure enough at once (Green has .6), and
    # under-triages.
    outputs = np.array([Q_VALUES + GREEN + ASKS, Q_VALUES + YELLOW + STOPS] * 40, np.float32)
    held_out = HeldOutOutputs(outputs, np.full(40, 2), np.array([[0, 3, 0, 0]] * 40))
    patient, hasty, safe = OperatingPoint(0.0), OperatingPoint(1.0, 0.5), OperatingPoint(2.0)
    assert least_point(held_out, 0.1, [patient, safe]) == patient
    assert least_point(held_out, 0.1, [patient, hasty, safe]) == safe


def program(*arguments):
    """Returns the lines of benchmarks/risk_control.py."""
    command = [sys.executable, str(ROOT / "benchmarks" / "risk_control.py"), *map(str, arguments)]
    path = os.pathsep.join([str(ROOT), str(ROOT / "proto")])
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=ROOT, env=os.environ | {"PYTHONPATH": path}
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_mean_under_triage_over_200_splits_of_simulated_vignettes_keeps_the_bound(tmp_path):
    data, job = tmp_path / "data", tmp_path / "job"
    simulated = ["simulate", "--vignettes", "3000", "--test-fraction", "0.5", "--seed", "5", "--out", str(data)]
    assert triage_cli.main(simulated) == 0
    trained = [sys.executable, "-m", "triage_cli", "train", "--data", str(data), "--job-dir", str(job)]
    subprocess.run(trained, check=True, cwd=ROOT)
    (kept,) = program("--job-dir", job, "--data", data, "--bounds", "0.05", "--splits", "200")
    assert kept["mean"] <= 0.05 + 0.01
    assert kept["mean"] >= 0.02, "a bound that is kept by always saying Red is no use"
