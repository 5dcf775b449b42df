"""What patients say for a piece of evidence: a cell of a vocabulary file, or a file of its own beside a catalogue."""

from collections.abc import Sequence

from schemas.csv_table import CsvTable
from schemas.errors import InputError

SYNONYMS = "synonyms"
"""The optional fifth column of a vocabulary: phrases in any language, separated by `|`."""
CRISIS = "!"
"""The mark before a phrase that is an emergency term: a search shows its matches first."""
_SEPARATOR = "|"


def split(cell: str) -> tuple[str, ...]:
    """Returns the phrases in a cell."""
    return tuple(cell.split(_SEPARATOR)) if cell else ()


def join(phrases: Sequence[str]) -> str:
    """Returns the cell that `split` reads."""
    return _SEPARATOR.join(phrases)


def parse(text: str, source: str, column: str = SYNONYMS) -> dict[str, tuple[str, ...]]:
    """Reads a file with a line for each code: the code and its phrases.

    Args:
        text: of the file.
        source: its name in errors.
        column: of the phrases.

    Raises:
        InputError: the header or a line is malformed.
    """
    phrases: dict[str, tuple[str, ...]] = {}
    for number, row in CsvTable.of_text(text, source, ("code", column)).records():
        if row["code"] in phrases:
            raise InputError(f"{source}: line {number}: {row['code']!r} is already on a line above")
        phrases[row["code"]] = split(row[column])
    return phrases
