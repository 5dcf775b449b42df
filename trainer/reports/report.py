"""The report of a study: one page that a clinician reads, with its figures as PNG files and its tables as Markdown.

The page stands alone: it loads nothing, runs no script, and shows all data as text.
"""

import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from schemas.errors import InputError
from trainer.reports import headline, numbers, sentences, tables
from trainer.reports.drawing import Drawing, save_png
from trainer.reports.interval_figures import agents_figure, slices_figure
from trainer.reports.learning_figures import k_fold_figure, learning_figure, questions_figure
from trainer.reports.markdown import RESULTS, results_markdown
from trainer.reports.page import clean, page
from trainer.reports.quality_figures import confusion_figure, evidence_figure, reliability_figure

REPORT = "report.html"
FIGURES = "figures"

_FIGURES: dict[str, Callable[[Mapping[str, Any]], Drawing | None]] = {
    "agents": agents_figure,
    "learning_curves": learning_figure,
    "questions": questions_figure,
    "by_evidence": evidence_figure,
    "k_fold": k_fold_figure,
    "reliability": reliability_figure,
    "confusion": confusion_figure,
    "slices": slices_figure,
}


def write_report(results: dict[str, Any], out: pathlib.Path) -> None:
    """Writes `out`/report.html, `out`/results.md and `out`/figures/*.png; makes `out` where it is missing.

    Sections that the study did not run say so. The page is written last: where it stands, its figures are whole.

    Args:
        results: results.json of `triage reproduce`.
        out: directory; figures of an earlier report in it are replaced.

    Raises:
        InputError: `out` cannot be written.
    """
    cleaned = clean(results)
    drawings = {name: draw(cleaned) for name, draw in _FIGURES.items()}
    text = _page(cleaned, drawings)
    try:
        (out / FIGURES).mkdir(parents=True, exist_ok=True)
        (out / REPORT).unlink(missing_ok=True)
        for name, drawing in drawings.items():
            path = out / FIGURES / f"{name}.png"
            path.unlink(missing_ok=True)
            if drawing:
                save_png(drawing, path)
        (out / RESULTS).write_text(results_markdown(cleaned), encoding="utf-8")
        (out / REPORT).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"--out {out}: cannot write the report: {error.strerror or error}") from error


def _page(results: Mapping[str, Any], drawings: Mapping[str, Drawing | None]) -> str:
    return page(
        "report.html.jinja",
        drawings,
        at=lambda *keys: numbers.value_at(results, *keys),
        headline=headline.headline(results),
        terms=headline.TERMS,
        beside=headline.beside_table(results),
        verdict=sentences.verdict(results),
        answer=sentences.answer(results),
        simulated=sentences.simulated(results),
        limits=sentences.limits(results),
        measures=numbers.MEASURES,
        targets=numbers.TARGETS,
        agents=tables.results_rows(results),
        seeds=_most_seeds(results),
        alike=tables.alike_table(results),
        claims=tables.claims_table(results),
        ablations=tables.ablations_table(results),
        unseen=tables.unseen_table(results),
        coverage=tables.coverage_tables(results),
        agreement=tables.agreement_sentences(results),
        cards=tables.cards(results.get("errors") or []),
        settings=tables.flat(results.get("settings")) if results.get("settings") else [],
        duration=numbers.duration(numbers.number_at(results, "provenance", "seconds")),
    )


def _most_seeds(results: Mapping[str, Any]) -> int:
    agents = numbers.agents_of(results).values()
    return max((len(numbers.value_at(agent, "metrics", "safety", "per_seed") or []) for agent in agents), default=0)
