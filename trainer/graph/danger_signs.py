"""Danger signs computed from vignettes: for each complaint, the findings that distinguish urgent patients."""

import numpy as np
import tensorflow as tf

from schemas.danger_signs import TOGETHER, DangerSigns
from schemas.evidence import KINDS, Vocabulary
from schemas.triage import NUM_DECISIONS, Action
from trainer.graph.closure import Closure
from trainer.graph.mixture import Mixture
from trainer.graph.questions import QuestionGraph
from trainer.graph.relations import more_general

DISTINCTIVE = 0.02
"""Least information, in nats, by which a sign must distinguish urgent patients with a complaint from all patients.

It is the sign's part of the Kullback-Leibler divergence between what their vignettes mention and what all do.
"""


def compute(patients: Mixture, vocabulary: Vocabulary) -> DangerSigns:
    """Returns up to six signs of each symptom, the most distinctive first, from red flags of the vocabulary.

    A patient counts as urgent with the probability that Green would be unsafe. A sign needs no instrument, and is not a
    special kind of what the complaint leaves open: that is a complaint itself when it is present.
    """
    graph = QuestionGraph(patients, vocabulary)
    alone = tf.eye(len(vocabulary))
    closed = Closure(vocabulary)(alone).numpy()  # [E, E], what follows from each code
    classes = graph.classes(alone).numpy()  # [E, K]
    mentioned = patients.present + patients.denied  # [K, E]
    usual = patients.mean(mentioned)  # [E]
    urgent = classes * (1 - patients.truths[:, NUM_DECISIONS + Action.GREEN])
    shares = urgent @ mentioned / urgent.sum(axis=1, keepdims=True)  # [E, E]
    apart = shares * np.log(shares / usual)
    signs = vocabulary.red_flags & ~vocabulary.takes_instrument
    signs[[cell for cells in vocabulary.openings.values() for cell in cells]] = False
    above = np.pad(closed > 0, [(0, 0), (0, 1)], constant_values=True)[:, more_general(vocabulary)].all(axis=2)
    asked = np.where(signs & above & graph.may_ask(alone).numpy(), apart, 0)
    lists = {}
    for cell, entry in enumerate(vocabulary):
        order = np.argsort(-asked[cell], kind="stable")[:TOGETHER]
        codes = tuple(vocabulary.codes[sign] for sign in order if asked[cell, sign] >= DISTINCTIVE)
        if entry.kind == KINDS[0] and codes:
            lists[entry.code] = (codes,)
    return DangerSigns(lists)
