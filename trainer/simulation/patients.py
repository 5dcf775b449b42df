"""Simulated patients: demographics, condition, and all of their evidence."""

from typing import NamedTuple

import numpy as np

from trainer.simulation.draws import Draws
from trainer.simulation.knowledge_tables import KnowledgeTables


class Population(NamedTuple):
    """B patients."""

    conditions: np.ndarray  # int [B]
    possible: np.ndarray  # bool [B, E]: evidence that is possible at that age and sex
    present: np.ndarray  # bool [B, E]: evidence that is present; all else is absent


def draw_patients(tables: KnowledgeTables, draws: Draws, count: int) -> Population:
    """Draws conditions, then demographics and risk factors, then findings (noisy-OR of condition and leak)."""
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
    # Every patient has a finding: one without any gets the most frequent one of the condition.
    silent = np.flatnonzero(~findings.any(axis=1))
    usual = tables.findings_given_condition[conditions[silent]] * possible[silent]
    findings[silent, usual[:, tables.symptoms].argmax(axis=1)] = True
    present[:, tables.symptoms] = findings
    return Population(conditions, possible, present)


def choose(log_weights: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Draws a column for each row in proportion to its weight, int `[B]`.

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
