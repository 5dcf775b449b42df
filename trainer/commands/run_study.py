"""The work of `triage reproduce`; its options are in `trainer.commands.reproduce`."""

import argparse

from rich.console import Console

from schemas.errors import InputError
from trainer import presets
from trainer.commands.reproduce import SIZES
from trainer.reports import page, report, tables
from trainer.study import results as study_results
from trainer.study.study import StudySettings
from triage_runtime.command_line import json_output
from triage_runtime.command_line.progress import progress_bar, say_result

_FULL = {"evaluation_interval": 150}  # enough evaluations to average the last ten
_QUICK = {"steps": 3000, "evaluation_interval": 250}


def run(arguments: argparse.Namespace) -> int:
    """Runs or resumes the study.

    Raises:
        InputError: settings or data are invalid, an agent cannot be trained, or `--out` not be written.
    """
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


def settings_of(arguments: argparse.Namespace) -> StudySettings:
    """Returns the size of the study from flags, then the configuration file, then --quick or the defaults.

    Raises:
        InputError: the file cannot be read, or a value is invalid.
    """
    if arguments.preset not in (None, "paper"):
        raise InputError(f"--preset {arguments.preset}: the paper's agents have the preset paper: leave the option out")
    sizes = {name: quick if arguments.quick else full for name, (full, quick, _) in SIZES.items()}
    sizes |= {name: value for name in sizes if (value := getattr(arguments, name)) is not None}
    loop = _QUICK if arguments.quick else _FULL
    return StudySettings(config=presets.from_arguments(arguments, presets.PAPER | {"loop": loop}), **sizes)
