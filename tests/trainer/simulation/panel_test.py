import dataclasses

import numpy as np
import pytest

from schemas.triage import Action
from trainer.simulation.card import CardEvidence
from trainer.simulation.config import PanelConfig, SimulationConfig
from trainer.simulation.draws import Draws
from trainer.simulation.knowledge_tables import KnowledgeTables
from trainer.simulation.panel import Panel

COLD, HEART_ATTACK, MISCARRIAGE = range(3)
LIKE_MINDED = PanelConfig(
    clinicians=12, over_triage_losses=(1.0, 1.0, 1.0), risk_aversion_spread=0.0, risk_aversion_noise=0.0,
    experience_noise=0.0, evidence_weight=1.0,
)  # fmt: skip


def _panel(knowledge, seed=0, **changes):
    panel = {name: changes.pop(name) for name in list(changes) if name in PanelConfig.__dataclass_fields__}
    config = SimulationConfig(
        panel=dataclasses.replace(LIKE_MINDED, **panel), prior_exponent=1.0, vigilance=0.0, **changes
    )
    return Panel(KnowledgeTables(knowledge, config), config, seed)


def _evidence(posterior, flags=(0, 0, 0), risks=(0, 0, 0), cards=1):
    """A card after which a clinician who knows the prevalences has this posterior."""
    log = np.log(np.maximum(posterior, 1e-12)) - np.log([80, 15, 5])
    return CardEvidence(*(np.tile(np.asarray(row, float), (cards, 1)) for row in (log, flags, risks)))


def _counts(panel, evidence, clinicians=10, seed=0):
    return panel.decide(evidence, np.full(len(evidence.log_likelihood), clinicians), Draws(seed, 0))


def test_the_decision_agrees_with_an_enumeration_of_the_losses(toy_knowledge):
    losses = (0.7, 1.3, 2.0)
    panel = _panel(toy_knowledge, over_triage_losses=losses, red_flag_shift=0.5, risk_shift=0.3)
    generator = np.random.default_rng(0)
    posteriors = generator.dirichlet(np.ones(3) * 0.5, 200)
    for posterior in posteriors:
        flags, risks = generator.integers(0, 3, 3), generator.integers(0, 3, 3)
        urgency = np.zeros(4)
        usual = np.array([[0, 0, 0.2, 0.8], [0.8, 0.2, 0, 0], [0.1, 0.7, 0.2, 0]])
        for condition in range(3):
            moved = 1 - 0.5 ** flags[condition] * 0.7 ** risks[condition]
            up = np.append(usual[condition, 1:], 0.0)
            up[0] += usual[condition, 0]
            urgency += posterior[condition] * ((1 - moved) * usual[condition] + moved * up)
        loss = [
            sum(urgency[t] * (sum(losses[b] for b in range(a, t)) + sum(1.0 for b in range(t, a))) for t in range(4))
            for a in range(4)
        ]
        counts = _counts(panel, _evidence(posterior, flags, risks), clinicians=1)
        assert loss[counts[0].argmax()] == pytest.approx(min(loss))


def test_a_softer_reading_of_the_card_leaves_more_of_the_prior(toy_knowledge):
    evidence = _evidence((0.02, 0.9, 0.08))
    assert _counts(_panel(toy_knowledge), evidence)[0].argmax() == Action.RED
    assert _counts(_panel(toy_knowledge, evidence_weight=0.05), evidence)[0].argmax() == Action.BLUE


@pytest.mark.parametrize("noise", ["risk_aversion_spread", "risk_aversion_noise", "experience_noise"])
def test_each_noise_makes_clinicians_disagree(toy_knowledge, noise):
    evidence = _evidence((0.5, 0.5, 0), cards=50)
    assert (_counts(_panel(toy_knowledge), evidence).max(axis=1) == 10).all()
    assert (_counts(_panel(toy_knowledge, **{noise: 0.6}), evidence).max(axis=1) < 10).mean() > 0.5


def test_lasting_differences_make_the_same_clinicians_differ_and_moods_do_not(toy_knowledge):
    evidence = _evidence((0.5, 0.5, 0), cards=2000)
    lasting = _counts(_panel(toy_knowledge, risk_aversion_spread=0.6), evidence, clinicians=12)
    # All twelve judge each card: without moods they judge it alike each time.
    assert len(np.unique(lasting, axis=0)) == 1
    assert len(np.unique(_counts(_panel(toy_knowledge, risk_aversion_noise=0.6), evidence, clinicians=12), axis=0)) > 3


def test_each_card_has_as_many_decisions_as_clinicians(toy_knowledge):
    sizes = np.array([1, 5, 11])
    counts = _panel(toy_knowledge, risk_aversion_noise=1.0).decide(
        _evidence((0.5, 0.5, 0), cards=3), sizes, Draws(0, 0)
    )
    np.testing.assert_array_equal(counts.sum(axis=1), sizes)


def test_the_panel_is_the_same_for_every_block_and_another_for_another_seed(toy_knowledge):
    evidence = _evidence((0.5, 0.5, 0))
    wide = {"risk_aversion_spread": 1.0}
    first, again, other = (_panel(toy_knowledge, seed, **wide) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.risk_aversion, again.risk_aversion)
    assert not np.allclose(first.risk_aversion, other.risk_aversion)
    # The middles of twelve equally likely parts of a normal distribution, whoever has which.
    np.testing.assert_allclose(np.sort(first.risk_aversion), np.sort(other.risk_aversion))
    assert first.risk_aversion.max() == pytest.approx(1.7317, abs=1e-4)  # of 1 - 1/24
    assert _counts(first, evidence).sum() == 10


def test_a_more_cautious_panel_decides_more_urgently(toy_knowledge):
    # Red .36, Yellow .09 | Green .11, Blue .44: Green, unless what is too late weighs .55 / .45 = 1.22 times as much.
    usual, cautious = (
        _counts(_panel(toy_knowledge, caution=caution), _evidence((0.55, 0.45, 0)))[0] for caution in (1.2, 1.3)
    )
    assert (usual.argmax(), cautious.argmax()) == (Action.GREEN, Action.YELLOW)
