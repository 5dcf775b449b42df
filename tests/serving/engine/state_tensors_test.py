"""Questions from the outputs of a version; litert_test.py compares answers with those of the graph."""

import numpy as np

from schemas import features
from serving.engine.state_tensors import Wish, to_questions


def test_questions_of_versions_without_groups_are_about_one_code_each(vocabulary):
    """Of three states, the first asks about two codes together, and the last about nothing."""
    values = [[[2, 0], [1, -1], [-1, -1]], np.zeros([3, 2]), np.zeros([3, 2]), np.zeros([3, 2], bool)]
    together = [[2, 1], [-1, -1], [-1, -1]]
    outputs = dict(zip(features.QUESTION, map(np.array, (*values, values[-1], together)), strict=True))
    inputs = {features.STATES: np.zeros([3, 3]), features.NOT_TO_ASK: np.zeros([3, 3], bool)}

    def asked():
        questions = to_questions(outputs, inputs, vocabulary, [Wish(2)] * 3)
        return [[(each.code, list(each.any_of)) for each in row] for row in questions]

    assert asked() == [[("smoker", ["smoker", "fever"]), ("chest_pain", [])], [("fever", [])], []]
    del outputs[features.QUESTION_TOGETHER]
    assert asked() == [[("smoker", []), ("chest_pain", [])], [("fever", [])], []]
