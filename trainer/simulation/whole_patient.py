"""Whole patients, who can answer any question, judged by a panel that reads the whole case and not a card.

A training vignette is the record of an interview: what the patient tells unasked, which is what stands on the card, and
the answers to routine questions, drawn by how common the evidence is and not by what the patient has, so that an answer
says no more than that. A test vignette lists all that the patient has; what it does not list is absent.
"""

import numpy as np

from trainer.simulation.card import NOTHING, Cards
from trainer.simulation.draws import Draws
from trainer.simulation.knowledge_tables import KnowledgeTables
from trainer.simulation.patients import Patients

QUESTIONS = 40
"""Routine questions in a record."""
STREAM = 2**62
"""Added to the number of a block, so that the draws are apart from those of its cards."""


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


def records(tables: KnowledgeTables, patients: Patients, cards: Cards, draws: Draws) -> Cards:
    """Returns the record of an interview with each of B patients: what is on the card as present, and the answers."""
    count = len(tables.codes)
    keys = np.log(tables.frequency) + draws.gumbel(len(cards.present), count)
    asked: np.ndarray = np.zeros((len(keys), count + 1), bool)  # the last cell takes the padding
    np.put_along_axis(asked, np.argsort(-keys, axis=1, kind="stable")[:, :QUESTIONS], True, axis=1)
    told: np.ndarray = np.zeros_like(asked)
    np.put_along_axis(told, cards.present, True, axis=1)
    return Cards(_cells((told | asked)[:, :-1] & patients.present), _cells(asked[:, :-1] & ~patients.present))


def everything(tables: KnowledgeTables, patients: Patients, cards: Cards, draws: Draws) -> Cards:
    """Returns all that each of B patients has: the complaint first, then the card, then all else; nothing as absent.

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
    """Returns the columns that `chosen`, bool `[B, E]`, says, ascending, padded with `NOTHING`; int `[B, K]`."""
    width = max(1, int(chosen.sum(axis=1).max()))
    order = np.argsort(~chosen, axis=1, kind="stable")[:, :width]
    return np.where(np.take_along_axis(chosen, order, axis=1), order, NOTHING)
