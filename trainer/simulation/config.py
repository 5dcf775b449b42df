"""All constants of the vignette simulator, each with its effect.

Some of them were fitted to the paper's table "Clinical vignettes statistics", which `triage stats` shows beside the
simulated vignettes'; the others are choices.
"""

import dataclasses
from typing import Any

# Share of vignettes that 1, 2, ... 11 clinicians judged. The paper gives the mean 3.36 (SD 1.44), the extremes 1 and
# 11, and 1,073 of 1,374 vignettes (.78) with three or more.
DECISIONS_PER_VIGNETTE = (0.050, 0.170, 0.437, 0.197, 0.082, 0.030, 0.012, 0.008, 0.005, 0.004, 0.005)


@dataclasses.dataclass(frozen=True)
class CardConfig:
    """What a doctor writes on the card of a patient."""

    # Mean and SD of the number of pieces of each kind that the doctor intends to write (negative binomial, or
    # Poisson); the card has fewer if the patient has fewer. Effect: the rows "Evidences" of the table.
    symptoms_present: tuple[float, float] = (3.70, 1.88)
    symptoms_absent: tuple[float, float] = (2.45, 2.14)
    risk_factors_present: tuple[float, float] = (0.79, 0.89)
    risk_factors_absent: tuple[float, float] = (0.34, 0.72)
    # Weight of a finding's specificity against chance in what is written. Higher: rarer, more specific findings.
    salience: float = 2.0
    # The same for what is written as absent, by how much the worrying differential would explain it. Higher: fewer
    # negatives without relation to the case.
    relevance: float = 2.0
    # Added to the salience of a red flag of the patient's condition. Higher: more urgent cards.
    red_flag_salience: float = 1.0


@dataclasses.dataclass(frozen=True)
class PanelConfig:
    """The simulated clinicians."""

    clinicians: int = 40
    # Loss of one colour too urgent, at each border (Red-Yellow, Yellow-Green, Green-Blue), where one colour too late
    # costs 1 times the clinician's risk aversion. Higher: fewer decisions above that border. Slightly above
    # 1, because the prior is already cautious, see `vigilance`.
    over_triage_losses: tuple[float, float, float] = (1.21, 1.11, 1.53)
    # Factor on the risk aversion of all clinicians. Higher: more urgent decisions, as another panel may have them.
    caution: float = 1.0
    # SD of the logarithm of risk aversion between clinicians. Higher: clinicians agree less, always in one direction.
    risk_aversion_spread: float = 0.36
    # SD of the logarithm of one clinician's risk aversion from one card to the next. Higher: they agree less.
    risk_aversion_noise: float = 0.58
    # SD of a clinician's log-odds error about each condition's prevalence. Higher: they disagree about the condition.
    experience_noise: float = 0.25
    # Power of the likelihood of the card in the posterior; below 1 as findings are not independent. Lower:
    # softer posteriors, fewer unanimous cards, decisions that are easier to learn; if too low, no card is convincing.
    evidence_weight: float = 0.6


@dataclasses.dataclass(frozen=True)
class SimulationConfig:
    """All constants; saved with the data that they made."""

    # Power of prevalence in the draw of a condition: 1 is a waiting room, 0 a textbook in which each condition has
    # a page. Lower: more diverse conditions, and vignettes that are harder to learn.
    case_mix_exponent: float = 1.4
    # Power of prevalence in a clinician's prior. Lower: clinicians think of rare conditions sooner.
    prior_exponent: float = 0.7
    # Dangerous conditions are overrepresented: doctors choose them for vignettes, and clinicians think of them. Added
    # to the logarithm of both weights, times the worry about the condition: 1 for Red, .8 for Yellow, .1 for Green.
    # Higher: more emergencies, which are easier to recognise.
    vigilance: float = 2.5
    # Factor on the background probability of symptoms. Higher: more findings unrelated to the condition.
    leak: float = 1.0
    # Share of each colour's probability that moves one colour up for each red flag, and for each risk factor that makes
    # the condition more urgent, on the card. Higher: more urgent decisions.
    red_flag_shift: float = 0.3
    risk_shift: float = 0.3
    decisions_per_vignette: tuple[float, ...] = DECISIONS_PER_VIGNETTE
    card: CardConfig = CardConfig()
    panel: PanelConfig = PanelConfig()

    def to_dict(self) -> dict[str, Any]:
        """Returns the constants as JSON can hold them."""
        return dataclasses.asdict(self)
