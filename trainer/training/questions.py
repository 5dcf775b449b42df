"""questions.npz of a job directory: the classes of the training patients, from which questions are chosen."""

import pathlib

from schemas.evidence import Vocabulary
from trainer.decision import mixture
from trainer.decision.mixture import Mixture
from trainer.vignettes.state import Vignettes

QUESTIONS = "questions.npz"
_SEED = 2_022  # unlike the seeds of training


def prepare(folder: pathlib.Path, vignettes: Vignettes, vocabulary: Vocabulary) -> None:
    """Writes the file, unless it exists or there are too few vignettes.

    Raises:
        InputError: the existing file is damaged.
        OSError: it cannot be written.
    """
    if read(folder, len(vocabulary)) is None:
        classes = mixture.fit(vignettes, vocabulary, _SEED)
        if classes is not None:
            mixture.save(classes, folder / QUESTIONS)


def read(folder: pathlib.Path, evidence_count: int) -> Mixture | None:
    """Returns the classes, over E pieces of evidence; None if there are none.

    Raises:
        InputError: the file is damaged.
    """
    return mixture.load(folder / QUESTIONS, evidence_count)
