"""Reports the metrics of a trial to a hyper-parameter tuning service through `cloudml-hypertune`."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from schemas.errors import InputError

TRIAL = "CLOUD_ML_TRIAL_ID"
METRIC_FILE = "CLOUD_ML_HP_METRIC_FILE"

Report = Callable[[int, Mapping[str, float]], None]


def in_trial() -> bool:
    """Whether a tuning service started this process, according to the environment."""
    return bool(os.environ.get(TRIAL) or os.environ.get(METRIC_FILE))


def tuning_report() -> Report:
    """Returns a function that reports the step and the metrics of an evaluation by name.

    Raises:
        InputError: `cloudml-hypertune` is not installed.
    """
    try:
        import hypertune
    except ImportError as error:
        raise InputError(
            f"{TRIAL} is set, but the package for reporting to the tuning service is missing: "
            "pip install 'dyqn-triage[hypertune]'"
        ) from error
    # One for the whole process: a second one would overwrite the file.
    return _report_to(hypertune.HyperTune())


def _report_to(service: Any) -> Report:
    def report(step: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            service.report_hyperparameter_tuning_metric(name, value, global_step=step)

    return report
