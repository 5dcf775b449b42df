"""What a supervisor and its workers say to each other, over a pipe.

A request is a tuple: its number, one of the kinds below, and details. An answer is a tuple: the number of its request,
whether it was done, and the result or the reason.
"""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from serving.models.versions import VersionStatus

PREPARE = "prepare"
"""Load what the models' policies want beside what is served; the result is a `Pinned` for each model by name."""
SERVE = "serve"
"""Serve the versions in the details, as above, and begin to answer calls; the result is a list of `Report`."""
DRAIN = "drain"
"""Report NOT_SERVING; without an answer."""
STOP = "stop"
"""Finish the calls in progress, and end; without an answer."""


@dataclasses.dataclass(frozen=True)
class Pinned:
    """Versions of a model for all workers: numbers, and the version of each label."""

    numbers: frozenset[int]
    labels: Mapping[str, int]


@dataclasses.dataclass(frozen=True)
class Report:
    """The versions of a model in one worker, with what `Metrics.watch` reads of `serving.models.versions.Versions`."""

    model_name: str
    default: int | None
    labels: Mapping[str, int]
    known: "tuple[VersionStatus, ...]"

    def statuses(self) -> "list[VersionStatus]":
        """Returns the status of every remembered version, by number."""
        return list(self.known)
