"""Rejected lines: all of them in a file, the first few on the screen."""

import json
import pathlib
from collections import Counter
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from trainer.vignettes.source import Rejected

SHOWN = 20
"""Reasons that are shown, each once; the file has all rejects."""


class RejectLog:
    """Writes each rejected line to a JSON Lines file, and the first line of each of `SHOWN` reasons to `show`.

    At the end it shows how often each reason was met that was met again.

    Args:
        path: the file; it is deleted if nothing was rejected.
        show: takes one line of text.
    """

    def __init__(self, path: pathlib.Path, show: Callable[[str], object]):
        self.path = path
        self.count = 0
        self._show = show
        self._reasons: Counter[str] = Counter()  # those that are shown
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
        for reason, count in self._reasons.items():
            if count > 1:
                self._show(f"... and {count - 1:,} more: {reason}")
        others = self.count - self._reasons.total()
        if others:
            self._show(f"... and {others:,} more rejected lines, for other reasons")

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
        if rejected.reason not in self._reasons:
            if len(self._reasons) == SHOWN:
                return
            self._show(_shown(record))
        self._reasons[rejected.reason] += 1


def _shown(record: Mapping[str, Any]) -> str:
    return f"{record['file']}:{record['line']}: {_vignette(record['vignette_id'])}: {record['reason']}"


def _vignette(vignette_id: str | None) -> str:
    if vignette_id is None:
        return "no vignette id"
    return f"vignette {vignette_id if vignette_id.isprintable() and len(vignette_id) < 100 else repr(vignette_id[:99])}"
