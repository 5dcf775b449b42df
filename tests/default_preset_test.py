"""That the preset `default` deserves its name: on few simulated vignettes it beats always Green and the paper's."""

import numpy as np
import pytest
import tensorflow as tf

import triage_cli
from schemas.triage import Action
from tests.builders import outcomes_of
from trainer import presets
from trainer.data.tfrecord import DataDirectory
from trainer.dyqn.rollout import order_seeds
from trainer.evaluation import metrics
from trainer.evaluation.measurement import agent_outcomes
from trainer.graph.decide import best_triage
from trainer.graph.questions import QuestionGraph
from trainer.training.job import load_network
from trainer.training.session import open_run

pytestmark = pytest.mark.slow

MARGIN_GREEN, MARGIN_PAPER = 0.015, 0.03


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """300 vignettes to train on and 1,200 to test on."""
    folder = tmp_path_factory.mktemp("simulated") / "data"
    flags = ["--vignettes", "1500", "--test-fraction", "0.8", "--seed", "7", "--out", str(folder)]
    assert triage_cli.main(["simulate", *flags]) == 0
    return DataDirectory.open(folder)


def _qualities(outcomes, test):
    values = metrics.agent_metrics(outcomes, test.decision_counts)
    return {name: float(values[name].mean()) for name in ("appropriateness", "safety")}


def _trained(name, data, folder):
    open_run(folder, data, presets.preset(name)).train(lambda: False)
    return load_network(folder)


@pytest.fixture(scope="module")
def agent(data, tmp_path_factory):
    return _trained("default", data, tmp_path_factory.mktemp("default") / "job")


def test_the_default_preset_beats_always_green_and_the_paper_on_few_vignettes(data, agent, tmp_path):
    test = data.read("test")
    green = _qualities(outcomes_of([[Action.GREEN] * len(test.decision_counts)]), test)
    default, paper = (
        _qualities(agent_outcomes(each.model, test, order_seeds(0, 3)), test)
        for each in (agent, _trained("paper", data, tmp_path / "paper"))
    )
    # Both metrics at once, as either alone can be had by deciding always the same.
    # Measured: .766 and .877, where always Green has .736 and .757.
    assert default["appropriateness"] > green["appropriateness"] + MARGIN_GREEN
    assert default["safety"] > green["safety"] + MARGIN_GREEN
    assert sum(default.values()) > sum(paper.values()) + MARGIN_PAPER


def test_the_probabilities_of_the_default_agent_agree_with_those_after_the_next_answer(data, agent):
    test = data.read("test")
    graph = QuestionGraph(agent.questions, agent.vocabulary, (), agent.signs)
    states = np.zeros([len(test.decision_counts), len(agent.vocabulary)], np.float32)
    presenting = test.signed_codes[test.offsets[:-1]]
    states[np.arange(len(states)), np.abs(presenting) - 1] = np.sign(presenting)
    questions = graph(tf.constant(states), tf.zeros(states.shape, tf.bool))
    codes, likely = (each[:, 0].numpy() for each in (questions.codes, questions.likely))
    asked = codes >= 0
    change = np.eye(states.shape[1], dtype=np.float32)[codes[asked]]
    said = [agent.model(states[asked] + answer * change) for answer in (0, 1, -1)]
    now, yes, no = (np.concatenate([heads["appropriate"], heads["safe"]], axis=1) for heads in said)
    share = likely[asked, np.newaxis]
    decided, after_yes, after_no = (best_triage(heads["q"]).numpy() for heads in said)
    # The mean over both answers, and how often a yes and a no would change the decision alike. Nothing in the loss asks
    # for it. Measured: .018.
    assert np.abs(share * yes + (1 - share) * no - now).mean() < 0.025
    assert ((after_yes == after_no) & (after_yes != decided)).mean() < 0.03
