"""The knowledge base as arrays: E pieces of evidence in vocabulary order, C conditions."""

from collections.abc import Iterable

import numpy as np

from schemas.catalogue import Catalogue, CatalogueEntry
from schemas.knowledge_base import KnowledgeBase
from schemas.triage import NUM_DECISIONS
from trainer.evidence_tree import EvidenceSampler, EvidenceTree
from trainer.risk_tables import RiskTables
from trainer.simulation_config import SimulationConfig

IMPOSSIBLE = 1e-6
"""Probability that stands for never, so that logarithms stay finite."""


class KnowledgeTables:
    """What patients, cards and panels need of the knowledge base.

    Args:
        knowledge: the knowledge base.
        config: the constants of the simulation.

    Raises:
        InputError: nobody can have one of the conditions.
    """

    def __init__(self, knowledge: KnowledgeBase, config: SimulationConfig):
        self.knowledge = knowledge
        catalogue = knowledge.catalogue
        self.codes = catalogue.vocabulary.codes
        self.index = catalogue.vocabulary.index
        self.symptoms = self._cells(catalogue.of_kind("symptom"))
        self.risk_factors = self._cells(catalogue.of_kind("risk_factor"))
        self.parents = np.array([-1 if e.parent is None else self.index(e.parent) for e in catalogue])
        self.in_group = np.array([entry.exclusive is not None for entry in catalogue])
        self.only_if = self._terms(catalogue)
        prevalence = np.array([condition.prevalence for condition in knowledge.conditions])
        self.log_case_mix = config.case_mix_exponent * np.log(prevalence)  # [C]
        self.log_prior = config.prior_exponent * np.log(prevalence)  # [C]
        self.risks = RiskTables(knowledge)
        self.drawn_risks = self._cells(self.risks.entries)  # [K]
        self.strata = np.array([(self.index(a.code), self.index(s.code)) for a, s in self.risks.strata])  # [G, 2]
        self.findings_given_condition = self._findings(config.leak)
        self.probabilities = self.findings_given_condition + self._risks_given_condition()  # [C, E]
        tree = EvidenceTree(catalogue.of_kind("symptom"))
        findings_given_parent = tree.given_parent(self.probabilities[:, self.symptoms])
        self.findings = EvidenceSampler(tree, findings_given_parent)
        given_parent = self.probabilities.copy()
        given_parent[:, self.symptoms] = findings_given_parent
        self._tabulate_likelihoods(prevalence / prevalence.sum(), given_parent)
        self._tabulate_urgency()

    def _cells(self, entries: Iterable[CatalogueEntry]) -> np.ndarray:
        return np.array([self.index(entry.code) for entry in entries])

    def _background(self) -> np.ndarray:
        return np.array([entry.background for entry in self.knowledge.catalogue])

    def _risks_given_condition(self) -> np.ndarray:
        """Returns P(risk factor | condition), age and sex among them, `[C, E]`, 0 for symptoms."""
        table = np.zeros((len(self.log_prior), len(self.codes)))
        table[:, self.drawn_risks] = self.risks.given_condition()
        for stratum, bands in enumerate(self.strata):
            table[:, bands] += self.risks.strata_given_condition[:, [stratum]]
        return table

    def _findings(self, leak: float) -> np.ndarray:
        """Returns P(symptom | condition) by noisy-OR of the condition and the leak, `[C, E]`, 0 for risk factors."""
        table = np.zeros((len(self.log_prior), len(self.codes)))
        for row, condition in enumerate(self.knowledge.conditions):
            for code, value in condition.evidence.items():
                table[row, self.index(code)] = value
        table = 1.0 - (1.0 - table) * (1.0 - np.minimum(leak * self._background(), 0.5))
        table[:, self.risk_factors] = 0.0
        for child in self.symptoms[::-1]:
            parent = self.parents[child]
            if parent >= 0:
                table[:, parent] = np.maximum(table[:, parent], table[:, child])
        return table

    def _tabulate_likelihoods(self, shares: np.ndarray, given_parent: np.ndarray) -> None:
        """Makes `[E, C]` logarithms of P(seen | condition) / P(seen in anybody).

        Args:
            shares: `[C]`, of all people who come.
            given_parent: `[C, E]`, P(piece | condition, its parent present). Where the parent is on the card, too, its
                child tells only what the parent did not.
        """

        def log_ratio(given: np.ndarray, anybody: np.ndarray) -> np.ndarray:
            return np.log(np.clip(given, IMPOSSIBLE, 1.0) / np.clip(anybody, IMPOSSIBLE, 1.0)).T

        alone = shares @ self.probabilities
        alone[self.risk_factors] = self._background()[self.risk_factors]
        self.log_present = log_ratio(self.probabilities, alone)
        self.log_absent = log_ratio(1.0 - self.probabilities, 1.0 - alone)
        below = shares @ given_parent
        self.log_present_given_parent = log_ratio(given_parent, below)
        self.log_absent_given_parent = log_ratio(1.0 - given_parent, 1.0 - below)

    def _tabulate_urgency(self) -> None:
        conditions = self.knowledge.conditions
        self.urgency = np.array([condition.urgency for condition in conditions])  # [C, 4]
        self.urgency_shifted = np.zeros_like(self.urgency)  # the same one colour up
        self.urgency_shifted[:, : NUM_DECISIONS - 1] = self.urgency[:, 1:]
        self.urgency_shifted[:, 0] += self.urgency[:, 0]
        self.red_flags: np.ndarray = np.zeros((len(self.codes), len(conditions)), bool)  # [E, C]
        self.urgent_with = np.zeros_like(self.red_flags)
        for row, condition in enumerate(conditions):
            self.red_flags[[self.index(code) for code in condition.red_flags], row] = True
            self.urgent_with[[self.index(code) for code in condition.urgent_with], row] = True

    def _terms(self, catalogue: Catalogue) -> list[tuple[int, list[list[tuple[int, bool]]]]]:
        """Returns the cells that not everybody can have, and of each the terms: (risk factor, present or absent)."""
        return [
            (
                self.index(entry.code),
                [[(self.index(part.removeprefix("!")), part[0] != "!") for part in term] for term in entry.only_if],
            )
            for entry in catalogue
            if entry.only_if
        ]
