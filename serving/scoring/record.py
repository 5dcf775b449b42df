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
_DONE = "files"


class Record:
    """What the file says.

    Args:
        of: the model and the options.
        done: of each input that is done, by the name of its answers.
    """

    def __init__(self, of: Mapping[str, Any], done: Mapping[str, dict[str, Any]]):
        self._of = dict(of)
        self._done = dict(done)

    @classmethod
    def read(cls, content: bytes, location: str) -> "Record":
        """Returns what a file says.

        Raises:
            InputError: it is damaged; the message has its location.
        """
        try:
            values = json.loads(content)
        except ValueError as error:
            raise InputError(f"{location}: not valid JSON: {error}") from error
        if not isinstance(values, dict):
            raise InputError(f"{location}: expected a JSON object, not {type(values).__name__}")
        return cls({name: value for name, value in values.items() if name != _DONE}, values.get(_DONE, {}))

    @classmethod
    def continued(cls, given: ScoreOptions, version: str, manifest: bytes, earlier: "Record | None") -> "Record":
        """Returns the record of a run that leaves alone what is done.

        Args:
            given: the options.
            version: the name of the model's version.
            manifest: the content of its manifest.
            earlier: the record that is there already, if any.

        Raises:
            InputError: the directory holds the answers of another model or of other options.
        """
        of = {
            "format": 1,
            "model_version": version,
            "manifest_sha256": hashlib.sha256(manifest).hexdigest(),
            "questions": given.questions,
            "allow_unknown_codes": given.allow_unknown_codes,
            "defer_below": given.defer_below,
        }
        if earlier is None:
            return cls(of, {})
        if earlier._of != of:
            names = ", ".join(name for name, value in of.items() if earlier._of.get(name) != value)
            raise InputError(f"{given.output}: holds answers with other values of {names}: give another --output")
        return earlier

    def is_done(self, shard: Shard) -> bool:
        """Returns whether the input was scored as it is now."""
        return self._done.get(shard.name, {}).get("input") == shard.state

    def add(self, name: str, state: Mapping[str, Any], counts: Mapping[str, int]) -> None:
        """Keeps that an input is done.

        Args:
            name: of the file of its answers.
            state: of the input, see `Shard.state`.
            counts: its cases by best triage decision.
        """
        self._done[name] = {
            "input": dict(state),
            "cases": sum(counts.values()),
            "best_triage": dict(counts),
        }

    @property
    def text(self) -> str:
        """The content of the file."""
        return json.dumps({**self._of, _DONE: dict(sorted(self._done.items()))}, indent=2)

    @property
    def counts(self) -> collections.Counter[str]:
        """The cases of all files by best triage decision."""
        return sum((collections.Counter(each["best_triage"]) for each in self._done.values()), collections.Counter())

    def cases(self, shards: Iterable[Shard]) -> int:
        """Returns the number of cases in some of the files."""
        return sum(self._done[shard.name]["cases"] for shard in shards)
