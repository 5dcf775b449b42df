"""How the cells of a CSV file spell presence, lists and what may be left out; docs/data.md states it for users."""

from collections.abc import Mapping
from typing import Any

from trainer.importing.csv_table import Row
from trainer.vignettes.vignette import VignetteError, shown

LIST_SEPARATOR = ";"
"""Between the items of a cell that holds several."""
OPTIONAL_COLUMNS = ("split", "tags")
PRESENCE = {
    **dict.fromkeys(("present", "yes", "true", "1", "1.0", "+"), True),
    **dict.fromkeys(("absent", "no", "false", "0", "0.0", "-"), False),
}
"""Spellings of presence, in lower case; 1.0 is what becomes of 1 where a data frame has numbers and gaps."""


def parse_presence(cell: str) -> bool:
    """Returns whether a cell says present, or absent.

    Raises:
        VignetteError: it says something else.
    """
    presence = PRESENCE.get(cell.lower())
    if presence is None:
        raise VignetteError(f"expected present or absent (or 1/0, yes/no, true/false, +/-), found {shown(cell)}")
    return presence


def parse_list(cell: str) -> list[str]:
    """Returns the items of a cell, none where it is empty."""
    return [item.strip() for item in cell.split(LIST_SEPARATOR)] if cell else []


def optional_fields(cells: Mapping[str, str]) -> dict[str, Any]:
    """Returns `split` and `tags` as a vignette file has them; an empty cell states nothing."""
    fields: dict[str, Any] = {}
    if cells.get("split"):
        fields["split"] = cells["split"]
    if cells.get("tags"):
        fields["tags"] = parse_list(cells["tags"])
    return fields


def stated_id(row: Row, place: int) -> str | None:
    """Returns the vignette id in the cell at `place`, None where the row has no readable one."""
    return row.cells[place] or None if place < len(row.cells) else None
