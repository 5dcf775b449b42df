"""`triage dossier`: TRIPOD+AI, DECIDE-AI and the EU AI Act's Annex IV, filled from the files of a version."""

import argparse
import dataclasses
import hashlib
import pathlib
import sys
from typing import Any

from schemas import directories
from schemas.errors import InputError
from schemas.model_directory import read_manifest, version_folder
from trainer.reports.checklists import NAMES, read_checklist
from trainer.reports.dossier_page import FactsFile, page
from trainer.reports.numbers import value_at
from triage_runtime.command_line import json_output, options
from triage_runtime.storage import locations
from triage_runtime.storage.whole_file import read_json, replacing

_POINT = {"safety_weight": "--safety-weight", "price": "--question-price", "sure_enough": "--sure-enough"}
"""The operating point in a manifest and in figures, and the options of `triage evaluate` that set it."""


@dataclasses.dataclass(frozen=True)
class DossierOptions:
    """The options of `triage dossier`, see its help."""

    model: pathlib.Path
    results: pathlib.Path | None
    monitoring: pathlib.Path | None
    output: pathlib.Path | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage dossier`."""
    parser.add_argument(
        "--model", type=locations.source_model, required=True, metavar="DIR",
        help="version, or base path of which the newest counts",
    )  # fmt: skip
    parser.add_argument(
        "--results", type=locations.source, metavar="FILE", help="figures of the same agent from triage evaluate --json"
    )
    parser.add_argument(
        "--monitoring",
        type=locations.source,
        metavar="FILE",
        help="figures of an audit log of the version, from triage monitor --json",
    )
    parser.add_argument(
        "--output", type=locations.fresh_result, metavar="FILE", help="Markdown file to write; default: standard output"
    )


def run(arguments: argparse.Namespace) -> int:
    """Writes the dossier; returns 0.

    Raises:
        InputError: a file cannot be read or written, or the figures are of another agent, split or version.
    """
    given = options.read(DossierOptions, arguments)
    json_output.check(given.output, "--output")
    folder = version_folder(given.model)
    manifest = read_manifest(folder)
    sources = {
        "manifest": _source(folder / directories.MANIFEST),
        "card": _source(folder / directories.MODEL_CARD_JSON),
    }
    if given.results is not None:
        sources["results"] = _source(given.results)
        _check_results(given.results, sources["results"].content, manifest)
        _check_rules(given.results, sources["results"].content, folder, manifest["safety_rules"])
    if given.monitoring is not None:
        sources["monitoring"] = _source(given.monitoring)
        _check_monitoring(given.monitoring, sources["monitoring"].content, sources["manifest"].sha256)
    text = page(folder.name, sources, map(read_checklist, NAMES))
    if given.output is None:
        sys.stdout.write(text)
        return 0
    with replacing(given.output) as file:
        file.write(text)
    sys.stdout.write(f"wrote {locations.shown(given.output)}\n")
    return 0


def _source(path: pathlib.Path) -> FactsFile:
    content = read_json(path)
    return FactsFile(path.name, hashlib.sha256(path.read_bytes()).hexdigest(), content)


def _check_results(path: pathlib.Path, results: Any, manifest: dict[str, Any]) -> None:
    """Raises InputError if figures are not of the version's agent on the test split, or not of how it decides."""
    expected = {"trained_on": manifest["data_fingerprint"], "training": manifest.get("training")}
    for key, value in expected.items():
        if results.get(key) != value:
            raise InputError(
                f"--results {path}: {key} {results.get(key)!r}: the version has {value!r}: give "
                "what triage evaluate --data --json wrote for the same job directory and step"
            )
    if results.get("split") != "test":
        raise InputError(
            f"--results {path}: split {results.get('split')!r}: expected test, as the agent learned from the others: "
            f"measure it: triage evaluate --data DIR --job-dir DIR --split test --json {path}"
        )
    if results.get("max_questions") != manifest["max_questions"]:
        raise InputError(
            f"--results {path}: max_questions {results.get('max_questions')!r}: the version asks at most "
            f"{manifest['max_questions']}, and triage evaluate measures the agent's own limit: leave --results out; "
            "triage export --data DIR measures the version itself"
        )
    measured, decides = results.get("operating_point") or {}, manifest["decision"]
    differences = [
        f"{name} {measured.get(name)!r} there, {decides[name]!r} in the version"
        for name in _POINT
        if name in decides and measured.get(name) != decides[name]
    ]
    if differences:
        given = [f"{flag} {decides[name]}" for name, flag in _POINT.items() if decides.get(name) is not None]
        raise InputError(
            f"--results {path}: the figures are of another operating point ({'; '.join(differences)}): measure that of "
            f"the version: triage evaluate --data DIR --job-dir DIR {' '.join(given)} --json {path}"
        )


def _check_monitoring(path: pathlib.Path, monitored: Any, manifest: str) -> None:
    """Raises InputError if figures are not of cases that the version with this digest of its manifest served."""
    if monitored.get("manifest_sha256") != manifest:
        raise InputError(
            f"--monitoring {path}: of another version: give what triage monitor --model --json wrote for this one"
        )


def _check_rules(path: pathlib.Path, results: Any, folder: pathlib.Path, rules: dict[str, Any]) -> None:
    """Raises InputError if there are figures with safety rules, and these are not the `rules` of the version."""
    measured = value_at(results, "safety_rules", "rules")
    if measured is not None and measured["fingerprint"] != rules["fingerprint"]:
        given = f"with --rules {folder / directories.RULES}" if rules["rules"] else "without --rules and --html"
        raise InputError(
            f"--results {path}: the figures with safety rules are of other rules ({measured['source']} there, "
            f"{rules['source']} in the version): run triage evaluate {given}"
        )
