"""Whole patients, who can answer any question, judged by a panel that reads the whole case instead of a card.

A vignette lists everything that the patient has; all else is absent.
"""

import numpy as np

from trainer.simulation.card import NOTHING, Cards
from trainer.simulation.draws import Draws
from trainer.simulation.knowledge_tables import KnowledgeTables
from trainer.simulation.patients import Patients

STREAM = 2**62
"""Added to the number of a block, so that its draws are independent of those of its cards."""


def whole_case(tables: KnowledgeTables, patients: Patients) -> Cards:
    """Returns all that is known about B patients, except for what follows from the rest.

    It leaves out what the patient cannot have, findings whose parent is absent, and the other members of a group of
    which one is present: a reader who takes findings as independent would count them twice.
    """
    denied = ~patients.present & patients.possible
    denied &= (tables.parents < 0) | patients.present[:, tables.parents]
    for members in tables.groups:
        denied[:, members] &= ~patients.present[:, members].any(axis=1, keepdims=True)
    return Cards(_cells(patients.present), _cells(denied))


def everything(tables: KnowledgeTables, patients: Patients, cards: Cards, draws: Draws) -> Cards:
    """Returns all that each of B patients has: the complaint first, then the card, then the rest; nothing as absent.

    The complaint is one of the symptoms on the card, drawn at random.
    """
    count = len(tables.codes)
    symptom: np.ndarray = np.zeros(count + 1, bool)
    symptom[tables.symptoms] = True
    keys = np.where(symptom[cards.present], draws.uniform(*cards.present.shape), -1.0)
    complaints = np.take_along_axis(cards.present, keys.argmax(axis=1)[:, None], axis=1)
    rank: np.ndarray = np.full((len(keys), count + 1), 2.0)
    np.put_along_axis(rank, cards.present, 1.0, axis=1)
    np.put_along_axis(rank, complaints, 0.0, axis=1)
    rank = np.where(patients.present, rank[:, :-1], np.inf)
    order = rank.argsort(axis=1, kind="stable")[:, : int(patients.present.sum(axis=1).max())]
    present = np.where(np.isfinite(np.take_along_axis(rank, order, axis=1)), order, NOTHING)
    return Cards(present, np.full((len(present), 1), NOTHING))


def _cells(chosen: np.ndarray) -> np.ndarray:
    """Returns the `chosen` columns, bool `[B, E]`, ascending, padded with `NOTHING`; int `[B, K]`."""
    width = max(1, int(chosen.sum(axis=1).max()))
    order = np.argsort(~chosen, axis=1, kind="stable")[:, :width]
    return np.where(np.take_along_axis(chosen, order, axis=1), order, NOTHING)
