"""The report on one agent, as `triage evaluate --html` writes it: one page that a clinician reads."""

import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from schemas.errors import InputError
from trainer.reports import agent_tables, sentences, tables
from trainer.reports.agent_figures import (
    appropriate_figure,
    beside_figure,
    frontier_figure,
    own_confusion_figure,
    own_slices_figure,
    safe_figure,
    training_figure,
)
from trainer.reports.agent_report import AgentReport
from trainer.reports.drawing import Drawing
from trainer.reports.headline import agent_headline
from trainer.reports.page import clean, page
from triage_runtime.storage.whole_file import removed_unless_written

_FIGURES: dict[str, Callable[[AgentReport], Drawing | None]] = {
    "beside": beside_figure,
    "frontier": frontier_figure,
    "confusion": own_confusion_figure,
    "reliability_appropriate": appropriate_figure,
    "reliability_safe": safe_figure,
    "slices": own_slices_figure,
    "learning_curve": training_figure,
}


def agent_page(report: AgentReport, provenance: Mapping[str, Any]) -> str:
    """Returns the page; sections for which something is missing say so.

    Args:
        report: on the agent.
        provenance: as `trainer.reports.provenance` makes it.
    """
    report, provenance = clean(report), clean(provenance)
    return page(
        "agent.html.jinja",
        {name: draw(report) for name, draw in _FIGURES.items()},
        report=report,
        command=provenance.get("command"),
        simulated=sentences.simulated({"data": {"simulated": report.simulated}}),
        headline=agent_headline(report),
        beside=agent_tables.own_beside_table(report),
        answers=agent_tables.answers(report),
        gaps=agent_tables.gaps_table(report),
        gaps_sentence=agent_tables.gaps_sentence(report),
        slices_notes=agent_tables.slices_notes(report),
        cards=tables.cards(report.errors),
        by_utility=report.operating_point is not None,
        textbook=agent_tables.textbook_table(report),
        missed_emergencies=agent_tables.missed_emergencies(report),
        limits=agent_tables.own_limits(report),
        facts=agent_tables.facts(report, provenance),
    )


def write_page(report: AgentReport, provenance: Mapping[str, Any], path: pathlib.Path) -> None:
    """Writes `agent_page` to `path`.

    Raises:
        InputError: the file cannot be written.
    """
    text = agent_page(report, provenance)
    try:
        with removed_unless_written(path):
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"--html {path}: cannot write: {error.strerror or error}") from error
