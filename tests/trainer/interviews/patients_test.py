import numpy as np

from tests.trainer.conftest import make_vignettes
from trainer.interviews.patients import own_cards, whole_patients

VIGNETTES = make_vignettes([([3, -1], [1, 0, 0, 0]), ([2, 4, -3], [0, 0, 2, 0])])


def test_on_their_own_card_patients_answer_what_it_lists():
    patients = own_cards(VIGNETTES, 4, seed=0)
    assert patients.answers.tolist() == [[-1, 0, 1, 0], [0, 1, -1, 1]]
    drawn = {tuple(np.nonzero(own_cards(VIGNETTES, 4, seed).known)[1]) for seed in range(40)}
    assert drawn == {(first, second) for first in (0, 2) for second in (1, 2, 3)}


def test_whole_patients_lack_what_is_not_listed_and_come_with_the_first_piece():
    patients = whole_patients(VIGNETTES, 4)
    assert patients.answers.tolist() == [[-1, -1, 1, -1], [-1, 1, -1, 1]]
    assert patients.known.astype(int).tolist() == [[0, 0, 1, 0], [0, 1, 0, 0]]
    assert patients.decision_counts.tolist() == [[1, 0, 0, 0], [0, 0, 2, 0]]


def test_what_is_told_of_everybody_is_known_from_the_start_present_or_absent():
    patients = whole_patients(VIGNETTES, 4, known_cells=[0, 3])
    assert patients.known.astype(int).tolist() == [[1, 0, 1, 1], [1, 1, 0, 1]]
