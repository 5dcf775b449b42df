"""A file to which training adds a JSON object at some steps; a kill may cut its last line short."""

import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from triage_runtime.storage import whole_file


class StepLog:
    """Reads and writes such a file; each object has its `step`."""

    def __init__(self, path: pathlib.Path):
        self._path = path

    def read(self) -> list[dict[str, Any]]:
        """Returns the objects so far, oldest first, without one that was cut short; none where the file is missing."""
        if not self._path.exists():
            return []
        lines = self._path.read_text(encoding="utf-8").splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def append(self, entry: Mapping[str, Any]) -> None:
        """Adds one object, which has a `step`, and waits until it is on the disk.

        Raises:
            OSError: it cannot be written.
        """
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry, allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def forget_after(self, step: int) -> None:
        """Deletes what was written after the checkpoint that a run resumes from, which the run will repeat."""
        earlier = [entry for entry in self.read() if entry["step"] <= step]
        if self._path.exists():
            with whole_file.replacing(self._path) as file:
                file.writelines(json.dumps(entry) + "\n" for entry in earlier)
