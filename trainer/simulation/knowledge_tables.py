"""The knowledge base as arrays, E pieces of evidence in vocabulary order and C conditions, and draws of evidence."""

from collections.abc import Iterable, Sequence

import numpy as np

from schemas.errors import InputError
from schemas.triage import NUM_DECISIONS
from trainer.simulation.config import SimulationConfig
from trainer.simulation.knowledge_base import AGE, SEX, CatalogueEntry, KnowledgeBase

IMPOSSIBLE = 1e-6
"""Probability in place of 0, so that logarithms are finite."""
# How much a doctor worries about a condition that is Red, Yellow, Green or Blue.
_WORRY = np.array([1.0, 0.8, 0.1, 0.03])


class KnowledgeTables:
    """What patients, cards and panels need from the knowledge base.

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
        self.only_if = [
            (self.index(entry.code), [[(self.index(risk), wanted) for risk, wanted in term] for term in entry.only_if])
            for entry in catalogue
            if entry.only_if
        ]
        """The cells that not everybody can have, each with its terms: cells of risk factors, and whether present."""
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
        risks = np.einsum("cg,cge->ce", self.risks.strata_given_condition, self._risks_given_stratum())  # [C, E]
        self.probabilities = self.findings_given_condition * self._possible_given_condition() + risks  # [C, E]
        given_parent = self.probabilities.copy()
        given_parent[:, self.symptoms] = tree.given_parent(self.probabilities[:, self.symptoms])
        self._tabulate_likelihoods(prevalence / prevalence.sum(), given_parent)

    def _cells(self, entries: Iterable[CatalogueEntry]) -> np.ndarray:
        return np.array([self.index(entry.code) for entry in entries])

    def _background(self) -> np.ndarray:
        return np.array([entry.background for entry in self.knowledge.catalogue])

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


_MOST = 0.95  # upper bound on a risk factor's probability, however large its demographic multipliers


class RiskTables:
    """Tables over C conditions, G strata and the K risk factors other than age bands and sexes.

    Raises:
        InputError: no patient can have one of the conditions.
    """

    def __init__(self, knowledge: KnowledgeBase):
        self._knowledge = knowledge
        self.entries = [e for e in knowledge.catalogue.of_kind("risk_factor") if e.exclusive not in (AGE, SEX)]
        self._place = {entry.code: number for number, entry in enumerate(self.entries)}
        self._tree = EvidenceTree(self.entries)
        self.strata = [(a, s) for a in knowledge.catalogue.group(AGE) for s in knowledge.catalogue.group(SEX)]
        self.stratum_shares = np.array([age.background * sex.background for age, sex in self.strata])  # [G]
        given_anybody = self._tree.given_parent(self._in_anybody())  # [G, K]
        multipliers, required = self._condition_tables()
        self._given_parent, chances = self._tilt(given_anybody, multipliers, required)
        weights = self.stratum_shares * self._stratum_multipliers() * chances  # [C, G]
        for condition, total in zip(knowledge.conditions, weights.sum(axis=1), strict=True):
            if not total > 0:
                raise InputError(
                    f"condition {condition.code!r}: no patient can have it: its risk factors exclude each other"
                )
        self.strata_given_condition = weights / weights.sum(axis=1, keepdims=True)  # [C, G]
        self._sampler = EvidenceSampler(self._tree, self._given_parent.reshape(-1, len(self.entries)))

    def draw(self, conditions: np.ndarray, strata: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        """Returns the risk factors of patients with a condition, bool `[B, K]`; `uniform` is `[B, K]` in (0, 1)."""
        return self._sampler.draw(conditions * len(self.strata) + strata, uniform)

    def given_stratum(self) -> np.ndarray:
        """Returns P(risk factor | condition, stratum), float `[C, G, K]`."""
        rows = self._given_parent.reshape(-1, len(self.entries))
        return self._tree.marginal(rows).reshape(self._given_parent.shape)

    def _in_anybody(self) -> np.ndarray:
        """Returns P(risk factor | stratum), `[G, K]`; over all strata it is the catalogue's background."""
        table = np.empty((len(self.strata), len(self.entries)))
        for number, entry in enumerate(self.entries):
            bands = self._knowledge.demographics.get(entry.code, {})
            relative = np.array([bands.get(age.code, 1.0) * bands.get(sex.code, 1.0) for age, sex in self.strata])
            parent = self._tree.parents[number]
            most = np.full(len(self.strata), _MOST)
            if parent != NO_PARENT:  # the child follows the parent's frequency
                most = table[:, parent]
                relative = relative * most
            mean = max(float(self.stratum_shares @ relative), np.finfo(np.float64).tiny)
            table[:, number] = np.minimum(entry.background * relative / mean, most)
        return table

    def _stratum_multipliers(self) -> np.ndarray:
        return np.array(
            [
                [c.risk_factors.get(age.code, 1.0) * c.risk_factors.get(sex.code, 1.0)
                 * all(code in self._place or code in (age.code, sex.code) for code in c.requires)
                 for age, sex in self.strata]
                for c in self._knowledge.conditions
            ]
        )  # fmt: skip

    def _condition_tables(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns each risk factor's multiplier `[C, K]`, and whether the condition requires it `[C, K]`."""
        shape = (len(self._knowledge.conditions), len(self.entries))
        multipliers: np.ndarray = np.ones(shape)
        required: np.ndarray = np.zeros(shape, bool)
        for row, condition in enumerate(self._knowledge.conditions):
            for code, value in condition.risk_factors.items():
                if code in self._place:
                    multipliers[row, self._place[code]] = value
            for code in condition.requires:
                number = self._place.get(code, NO_PARENT)
                while number != NO_PARENT:  # requiring a child means requiring its parent
                    required[row, number] = True
                    number = self._tree.parents[number]
        return multipliers, required

    def _tilt(
        self, given_anybody: np.ndarray, multipliers: np.ndarray, required: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Applies Bayes' rule bottom up.

        Returns:
            P(risk factor | its parent present, stratum, condition), `[C, G, K]`, and how many times
            more likely the condition is in the average patient of each stratum than without risk factors, `[C, G]`.
        """
        conditions, pieces = multipliers.shape
        tilted = np.zeros((conditions, len(self.strata), pieces))
        gains = np.ones((conditions, len(self.strata), pieces + 1))  # the last column is for pieces without a parent
        groups = {members[0]: members for members in self._tree.groups}
        grouped = {number for members in self._tree.groups for number in members}
        for number in reversed(range(pieces)):  # children before parents; groups at their first member
            members = groups.get(number, [number])
            if number in grouped and number not in groups:
                continue
            share = given_anybody[:, members]  # [G, M]
            none = np.maximum(1.0 - share.sum(axis=1), 0.0)  # [G]
            needed = required[:, members]  # [C, M]
            free = ~needed.any(axis=1, keepdims=True)  # [C, 1]
            possible = free | needed  # a required member excludes the others
            weight = share * (multipliers[:, members] * possible)[:, None, :] * gains[:, :, members]  # [C, G, M]
            total = weight.sum(axis=2) + none * free  # [C, G]
            tilted[:, :, members] = weight / np.maximum(total, np.finfo(np.float64).tiny)[..., None]
            gains[:, :, self._tree.parents[number]] *= total  # NO_PARENT is the last column
        return tilted, gains[:, :, NO_PARENT]


NO_PARENT = -1


class EvidenceTree:
    """The relations among N pieces of evidence that are drawn together.

    Parents come before their children; parents that are not among the `entries` are ignored.
    """

    def __init__(self, entries: Sequence[CatalogueEntry]):
        place = {entry.code: number for number, entry in enumerate(entries)}
        self.parents = tuple(place.get(entry.parent or "", NO_PARENT) for entry in entries)
        groups: dict[str, list[int]] = {}
        for number, entry in enumerate(entries):
            if entry.exclusive is not None:
                groups.setdefault(entry.exclusive, []).append(number)
        self.groups = tuple(groups.values())

    def given_parent(self, marginal: np.ndarray) -> np.ndarray:
        """Returns P(piece | its parent is present), `[rows, N]`, where `marginal` is at most the parent's."""
        given = marginal.copy()
        for child, parent in enumerate(self.parents):
            if parent != NO_PARENT:
                above = np.maximum(marginal[:, parent], np.finfo(np.float64).tiny)
                given[:, child] = np.minimum(marginal[:, child] / above, 1.0)
        return given

    def marginal(self, given_parent: np.ndarray) -> np.ndarray:
        """Returns the probability of each piece, `[rows, N]`: the inverse of `given_parent`."""
        marginal = given_parent.copy()
        for child, parent in enumerate(self.parents):
            if parent != NO_PARENT:
                marginal[:, child] *= marginal[:, parent]
        return marginal


class EvidenceSampler:
    """Draws the pieces of a tree.

    Args:
        tree: the relations.
        given_parent: float `[rows, N]`, probability of each piece given that its parent is present. A group whose sum
            is above 1 is divided by its sum.
    """

    def __init__(self, tree: EvidenceTree, given_parent: np.ndarray):
        self._tree = tree
        self._lower = np.zeros_like(given_parent)
        self._upper = given_parent.copy()
        self._uniform = np.arange(given_parent.shape[1])
        for members in tree.groups:
            # The intervals of a group are stacked, so that one number decides between its members.
            shares = given_parent[:, members]
            tops = np.cumsum(shares / np.maximum(shares.sum(axis=1, keepdims=True), 1.0), axis=1)
            self._lower[:, members] = np.concatenate([np.zeros((len(tops), 1)), tops[:, :-1]], axis=1)
            self._upper[:, members] = tops
            self._uniform[members] = members[0]

    def draw(self, rows: np.ndarray, uniform: np.ndarray, possible: np.ndarray | None = None) -> np.ndarray:
        """Returns which pieces are present, bool `[B, N]`.

        Args:
            rows: int `[B]`.
            uniform: float `[B, N]` in (0, 1).
            possible: bool `[B, N]`, False if a piece cannot be present; None if all can.
        """
        value = uniform[:, self._uniform]
        drawn = (value >= self._lower[rows]) & (value < self._upper[rows])
        if possible is not None:
            drawn &= possible
        for child, parent in enumerate(self._tree.parents):
            if parent != NO_PARENT:
                drawn[:, child] &= drawn[:, parent]
        return drawn
