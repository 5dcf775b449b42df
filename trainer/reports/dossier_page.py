"""Writes a dossier as Markdown."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from trainer.reports.card_markdown import escape, table
from trainer.reports.checklists import Checklist, Item
from trainer.reports.numbers import bracketed, estimate_at, value_at

MISSING = "The organisation must supply this."
_ABOUT = """\
What the files of this version say about what each list asks for, with the file and the field. An item that none of them
answers says: *{missing}* An item with facts may need more than they say. Items have their published numbers, and what
they ask for is in our words: read the originals. **This is a collection of facts, not an assessment, and it claims
nothing about any law, standard or guideline.** The software is for research; it is not a medical device, and it is not
validated for care."""


class FactsFile(NamedTuple):
    """A file of facts."""

    file: str  # its name, for readers
    sha256: str
    content: Mapping[str, Any]


def page(version: str, sources: Mapping[str, FactsFile], checklists: Iterable[Checklist]) -> str:
    """Returns the dossier of a version.

    Args:
        version: its number.
        sources: by the names that the items use.
        checklists: what to fill.
    """
    contents = {name: source.content for name, source in sources.items()}
    files = {name: source.file for name, source in sources.items()}
    sections = [
        f"# Dossier: triage agent, version {escape(version)}",
        _ABOUT.format(missing=MISSING),
        "## Sources",
        table(("file", "SHA-256"), ((escape(source.file), source.sha256) for source in sources.values())),
    ]
    for checklist in checklists:
        rows = ((each.number, each.item, _answer(each, contents, files)) for each in checklist.items)
        sections += [
            f"## {checklist.title}",
            f"For {checklist.subject}. Source: {checklist.source}.",
            table(("item", "asks for", "facts and where they are from"), rows),
        ]
    return "\n\n".join(sections) + "\n"


def _answer(item: Item, contents: Mapping[str, Mapping[str, Any]], files: Mapping[str, str]) -> str:
    parts = []
    for fact in item.facts:
        name, _, field = fact.partition(":")
        text = _words(value_at(contents, name, *field.split(".")))
        if text:
            parts.append(f"{escape(field)}: {escape(text)} ({escape(files[name])})")
    parts += [f"{text} ({page})" for text, page in item.software]
    return "<br>".join(parts) or MISSING


def _words(value: Any) -> str:
    """Returns a value for people, "" if there is none."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        if not {"mean", "low", "high"} <= value.keys():
            return _pairs(value)
        estimate = estimate_at(value)
        return "" if estimate is None else bracketed(estimate)
    if isinstance(value, list):
        if any(isinstance(each, Mapping) for each in value):
            return f"{len(value):,} entries"
        return "; ".join(filter(None, map(_words, value)))
    return str(value)


def _pairs(value: Mapping[str, Any]) -> str:
    texts = {name: (_words(each), isinstance(each, Mapping | list)) for name, each in value.items()}
    return ", ".join(
        f"{name} ({text})" if nested else f"{name} {text}" for name, (text, nested) in texts.items() if text
    )
