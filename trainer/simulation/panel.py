"""A panel of simulated clinicians: each reads the card, weighs conditions and chooses the colour of least loss."""

import numpy as np
import scipy.special

from schemas.triage import NUM_DECISIONS
from trainer.simulation.card import CardEvidence
from trainer.simulation.config import PanelConfig, SimulationConfig
from trainer.simulation.draws import Draws
from trainer.simulation.knowledge_tables import KnowledgeTables

_PANEL_STREAM = 2**63 + 100  # apart from the streams of the blocks, so that all blocks have the same panel


class Panel:
    """A fixed panel of clinicians.

    Triage one colour too low costs the clinician's risk aversion, one colour too high costs the over-triage loss of the
    border between the two. The loss over several colours is the sum over the borders in between. The `seed` decides who
    is in the panel.

    Attributes:
        risk_aversion: logarithm of that of each clinician, float `[M]`.
    """

    def __init__(self, tables: KnowledgeTables, config: SimulationConfig, seed: int):
        self._tables = tables
        self._config: PanelConfig = config.panel
        self._shifts = config.red_flag_shift, config.risk_shift
        draws = Draws(seed, _PANEL_STREAM)
        members = config.panel.clinicians
        # Every panel spans the same range, so that no seed makes a timid or a bold panel.
        rank = np.argsort(draws.uniform(members), kind="stable")
        spread = config.panel.risk_aversion_spread * scipy.special.ndtri((rank + 0.5) / members)
        self.risk_aversion = np.log(config.panel.caution) + spread  # [M]
        error = config.panel.experience_noise * draws.normal(members, len(tables.log_prior))
        self._log_prior = tables.log_prior + error  # [M, C]

    def decide(self, evidence: CardEvidence, sizes: np.ndarray, draws: Draws) -> np.ndarray:
        """Returns how many clinicians chose each colour, int `[B, 4]`.

        Each card is judged by as many of them as `sizes`, int `[B]`, says; `draws` decide who, and in which mood.
        """
        keys = draws.uniform(len(sizes), self._config.clinicians)
        mood = draws.normal(len(sizes), self._config.clinicians)
        members = np.argsort(keys, axis=1, kind="stable")
        card: np.ndarray = np.repeat(np.arange(len(sizes)), sizes)  # [D], one row a decision
        place = np.arange(len(card)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        member = members[card, place]
        decisions = self._choose(evidence, card, member, mood[card, place])
        return np.bincount(card * NUM_DECISIONS + decisions, minlength=len(sizes) * NUM_DECISIONS).reshape(
            -1, NUM_DECISIONS
        )

    def urgency(self, evidence: CardEvidence, card: np.ndarray, posterior: np.ndarray) -> np.ndarray:
        """Returns the probability of each colour for a case, float `[D, 4]`.

        Red flags, and risk factors that make a condition more urgent, move part of its urgency one colour up. `card`,
        int `[D]`, is the card of each decision, and `posterior` float `[D, C]`.
        """
        red_flag, risk = self._shifts
        kept = (1.0 - red_flag) ** evidence.red_flags * (1.0 - risk) ** evidence.urgent_with  # [B, C]
        as_usual = posterior * kept[card]
        return as_usual @ self._tables.urgency + (posterior - as_usual) @ self._tables.urgency_shifted

    def _choose(self, evidence: CardEvidence, card: np.ndarray, member: np.ndarray, mood: np.ndarray) -> np.ndarray:
        log_weight = self._log_prior[member] + self._config.evidence_weight * evidence.log_likelihood[card]
        posterior = scipy.special.softmax(log_weight, axis=-1)
        urgency = self.urgency(evidence, card, posterior)
        aversion = np.exp(self.risk_aversion[member] + self._config.risk_aversion_noise * mood)  # [D]
        # At each border: the probability that the case is more urgent than it.
        above = np.cumsum(urgency, axis=1)[:, :-1]  # [D, 3]
        late = aversion[:, None] * above
        early = np.array(self._config.over_triage_losses) * (1.0 - above)
        # A colour below a border pays for cases above it, and vice versa.
        nothing = np.zeros((len(card), 1))
        loss = np.concatenate([nothing, np.cumsum(late, axis=1)], axis=1)
        loss += np.concatenate([np.cumsum(early[:, ::-1], axis=1)[:, ::-1], nothing], axis=1)
        return loss.argmin(axis=1)  # ties: the more urgent
