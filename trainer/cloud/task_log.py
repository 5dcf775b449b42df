"""The log of KFP's local runner: kept in a file, while somebody waits only to hear of tasks, faults and the verdict."""

import io
import re
from collections.abc import Callable
from typing import IO

_COLOUR = re.compile(r"\x1b\[\d+m")
_STARTED = re.compile(r"Executing task '([^']+)'")
_ENDED = re.compile(r"Task '([^']+)' finished with status (\w+)")
_COMMAND_FAULT = re.compile(r"triage [\w ]+: error: .*")
_FAULT = re.compile(r"\w+Error: .*")
_VERDICT = re.compile(r"pushed to .*|version \d+ is NOT_BLESSED: not pushed")


class TaskLog(io.TextIOBase):
    """Takes what the runner prints, line by line.

    Args:
        file: where all of it goes, without colours.
        started: is told the name of each task that starts.
        ended: is told the name of each task that ends well.
    """

    def __init__(self, file: IO[str], started: Callable[[str], None], ended: Callable[[str], None]):
        super().__init__()
        self.failed: str | None = None  # the first task that failed
        self.fault = ""  # the line that says why, of our command if it wrote one
        self.verdict = ""  # what the pipeline did with the new version
        self._file = file
        self._started = started
        self._ended = ended

    @property
    def pushed(self) -> bool:
        """Whether the new version was pushed."""
        return self.verdict.startswith("pushed")

    def write(self, text: str) -> int:
        """Takes a line or a part of one, and returns its length."""
        plain = _COLOUR.sub("", text)
        self._file.write(plain)
        for name in _STARTED.findall(plain):
            self._started(name)
        for name, status in _ENDED.findall(plain):
            if status == "SUCCESS":
                self._ended(name)
            else:
                self.failed = self.failed or name
        match = _COMMAND_FAULT.search(plain)
        if match is None and not _COMMAND_FAULT.match(self.fault):
            match = _FAULT.search(plain)
        if match:
            self.fault = match[0]
        if match := _VERDICT.search(plain):
            self.verdict = match[0]
        return len(text)
