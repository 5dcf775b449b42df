"""Whole patients: all that somebody has, judged by a panel that reads the whole case, not a card.

What is not listed as present is absent. A few of the absences are listed too: answers to routine questions, chosen by
how common the evidence is and not by what the patient has, so that an absence says no more than that.
"""

import numpy as np

from trainer.simulation.card import NOTHING, Cards
from trainer.simulation.draws import Draws
from trainer.simulation.knowledge_tables import KnowledgeTables
from trainer.simulation.patients import Patients

ABSENT = 40
"""Absences that are listed of each patient."""
STREAM = 2**62
"""Added to a block's number: the draws are apart from those of the block's cards, which whole patients do not change."""


def whole_case(tables: KnowledgeTables, patients: Patients) -> Cards:
    """Returns all that is known about B patients, save what follows from the rest.

    Left out is what the patient cannot have, a finding whose parent is absent, and the other members of a group of
    which one is present: a reader who takes findings as independent would count them twice.
    """
    told = ~patients.present & patients.possible
    told &= (tables.parents < 0) | patients.present[:, tables.parents]
    for members in tables.groups:
        told[:, members] &= ~patients.present[:, members].any(axis=1, keepdims=True)
    return Cards(_cells(patients.present), _cells(told))


def listed(tables: KnowledgeTables, patients: Patients, cards: Cards, draws: Draws) -> Cards:
    """Returns what a vignette of each of B whole patients lists.

    Present: what the patient comes with, a symptom of the card at random, then the rest of the card, then all else that
    is present. Absent: `ABSENT` pieces, drawn in proportion to how common each is.
    """
    count = len(tables.codes)
    rank: np.ndarray = np.full((len(patients.present), count + 1), 2.0)  # the last cell takes the padding
    np.put_along_axis(rank, cards.present, 1.0, axis=1)
    symptom: np.ndarray = np.zeros(count + 1, bool)
    symptom[tables.symptoms] = True
    keys = np.where(symptom[cards.present], draws.uniform(*cards.present.shape), -1.0)
    complaint = np.take_along_axis(cards.present, keys.argmax(axis=1)[:, None], axis=1)
    np.put_along_axis(rank, complaint, 0.0, axis=1)
    rank = np.where(patients.present, rank[:, :-1], np.inf)
    order = rank.argsort(axis=1, kind="stable")[:, : int(patients.present.sum(axis=1).max())]
    present = np.where(np.isfinite(np.take_along_axis(rank, order, axis=1)), order, NOTHING)
    asked = np.log(tables.frequency) + draws.gumbel(len(rank), count)
    asked[patients.present] = -np.inf
    absent = np.argsort(-asked, axis=1, kind="stable")[:, :ABSENT]
    return Cards(present, np.where(np.isfinite(np.take_along_axis(asked, absent, axis=1)), absent, NOTHING))


def _cells(chosen: np.ndarray) -> np.ndarray:
    """Returns the columns that `chosen`, bool `[B, E]`, says, ascending, padded with `NOTHING`; int `[B, K]`."""
    width = max(1, int(chosen.sum(axis=1).max()))
    order = np.argsort(~chosen, axis=1, kind="stable")[:, :width]
    return np.where(np.take_along_axis(chosen, order, axis=1), order, NOTHING)
