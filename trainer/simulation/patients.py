"""Simulated patients: who they are, what they have, and everything that could be found in them."""

from typing import NamedTuple

import numpy as np

from trainer.simulation.draws import Draws
from trainer.simulation.knowledge_tables import KnowledgeTables


class Patients(NamedTuple):
    """B patients."""

    conditions: np.ndarray  # int [B]
    possible: np.ndarray  # bool [B, E]: evidence that someone of that age and sex can have
    present: np.ndarray  # bool [B, E]: evidence that is present; all other is absent


def draw_patients(tables: KnowledgeTables, draws: Draws, count: int) -> Patients:
    """Draws what people suffer from, who they are given that, and what it shows (noisy-OR of condition and leak)."""
    rows = np.arange(count)
    conditions = choose(tables.log_case_mix[None, :], draws.uniform(count))
    with np.errstate(divide="ignore"):
        strata = choose(np.log(tables.risks.strata_given_condition)[conditions], draws.uniform(count))
    present: np.ndarray = np.zeros((count, len(tables.codes)), bool)
    present[rows[:, None], tables.strata[strata]] = True
    shape = (count, len(tables.drawn_risks))
    present[:, tables.drawn_risks] = tables.risks.draw(conditions, strata, draws.uniform(*shape))
    possible = _possible(tables, present)
    uniform = draws.uniform(count, len(tables.symptoms))
    findings = tables.findings.draw(conditions, uniform, possible[:, tables.symptoms])
    # Nobody comes with nothing to tell: who would have no finding has the most usual one of the condition.
    silent = np.flatnonzero(~findings.any(axis=1))
    usual = tables.findings_given_condition[conditions[silent]] * possible[silent]
    findings[silent, usual[:, tables.symptoms].argmax(axis=1)] = True
    present[:, tables.symptoms] = findings
    return Patients(conditions, possible, present)


def choose(log_weights: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Draws a column of each row in proportion to its weight, int `[B]`.

    Args:
        log_weights: `[B, N]`, or `[1, N]` for the same weights in each row.
        uniform: `[B]` in (0, 1).
    """
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    cumulative = np.cumsum(weights, axis=1)
    return (cumulative < uniform[:, None] * cumulative[:, -1:]).sum(axis=1)


def _possible(tables: KnowledgeTables, risks: np.ndarray) -> np.ndarray:
    possible = np.ones(risks.shape, bool)
    for cell, terms in tables.only_if:
        for term in terms:
            holds: np.ndarray = np.zeros(len(risks), bool)
            for risk, wanted in term:
                holds |= risks[:, risk] == wanted
            possible[:, cell] &= holds
    return possible
