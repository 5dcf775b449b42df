"""The options of `triage score`."""

import dataclasses
import pathlib

from schemas.errors import InputError
from schemas.features import MOST_QUESTIONS
from serving.security import VersionKey
from triage_runtime.beam import runner
from triage_runtime.storage import files, locations


@dataclasses.dataclass(frozen=True)
class ScoreOptions:
    """The options, see the help."""

    model: str
    input: list[str]
    output: str
    output_format: str | None
    questions: int
    batch_size: int
    allow_unknown_codes: bool
    defer_below: float | None
    require_signature: str | None
    json: str | locations.Remote | None
    runner: str | None
    dry_run: bool
    beam_options: list[str]

    def __post_init__(self) -> None:
        if not 0 <= self.questions <= MOST_QUESTIONS:
            raise InputError(f"--questions {self.questions}: expected 0 to {MOST_QUESTIONS}")
        if self.defer_below is not None and not 0 <= self.defer_below <= 1:
            raise InputError(f"--defer-below {self.defer_below:g}: expected a number from 0 to 1")
        if self.batch_size < 1:
            raise InputError(f"--batch-size {self.batch_size}: expected 1 or more")
        runner.check(self.beam_options, (field.name for field in dataclasses.fields(self)), "score")
        if self.runner is None:
            runner.check_unused(self.dry_run, self.beam_options)
            for location in filter(None, (self.model, *self.input, self.output, self.require_signature, self.json)):
                if locations.is_remote(str(location)):
                    raise InputError(f"{location}: an address needs --runner; DirectRunner is this machine")

    def read_key(self) -> VersionKey | None:
        """Returns the key with which the version must have been signed, if any.

        Raises:
            InputError: its file cannot be read.
        """
        if self.require_signature is None:
            return None
        if not locations.is_remote(self.require_signature):
            return VersionKey.read(pathlib.Path(self.require_signature))
        content = files.read(self.require_signature)
        if content is None:
            raise InputError(f"--require-signature {self.require_signature}: no such file")
        return VersionKey.parse(content, self.require_signature)
