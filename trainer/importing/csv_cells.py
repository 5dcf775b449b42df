"""What the cells of a CSV file of vignettes say."""

from collections.abc import Mapping
from typing import Any

from schemas.bands import is_numeric
from schemas.csv_table import Row
from schemas.errors import InputError, shown
from schemas.triage import DECISION_LABELS
from trainer.vignettes.vignette import VignetteError
from triage_runtime.case import PRESENCE

LIST_SEPARATOR = ";"
"""Separates the items of a cell."""
OPTIONAL_COLUMNS = ("split", "tags")


def parse_presence(cell: str) -> bool:
    """Returns whether a cell says present rather than absent.

    Raises:
        VignetteError: it says neither.
    """
    presence = PRESENCE.get(cell.lower())
    if presence is None:
        found = "a number, of which the vocabulary has no band (docs/data.md)" if is_numeric(cell) else shown(cell)
        raise VignetteError(f"expected present or absent (or 1/0, yes/no, true/false, +/-), found {found}")
    return presence


def parse_list(cell: str) -> list[str]:
    """Returns the items of a cell."""
    return [item.strip() for item in cell.split(LIST_SEPARATOR)] if cell else []


def decision_label(cell: str) -> str:
    """Returns the label of a triage decision written in any case; what names none stays as it is."""
    label = cell.capitalize()
    return label if label in DECISION_LABELS else cell


def optional_fields(cells: Mapping[str, str]) -> dict[str, Any]:
    """Returns `split` and `tags` as in a vignette file; an empty cell is None."""
    return {"split": cells.get("split") or None, "tags": parse_list(cells.get("tags", "")) or None}


def stated_id(row: Row, place: int) -> str | None:
    """Returns the vignette id in the cell at `place`, None if the row cannot be read so far.

    Raises:
        InputError: the cell is empty, as below the first row of merged cells: what the row says would be lost.
    """
    if place >= len(row.cells):
        return None
    if not row.cells[place]:
        raise InputError(
            f"{row.line.file}: line {row.line.number}: no vignette_id: give each row its own, which merged cells have "
            "in their first row alone, or delete the row"
        )
    return row.cells[place]
