"""Line numbers in a TOML file, which TOML readers do not report."""

import re

_HEADER = re.compile(r"""^\s*\[\s*(?:"([^"]*)"|'([^']*)'|([\w-]+))""")


class RuleLines:
    """Finds line numbers in a TOML file with one table per rule."""

    def __init__(self, text: str):
        self._lines = text.splitlines()

    def find(self, table: str, mark: str) -> int:
        """Returns the number, from 1, of the first line of a table with the word `mark`, or else of its header.

        Comments are skipped. Returns 1 if there is no such header, as in a file of inline tables.
        """
        start = None
        word = re.compile(rf"(?<![\w.-]){re.escape(mark)}(?![\w-])")
        for number, line in enumerate(self._lines, start=1):
            header = _HEADER.match(line)
            if header is not None:
                here = next(part for part in header.groups() if part is not None) == table
                if start is None and here:
                    start = number
                    continue
                if start is not None and not here:
                    break
            if start is not None and mark and not line.lstrip().startswith("#") and word.search(line):
                return number
        return start or 1
