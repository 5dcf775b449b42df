"""Age, sex and risk factors given a condition, by Bayes' rule from the multipliers of its risk.

There are G strata, one for each age band and sex. Within a stratum, risk factors are independent except for parents and
exclusive groups.
"""

import numpy as np

from schemas.catalogue import AGE, SEX
from schemas.errors import InputError
from schemas.knowledge_base import KnowledgeBase
from trainer.simulation.evidence_tree import NO_PARENT, EvidenceSampler, EvidenceTree

_MOST = 0.95  # upper bound on a risk factor's probability, however large its demographic multipliers


class RiskTables:
    """Tables over C conditions, G strata and the K risk factors other than age bands and sexes.

    Args:
        knowledge: the knowledge base.

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
