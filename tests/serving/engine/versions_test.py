"""The set of loaded versions: who is lent what."""

import gc
import types
import weakref

import pytest

from serving.engine.versions import State, Versions, VersionStatus
from serving.errors import NotFoundError


class Engine:
    """The part of an engine that versions use."""

    def __init__(self, version):
        self.info = types.SimpleNamespace(model_version=str(version))


@pytest.fixture
def versions():
    return Versions("triage")


def test_a_call_ends_on_the_engine_that_it_began_with_and_the_engine_is_released_after_it(versions):
    three = Engine(3)
    kept = weakref.ref(three)
    versions.publish(three)
    versions.set_default(3)
    del three
    with versions.borrow() as engine:
        versions.publish(Engine(5))
        versions.set_default(5)
        versions.retire(3)
        assert versions.statuses()[0] == VersionStatus(3, State.UNLOADING)
        assert engine.info.model_version == "3"
        assert not versions.take_released()
        with pytest.raises(NotFoundError):
            versions.borrow(3).__enter__()
    assert versions.statuses()[0] == VersionStatus(3, State.END)
    assert versions.take_released()
    assert not versions.take_released()
    del engine
    gc.collect()
    assert kept() is None


def test_a_version_that_comes_again_while_it_drains_stays_available(versions):
    versions.publish(Engine(3))
    versions.publish(Engine(5))
    versions.set_default(5)
    with versions.borrow(3):
        versions.retire(3)
        versions.publish(Engine(3))
    assert versions.statuses()[0] == VersionStatus(3, State.AVAILABLE)
