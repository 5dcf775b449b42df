"""The work of `triage prepare`; its options are in `trainer.commands.prepare`."""

import argparse
import functools
import hashlib
import os
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from rich import progress as bars
from rich.console import Console

from schemas import directories
from schemas.errors import InputError
from schemas.evidence import Vocabulary
from schemas.relations import RELATIONS
from trainer.commands.prepare import PrepareOptions
from trainer.data import input_formats
from trainer.data.data_writer import write_splits
from trainer.data.input_formats import Source
from trainer.data.output import OutputDirectory, describe, output_directory
from trainer.data.source import BLANK_LINES, RejectLog, accept
from trainer.data.split import split_warnings
from trainer.data.vignette import Vignette
from trainer.simulation.knowledge_base import with_known_relations
from triage_runtime.command_line import json_output, options
from triage_runtime.command_line.progress import progress_bar, say, say_result, tracked
from triage_runtime.storage import locations

_COLUMNS_LISTED = 12


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; returns the exit code."""
    given = options.read(PrepareOptions, arguments)
    return prepare(input_formats.chosen_format(arguments).open(given.seed), given)


def prepare(source: Source, given: PrepareOptions) -> int:
    """Makes the data directory of an input; returns the exit code."""
    with output_directory(given.out, given.overwrite) as output, progress_bar(Console(stderr=True)) as bar:
        vocabulary, stats = _prepare(source, given, output, bar)
        describe(output.staging, vocabulary, stats)
        output.publish()
    return _report(source, vocabulary, stats, given)


def _prepare(
    source: Source, given: PrepareOptions, output: OutputDirectory, bar: bars.Progress
) -> tuple[Vocabulary, dict[str, Any]]:
    log = RejectLog(output.staging / directories.REJECTS, lambda text: say(bar.console, text))
    with log:
        content = source.read(lambda rows, unit: tracked(rows, bar, "load", unit=unit))
        vignettes, left_out = accept(tracked(content.outcomes, bar, "read"), log)
    blank_lines = left_out.pop(BLANK_LINES)
    for kind, count in left_out.items():
        say(bar.console, f"{kind}: {count:,} left out")
    try:
        if log.count and not given.allow_rejects:
            read = log.count + len(vignettes)
            raise InputError(f"{log.count:,} of {read:,} {source.unit} were rejected, and nothing was prepared")
        if not vignettes:
            raise InputError("the input has no vignettes")
        shown = functools.partial(tracked, bar=bar, description="write", total=len(vignettes))
        written = write_splits(vignettes, output.staging, Fraction(str(given.test_fraction)), given.seed, shown)
    except InputError as error:
        raise _with_rejects(error, log.count, output, given) from None
    vocabulary = with_known_relations(content.vocabulary)
    if changed := sum(one != other for one, other in zip(vocabulary, content.vocabulary, strict=True)):
        say(
            bar.console,
            f"relations of {changed:,} codes were taken from the knowledge base: check them in vocabulary.csv",
        )
    stats = _header(source, vocabulary, given) | written
    stats |= {"rejected": log.count, "blank_lines": blank_lines, "left_out": left_out}
    return vocabulary, stats | {"contradictory": _contradictory(vignettes, vocabulary)}


def _contradictory(vignettes: Sequence[Vignette], vocabulary: Vocabulary) -> dict[str, Any]:
    """Returns the number of vignettes whose evidence cannot be so together, and the first one in words."""
    relations = vocabulary.relations
    first_faults = (
        (vignette, next(relations.contradictions(vignette.present, frozenset(vignette.absent)), None))
        for vignette in vignettes
    )
    faults = [f"vignette {vignette.vignette_id}: {fault}" for vignette, fault in first_faults if fault]
    return {"vignettes": len(faults), "first": next(iter(faults), None)}


def _with_rejects(error: InputError, rejected: int, output: OutputDirectory, given: PrepareOptions) -> InputError:
    """Returns the error; if there are rejects, publishes their list, which the error then names."""
    if not rejected:
        return error
    way_on = "" if given.allow_rejects else ", or leave them out with --allow-rejects"
    place = output.publish_rejects()
    return InputError(f"{error}; {place} lists the rejected lines: correct them{way_on}")


def _header(source: Source, vocabulary: Vocabulary, given: PrepareOptions) -> dict[str, Any]:
    """Returns the first part of stats.json."""
    paths = [*source.described, *(reader.path for reader in source.readers)]
    digests = [(path, hashlib.sha256(path.read_bytes()).hexdigest()) for path in paths]
    return {
        "format": given.format,
        "sources": [{"file": path.name, "sha256": sha256} for path, sha256 in digests],
        "options": source.options | ({directories.WHOLE_PATIENT: True} if given.whole_patient else {}),
        "seed": given.seed,
        "test_fraction": given.test_fraction,
        "vocabulary_fingerprint": vocabulary.fingerprint,
    }


def _report(source: Source, vocabulary: Vocabulary, stats: dict[str, Any], given: PrepareOptions) -> int:
    """Says what was prepared and what to beware of; returns the exit code."""
    console, out = Console(stderr=True), locations.shown(given.out)
    if source.derived:
        if columns := source.evidence_columns:
            listed = ", ".join([*columns[:_COLUMNS_LISTED], *(["..."] if len(columns) > _COLUMNS_LISTED else [])])
            taken = f"columns taken as evidence ({len(columns):,}): {listed}"
            say(console, f"{taken}; leave out others by the option ignore-columns")
        symptoms = sum(entry.kind == "symptom" for entry in vocabulary)
        kinds = f"symptoms: {symptoms:,}, risk factors: {len(vocabulary) - symptoms:,}"
        say(
            console,
            f"the vocabulary was derived from the data ({kinds}): copy {os.path.join(out, directories.VOCABULARY)}, "
            "review its kinds, names and questions, and give the copy as the vocabulary from now on",
        )
    for warning in split_warnings(stats["splits"]):
        say(console, f"warning: {warning}")
    if not stats["splits"]["test"]["vignettes"]:
        say(console, "warning: the test split is empty: triage evaluate cannot measure anything")
    if stats["contradictory"]["vignettes"]:
        say(
            console,
            f"warning: contradictory evidence, which a server refuses, in {stats['contradictory']['vignettes']:,} "
            f"vignettes; {stats['contradictory']['first']}: correct them, or the columns {' and '.join(RELATIONS)} "
            "of the vocabulary",
        )
    if given.json != "-":
        sizes = ", ".join(f"{split} {part['vignettes']:,}" for split, part in stats["splits"].items())
        left_out = f"{stats['rejected']:,} rejected, {stats['blank_lines']:,} blank lines"
        say(Console(), f"{out}: {sizes} vignettes; {left_out}")
    json_output.write({"out": out, **stats}, given.json)
    say_result(console, out, f"triage stats {out} --validate, then triage train --data {out} --job-dir DIR")
    return 0
