"""The knowledge base as arrays: E pieces of evidence in vocabulary order, C conditions."""

from collections.abc import Iterable

import numpy as np

from schemas.catalogue import Catalogue, CatalogueEntry
from schemas.knowledge_base import KnowledgeBase
from schemas.triage import NUM_DECISIONS
from trainer.simulation.config import SimulationConfig
from trainer.simulation.evidence_tree import EvidenceSampler, EvidenceTree
from trainer.simulation.risk_tables import RiskTables

IMPOSSIBLE = 1e-6
"""Probability in place of 0, so that logarithms are finite."""
# How much a doctor worries about a condition that is Red, Yellow, Green or Blue.
_WORRY = np.array([1.0, 0.8, 0.1, 0.03])


class KnowledgeTables:
    """What patients, cards and panels need from the knowledge base.

    Args:
        knowledge: the knowledge base.
        config: the constants of the simulation.

    Raises:
        InputError: no patient can have one of the conditions.
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
        names = {entry.exclusive for entry in catalogue if entry.exclusive is not None}
        self.groups = [self._cells(catalogue.group(name)) for name in sorted(names)]
        self.only_if = self._terms(catalogue)
        prevalence = np.array([condition.prevalence for condition in knowledge.conditions])
        self._tabulate_urgency()
        vigilance = config.vigilance * self.worry
        self.log_case_mix = config.case_mix_exponent * np.log(prevalence) + vigilance  # [C]
        self.log_prior = config.prior_exponent * np.log(prevalence) + vigilance  # [C]
        self.risks = RiskTables(knowledge)
        self.drawn_risks = self._cells(self.risks.entries)  # [K]
        self.strata = np.array([(self.index(a.code), self.index(s.code)) for a, s in self.risks.strata])  # [G, 2]
        self.findings_given_condition = self._findings(config.leak)
        tree = EvidenceTree(catalogue.of_kind("symptom"))
        # A patient's draw knows which findings are possible; a reader of a card weighs how many patients can have them.
        self.findings = EvidenceSampler(tree, tree.given_parent(self.findings_given_condition[:, self.symptoms]))
        risks = self._risks_given_condition()
        self.probabilities = self.findings_given_condition * self._possible_given_condition() + risks  # [C, E]
        given_parent = self.probabilities.copy()
        given_parent[:, self.symptoms] = tree.given_parent(self.probabilities[:, self.symptoms])
        self._tabulate_likelihoods(prevalence / prevalence.sum(), given_parent)

    def _cells(self, entries: Iterable[CatalogueEntry]) -> np.ndarray:
        return np.array([self.index(entry.code) for entry in entries])

    def _background(self) -> np.ndarray:
        return np.array([entry.background for entry in self.knowledge.catalogue])

    def _risks_given_condition(self) -> np.ndarray:
        """Returns P(risk factor | condition), including age and sex, `[C, E]`, 0 for symptoms."""
        return np.einsum("cg,cge->ce", self.risks.strata_given_condition, self._risks_given_stratum())

    def _possible_given_condition(self) -> np.ndarray:
        """Returns P(a patient can have the evidence and its parents | condition), `[C, E]`.

        Terms about age and sex are certain within a stratum; other risk factors are taken as independent.
        """
        terms: dict[int, list[list[tuple[int, bool]]]] = dict(self.only_if)
        given_stratum = self._risks_given_stratum()  # [C, G, E]
        table = np.ones((len(self.log_prior), len(self.codes)))
        for cell in range(len(self.codes)):
            lineage = [cell]
            while self.parents[lineage[-1]] >= 0:
                lineage.append(int(self.parents[lineage[-1]]))
            needed = {tuple(term) for ancestor in lineage for term in terms.get(ancestor, ())}
            if needed:
                holds = np.ones(given_stratum.shape[:2])
                for term in needed:
                    fails = [given_stratum[:, :, risk] if not wanted else 1.0 - given_stratum[:, :, risk]
                             for risk, wanted in term]  # fmt: skip
                    holds *= 1.0 - np.prod(fails, axis=0)
                table[:, cell] = (self.risks.strata_given_condition * holds).sum(axis=1)
        return table

    def _risks_given_stratum(self) -> np.ndarray:
        """Returns P(risk factor | condition, stratum), including age and sex, `[C, G, E]`, 0 for symptoms."""
        table = np.zeros((len(self.log_prior), len(self.strata), len(self.codes)))
        table[:, :, self.drawn_risks] = self.risks.given_stratum()
        for stratum, bands in enumerate(self.strata):
            table[:, stratum, bands] = 1.0
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
        """Computes `[E, C]` logarithms of P(seen | condition) / P(seen in any patient).

        Args:
            shares: `[C]`, of all patients.
            given_parent: `[C, E]`, P(piece | condition, its parent present). If the parent is on the card
                too, its child only adds what the parent does not imply.
        """

        def log_ratio(given: np.ndarray, anyone: np.ndarray) -> np.ndarray:
            return np.log(np.clip(given, IMPOSSIBLE, 1.0) / np.clip(anyone, IMPOSSIBLE, 1.0)).T

        alone = shares @ self.probabilities
        alone[self.risk_factors] = self._background()[self.risk_factors]
        self.log_present = log_ratio(self.probabilities, alone)
        self.log_absent = log_ratio(1.0 - self.probabilities, 1.0 - alone)
        below = shares @ given_parent
        self.log_present_given_parent = log_ratio(given_parent, below)
        self.log_absent_given_parent = log_ratio(1.0 - given_parent, 1.0 - below)
        # All four stacked, [4E, C], to add up rows of them in one product.
        self.log_likelihoods = np.concatenate(
            [self.log_present, self.log_present_given_parent, self.log_absent, self.log_absent_given_parent]
        )

    def _tabulate_urgency(self) -> None:
        conditions = self.knowledge.conditions
        self.urgency = np.array([condition.urgency for condition in conditions])  # [C, 4]
        self.worry = self.urgency @ _WORRY  # [C]
        self.urgency_shifted = np.zeros_like(self.urgency)  # shifted one colour up
        self.urgency_shifted[:, : NUM_DECISIONS - 1] = self.urgency[:, 1:]
        self.urgency_shifted[:, 0] += self.urgency[:, 0]
        self.red_flags = np.zeros((len(self.codes), len(conditions)))  # [E, C], 0 or 1
        self.urgent_with = np.zeros_like(self.red_flags)
        for row, condition in enumerate(conditions):
            self.red_flags[[self.index(code) for code in condition.red_flags], row] = 1.0
            self.urgent_with[[self.index(code) for code in condition.urgent_with], row] = 1.0

    def _terms(self, catalogue: Catalogue) -> list[tuple[int, list[list[tuple[int, bool]]]]]:
        """Returns the cells that have conditions, each with its terms: (risk factor, present or absent)."""
        return [
            (
                self.index(entry.code),
                [[(self.index(part.removeprefix("!")), part[0] != "!") for part in term] for term in entry.only_if],
            )
            for entry in catalogue
            if entry.only_if
        ]
