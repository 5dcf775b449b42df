"""Pages of the hand-set model, and a browser without one."""

import numpy as np
import pytest
from starlette.testclient import TestClient

from schemas import safety_rules
from schemas.evidence import Evidence, Vocabulary
from serving.client.channel import Connection
from serving.console.agent import Agent
from serving.console.application import Console, application
from serving.console.local_server import serving
from serving.console.pages import Pages
from trainer.config import NetworkConfig
from trainer.decision.mixture import Mixture
from trainer.dyqn.network import build_network
from trainer.export import saved_model
from trainer.training.job import TrainedNetwork

ADDRESS = "http://127.0.0.1:8510"


@pytest.fixture(scope="session")
def agent(server):
    """The `hand_set` model, which cannot choose questions."""
    with Agent(Connection(server.address, timeout=30.0)) as agent:
        yield agent


@pytest.fixture
def browser(agent):
    """Sends requests as a browser does from the address bar."""
    return TestClient(application(Console(agent, Pages(labels=False))), base_url=ADDRESS)


@pytest.fixture
def send(browser):
    """Sends a form and returns the page."""

    def post(**fields):
        response = browser.post("/", data=fields, headers={"origin": ADDRESS, "sec-fetch-site": "same-origin"})
        assert response.status_code == 200
        return response.text

    return post


NAMES = (
    "Chest pain", "Crushing chest pain", "Sweating", "Headache", "Stiff neck", "Fever", "Cough", "Runny nose", "Nausea",
    "Rash", "Smoker", "Pregnant",
)  # fmt: skip

RULE = """
[flag]
reason = "A red flag."
urgency = "Red"
all.present = ["crushing_chest_pain", "sweating"]
"""


@pytest.fixture(scope="session")
def asking_server(tmp_path_factory):
    """A server of version 1, a model that chooses questions, with a rule for Red; its numbers are drawn at random."""
    vocabulary = Vocabulary(
        Evidence(name.lower().replace(" ", "_"), "symptom", name, f"Is it so: {name.lower()}?") for name in NAMES
    )
    size, generator = len(vocabulary), np.random.default_rng(5)
    model = build_network(size, NetworkConfig(hidden_sizes=()), seed=0)
    weights = generator.normal(0, 1.5, [size, 5])
    model.get_layer("q_values").set_weights([weights, np.array([0.0, 0.5, 0.8, 0.2, 1.5])])
    present = generator.uniform(0.02, 0.4, [8, size]).astype(np.float32)
    truths = generator.uniform(0.05, 0.95, [8, 8]).astype(np.float32)
    rules = safety_rules.parse(RULE, "rules.toml", vocabulary)
    mixture = Mixture(np.full(8, np.log(1 / 8), np.float32), present, truths, present)
    trained = TrainedNetwork(model, vocabulary, {}, 23, "sha256:data", {}, {}, rules=rules, questions=mixture)
    base = tmp_path_factory.mktemp("asking")
    saved_model.write_version(base, trained, version=1)
    with serving(base) as address:
        yield address
