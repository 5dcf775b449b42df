"""Pages of the hand-set model, and a browser without one."""

import pytest
from starlette.testclient import TestClient

from serving.client.channel import ConnectionOptions
from serving.console.application import Console, Pages, application
from serving.console.local_server import serving
from serving.console.served_model import ServedModel

ADDRESS = "http://127.0.0.1:8510"


@pytest.fixture(scope="session")
def served_model(server):
    """The `hand_set` model, which cannot choose questions."""
    with ServedModel(ConnectionOptions(server.address, timeout=30.0)) as served_model:
        yield served_model


@pytest.fixture
def browser(served_model):
    """Sends requests as a browser does from the address bar."""
    return TestClient(application(Console(served_model, Pages())), base_url=ADDRESS)


@pytest.fixture
def send(browser):
    """Sends a form and returns the page."""

    def post(**fields):
        response = browser.post("/", data=fields, headers={"origin": ADDRESS, "sec-fetch-site": "same-origin"})
        assert response.status_code == 200
        return response.text

    return post


@pytest.fixture(scope="session")
def asking_server(asking_base_path):
    """A server of version 1 of `asking_base_path`."""
    with serving(asking_base_path) as address:
        yield address


@pytest.fixture(scope="session")
def opening_model(opening_base_path):
    """A model that asks for age and sex first."""
    with serving(opening_base_path) as address, ServedModel(ConnectionOptions(address, timeout=30.0)) as served_model:
        yield served_model


@pytest.fixture(scope="session")
def grouping_model(grouping_base_path):
    """A model that asks about three red flags in one question."""
    with serving(grouping_base_path) as address, ServedModel(ConnectionOptions(address, timeout=30.0)) as served_model:
        yield served_model
