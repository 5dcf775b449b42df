"""Vignettes from data frames or files: `triage prepare`."""

import json
import os
import pathlib
import tempfile
from typing import Any

import numpy as np
import pandas as pd

from dyqn_triage.keywords import parsed
from schemas.errors import InputError
from trainer.commands import prepare as command
from trainer.importing.csv_files import LIST_SEPARATOR
from trainer.vignettes.tfrecord import DataDirectory

__all__ = ["DataDirectory", "open_data", "prepare"]


def open_data(path: str | os.PathLike[str]) -> DataDirectory:
    """Returns the data directory at a path: `path`, `vocabulary`, and the figures of stats.json as `stats`.

    Raises:
        InputError: there is none.
    """
    return DataDirectory.open(pathlib.Path(path))


def prepare(
    vignettes: pd.DataFrame | str | os.PathLike[str],
    out: str | os.PathLike[str],
    vocabulary: pd.DataFrame | str | os.PathLike[str] | None = None,
    **options: Any,
) -> DataDirectory:
    """Makes a data directory of vignettes, and returns it.

    Args:
        vignettes: a file of the command, or a data frame in one of two forms. With a column `present`, it has the
            columns of a vignette file: `vignette_id`, and lists of codes in `present` and `absent` and of labels such
            as "Red" in `decisions`. Without it, it has a column for each piece of evidence, with its code as the name,
            and 1, 0 or nothing in its cells; `decisions` may then be a text, such as "Red;Yellow".
        out: directory to make.
        vocabulary: CSV file, or data frame with its columns; without one, it is derived from the columns of evidence.
        options: of `triage prepare`, such as `test_fraction=0.2`, `seed=1`, `overwrite=True`.

    Raises:
        InputError: the vignettes or the options are faulty.
    """
    with tempfile.TemporaryDirectory() as scratch:
        if isinstance(vignettes, pd.DataFrame):
            lists = "present" in vignettes
            path = pathlib.Path(scratch) / f"vignettes.{'jsonl' if lists else 'csv'}"
            options.setdefault("format", "jsonl" if lists else "csv-wide")
            (_write_lines if lists else _write_table)(vignettes, path)
            vignettes = path
        if isinstance(vocabulary, pd.DataFrame):
            path = pathlib.Path(scratch) / "vocabulary.csv"
            vocabulary.to_csv(path, index=False)
            vocabulary = path
        arguments = parsed(
            command.add_arguments, {"vignettes": vignettes, "vocabulary": vocabulary, "out": out, **options}
        )
        command.check(arguments)
        command.run(arguments)
    return open_data(out)


def _write_lines(frame: pd.DataFrame, path: pathlib.Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        for row in frame.to_dict("records"):
            fields = {str(name): _plain(value) for name, value in row.items()}
            file.write(json.dumps(fields, ensure_ascii=False) + "\n")


def _plain(value: Any) -> Any:
    """Returns a cell as JSON has it; None for a missing one."""
    if isinstance(value, np.ndarray | tuple | list):
        return [_plain(each) for each in value]
    if pd.isna(value):
        return None
    return value.item() if isinstance(value, np.generic) else value


def _write_table(frame: pd.DataFrame, path: pathlib.Path) -> None:
    if "decisions" not in frame:
        raise InputError("vignettes: expected a column 'decisions', with the clinicians' decisions on each vignette")
    decisions = [each if isinstance(each, str) else LIST_SEPARATOR.join(each) for each in frame["decisions"]]
    frame.assign(decisions=decisions).to_csv(path, index=False)
