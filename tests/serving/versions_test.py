"""The set of loaded versions: who is lent what."""

import pytest

from schemas.errors import InputError
from serving.errors import NotFoundError, UnavailableError
from serving.versions import State, Versions, VersionStatus


class Info:
    def __init__(self, version):
        self.model_version = version


class Engine:
    """What the versions look at; what it answers is not their business."""

    def __init__(self, version):
        self.info = Info(str(version))


@pytest.fixture
def versions():
    return Versions("triage")


def test_nothing_is_lent_before_a_version_is_loaded(versions):
    with pytest.raises(NotFoundError, match=r"^Servable not found for request: Latest\(triage\)$"):
        versions.borrow().__enter__()
    with pytest.raises(UnavailableError, match="no model version is ready"):
        versions.borrow_default().__enter__()
    assert versions.statuses() == []


def test_the_last_published_version_is_the_default_and_the_others_can_be_named(versions):
    three, five = Engine(3), Engine(5)
    versions.publish(three)
    versions.publish(five)
    with versions.borrow() as default, versions.borrow(3) as named, versions.borrow_default() as typed:
        assert (default, named, typed) == (five, three, five)
    assert versions.statuses() == [VersionStatus(3, State.AVAILABLE), VersionStatus(5, State.AVAILABLE)]


def test_a_version_that_is_not_loaded_is_told(versions):
    versions.publish(Engine(3))
    with pytest.raises(NotFoundError, match=r"^Servable not found for request: Specific\(triage, 4\)$"):
        versions.borrow(4).__enter__()


def test_new_labels_replace_the_old_ones(versions):
    versions.set_labels({"stable": 3, "canary": 5})
    versions.set_labels({"stable": 5})
    assert versions.version_of("stable") == 5
    with pytest.raises(InputError, match=r"^Unrecognized servable version label: canary$"):
        versions.version_of("canary")
