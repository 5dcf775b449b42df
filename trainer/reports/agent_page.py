"""The report on one agent, as `triage evaluate --html` writes it: one page that a clinician reads."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from schemas.errors import InputError
from schemas.promise import NOT_COVERED
from schemas.triage import ACTION_LABELS, DECISION_LABELS
from trainer.evaluation.slices import FALSE_DISCOVERIES
from trainer.reports import tables
from trainer.reports.agent_report import AgentReport
from trainer.reports.charts import calibration_chart
from trainer.reports.numbers import APPROPRIATENESS, NONE, count, several, shown
from trainer.reports.page import clean, page
from trainer.training import promises
from triage_runtime.storage.whole_file import removed_unless_written

_MOST_SLICES = 8
"""Values of one tag that the page shows, the largest ones; `--json` has all of them."""
_SIMULATED = {
    True: "Vignettes and clinicians' decisions are simulated by a program: the figures say nothing about patients.",
    None: "It is not recorded whether the vignettes and decisions are simulated.",
}
_ANSWERS = {"present": "yes", "absent": "no", None: "not known (no evidence left)"}


def agent_page(report: AgentReport, provenance: Mapping[str, Any]) -> str:
    """Returns the page; sections for which something is missing say so."""
    report, provenance = clean(report), clean(provenance)
    textbook = report.textbook_cases
    return page(
        "agent.html.jinja",
        {"calibration": calibration_chart(report)},
        report=report,
        simulated=_SIMULATED[report.simulated],
        command=provenance.get("command"),
        interviews=tables.interviews(report),
        random_order=tables.random_order(report),
        decides=_decides(report),
        confusion=tables.confusion(report),
        corrected=FALSE_DISCOVERIES,
        gaps=tables.gaps(report),
        slices=tables.slices(report, _MOST_SLICES),
        cards=[_card(error) for error in report.errors],
        textbook=textbook and tables.textbook_cases(textbook),
        missed=textbook and tables.missed_cases(textbook),
        facts=_facts(report, provenance),
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


def _decides(report: AgentReport) -> list[tuple[str, str]]:
    """Returns how the agent decides and what was promised of it, as names and values."""
    point, effect = report.operating_point, report.safety_rules
    decides = "by its Q-values"
    if point is not None:
        threshold = "" if point.sure_enough is None else f", asks until sure by {point.sure_enough:g}"
        decides = f"safety weight {point.safety_weight:g}, price {point.price:.2g}{threshold}"
    rules = report.no_safety_rules.removeprefix("no safety rules: ") or NONE
    if effect is not None:
        rules = tables.rule_effect(effect)
    constants = (
        f"{name} {shown(APPROPRIATENESS, quality[APPROPRIATENESS.key].mean)}"
        for name, quality in report.constants.items()
    )
    kept = any(promise.kept for promise in report.promises)
    rows = (
        ("Textbook emergencies too late", report.textbook_cases and tables.late_emergencies(report.textbook_cases)),
        ("Operating point", decides),
        ("Safety rules", rules),
        ("Promises", " ".join(map(promises.in_words, report.promises))),
        ("No promise covers", "; ".join(NOT_COVERED) if kept else ""),
        ("Always the same decision is appropriate in", ", ".join(constants)),
    )
    return [(name, value) for name, value in rows if value]


def _facts(report: AgentReport, provenance: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """Returns what was measured on what, and with which versions."""
    versions = {"dyqn_triage": "dyqn-triage", "python": "Python", "tensorflow": "TensorFlow"}
    training = report.training
    return [
        ("Agent", f"{report.job_dir}, after {several(training['steps'], 'step')} and "
         f"{several(training['episodes'], 'episode')}; {several(report.networks, 'network')}"),
        ("Vignettes", f"{report.data}, {report.split} split, {count(report.vignettes)}, each in "
         f"{several(report.orders, 'evidence order')} (seed {report.seed})"),
        ("Pieces of evidence in a vignette", f"{report.mean_evidence:.1f} in the mean"),
        ("Question limit", count(report.max_questions)),
        ("Fingerprint of these data", report.data_fingerprint),
        ("Fingerprint of the data learned from", report.trained_on),
        ("Fingerprint of the vocabulary", report.vocabulary_fingerprint),
        ("Versions", ", ".join(f"{label} {provenance.get(key) or NONE}" for key, label in versions.items())),
        ("Finished", str(provenance.get("finished") or NONE)),
    ]  # fmt: skip


class Step(NamedTuple):
    """One step of an episode: the question, its answer, and what the agent decides by."""

    evidence: str
    answer: str
    values: Sequence[tuple[float, bool]]  # of each action, and whether it is the highest
    action: str


class Card(NamedTuple):
    """One vignette that the agent triaged wrongly, see `walk.worst_cases`."""

    error: Mapping[str, Any]
    steps: Sequence[Step]
    effects: Sequence[str]  # the largest first

    @property
    def levels_too_low(self) -> int:
        """Number of levels by which the agent is less urgent than the least urgent clinician."""
        decided, *given = map(DECISION_LABELS.index, (self.error["decision"], *self.error["decisions"]))
        return decided - max(given)


def _card(error: Mapping[str, Any]) -> Card:
    effects = [f"{each['evidence']} ({_ANSWERS[each['presence']]}) {each['effect']:.3f}" for each in error["effects"]]
    known = [step for step in error["steps"] if step["presence"] is not None]
    in_vain = error["steps"][len(known) :]  # asked when nothing was left to know: one line
    if in_vain:
        times = f", {len(in_vain)} times" if len(in_vain) > 1 else ""
        known.append({**in_vain[-1], "evidence": in_vain[-1]["evidence"] + times})
    return Card(error, [_step(step) for step in known], effects)


def _step(step: Mapping[str, Any]) -> Step:
    highest = max(step["values"].values())
    values = [(step["values"][action], step["values"][action] == highest) for action in ACTION_LABELS]
    return Step(step["evidence"], _ANSWERS[step["presence"]], values, step["action"])
