import numpy as np
import pytest

from schemas.errors import InputError
from schemas.evidence import Evidence, Vocabulary
from trainer.training import questions

VOCABULARY = Vocabulary(Evidence(f"e{cell}", "symptom", "E", "E?") for cell in range(3))


class Vignettes:
    offsets = np.arange(201) * 2
    signed_codes = np.tile([1, -2], 200)
    decision_counts = np.tile([1, 0, 0, 1], [200, 1])


def test_the_classes_are_made_once(tmp_path):
    assert questions.read(tmp_path, 3) is None
    questions.prepare(tmp_path, Vignettes(), VOCABULARY)
    written = (tmp_path / questions.QUESTIONS).read_bytes()
    assert questions.read(tmp_path, 3).present.shape[1] == 3
    questions.prepare(tmp_path, Vignettes(), VOCABULARY)  # as a resumed run does
    assert (tmp_path / questions.QUESTIONS).read_bytes() == written


def test_damaged_classes_are_an_input_error(tmp_path):
    (tmp_path / questions.QUESTIONS).write_bytes(b"PK garbage")
    with pytest.raises(InputError, match="delete the file"):
        questions.read(tmp_path, 3)
