"""Which versions a server should load."""

import dataclasses
import pathlib
from collections.abc import Collection, Mapping

from schemas.errors import InputError


@dataclasses.dataclass(frozen=True)
class VersionPolicy:
    """The highest `count` versions, or all if `count` is None; or `numbers` if given."""

    count: int | None = 1
    numbers: frozenset[int] | None = None

    def choose(self, there: Collection[int]) -> frozenset[int]:
        """Returns which of the versions `there` the policy wants."""
        if self.numbers is not None:
            return self.numbers & frozenset(there)
        ordered = sorted(there, reverse=True)
        return frozenset(ordered if self.count is None else ordered[: self.count])


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What a server should serve: the versions of the policy, and those with a label.

    Attributes:
        base: directory with a folder for each version.
        policy: which versions to load.
        labels: the version that each label names.
        location: the address in an object store that `base` mirrors, "" for none.
    """

    base: pathlib.Path
    policy: VersionPolicy = VersionPolicy()
    labels: Mapping[str, int] = dataclasses.field(default_factory=dict)
    location: str = ""


def parse_labels(texts: Collection[str]) -> dict[str, int]:
    """Returns the version of each label, from texts such as `stable=3`.

    Raises:
        InputError: a text is malformed, or two give the same label.
    """
    labels: dict[str, int] = {}
    for text in texts:
        label, _, number = text.rpartition("=")
        if not label or not (number.isascii() and number.isdecimal()):
            raise InputError(f"--label {text}: expected NAME=VERSION, such as stable=3")
        if label in labels:
            raise InputError(f"--label {text}: the label {label} is given twice")
        labels[label] = int(number)
    return labels
