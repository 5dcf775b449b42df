"""Scores one file: reads, answers and writes batch by batch."""

import collections
import concurrent.futures
import pathlib
from collections.abc import Callable, Iterator

from schemas import features
from schemas.errors import InputError
from schemas.model_directory import version_folder
from serving.engine.saved_model import SavedModelEngine
from serving.scoring.answers import DECIDE, Columns, Scorer
from serving.scoring.cases import ID, read
from serving.scoring.job import ScoreOptions
from serving.scoring.writers import writing
from serving.security import VersionKey, verified

BATCH_SIZE = 4096
"""Cases at a time: more are no faster (benchmarks/scoring.py)."""
_AHEAD = 2  # batches that are read while the model runs


def load_scorer(model: pathlib.Path, key: VersionKey | None, given: ScoreOptions) -> Scorer:
    """Returns what answers cases with a version, or with the newest one of a base path.

    Raises:
        InputError: there is no version, it is damaged or not signed so, or it cannot choose questions.
    """
    with verified(version_folder(model), key) as folder:
        return Scorer(SavedModelEngine(folder), given.questions, given.allow_unknown_codes, given.defer_below)


def score_file(
    scorer: Scorer, source: pathlib.Path, target: pathlib.Path, show: Callable[[int], None]
) -> collections.Counter[str]:
    """Writes the answers to the cases of a file; returns their number by triage decision, or by what else is next.

    The target is there as a whole in the end, or not at all. `show` is called with the number of cases so far.

    Raises:
        InputError: the file is faulty or has no cases, or the answers cannot be written.
    """
    counts: collections.Counter[str] = collections.Counter()
    try:
        with writing(target) as write:
            for columns in _answers(scorer, source):
                write(columns)
                answers = zip(columns[features.BEST_TRIAGE], columns["next"], strict=True)
                counts.update(best if step == DECIDE else step for best, step in answers)
                show(counts.total())
            if not counts:
                raise InputError(f"{source}: it holds no cases")
    except OSError as error:
        raise InputError(f"{target}: cannot write: {error.strerror or error}") from error
    return counts


def _answers(scorer: Scorer, source: pathlib.Path) -> Iterator[Columns]:
    """Yields the answers batch by batch; further batches are read while the model runs."""
    running: collections.deque[concurrent.futures.Future[Columns]] = collections.deque()
    ids: set[str] = set()
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        for cases in read(source, BATCH_SIZE):
            for vignette_id, place in zip(cases.ids, cases.places, strict=True):
                if vignette_id in ids:
                    raise InputError(f"{place}: an earlier case has this {ID}: give each case its own")
                ids.add(vignette_id)
            encoded = scorer.encode(cases)
            running.append(thread.submit(scorer.answer, cases.ids, encoded))
            if len(running) > _AHEAD:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
