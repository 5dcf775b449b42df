"""`triage reproduce`: runs the paper's study on a data directory and writes a report."""

import argparse
import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

import joblib
from rich.console import Console
from rich.table import Table

from schemas.errors import InputError
from trainer import config, presets
from trainer.reports.provenance import provenance
from triage_runtime.command_line import json_output
from triage_runtime.command_line.progress import print_table, progress_bar, say_result
from triage_runtime.storage import locations
from triage_runtime.storage.whole_file import read_json

if TYPE_CHECKING:  # TensorFlow loads only when the command runs
    from trainer.study.study import StudySettings
    from trainer.vignettes.tfrecord import DataDirectory

_FULL = {"evaluation_interval": 150}
"""Settings of the loop that differ from the preset `paper`: enough evaluations to average the last ten."""
_QUICK = {"steps": 3000, "evaluation_interval": 250}
"""The same for --quick."""
_SIZES = {
    # name: (full, quick, help)
    "seeds": (3, 2, "number of trainings of each learning agent, each with a seed of its own"),
    "folds": (10, 0, "folds of the cross-validation; 0 for none"),
    "fold_seeds": (3, 1, "repetitions of the cross-validation"),
    "powerset_rows": (10_000, 2000, "maximum rows of the expanded data set to train an ensemble on"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage reproduce` and every hyper-parameter."""
    parser.add_argument("--data", type=locations.source, required=True, metavar="DIR", help="data directory")
    parser.add_argument(
        "--out", type=locations.result, required=True, metavar="DIR",
        help="directory for trained agents, results and report; agents that are there are not trained again",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="a small study of a few minutes on two cores")
    for name, (full, quick, text) in _SIZES.items():
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, type=int, metavar="N", help=f"{text} (default {full}, quick {quick})")
    json_output.add_argument(parser)
    presets.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs or resumes the study.

    Raises:
        InputError: settings or data are invalid, an agent cannot be trained, or `--out` not be written.
    """
    # Imported here, so that --help answers without loading TensorFlow.
    from trainer.reports.report import agents_table, write_report
    from trainer.study.agents import read_splits
    from trainer.study.results import collect
    from trainer.study.study import Study
    from trainer.vignettes.tfrecord import DataDirectory, is_simulated

    settings, out = settings_of(arguments), arguments.out
    data = DataDirectory.open(arguments.data)
    _require_vignettes(data, settings)
    study = Study(data.path, settings, out)
    trainings, waiting = study.trainings(), study.claim()
    with progress_bar(Console(stderr=True)) as bar:
        done = len(trainings) - len(waiting)
        task = bar.add_task("train", total=len(trainings), completed=done, remark="", unit="agents")
        for _ in study.run(waiting, joblib.cpu_count()):
            bar.advance(task)
    splits = read_splits(data)
    results = json_output.plain(
        {
            "provenance": provenance(),
            "settings": dataclasses.asdict(settings) | {"evaluations_averaged": settings.converged},
            "data": {
                "path": str(data.path),
                "data_fingerprint": data.data_fingerprint,
                "simulated": is_simulated(data.stats),
                "vignettes": {split: part["vignettes"] for split, part in data.stats["splits"].items()},
                "evidence_codes": len(data.vocabulary),
            },
            **collect(study, splits, {training: read_json(study.path(training)) for training in trainings}),
        }
    )
    json_output.write(results, out / "results.json")
    write_report(results, out)
    if arguments.json != "-":
        _, columns, rows = agents_table(results)
        table = Table(*columns)
        for row in rows:
            table.add_row(*row)
        print_table(table)
        say_result(Console(), out, f"open {out / 'report.html'}")
    json_output.write(results, arguments.json)
    return 0


def settings_of(arguments: argparse.Namespace) -> "StudySettings":
    """Returns the size of the study from flags, then the configuration file, then --quick or the defaults.

    Raises:
        InputError: the file cannot be read, or a value is invalid.
    """
    from trainer.study.study import StudySettings

    sizes = {}
    for name, (full, quick, _) in _SIZES.items():
        given = getattr(arguments, name)
        sizes[name] = given if given is not None else quick if arguments.quick else full
    return StudySettings(config=_train_config(arguments), **sizes)


def _train_config(arguments: argparse.Namespace) -> config.TrainConfig:
    """Returns the configuration of file and flags on top of the study's own defaults and the preset `paper`."""
    complete = argparse.Namespace(**vars(arguments))
    complete.preset = complete.preset or "paper"
    if complete.preset != "paper":
        raise InputError(f"--preset {complete.preset}: the paper's agents have the preset paper: leave the option out")
    from_file = {} if arguments.config is None else read_json(arguments.config)
    there = from_file.get("loop", {})
    for name, value in (_QUICK if arguments.quick else _FULL).items():
        if not hasattr(complete, name) and not (isinstance(there, Mapping) and name in there):
            setattr(complete, name, value)
    return presets.from_arguments(complete)


def _require_vignettes(data: "DataDirectory", settings: "StudySettings") -> None:
    counts = {split: data.stats["splits"][split]["vignettes"] for split in ("train", "test")}
    for split, count in counts.items():
        if count < 2:
            raise InputError(
                f"--data {data.path}: {count} vignettes in the {split} split: the study needs 2 or more in each, see "
                "--test-fraction of triage prepare and triage simulate"
            )
    if settings.folds > sum(counts.values()):
        raise InputError(f"--folds {settings.folds}: more than the {sum(counts.values())} vignettes")
