"""Lists of what assessors ask for, and what the files of a version answer."""

import dataclasses
import importlib.resources
import sys

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NAMES = ("tripod_ai", "decide_ai", "annex_iv")


@dataclasses.dataclass(frozen=True)
class Item:
    """One item of a list.

    Attributes:
        number: as published.
        item: what it asks for, in our words.
        facts: fields that answer it, such as `card:evaluation.agent.safety`: a source, and keys from its top.
        software: what holds for every model, each a sentence and the page that says more.
    """

    number: str
    item: str
    facts: tuple[str, ...] = ()
    software: tuple[tuple[str, str], ...] = ()


@dataclasses.dataclass(frozen=True)
class Checklist:
    """A list of what assessors ask for, with the publication that it is from."""

    title: str
    source: str
    subject: str
    items: tuple[Item, ...]


def read_checklist(name: str) -> Checklist:
    """Returns one of `NAMES`."""
    table = tomllib.loads(importlib.resources.files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))
    items = [
        Item(
            each["number"],
            each["item"],
            tuple(each.get("facts", ())),
            tuple((text, page) for text, page in each.get("software", ())),
        )
        for each in table["items"]
    ]
    return Checklist(table["title"], table["source"], table["subject"], tuple(items))
