"""What follows from what is known, and what cannot be so together, by the relations that a vocabulary states."""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple, Protocol

RELATIONS = ("parent", "exclusive")
"""Optional columns of a vocabulary: a code that is present whenever this one is, and a group of which a patient has at
most one member, such as the age bands."""
ONLY_IF = "only_if"
"""Optional column: who can have it, such as `woman !child`, so that nobody else is asked about it."""


EXHAUSTIVE = ("age", "sex")
"""Groups of which every patient has exactly one member."""

Status = tuple[str, bool]
"""A code, and whether it is present; otherwise it is absent."""
Implications = dict[Status, set[Status]]


class _Related(Protocol):
    @property
    def code(self) -> str: ...
    @property
    def parent(self) -> str: ...
    @property
    def exclusive(self) -> str: ...
    @property
    def only_if(self) -> str: ...


class Contradiction(NamedTuple):
    """Two codes of a case, of which the first is present."""

    code: str
    other: str
    other_present: bool

    def __str__(self) -> str:
        if self.other_present:
            return f"{self.code!r} and {self.other!r} are both present, but a patient has at most one of them"
        return f"{self.code!r} is present and {self.other!r} absent, but the first implies the second"


class Relations:
    """Finds what follows and what contradicts each other, by a vocabulary whose parents make no cycle."""

    def __init__(self, entries: Iterable[_Related]):
        by_code = {entry.code: entry for entry in entries}
        self.above: dict[str, tuple[str, ...]] = {}
        """What each code is a special kind of, its parent first."""
        self._places: dict[str, tuple[tuple[str, str], ...]] = {}  # groups, each with the code or ancestor in it
        groups: dict[str, list[str]] = {}
        direct: Implications = {}
        for code, entry in by_code.items():
            line = [code]
            while by_code[line[-1]].parent:
                line.append(by_code[line[-1]].parent)
            self.above[code] = tuple(line[1:])
            self._places[code] = tuple((by_code[each].exclusive, each) for each in line if by_code[each].exclusive)
            if entry.parent:
                direct.setdefault((code, True), set()).add((entry.parent, True))
                direct.setdefault((entry.parent, False), set()).add((code, False))
            if entry.exclusive:
                groups.setdefault(entry.exclusive, []).append(code)
        for group, members in groups.items():
            for code in members:
                others = [each for each in members if each != code]
                if not others:
                    continue
                direct.setdefault((code, True), set()).update((each, False) for each in others)
                if group in EXHAUSTIVE and len(others) == 1:
                    direct.setdefault((code, False), set()).add((others[0], True))
        self._bound = {code for code in by_code if self.above[code] or self._places[code]}
        self.implied = all_implied(direct)
        """All that follows from each status of a code from which anything does."""

    def contradictions(self, present: Iterable[str], absent: Container[str]) -> Iterator[Contradiction]:
        """Yields the contradictions in a case; codes that the vocabulary lacks have no relations."""
        members: dict[str, tuple[str, str]] = {}  # of each group: the member that is present, and the code that says so
        for code in present:
            if code not in self._bound:
                continue
            for above in self.above[code]:
                if above in absent:
                    yield Contradiction(code, above, False)
            for group, member in self._places[code]:
                other, said = members.setdefault(group, (member, code))
                if other != member:
                    yield Contradiction(code, said, True)

    def following(self, status: Status) -> frozenset[Status]:
        """Returns all that follows from the status of a code."""
        return self.implied.get(status, frozenset())

    def follows(self, code: str, present: Collection[str], absent: Collection[str]) -> bool:
        """Returns whether the status of `code` in a case follows from that of another code."""
        status = (code, code not in absent)
        return any(status in self.following(each) for each in _statuses(present, absent))

    def independent(self, stated: Sequence[Status]) -> list[Status]:
        """Returns the statuses that follow from no other one, in their order; of two that say the same, the first."""
        return [
            status
            for place, status in enumerate(stated)
            if not any(
                status in self.following(other) and not (place < number and other in self.following(status))
                for number, other in enumerate(stated)
            )
        ]


def terms(only_if: str) -> tuple[tuple[Status, ...], ...]:
    """Returns what a cell of `ONLY_IF` asks for: every term must hold, and holds if one of its statuses does.

    In the cell terms are separated by spaces and the codes of a term by `|`; `!` before a code means that it is absent.
    """
    return tuple(
        tuple((part.removeprefix("!"), not part.startswith("!")) for part in term.split("|"))
        for term in only_if.split()
    )


def _statuses(present: Iterable[str], absent: Iterable[str]) -> list[Status]:
    return [*((code, True) for code in present), *((code, False) for code in absent)]


def all_implied(direct: Mapping[Status, Set[Status]]) -> Mapping[Status, frozenset[Status]]:
    """Returns all that follows from each status, but for itself, where `direct` has the first steps."""
    implied = {}
    for status in direct:
        reached, ahead = {status}, [status]
        while ahead:
            new = direct.get(ahead.pop(), set()) - reached
            reached |= new
            ahead.extend(new)
        implied[status] = frozenset(reached - {status})
    return implied


def fault_of(entries: Collection[_Related]) -> str | None:
    """Returns the first fault in the relations of a vocabulary, None if there is none."""
    by_code = {entry.code: entry for entry in entries}
    for entry in entries:
        if entry.parent and entry.parent not in by_code:
            return f"evidence {entry.code!r}: unknown parent {entry.parent!r}"
        for code in (code for term in terms(entry.only_if) for code, _ in term):
            if code not in by_code:
                return f"evidence {entry.code!r}: unknown code {code!r} in {ONLY_IF}"
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
