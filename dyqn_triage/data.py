"""Vignettes from data frames or files: `triage prepare`."""

import dataclasses
import os
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import GroupShuffleSplit

from dyqn_triage.frames import ID, Frame
from dyqn_triage.keywords import parsed, takes_options
from schemas.errors import InputError
from schemas.evidence import Vocabulary
from schemas.text_file import Line
from trainer.commands import prepare_data
from trainer.commands.prepare import PrepareOptions, add_arguments
from trainer.data.derived_vocabulary import CodeCollector
from trainer.data.input_formats import Content, Source, chosen_format
from trainer.data.source import Accepted, Outcome, Rejected
from trainer.data.tfrecord import DataDirectory
from trainer.data.vignette import KEYS, from_fields
from triage_runtime.command_line import options as command_line

__all__ = ["DataDirectory", "open_data", "prepare", "train_test_split"]


def open_data(path: str | os.PathLike[str]) -> DataDirectory:
    """Returns the data directory at a path: `path`, `vocabulary`, and the figures of stats.json as `stats`.

    Raises:
        InputError: there is none.
    """
    return DataDirectory.open(pathlib.Path(path))


def train_test_split(
    frame: pd.DataFrame, patient: str, test_fraction: float = 0.1, seed: int = 0
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Splits vignettes so that all of a patient are in one part, which their column `split` then names for `prepare`.

    Args:
        frame: a row for each vignette.
        patient: column that says whose it is; the parts are without it, as it is no evidence.
        test_fraction: share of the patients in the second part.
        seed: the same one gives the same parts.

    Raises:
        InputError: a row has no patient, or a part would have none.
    """
    if patient not in frame:
        raise InputError(f"patient: frame has no column {patient!r}")
    whose, _ = pd.factorize(frame[patient])
    if (whose < 0).any():
        raise InputError(f"frame: row {frame.index[np.argmin(whose)]}: nothing in the column {patient!r}")
    try:
        parts = next(GroupShuffleSplit(1, test_size=test_fraction, random_state=seed).split(frame, groups=whose))
    except ValueError as error:
        raise InputError(f"test_fraction {test_fraction}: {error}") from None
    train, test = (frame.iloc[np.sort(rows)].drop(columns=patient) for rows in parts)
    return train.assign(split="train"), test.assign(split="test")


@takes_options(add_arguments, "vignettes", "vocabulary", "out")
def prepare(
    vignettes: pd.DataFrame | str | os.PathLike[str],
    out: str | os.PathLike[str],
    vocabulary: pd.DataFrame | str | os.PathLike[str] | None = None,
    **options: Any,
) -> DataDirectory:
    """Makes a data directory of vignettes, and returns it.

    Args:
        vignettes: a file of the command, or a data frame in one of two forms. With a column `present`, it has the
            columns of a vignette file, such as `absent` and `decisions`, with lists in the cells. Without it, it has a
            column for each piece of evidence, with its code as the name, and 1, 0 or nothing in its cells. `decisions`
            may be a text, such as "Red;Yellow"; the index stands in for `vignette_id`. Empty rows are left out.
        out: directory to make.
        vocabulary: CSV file, or data frame with its columns; without one, it is derived from the columns of evidence.
        options: of `triage prepare`, such as `test_fraction=0.2`, `seed=1`, `overwrite=True`.

    Raises:
        InputError: the vignettes or the options are faulty.
    """
    if not isinstance(vignettes, pd.DataFrame):
        if isinstance(vocabulary, pd.DataFrame):
            raise InputError("vocabulary: expected a file, as vignettes is one, or data frames as both")
        options |= {"vignettes": vignettes, "vocabulary": vocabulary}
    arguments = parsed(add_arguments, {"out": out, **options})
    if isinstance(vignettes, pd.DataFrame):
        arguments.format, arguments.vignettes, arguments.vocabulary = "data frame", vignettes, _read(vocabulary)
    given = command_line.read(PrepareOptions, arguments)
    chosen = chosen_format(arguments, _Rows if isinstance(vignettes, pd.DataFrame) else None)
    prepare_data.prepare(chosen.open(given.seed), given)
    return open_data(out)


def _read(vocabulary: pd.DataFrame | str | os.PathLike[str] | None) -> Vocabulary | None:
    if not isinstance(vocabulary, pd.DataFrame):
        return None if vocabulary is None else Vocabulary.load(vocabulary)
    try:
        return Vocabulary.parse(vocabulary.to_csv(index=False), "vocabulary")
    except InputError as error:  # which names lines of the text: the columns are the first
        rows = ["", "the columns", *(f"row {label}" for label in vocabulary.index)]
        raise InputError(re.sub(r"\bline (\d+)", lambda line: rows[int(line[1])], str(error))) from None


@dataclasses.dataclass(frozen=True)
class _Rows:
    """The format of `triage prepare` that is a data frame; its fields are the options that it takes."""

    vignettes: pd.DataFrame
    allow_rejects: bool
    vocabulary: Vocabulary | None = None
    risk_factors: list[str] | None = None
    ignore_columns: list[str] | None = None

    def open(self, _seed: int) -> Source:
        """See `trainer.data.input_formats.Format`."""
        frame = Frame("vignettes", self.vignettes, KEYS, self.ignore_columns)
        if "decisions" not in self.vignettes:
            raise InputError("vignettes: expected a column 'decisions', with those of the clinicians on each vignette")
        if frame.lists and self.vocabulary is None:
            raise InputError("vocabulary: lists of codes need one, a file or a data frame")
        frame.check_columns(self.vocabulary)
        vocabulary = self.vocabulary
        if vocabulary is None:
            collected = CodeCollector()
            for code in frame.codes:
                collected.add(code, "vignettes")
            vocabulary = collected.vocabulary(self.risk_factors or (), "vignettes")
        outcomes = list(_outcomes(frame, vocabulary))
        rejected = [outcome for outcome in outcomes if isinstance(outcome, Rejected)]
        if rejected and not self.allow_rejects:
            more = f"; {len(rejected) - 1:,} more rows are faulty" if len(rejected) > 1 else ""
            raise InputError(f"vignettes: row {rejected[0].line.number}: {rejected[0].reason}{more}")
        content = Content(vocabulary, outcomes)
        return Source((), lambda _: content, derived=self.vocabulary is None, unit="rows")


def _outcomes(frame: Frame, vocabulary: Vocabulary) -> Iterator[Outcome]:
    """Yields what each row is, as of a file's lines; a label stands for the number of a line."""
    seen: set[str] = set()
    for row in frame.rows(vocabulary.bands.units):
        number: Any = row.label
        line, vignette_id = Line("vignettes", number, 0, b""), row.fields.get(ID)
        try:
            if row.fault:
                raise InputError(row.fault)
            vignette = from_fields(row.fields, vocabulary) if row.fields else None
            if vignette and vignette.vignette_id in seen:
                raise InputError(f"vignette_id: an earlier row has {vignette.vignette_id!r}, too: give each its own")
            if vignette:
                seen.add(vignette.vignette_id)
            yield Accepted(line, vignette) if vignette else None
        except InputError as error:
            yield Rejected(line, vignette_id and str(vignette_id), str(error))
