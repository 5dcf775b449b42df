"""Rejected lines: all of them in a file, the first few on the screen."""

import json
import pathlib
from collections.abc import Callable, Mapping
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
        elif self.count > SHOWN:
            self._show(f"... and {self.count - SHOWN:,} more rejected lines")

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


def _shown(record: Mapping[str, Any]) -> str:
    return f"{record['file']}:{record['line']}: {_vignette(record['vignette_id'])}: {record['reason']}"


def _vignette(vignette_id: str | None) -> str:
    if vignette_id is None:
        return "no vignette id"
    return f"vignette {vignette_id if vignette_id.isprintable() and len(vignette_id) < 100 else repr(vignette_id[:99])}"
