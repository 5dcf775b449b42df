from typing import NamedTuple

import numpy as np

from trainer.questions.patients import own_cards, whole_patients


class Vignettes(NamedTuple):
    offsets = np.array([0, 2, 5])
    signed_codes = np.array([3, -1, 2, 4, -3], np.int16)
    decision_counts = np.array([[1, 0, 0, 0], [0, 0, 2, 0]], np.uint8)


def test_on_their_own_card_patients_answer_what_it_lists():
    patients = own_cards(Vignettes(), 4, seed=0)
    assert patients.answers.tolist() == [[-1, 0, 1, 0], [0, 1, -1, 1]]
    assert all(patients.answers[row, cell] != 0 for row, cell in enumerate(patients.complaints))
    drawn = {tuple(own_cards(Vignettes(), 4, seed).complaints) for seed in range(40)}
    assert drawn == {(first, second) for first in (0, 2) for second in (1, 2, 3)}


def test_whole_patients_lack_what_is_not_listed_and_come_with_the_first_piece():
    patients = whole_patients(Vignettes(), 4)
    assert patients.answers.tolist() == [[-1, -1, 1, -1], [-1, 1, -1, 1]]
    assert patients.complaints.tolist() == [2, 1]
    assert patients.decision_counts.tolist() == [[1, 0, 0, 0], [0, 0, 2, 0]]
