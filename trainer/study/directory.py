"""The directory of a study, which `triage reproduce` writes and from which it resumes.

study.json     fingerprint of the study's data
tasks/         one JSON file for each finished task, and the models that other tasks need
results.json   all figures
report.html    the report, with the images in figures/
lock           held while a command works in the directory
"""

import contextlib
import json
import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from schemas.errors import InputError
from trainer.study.study import Task
from trainer.training.lock import lock
from triage_runtime.command_line.json_output import plain
from triage_runtime.storage import whole_file

STUDY, TASKS, RESULTS, LOCK = "study.json", "tasks", "results.json", "lock"
_NAME_DIGITS = 12  # of the fingerprint, in file names


class StudyDirectory:
    """Reads and writes the directory of a study."""

    def __init__(self, path: pathlib.Path):
        self.path = path

    @contextlib.contextmanager
    def claimed(self, data_fingerprint: str) -> Iterator[None]:
        """Makes the directory if needed, and locks it against other studies.

        The lock ends with the process that holds it, however that ends.

        Raises:
            InputError: it holds something else or a study of other data, a study is running in it, or it cannot be
                written.
        """
        try:
            self._require_ours(data_fingerprint)
            (self.path / TASKS).mkdir(parents=True, exist_ok=True)
            file = (self.path / LOCK).open("w")
        except OSError as error:
            raise self._unwritable(error) from error
        with file:
            lock(
                file,
                f"--out {self.path}: another study is running in it: wait for it, stop it, or choose another --out",
            )
            try:
                write_json(self.path / STUDY, {"data_fingerprint": data_fingerprint})
                self._clear()
            except OSError as error:
                raise self._unwritable(error) from error
            yield

    def outcome_path(self, task: Task) -> pathlib.Path:
        """Returns the file with the outcome of a task."""
        return self.model_path(task, "json")

    def model_path(self, task: Task, ending: str) -> pathlib.Path:
        """Returns the file of a task's model, such as `dyqn_or-seed-0.0123456789ab.weights.h5`."""
        return self.path / TASKS / f"{task.name}.{task.fingerprint[:_NAME_DIGITS]}.{ending}"

    def outcome(self, task: Task) -> dict[str, Any] | None:
        """Returns the outcome of a task (`seconds`, `result`), None if it is not finished.

        A damaged file, or that of a task with other inputs, is ignored: the task runs again.
        """
        try:
            outcome = json.loads(self.outcome_path(task).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return outcome if isinstance(outcome, dict) and outcome.get("fingerprint") == task.fingerprint else None

    def record(self, task: Task, seconds: float, result: Mapping[str, Any]) -> None:
        """Saves the outcome of a task, whole or not at all."""
        outcome = {
            "task": task.name,
            "kind": task.kind,
            "fingerprint": task.fingerprint,
            "settings": task.settings,
            "seconds": seconds,
            "result": result,
        }
        write_json(self.outcome_path(task), outcome)

    def _require_ours(self, data_fingerprint: str) -> None:
        if not self.path.exists():
            return
        if not (self.path / STUDY).is_file():
            foreign = sorted(set(os.listdir(self.path)) - {LOCK, TASKS})
            if foreign:
                raise InputError(
                    f"--out {self.path}: contains {foreign[0]!r} and is not a study: choose another directory"
                )
            return
        try:
            there = json.loads((self.path / STUDY).read_text(encoding="utf-8"))["data_fingerprint"]
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{self.path / STUDY}: not a file of triage reproduce: choose another directory for --out"
            ) from error
        if there != data_fingerprint:
            raise InputError(
                f"--out {self.path}: holds a study of other data ({_short(there)}, not {_short(data_fingerprint)}): "
                "choose another directory, or give that study's data with --data"
            )

    def _clear(self) -> None:
        """Deletes files that were unfinished when their task was killed."""
        for path in (self.path / TASKS).iterdir():
            if path.name.startswith(whole_file.UNFINISHED):
                path.unlink()

    def _unwritable(self, error: OSError) -> InputError:
        return InputError(f"--out {self.path}: cannot write: {error.strerror or error}")


def write_json(path: pathlib.Path, values: Mapping[str, Any]) -> None:
    """Writes a file so that a kill leaves either the old content or the new one.

    Raises:
        ValueError: a figure is NaN or infinite.
    """
    with whole_file.replacing(path) as file:
        json.dump(plain(values), file, indent=1, ensure_ascii=False, allow_nan=False)
        file.write("\n")


def _short(fingerprint: Any) -> str:
    return str(fingerprint)[:19]  # "sha256:" and twelve digits
