"""`triage knowledge`: checks a clinical knowledge base and prints it for review by clinicians."""

import argparse
import collections
import dataclasses
import pathlib
from typing import Any

from rich.console import Console

from schemas.triage import DECISION_LABELS
from trainer.simulation.knowledge_base import Condition, KnowledgeBase
from triage_runtime.command_line import json_output, options
from triage_runtime.command_line.progress import say
from triage_runtime.storage import locations

NOTICE = "From general clinical knowledge, for research and teaching; not for clinical use."


@dataclasses.dataclass(frozen=True)
class KnowledgeOptions:
    """The options of `triage knowledge`, see its help."""

    directory: pathlib.Path | None
    list: bool
    condition: str | None
    json: str | pathlib.Path | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` the options of `triage knowledge`."""
    parser.add_argument(
        "directory", type=locations.source, nargs="?", help="knowledge base to check (default: the package's)"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="list all conditions")
    what.add_argument("--condition", metavar="CODE", help="print everything about a condition")
    json_output.add_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; returns the exit code."""
    given = options.read(KnowledgeOptions, arguments)
    knowledge = KnowledgeBase.load(given.directory)
    if given.json != "-":
        console = Console()
        if given.condition:
            say(console, condition_text(knowledge.condition(given.condition), knowledge))
        elif given.list:
            say(console, _list(knowledge))
        else:
            say(console, _summary(knowledge))
    json_output.write(_figures(knowledge), given.json)
    return 0


def condition_text(condition: Condition, knowledge: KnowledgeBase) -> str:
    """Returns what the knowledge base says about a condition, as several lines of text."""

    def name(code: str) -> str:
        return knowledge.catalogue[code].evidence.name

    urgency = zip(DECISION_LABELS, condition.urgency, strict=True)
    lines = [
        f"{condition.name} ({condition.icd10}), {condition.system}",
        f"  {condition.prevalence:g} in 1,000 patients",
        "  urgency: " + ", ".join(f"{label} {share:.0%}" for label, share in urgency if share),
    ]
    for key, title in (
        ("requires", "only with"), ("red_flags", "more urgent with red flags"), ("urgent_with", "more urgent with"),
    ):  # fmt: skip
        codes = getattr(condition, key)
        lines += [f"  {title}: {', '.join(map(name, codes))}"] if codes else []
    lines.append("  shows:")
    by_probability = sorted(condition.evidence.items(), key=lambda item: -item[1])
    lines += [f"    {value:6.1%}  {name(code)}" for code, value in by_probability]
    lines.append("  times as likely with:")
    lines += [f"    {value:6g}  {name(code)}" for code, value in condition.risk_factors.items()]
    return "\n".join(lines)


def _summary(knowledge: KnowledgeBase) -> str:
    figures_ = _figures(knowledge)
    systems = ", ".join(f"{system} {count}" for system, count in figures_["conditions_by_system"].items())
    return (
        f"{figures_['evidence']} pieces of evidence: {figures_['symptoms']} symptoms and signs, "
        f"{figures_['risk_factors']} risk factors\n{figures_['conditions']} conditions: {systems}\n"
        f"no faults; {figures_['fingerprint']}\n{NOTICE}"
    )


def _figures(knowledge: KnowledgeBase) -> dict[str, Any]:
    return {
        "evidence": len(knowledge.catalogue),
        "symptoms": len(knowledge.catalogue.of_kind("symptom")),
        "risk_factors": len(knowledge.catalogue.of_kind("risk_factor")),
        "conditions": len(knowledge.conditions),
        "conditions_by_system": dict(collections.Counter(condition.system for condition in knowledge.conditions)),
        "fingerprint": knowledge.fingerprint,
    }


def _list(knowledge: KnowledgeBase) -> str:
    """Returns a line per condition: code, ICD-10, cases in 1,000, the shares of the colours, name."""
    longest = max(len(condition.code) for condition in knowledge.conditions)
    lines = [f"{'code':{longest}}  ICD-10  in 1,000  {'  '.join(f'{label:>6}' for label in DECISION_LABELS)}  name"]
    for condition in knowledge.conditions:
        shares = "  ".join(f"{share:6.2f}" for share in condition.urgency)
        described = f"{condition.icd10:6}  {condition.prevalence:8g}  {shares}  {condition.name} ({condition.system})"
        lines.append(f"{condition.code:{longest}}  {described}")
    return "\n".join([*lines, NOTICE])
