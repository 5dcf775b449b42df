"""`triage reproduce`: runs the paper's study on a data directory and writes a report."""

import argparse
import dataclasses
import os
import pathlib
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from schemas.errors import InputError
from trainer import config, presets
from trainer.reports.model_card import is_simulated
from trainer.reports.numbers import MARGIN
from trainer.reports.provenance import provenance
from trainer.study.study import FORMAT, MEMBERS, DataFacts, StudySettings, plan
from triage_runtime.command_line import json_output, options
from triage_runtime.storage import locations
from triage_runtime.storage.whole_file import read_json

if TYPE_CHECKING:  # TensorFlow loads only when the command runs
    from trainer.study.run import StudyRun
    from trainer.vignettes.tfrecord import DataDirectory

FAILED = 1
_FULL = {"loop": {"evaluation_interval": 150}}
"""Settings of the study that differ from the preset `paper`: enough evaluations to average the last ten."""
_QUICK = {"loop": {"steps": 3000, "evaluation_interval": 250}}
"""The same for --quick."""
_SIZES = {
    # name: (full, quick, help)
    "seeds": (3, 2, "number of seeds of each DyQN agent and ablation"),
    "default_preset_seeds": (3, 1, "number of seeds of the preset default of triage train; 0 for none"),
    "partially_observed_seeds": (3, 1, "number of seeds of each partially-observed agent; 0 for none"),
    "folds": (10, 0, "folds of the cross-validation; 0 for none"),
    "fold_seeds": (3, 1, "repetitions of the cross-validation"),
    "powerset_rows": (10_000, 2000, "maximum rows of the expanded data set to train an ensemble on"),
}


@dataclasses.dataclass(frozen=True)
class ReproduceOptions:
    """The options of `triage reproduce` beside those of its study, see its help."""

    data: pathlib.Path
    out: pathlib.Path
    processes: int | None
    json: str | pathlib.Path | None

    def __post_init__(self) -> None:
        options.check_bounds("processes", self.processes, 1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage reproduce` and every hyper-parameter."""
    parser.add_argument("--data", type=locations.source, required=True, metavar="DIR", help="data directory")
    parser.add_argument(
        "--out", type=locations.result, required=True, metavar="DIR",
        help="directory for results and report; an interrupted study in it is resumed",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="a small study of a few minutes on two cores")
    for name, (full, quick, text) in _SIZES.items():
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, type=int, metavar="N", help=f"{text} (default {full}, quick {quick})")
    parser.add_argument(
        "--members", nargs="+", choices=MEMBERS, metavar="NAME",
        help=f"classifiers of the ensembles, of {', '.join(MEMBERS)} (default all; with --quick all but svc)",
    )  # fmt: skip
    parser.add_argument(
        "--ablations", action=argparse.BooleanOptionalAction,
        help="also train variants of DyQN-OR that each change one choice (default: yes, with --quick: no)",
    )  # fmt: skip
    parser.add_argument(
        "--margin", type=float, default=MARGIN, metavar="SHARE",
        help="difference of two shares up to which agents are on a par: the 95%% interval of the paired difference "
        f"must lie within it (default {MARGIN})",
    )  # fmt: skip
    parser.add_argument("--processes", type=int, metavar="P", help="number of tasks at a time (default: one per core)")
    json_output.add_argument(parser)
    presets.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs or resumes the study.

    Returns:
        0 if all tasks are done, 1 if some failed (the others are in the results), 130 after Ctrl-C, 143 after SIGTERM.

    Raises:
        InputError: settings, data or the output directory are invalid.
    """
    began = time.monotonic()
    settings, given = settings_of(arguments), options.read(ReproduceOptions, arguments)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    processes = cores if given.processes is None else given.processes
    # Imported here, so that --help and faulty settings answer without loading TensorFlow.
    from trainer.study.directory import RESULTS, StudyDirectory, write_json
    from trainer.study.run import Machine, StudyRun
    from trainer.task import StopRequest

    data, facts = _data(given.data)
    tasks = plan(settings, facts)
    machine = Machine(given.data.resolve(), given.out.resolve(), processes, max(1, cores // processes))
    with StudyDirectory(given.out).claimed(facts.data_fingerprint), StopRequest() as stop:
        study = StudyRun(tasks, machine, lambda: stop.signal is not None)
        if study.reused == len(tasks):
            sys.stderr.write(f"nothing to run: all {len(tasks)} tasks were already finished\n")
        elif study.reused:
            sys.stderr.write(f"{study.reused} of {len(tasks)} tasks were already finished\n")
        study.run()
        if stop.signal is not None:
            return _interrupted(study, len(tasks), stop.signal)
        store = StudyDirectory(given.out)
        outcomes = {task.name: outcome for task in tasks if (outcome := store.outcome(task)) is not None}
        results = _results(settings, data, outcomes, study.failures)
        results["provenance"] |= {"cores": cores, "seconds": time.monotonic() - began}
        # Over all sessions, if the study was interrupted.
        results["provenance"]["task_seconds"] = sum(outcome["seconds"] for outcome in outcomes.values())
        write_json(given.out / RESULTS, results)
        _report(results, given)
    return FAILED if study.failures else 0


def settings_of(arguments: argparse.Namespace) -> StudySettings:
    """Returns the size of the study from flags, then the configuration file, then --quick or the defaults.

    Raises:
        InputError: the file cannot be read, or a value is invalid.
    """
    sizes = {}
    for name, (full, quick, _) in _SIZES.items():
        given = getattr(arguments, name)
        sizes[name] = given if given is not None else quick if arguments.quick else full
    members = arguments.members or set(MEMBERS) - ({"svc"} if arguments.quick else set())
    ablations = not arguments.quick if arguments.ablations is None else arguments.ablations
    return StudySettings(
        mode="quick" if arguments.quick else "full",
        members=tuple(each for each in MEMBERS if each in members),
        ablations=ablations,
        config=_train_config(arguments),
        margin=arguments.margin,
        **sizes,
    )


def _train_config(arguments: argparse.Namespace) -> config.TrainConfig:
    """Returns the configuration of file and flags on top of the study's own defaults and the preset `paper`."""
    complete = argparse.Namespace(**vars(arguments))
    complete.preset = complete.preset or "paper"
    if complete.preset != "paper":
        raise InputError(
            f"--preset {complete.preset}: the agents of the paper's study are those of the preset paper; the preset "
            "default has a row of its own (--default-preset-seeds): leave the option out"
        )
    from_file = {} if arguments.config is None else read_json(arguments.config)
    for section, values in (_QUICK if arguments.quick else _FULL).items():
        there = from_file.get(section, {})
        for name, value in values.items():
            if not hasattr(complete, name) and not (isinstance(there, Mapping) and name in there):
                setattr(complete, name, value)
    return presets.from_arguments(complete)


def _data(path: pathlib.Path) -> tuple["DataDirectory", DataFacts]:
    from trainer.vignettes.tfrecord import DataDirectory

    data = DataDirectory.open(path)
    if data.partial:
        raise InputError(f"--data {path}: made by triage powerset: give the data directory that it was made from")
    counts = [data.stats["splits"][split]["vignettes"] for split in ("train", "test")]
    for split, count in zip(("train", "test"), counts, strict=True):
        if count < 2:
            raise InputError(
                f"--data {path}: {count} vignettes in the {split} split: the study needs 2 or more in each, see "
                "--test-fraction of triage prepare and triage simulate"
            )
    return data, DataFacts(data.data_fingerprint, data.vocabulary.fingerprint, *counts)


def _results(
    settings: StudySettings,
    data: "DataDirectory",
    outcomes: Mapping[str, dict[str, Any]],
    failures: Mapping[str, str],
) -> dict[str, Any]:
    from trainer.study.claims import claims
    from trainer.study.measured import Measured
    from trainer.study.results import collect

    measured = Measured(settings, {name: outcome["result"] for name, outcome in outcomes.items()})
    results = {
        "format": FORMAT,
        "provenance": provenance(),
        "settings": settings.to_dict(),
        "data": _data_figures(data),
        **collect(measured),
        "claims": claims(measured, settings.config.environment.max_questions),
        "failures": [{"task": name, "error": reason} for name, reason in failures.items()],
    }
    return json_output.plain(results)


def _data_figures(data: "DataDirectory") -> dict[str, Any]:
    import numpy as np

    pieces = [np.diff(data.read(split).offsets) for split in ("train", "test")]
    return {
        "path": str(data.path),
        "data_fingerprint": data.data_fingerprint,
        "vocabulary_fingerprint": data.vocabulary.fingerprint,
        "simulated": is_simulated(data.stats),
        "vignettes": {"train": len(pieces[0]), "test": len(pieces[1])},
        "evidence_codes": len(data.vocabulary),
        "mean_evidence": float(np.concatenate(pieces).mean()),
    }


def _report(results: dict[str, Any], given: ReproduceOptions) -> None:
    from trainer.reports.report import write_report

    write_report(results, given.out)
    if given.json != "-":
        print_results(results, given.out)
    json_output.write(results, given.json)


def print_results(results: Mapping[str, Any], out: pathlib.Path) -> None:
    """Prints the table of agents, the claims, and the failures."""
    from rich.console import Console
    from rich.table import Table

    from triage_runtime.command_line.progress import print_table, say, say_result

    console = Console()
    table = Table(title="test split, this study (paper)", title_justify="left")
    table.add_column("agent")
    for name in ("appropriateness", "safety", "questions", "evidence seen"):
        table.add_column(name, justify="right")
    for agent in results["agents"].values():
        cells = [_cell(agent, name) for name in ("appropriateness", "safety", "questions", "evidence_seen")]
        table.add_row(agent["label"], *cells)
    print_table(table)
    for each in results["claims"]:
        say(console, f"{each['outcome']:>12}  {each['claim']}. {each['numbers']}")
    for each in results["failures"]:
        say(console, f"failed: {each['task']}: {each['error']}")
    say_result(console, out, f"open {out / 'report.html'}")


def _cell(agent: Mapping[str, Any], name: str) -> str:
    figure, paper = agent["metrics"][name], agent["paper"].get(name)
    digits = 1 if name in ("questions", "evidence_seen") else 3
    spread = figure and figure["sd_over_seeds"]
    shown = "" if figure is None else f"{figure['mean']:.{digits}f}"
    shown += "" if spread is None else f" ± {spread:.{digits}f}"
    return shown if paper is None else f"{shown} ({paper:.2f})"


def _interrupted(study: "StudyRun", tasks: int, signal_number: int) -> int:
    sys.stderr.write(
        f"triage reproduce: interrupted with {tasks - study.unfinished} of {tasks} tasks done; repeat the command "
        "to resume\n"
    )
    return 128 + signal_number
