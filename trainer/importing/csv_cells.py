"""The spelling of presence, lists and optional fields in the cells of a CSV file (docs/data.md)."""

from collections.abc import Mapping
from typing import Any

from schemas.triage import DECISION_LABELS
from trainer.importing.csv_table import Row
from trainer.vignettes.vignette import VignetteError, shown

LIST_SEPARATOR = ";"
"""Separates the items of a cell."""
OPTIONAL_COLUMNS = ("split", "tags")
PRESENCE = {
    **dict.fromkeys(("present", "yes", "ja", "true", "wahr", "1", "1.0", "1,0", "+"), True),
    **dict.fromkeys(("absent", "no", "nein", "false", "falsch", "0", "0.0", "0,0", "-"), False),
}
"""Spellings of presence, in lower case; data frames with gaps turn 1 into 1.0, which some countries write 1,0."""


def parse_presence(cell: str) -> bool:
    """Returns whether a cell says present rather than absent.

    Raises:
        VignetteError: it says neither.
    """
    presence = PRESENCE.get(cell.lower())
    if presence is None:
        raise VignetteError(f"expected present or absent (or 1/0, yes/no, true/false, +/-), found {shown(cell)}")
    return presence


def parse_list(cell: str) -> list[str]:
    """Returns the items of a cell."""
    return [item.strip() for item in cell.split(LIST_SEPARATOR)] if cell else []


def decision_label(cell: str) -> str:
    """Returns the label of a triage decision written in any case; what names none stays as it is."""
    label = cell.capitalize()
    return label if label in DECISION_LABELS else cell


def optional_fields(cells: Mapping[str, str]) -> dict[str, Any]:
    """Returns `split` and `tags` as in a vignette file; empty cells are left out."""
    fields: dict[str, Any] = {}
    if cells.get("split"):
        fields["split"] = cells["split"]
    if cells.get("tags"):
        fields["tags"] = parse_list(cells["tags"])
    return fields


def stated_id(row: Row, place: int) -> str | None:
    """Returns the vignette id in the cell at `place`, None if the row has no readable one."""
    return row.cells[place] or None if place < len(row.cells) else None
