"""The set of loaded versions: who is lent what."""

import gc
import weakref

import pytest

from schemas.errors import InputError
from serving.engine.versions import State, Versions, VersionStatus
from serving.errors import NotFoundError, UnavailableError


class Info:
    def __init__(self, version):
        self.model_version = version


class Engine:
    """The part of an engine that versions use."""

    def __init__(self, version):
        self.info = Info(str(version))


@pytest.fixture
def versions():
    return Versions("triage")


def test_nothing_is_lent_before_a_version_is_loaded(versions):
    with pytest.raises(UnavailableError, match="no model version is ready"):
        versions.borrow().__enter__()
    assert versions.statuses() == []


def test_the_default_version_answers_calls_that_name_none_and_others_can_be_named(versions):
    three, five = Engine(3), Engine(5)
    versions.publish(three)
    versions.publish(five)
    versions.set_default(3)
    with versions.borrow() as default, versions.borrow(5) as named:
        assert (default, named) == (three, five)
    assert versions.statuses() == [VersionStatus(3, State.AVAILABLE), VersionStatus(5, State.AVAILABLE)]
    assert (versions.default, versions.loaded) == (3, {3, 5})


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


def test_the_state_of_a_version_that_is_not_loaded_is_recorded_and_a_loaded_one_stays_available(versions):
    versions.publish(Engine(3))
    versions.note(3, State.LOADING)
    versions.note(4, State.END, "damaged")
    assert versions.statuses() == [VersionStatus(3, State.AVAILABLE), VersionStatus(4, State.END, "damaged")]


def test_the_default_version_cannot_be_retired(versions):
    versions.publish(Engine(3))
    versions.set_default(3)
    with pytest.raises(ValueError, match="version 3 is the default"):
        versions.retire(3)


def test_a_version_that_is_not_loaded_is_reported(versions):
    versions.publish(Engine(3))
    with pytest.raises(NotFoundError, match=r"^Servable not found for request: Specific\(triage, 4\)$"):
        versions.borrow(4).__enter__()


def test_new_labels_replace_the_old_ones(versions):
    versions.set_labels({"stable": 3, "candidate": 5})
    versions.set_labels({"stable": 5})
    assert versions.version_of("stable") == 5
    assert versions.labels == {"stable": 5}
    with pytest.raises(InputError, match=r"^Unrecognized servable version label: candidate$"):
        versions.version_of("candidate")


def test_the_last_ten_ended_versions_and_those_of_interest_are_remembered(versions):
    forgotten = []
    versions.on_forget(forgotten.append)
    versions.publish(Engine(1))
    versions.set_default(1)
    versions.note(2, State.END, "damaged")
    for number in range(20, 2, -1):  # 18 versions; that of the highest number ended first
        versions.publish(Engine(number))
        versions.retire(number)
    versions.forget(but=[2])
    last_ten = [VersionStatus(number, State.END) for number in range(3, 13)]
    assert versions.statuses() == [
        VersionStatus(1, State.AVAILABLE), VersionStatus(2, State.END, "damaged"), *last_ten
    ]  # fmt: skip
    assert forgotten == [frozenset(range(13, 21))]
    versions.forget(but=[2])
    assert len(forgotten) == 1  # there was nothing more to forget
    versions.forget()
    assert forgotten[1] == {2}


def test_a_version_that_comes_again_is_remembered_by_its_last_end(versions):
    versions.publish(Engine(0))
    versions.set_default(0)
    for number in [1, *range(2, 12), 1]:  # of the eleven that end, 2 is the one that ended longest ago
        versions.publish(Engine(number))
        versions.retire(number)
    versions.forget()
    assert [status.version for status in versions.statuses()] == [0, 1, *range(3, 12)]
