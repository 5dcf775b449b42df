"""The results of a study as Markdown: the tables of its report, for a repository or a terminal."""

import re
import textwrap
from collections.abc import Mapping
from typing import Any

import jinja2

from trainer.reports import headline, numbers, sentences, tables
from trainer.reports.learning_figures import k_fold_figure
from trainer.reports.numbers import APPROPRIATENESS, SAFETY, Table

RESULTS = "results.md"
_WIDTH = 120
_CURVES = {"dyqn_or": "DyQN, OR query", "calibrated": "Ensemble, calibrated", "uncalibrated": "Ensemble, uncalibrated"}
# What Markdown reads as more than a letter.
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|])")


def results_markdown(results: Mapping[str, Any]) -> str:
    """Returns a page with the tables of a study; sections that the study did not run are left out.

    Args:
        results: results.json of `triage reproduce`, cleaned as for the report.
    """
    environment = jinja2.Environment(  # noqa: S701  (no HTML: texts are escaped for Markdown)
        loader=jinja2.PackageLoader("trainer.reports", package_path=""),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"cell": _cell, "text": _wrapped, "item": lambda text: _wrapped(text, "  ")}
    page = environment.get_template("results.md.jinja").render(
        simulated=sentences.simulated(results),
        headline=headline.headline(results),
        terms=headline.TERMS,
        beside=headline.beside_table(results),
        verdict=sentences.verdict(results),
        answer=sentences.answer(results),
        command=" ".join(str(numbers.value_at(results, "provenance", "command") or "(not recorded)").split()),
        facts=_facts(results),
        agents_columns=("Agent", *(measure.label for measure in numbers.MEASURES)),
        agents=_agents(results),
        alike=tables.alike_table(results),
        claims=tables.claims_table(results),
        k_fold=_k_fold(results),
        evidence=_evidence(results),
        ablations=tables.ablations_table(results),
        unseen=tables.unseen_table(results),
        coverage=tables.coverage_tables(results),
        agreement=tables.agreement_sentences(results),
        failures=[(each["task"], each["error"]) for each in results.get("failures") or []],
        limits=sentences.limits(results),
    )
    return re.sub(r"\n{3,}", "\n\n", page).strip() + "\n"


def _cell(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", " ".join(str(text).split()))


def _wrapped(text: str, indent: str = "") -> str:
    """Returns a paragraph, or the text of a list item, in lines of a readable width."""
    lines = textwrap.wrap(_cell(text), _WIDTH - 20, break_long_words=False, break_on_hyphens=False)
    return f"\n{indent}".join(lines)


def _facts(results: Mapping[str, Any]) -> list[tuple[str, str]]:
    provenance, data, settings = (results.get(key) or {} for key in ("provenance", "data", "settings"))
    versions = {"dyqn_triage": "dyqn-triage", "python": "Python", "tensorflow": "TensorFlow",
                "scikit_learn": "scikit-learn"}  # fmt: skip
    seconds, work = (numbers.duration(numbers.number_at(provenance, name)) for name in ("seconds", "task_seconds"))
    given = {
        "Duration": f"{seconds} on {numbers.count(provenance.get('cores'))} cores since the last start",
        "Duration of all tasks together": f"{work}, each in one process",
        "Finished": provenance.get("finished"),
        "Platform": provenance.get("platform"),
        "Versions": ", ".join(f"{label} {provenance.get(key) or numbers.NONE}" for key, label in versions.items()),
        "Data": f"{numbers.count(numbers.number_at(data, 'vignettes', 'train'))} training and "
        f"{numbers.count(numbers.number_at(data, 'vignettes', 'test'))} test vignettes, {data.get('data_fingerprint')}",
        "Seeds": f"from {numbers.value_at(settings, 'train', 'loop', 'seed')}: {settings.get('seeds')} of DyQN and "
        f"ablations, {settings.get('partially_observed_seeds')} of the partially observed agents, "
        f"{settings.get('fold_seeds')} of {settings.get('folds')} folds",
        "Steps of a training": numbers.count(numbers.value_at(settings, "train", "loop", "steps")),
        "Evaluations averaged": numbers.count(settings.get("evaluations_averaged")),
        "Rows of the expanded data set": numbers.count(settings.get("powerset_rows")),
    }
    return [(name, str(value or numbers.NONE)) for name, value in given.items()]


def _agents(results: Mapping[str, Any]) -> list[tuple[str, ...]]:
    rows = []
    for row in tables.results_rows(results):
        cells = []
        for cell in row.cells:
            text = cell.mean + (f" ({cell.interval})" if cell.interval else "")
            text += f" SD {cell.spread}" if cell.spread else ""
            cells.append(text + (f" [{cell.paper}]" if cell.paper not in (None, numbers.NONE) else ""))
        rows.append((row.label, *cells))
    return rows


def _k_fold(results: Mapping[str, Any]) -> Table | None:
    """Returns the numbers of the figure: mean and range over all folds, beside the common split."""
    drawing = k_fold_figure(results)
    if drawing is None or drawing.numbers is None:
        return None
    rows = tuple((name, mean, f"{low} to {high}", *rest) for name, low, mean, high, *rest in drawing.numbers.rows)
    repetitions = numbers.value_at(results, "k_fold", "repetitions") or 1
    mean_of = f"Mean of {len(results['k_fold']['runs'])} folds in {numbers.several(repetitions, 'repetition')}"
    columns = ("DyQN, OR query", mean_of, "Lowest and highest fold", "Common split", "Paper, folds")
    return Table(drawing.numbers.caption, columns, rows)


def _evidence(results: Mapping[str, Any]) -> Table | None:
    curves = {name: numbers.value_at(results, "by_evidence", name) or [] for name in _CURVES}
    known = {name: {point["pieces"]: point for point in points} for name, points in curves.items() if points}
    if not known:
        return None
    pieces = sorted({count for points in known.values() for count in points})
    rows = tuple(
        (
            f"{count}",
            numbers.count(next(points[count]["states"] for points in known.values() if count in points)),
            *(_quality(points.get(count)) for points in known.values()),
        )
        for count in pieces
    )
    return Table("By evidence", ("Pieces", "States", *(_CURVES[name] for name in known)), rows)


def _quality(point: Mapping[str, Any] | None) -> str:
    shown = (numbers.shown(measure, numbers.number_at(point, measure.key)) for measure in (APPROPRIATENESS, SAFETY))
    return " / ".join(shown)
