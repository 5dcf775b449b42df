"""Rejected lines: all of them in a file, the first few on the screen."""

import itertools
import json
import pathlib
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

from trainer.vignettes.source import Rejected

SHOWN = 20
"""Rejects that are shown; the file has all."""


class RejectLog:
    """Writes each rejected line to a JSON Lines file, and the first `SHOWN` to `show`.

    Args:
        path: the file; it is deleted if nothing was rejected.
        show: takes one line of text.
    """

    def __init__(self, path: pathlib.Path, show: Callable[[str], object]):
        self.path = path
        self.count = 0
        self._show = show
        # A lone surrogate cannot be encoded as UTF-8; with a backslash it is its own JSON escape.
        self._file = path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n")

    def __enter__(self) -> "RejectLog":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()
        if not self.count:
            self.path.unlink()
        else:
            _show_more(self.count, self._show)

    def add(self, rejected: Rejected) -> None:
        """Adds one line."""
        line = rejected.line
        record = {
            "file": line.file,
            "line": line.number,
            "vignette_id": rejected.vignette_id,
            "reason": rejected.reason,
            "text": line.text,
        }
        self._file.write(json.dumps(record, ensure_ascii=False) + "\n")
        self.count += 1
        if self.count <= SHOWN:
            self._show(_shown(record))


def show_rejects(lines: Iterable[bytes], count: int, show: Callable[[str], object]) -> None:
    """Shows what `RejectLog` would have shown.

    Args:
        lines: the lines of its file.
        count: how many there are.
        show: takes one line of text.
    """
    for line in itertools.islice(lines, SHOWN):
        show(_shown(json.loads(line)))
    _show_more(count, show)


def _show_more(count: int, show: Callable[[str], object]) -> None:
    if count > SHOWN:
        show(f"... and {count - SHOWN:,} more rejected lines")


def _shown(record: Mapping[str, Any]) -> str:
    return f"{record['file']}:{record['line']}: {_vignette(record['vignette_id'])}: {record['reason']}"


def _vignette(vignette_id: str | None) -> str:
    if vignette_id is None:
        return "no vignette id"
    return f"vignette {vignette_id if vignette_id.isprintable() and len(vignette_id) < 100 else repr(vignette_id[:99])}"
