"""The five Q-values decide, by every route: set them, and the served action follows."""

import numpy as np
import pytest
import tensorflow as tf
from tf_agents.trajectories import time_step as ts

from schemas.triage import NUM_ACTIONS, NUM_DECISIONS, Action
from tests.builders import served, sigmoid_network, symptoms, trained_agent, write_version
from trainer.dyqn.environment import Observation, action_spec, time_step_spec
from trainer.dyqn.policy import QPolicy
from trainer.export.policy import load_version
from triage_client import TriageClient, evidence_state
from triage_runtime.litert import LiteRtModel

CODES = symptoms("red", "yellow", "green", "blue", "ask")
STATES = np.float32([*np.eye(5), [0, 0, 1, 0, 1], [0, 0, 1, 0, -1]])
ASKED = np.zeros(len(STATES), np.int32)
EXPECTED = [*Action, Action.GREEN, Action.GREEN]  # a triage decision comes before asking where both are worth as much
BOOST = 2.0  # what a code that is present adds to the logit of its action; the others are 0


@pytest.fixture(
    scope="module",
    params=[pytest.param((), marks=pytest.mark.slow), ("appropriate", "safe")],
    ids=["q alone", "with probabilities"],
)
def trained(request):
    """An agent in which a code raises the Q-value of its name; probabilities, if any, say Blue whatever is known."""
    blue = np.zeros([len(CODES), NUM_DECISIONS]), [0, 0, 0, 9]
    q = np.eye(len(CODES)) * BOOST, np.zeros(NUM_ACTIONS)
    return trained_agent(sigmoid_network(q=q, **dict.fromkeys(request.param, blue)), CODES)


@pytest.fixture(scope="module")
def base(trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("decide")
    write_version(folder, trained)
    return folder


def by_the_agent(trained, base):
    rows = len(STATES)
    observation = Observation(tf.constant(STATES), tf.zeros([rows], tf.bool))
    time_step = ts.TimeStep(tf.fill([rows], ts.StepType.MID), tf.zeros([rows, 4]), tf.ones([rows]), observation)
    step = QPolicy(time_step_spec(len(CODES)), action_spec(), trained.model).action(time_step)
    return step.action.numpy(), step.info["q"].numpy()


def by_the_saved_model(trained, base):
    answer = load_version(base / "1").decide(STATES, ASKED)
    return answer["action"], answer["q_values"]


def by_litert(trained, base):
    answer = LiteRtModel((base / "1" / "assets.extra" / "state.tflite").read_bytes()).run(STATES, ASKED)
    return answer["action"], answer["q_values"]


def by_the_server(trained, base):
    codes = [[[CODES.codes[cell] for cell in np.flatnonzero(row == sign)] for sign in (1, -1)] for row in STATES]
    with served(base) as server, TriageClient(server.address, timeout_seconds=60) as client:
        answers = client.batch_triage([evidence_state(*each) for each in codes])
    return [answer.action - 1 for answer in answers], [[q.value for q in answer.q_values] for answer in answers]


@pytest.mark.parametrize("route", [by_the_agent, by_the_saved_model, by_litert, by_the_server])
def test_the_highest_q_value_is_the_action_by_every_route(trained, base, route):
    actions, q_values = route(trained, base)
    assert list(actions) == EXPECTED
    np.testing.assert_allclose(q_values, 1 / (1 + np.exp(-BOOST * STATES)), atol=1e-6)
