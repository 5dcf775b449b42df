"""Whom an interview asks about which danger signs, by the packaged table and rules together."""

import numpy as np
import pytest
import tensorflow as tf

from schemas import danger_signs, safety_rules
from tests.builders import state_of
from trainer.graph.mixture import Mixture
from trainer.graph.questions import QuestionGraph
from trainer.simulation.knowledge_base import KnowledgeBase

WOMAN = "age_30_to_44 sex_female"


@pytest.fixture(scope="module")
def vocabulary():
    return KnowledgeBase.load().catalogue.vocabulary


@pytest.fixture(scope="module")
def graph(vocabulary):
    """With patients of whom no answer says anything."""
    present = np.full([1, len(vocabulary)], 0.5, np.float32)
    patients = Mixture(np.zeros(1, np.float32), present, np.full([1, 8], 0.5, np.float32), present)
    rules, _ = safety_rules.choose(safety_rules.DEFAULT, vocabulary)
    return QuestionGraph(patients, vocabulary, rules, danger_signs.packaged(vocabulary))


@pytest.mark.parametrize(
    ("known", "asked", "not_asked"),
    [
        ("fever age_3_to_11_months", "poor_feeding bulging_fontanelle floppy_baby", "neck_stiffness abdominal_pain"),
        ("fever rigors age_3_to_11_months", "jaundice", ""),
        ("vomiting age_under_3_months", "poor_feeding drawing_up_legs recent_injury", "testicular_pain headache"),
        ("cough age_under_3_months", "poor_feeding grunting_breathing", "chest_pain swollen_calf"),
        (f"fever {WOMAN}", "back_pain recently_gave_birth tropical_travel", "poor_feeding saddle_numbness"),
        (f"fever {WOMAN}", "neck_stiffness", "injects_drugs jaundice vaginal_discharge"),
        (f"fever back_pain {WOMAN}", "injects_drugs", ""),
        (f"fever recently_gave_birth {WOMAN}", "vaginal_discharge", ""),
        (f"fever tropical_travel {WOMAN}", "jaundice", ""),
        (f"cough {WOMAN}", "shortness_of_breath chest_pain coughing_blood", "swollen_calf poor_feeding"),
        (f"cough shortness_of_breath {WOMAN}", "swollen_calf", ""),
        (f"cough chest_pain {WOMAN}", "swollen_calf", ""),
        (f"cough coughing_blood {WOMAN}", "swollen_calf", ""),
        (f"runny_nose {WOMAN}", "shortness_of_breath fever", "head_injury hives"),
    ],
)
def test_a_sign_is_asked_of_those_who_can_show_it_and_whose_story_it_fits(graph, vocabulary, known, asked, not_asked):
    state = tf.constant([state_of(vocabulary, known.split())])
    [opened] = graph.open_signs(state, tf.constant([vocabulary.takes_instrument])).numpy()
    signs = {code for code, is_open in zip(vocabulary.codes, opened, strict=True) if is_open}
    assert set(asked.split()) - signs == set()
    assert set(not_asked.split()) & signs == set()
