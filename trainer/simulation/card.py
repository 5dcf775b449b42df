"""The card that a doctor writes about a patient: salient positives and relevant negatives; and the whole case.

A whole patient can answer any question, and is judged by a panel that reads the whole case instead of a card.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse
import scipy.special
import scipy.stats

from trainer.simulation.config import CardConfig
from trainer.simulation.draws import Draws
from trainer.simulation.knowledge_tables import KnowledgeTables
from trainer.simulation.patients import Population

MAX_PIECES = 24
"""Maximum of one kind of evidence on a card; the paper's mean is below 4."""
NOTHING = -1
_NEVER = -1e9
_RARE = 1e-4  # keeps the logarithm of an irrelevant negative finite


class Cards(NamedTuple):
    """B cards: cells of the state in the order of writing, padded with `NOTHING`."""

    present: np.ndarray  # int [B, P]
    absent: np.ndarray  # int [B, N]


class CardEvidence(NamedTuple):
    """What B cards tell a clinician."""

    log_likelihood: np.ndarray  # float [B, C]: log P(card | condition) - log P(card in any patient)
    red_flags: np.ndarray  # float [B, C]: red flags of the condition on the card
    urgent_with: np.ndarray  # float [B, C]: risk factors on the card that make the condition more urgent


def write_cards(
    tables: KnowledgeTables, config: CardConfig, patients: Population, sizes: np.ndarray, draws: Draws
) -> Cards:
    """Writes the cards of B patients, of the `sizes` int `[B, 4]` that `card_sizes` returns."""
    flagged, worse = (_salience(config, tables, patients, each) for each in (tables.red_flags, tables.urgent_with))
    symptoms = _pick(flagged, tables.symptoms, patients.present, sizes[:, 0], draws)
    risks = _pick(worse, tables.risk_factors, patients.present, sizes[:, 2], draws)
    present = np.concatenate([symptoms, risks], axis=1)
    positives = Cards(present, np.full((len(present), 1), NOTHING))
    worries = _worries(tables, config, positives)
    deniable = _deniable(tables, patients, symptoms)
    denied = _pick(worries, tables.symptoms, deniable, sizes[:, 1], draws)
    no_risks = _pick(worries, tables.risk_factors, deniable, sizes[:, 3], draws)
    return Cards(present, np.concatenate([denied, no_risks], axis=1))


def card_sizes(config: CardConfig, uniform: np.ndarray) -> np.ndarray:
    """Returns how many pieces of each kind the doctor intends to write, int `[B, 4]`, at least one symptom.

    `uniform` is `[B, 4]` in (0, 1).
    """
    moments = (config.symptoms_present, config.symptoms_absent, config.risk_factors_present, config.risk_factors_absent)
    columns = [_count(mean, sd, uniform[:, column]) for column, (mean, sd) in enumerate(moments)]
    columns[0] = np.maximum(columns[0], 1)
    return np.minimum(np.stack(columns, axis=1), MAX_PIECES)


def _count(mean: float, sd: float, uniform: np.ndarray) -> np.ndarray:
    if sd * sd > mean:
        success = mean / (sd * sd)
        return scipy.stats.nbinom.ppf(uniform, mean * success / (1 - success), success).astype(np.int64)
    if sd * sd < mean:  # a binomial is the narrower distribution
        success = 1 - sd * sd / mean
        trials = max(1, round(mean / success))
        return scipy.stats.binom.ppf(uniform, trials, mean / trials).astype(np.int64)
    return scipy.stats.poisson.ppf(uniform, mean).astype(np.int64)


def read_cards(tables: KnowledgeTables, cards: Cards) -> CardEvidence:
    """Returns the information on the cards, and only that."""
    present = _indicators(cards.present, cards.present, len(tables.codes))
    return CardEvidence(_log_likelihood(tables, cards), present @ tables.red_flags, present @ tables.urgent_with)


def _log_likelihood(tables: KnowledgeTables, cards: Cards) -> np.ndarray:
    """Returns `CardEvidence.log_likelihood`, float `[B, C]`."""
    count = len(tables.codes)
    on_card: np.ndarray = np.zeros((len(cards.present), count + 1), bool)  # the last cell takes the padding
    np.put_along_axis(on_card, cards.present, True, axis=1)
    cells = np.concatenate([cards.present, cards.absent], axis=1)
    parent = tables.parents[cells]
    implied = (parent >= 0) & np.take_along_axis(on_card, parent, axis=1)
    table = 2 * (np.arange(cells.shape[1]) >= cards.present.shape[1]) + implied  # which of the four stacked ones
    return _indicators(cells, cells + count * table, 4 * count) @ tables.log_likelihoods


def _indicators(cells: np.ndarray, columns: np.ndarray, width: int) -> scipy.sparse.csr_matrix:
    """Returns `[B, width]` with a 1 at each of `columns` `[B, K]` whose cell is not padding.

    A product with it adds rows one by one, in the order of the card.
    """
    held = cells != NOTHING
    offsets = np.concatenate([[0], np.cumsum(held.sum(axis=1))])
    return scipy.sparse.csr_matrix((np.ones(offsets[-1]), columns[held], offsets), shape=(len(cells), width))


def _salience(config: CardConfig, tables: KnowledgeTables, patients: Population, urgent: np.ndarray) -> np.ndarray:
    """Returns the logarithm of each piece's weight in the doctor's choice, `[B, E]`.

    `urgent` is 1 where a piece makes a condition more urgent, `[E, C]`.
    """
    telling, more_urgent = tables.log_present.T[patients.conditions], urgent.T[patients.conditions]
    return config.salience * telling + config.red_flag_salience * more_urgent


def _worries(tables: KnowledgeTables, config: CardConfig, positives: Cards) -> np.ndarray:
    """Returns the logarithm of how much of the worrying differential each piece would explain, `[B, E]`."""
    posterior = scipy.special.softmax(tables.log_prior + _log_likelihood(tables, positives), axis=-1)
    worry = posterior * tables.worry
    expected = worry @ tables.probabilities / worry.sum(axis=1, keepdims=True)
    return config.relevance * np.log(expected + _RARE)


def _deniable(tables: KnowledgeTables, patients: Population, symptoms: np.ndarray) -> np.ndarray:
    """Returns what can be written as absent, `[B, E]`: possible, not implied by another absence, not age or sex."""
    on_card: np.ndarray = np.zeros((len(symptoms), len(tables.codes) + 1), bool)
    np.put_along_axis(on_card, symptoms, True, axis=1)
    has_parent = tables.parents >= 0
    fits = ~has_parent[None, :] | on_card[:, tables.parents]
    return ~patients.present & patients.possible & fits & ~tables.in_group


def _pick(
    log_weight: np.ndarray, cells: np.ndarray, allowed: np.ndarray, sizes: np.ndarray, draws: Draws
) -> np.ndarray:
    """Draws `sizes` of the allowed cells of each row without replacement, by descending key; int `[B, K]`."""
    keys = log_weight[:, cells] + draws.gumbel(len(sizes), len(cells))
    keys[~allowed[:, cells]] = _NEVER
    most = max(1, int(sizes.max(initial=0)))
    best = np.argpartition(-keys, min(most, keys.shape[1]) - 1, axis=1)[:, :most]
    order = np.argsort(-np.take_along_axis(keys, best, axis=1), axis=1, kind="stable")
    best = np.take_along_axis(best, order, axis=1)
    wanted = np.arange(best.shape[1])[None, :] < sizes[:, None]
    wanted &= np.take_along_axis(keys, best, axis=1) > _NEVER
    return np.where(wanted, cells[best], NOTHING)


STREAM = 2**62
"""Added to the number of a block, so that its draws are independent of those of its cards."""


def whole_case(tables: KnowledgeTables, patients: Population) -> Cards:
    """Returns all that is known about B patients, except for what follows from the rest.

    It leaves out what the patient cannot have, findings whose parent is absent, and the other members of a group of
    which one is present: a reader who takes findings as independent would count them twice.
    """
    denied = ~patients.present & patients.possible
    denied &= (tables.parents < 0) | patients.present[:, tables.parents]
    for members in tables.groups:
        denied[:, members] &= ~patients.present[:, members].any(axis=1, keepdims=True)
    return Cards(_cells(patients.present), _cells(denied))


def everything(tables: KnowledgeTables, patients: Population, cards: Cards, draws: Draws) -> Cards:
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
