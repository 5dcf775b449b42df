"""`triage reproduce`: runs the paper's study on a data directory and writes a report."""

import argparse
from typing import TYPE_CHECKING

from rich.console import Console

from schemas.errors import InputError
from trainer import presets
from triage_runtime.command_line import json_output
from triage_runtime.command_line.progress import progress_bar, say_result
from triage_runtime.storage import locations

if TYPE_CHECKING:  # loads TensorFlow
    from trainer.study.study import StudySettings

_FULL = {"evaluation_interval": 150}  # enough evaluations to average the last ten
_QUICK = {"steps": 3000, "evaluation_interval": 250}
_SIZES = {
    # name: (full, quick, help)
    "seeds": (3, 2, "number of training runs of each learning agent, each with its own seed"),
    "folds": (10, 0, "folds of the cross-validation; 0 for none"),
    "fold_seeds": (3, 1, "repetitions of the cross-validation"),
    "powerset_rows": (10_000, 2000, "maximum rows of the expanded data set that an ensemble is trained on"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage reproduce` and every hyper-parameter."""
    parser.add_argument("--data", type=locations.source, required=True, metavar="DIR", help="data directory")
    parser.add_argument(
        "--out", type=locations.result, required=True, metavar="DIR",
        help="directory for trained agents, results and report; agents that it already holds are not retrained",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="run a small study, a few minutes on two cores")
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
    from trainer.reports import page, report, tables  # these load TensorFlow
    from trainer.study import results as study_results

    out = arguments.out
    study = study_results.Study(arguments.data, settings_of(arguments), out)
    trainings, waiting = study.trainings(), study.claim()
    with progress_bar(Console(stderr=True)) as bar:
        done = len(trainings) - len(waiting)
        task = bar.add_task("train", total=len(trainings), completed=done, remark="", unit="agents")
        for _ in study.run(waiting):
            bar.advance(task)
    results = json_output.plain({"provenance": page.provenance(), **study_results.collect(study)})
    json_output.write(results, out / "results.json")
    page.write(report.report(results), out / "report.html", "--out")
    if arguments.json != "-":
        tables.print_rows(report.agents_table(results))
        say_result(Console(), out, f"open {out / 'report.html'}")
    json_output.write(results, arguments.json)
    return 0


def settings_of(arguments: argparse.Namespace) -> "StudySettings":
    """Returns the size of the study from flags, then the configuration file, then --quick or the defaults.

    Raises:
        InputError: the file cannot be read, or a value is invalid.
    """
    from trainer.study.study import StudySettings

    if arguments.preset not in (None, "paper"):
        raise InputError(f"--preset {arguments.preset}: the paper's agents have the preset paper: leave the option out")
    sizes = {name: quick if arguments.quick else full for name, (full, quick, _) in _SIZES.items()}
    sizes |= {name: value for name in sizes if (value := getattr(arguments, name)) is not None}
    loop = _QUICK if arguments.quick else _FULL
    return StudySettings(config=presets.from_arguments(arguments, presets.PAPER | {"loop": loop}), **sizes)
