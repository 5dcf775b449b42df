"""What cannot be so together, by the relations that a vocabulary states."""

from collections.abc import Collection, Container, Iterable, Iterator
from typing import NamedTuple, Protocol

RELATIONS = ("parent", "exclusive")
"""Optional columns of a vocabulary: a code that is present whenever this one is, and a group of which a patient has at
most one member, such as the age bands."""


EXHAUSTIVE = ("age", "sex")
"""Groups of which every patient has exactly one member."""


class _Related(Protocol):
    @property
    def code(self) -> str: ...
    @property
    def parent(self) -> str: ...
    @property
    def exclusive(self) -> str: ...


class Contradiction(NamedTuple):
    """Two codes of a case, of which the first is present."""

    code: str
    other: str
    other_present: bool

    def __str__(self) -> str:
        if self.other_present:
            return f"{self.code!r} and {self.other!r} are both present, and a patient has at most one of them"
        return f"{self.code!r} is present and {self.other!r} absent, and who has the first has the second"


class Relations:
    """Finds what follows and what contradicts each other.

    Args:
        entries: of a vocabulary whose parents are among them, without cycles.
    """

    def __init__(self, entries: Iterable[_Related]):
        by_code = {entry.code: entry for entry in entries}
        self._above: dict[str, tuple[str, ...]] = {}
        self._places: dict[str, tuple[tuple[str, str], ...]] = {}  # groups, each with the code or ancestor in it
        for code in by_code:
            line = [code]
            while by_code[line[-1]].parent:
                line.append(by_code[line[-1]].parent)
            self._above[code] = tuple(line[1:])
            self._places[code] = tuple((by_code[each].exclusive, each) for each in line if by_code[each].exclusive)
        self._bound = {code for code in by_code if self._above[code] or self._places[code]}

    def contradictions(self, present: Iterable[str], absent: Container[str]) -> Iterator[Contradiction]:
        """Yields the contradictions in a case; codes that the vocabulary lacks have no relations."""
        members: dict[str, tuple[str, str]] = {}  # of each group: the member that is present, and the code that says so
        for code in present:
            if code not in self._bound:
                continue
            for above in self._above[code]:
                if above in absent:
                    yield Contradiction(code, above, False)
            for group, member in self._places[code]:
                other, said = members.setdefault(group, (member, code))
                if other != member:
                    yield Contradiction(code, said, True)

    def follows(self, code: str, present: Collection[str], absent: Container[str]) -> bool:
        """Returns whether the status of `code` in a case follows from that of another code."""
        if code in absent:
            above = self._above.get(code, ())
            return any(each in absent for each in above) or any(self._rules_out(each, code) for each in present)
        return any(code in self._above.get(each, ()) for each in present)

    def _rules_out(self, other: str, code: str) -> bool:
        """Returns whether `code` is absent where `other` is present."""
        places = dict(self._places.get(code, ()))
        return any(places.get(group, member) != member for group, member in self._places.get(other, ()))


def fault_of(entries: Collection[_Related]) -> str | None:
    """Returns the first fault in the relations of a vocabulary, None if there is none."""
    by_code = {entry.code: entry for entry in entries}
    for entry in entries:
        if entry.parent and entry.parent not in by_code:
            return f"evidence {entry.code!r}: unknown parent {entry.parent!r}"
    for entry in entries:
        line = [entry]
        while line[-1].parent:
            line.append(by_code[line[-1].parent])
            if line[-1] in line[:-1]:
                return f"evidence {entry.code!r} is its own ancestor: correct the column parent"
        groups = [each.exclusive for each in line if each.exclusive]
        if len(set(groups)) < len(groups):
            return f"evidence {entry.code!r}: an ancestor is in its group {groups[0]!r}: they would exclude each other"
    return None
