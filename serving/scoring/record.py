"""`score.json` beside the answers: the model, the options, and the inputs that are done."""

import collections
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from schemas.errors import InputError
from serving.scoring.options import ScoreOptions
from serving.scoring.shards import Shard

RECORD = "score.json"


class Record:
    """What the file says.

    Args:
        given: the options.
        version: the name of the model's version.
        manifest: the content of its manifest.
        earlier: what the file says already, None if there is none.

    Raises:
        InputError: the directory holds the answers of another model or of other options.
    """

    def __init__(self, given: ScoreOptions, version: str, manifest: bytes, earlier: Mapping[str, Any] | None):
        self._of = {
            "format": 1,
            "model_version": version,
            "manifest_sha256": hashlib.sha256(manifest).hexdigest(),
            "questions": given.questions,
            "allow_unknown_codes": given.allow_unknown_codes,
        }
        self._done: dict[str, dict[str, Any]] = {}
        if earlier is not None:
            self._done = dict(earlier.get("files", {}))
            of = {name: value for name, value in earlier.items() if name != "files"}
            if of != self._of:
                names = ", ".join(name for name, value in self._of.items() if of.get(name) != value)
                raise InputError(f"{given.output}: holds answers with other values of {names}: give another --output")

    def is_done(self, shard: Shard) -> bool:
        """Returns whether the input was scored as it is now."""
        return self._done.get(shard.name, {}).get("input") == shard.state

    def add(self, shard: Shard, counts: Mapping[str, int]) -> None:
        """Keeps that an input is done, with its cases by best triage decision."""
        self._done[shard.name] = {
            "input": shard.state,
            "cases": sum(counts.values()),
            "best_triage": dict(counts),
        }

    @property
    def text(self) -> str:
        """The content of the file."""
        return json.dumps({**self._of, "files": dict(sorted(self._done.items()))}, indent=2)

    @property
    def counts(self) -> collections.Counter[str]:
        """The cases of all files by best triage decision."""
        return sum((collections.Counter(each["best_triage"]) for each in self._done.values()), collections.Counter())

    def cases(self, shards: Iterable[Shard]) -> int:
        """Returns the number of cases in some of the files."""
        return sum(self._done[shard.name]["cases"] for shard in shards)
