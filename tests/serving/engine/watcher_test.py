"""As versions appear and disappear: which are loaded, which answers, and that broken ones change nothing."""

import gc
import logging
import os
import threading
import weakref

import pytest

from schemas.errors import InputError
from serving.engine.model_config import ModelConfig, VersionPolicy
from serving.engine.versions import State, VersionStatus
from serving.engine.watcher import Watcher
from serving.errors import PreconditionError
from tests.serving.engine.conftest import Folders


@pytest.fixture
def folders(tmp_path):
    return Folders(tmp_path / "models")


def wanted(base, *more):
    return ModelConfig("triage", str(base), *more)


@pytest.fixture
def watch(folders):
    def start(*numbers, policy=None, labels=None):
        for number in numbers:
            folders.put(number)
        watcher = Watcher(folders, wanted(folders.base, policy or VersionPolicy(), labels or {}))
        watcher.look()
        return watcher

    return start


def served(watcher):
    return watcher.versions.default, set(watcher.versions.loaded)


@pytest.mark.parametrize(
    ("policy", "labels", "default", "loaded"),
    [
        (VersionPolicy(), {}, 5, {5}),
        (VersionPolicy(count=2), {}, 5, {3, 5}),
        (VersionPolicy(count=None), {}, 5, {1, 3, 5}),
        (VersionPolicy(numbers=frozenset([3])), {}, 3, {3}),
        (VersionPolicy(), {"stable": 1}, 5, {1, 5}),
        (VersionPolicy(numbers=frozenset([3])), {"candidate": 5}, 3, {3, 5}),
    ],
    ids=["latest", "two", "all", "pinned", "label", "pinned with a label"],
)
def test_the_policy_and_the_labels_are_loaded_and_the_policy_chooses_what_answers(
    watch, policy, labels, default, loaded
):
    watcher = watch(1, 3, 5, policy=policy, labels=labels)
    assert served(watcher) == (default, loaded)
    assert {label: watcher.versions.version_of(label) for label in labels} == labels


def test_a_new_version_replaces_the_old_one(watch, folders):
    watcher = watch(3)
    folders.put(5)
    watcher.look()
    assert served(watcher) == (5, {5})
    assert watcher.versions.statuses()[0] == VersionStatus(3, State.END)
    watcher.look()
    assert folders.loads == [3, 5]


def test_a_broken_version_is_reported_once_and_tried_again_when_its_files_change(watch, folders, caplog):
    watcher = watch(3)
    folders.put(5, "half")
    for _ in range(3):
        watcher.look()
    assert served(watcher) == (3, {3})
    assert folders.loads == [3, 5]
    assert watcher.versions.statuses()[1] == VersionStatus(5, State.END, f"{folders.base / '5'}: damaged")
    assert caplog.text.count("version 5 cannot be loaded") == 1
    folders.put(5, "good")
    watcher.look()
    assert served(watcher) == (5, {5})
    assert watcher.versions.statuses()[1] == VersionStatus(5, State.AVAILABLE)


def test_nothing_is_left_in_memory_of_a_version_that_could_not_be_loaded(watch, folders):
    class Half:
        """Refers to itself, as parts of a SavedModel do."""

        def __init__(self):
            self.me = self

    halves = []
    watcher = watch(3)
    folders.put(5, "broken")
    folders.before_load = lambda folder: halves.append(weakref.ref(Half()))
    gc.disable()
    try:
        watcher.look()
        assert [half() for half in halves] == [None]
    finally:
        gc.enable()


def test_a_version_that_is_still_being_written_is_read_again(watch, folders):
    watcher = watch(3)
    folders.put(5)
    folders.before_load = lambda folder: (folder / f"more{len(folders.loads)}").touch()
    watcher.look()
    assert served(watcher) == (3, {3})
    assert "changed while" in watcher.versions.statuses()[1].error
    folders.before_load = lambda folder: None
    watcher.look()
    assert served(watcher) == (5, {5})


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("linked", [False, True])
def test_a_version_with_a_pipe_is_broken_at_once_and_the_next_lower_one_served(watch, folders, tmp_path, linked):
    folders.put(4)
    (folders.base / "5").mkdir()
    place = tmp_path / "elsewhere" if linked else folders.base / "5" / "variables"
    place.mkdir()
    if linked:
        (folders.base / "5" / "variables").symlink_to(place)
        (place / "back").symlink_to(folders.base / "5")
    os.mkfifo(place / "pipe")
    watcher = watch()
    watcher.look()
    assert watcher.versions.default == 4
    (status,) = (each for each in watcher.versions.statuses() if each.version == 5)
    assert "variables/pipe: " in status.error
    assert 5 not in folders.loads


def test_after_many_versions_the_last_ones_and_existing_broken_ones_are_remembered(watch, folders):
    watcher = watch(1)
    folders.put(2, "broken")
    watcher.look()
    for number in range(3, 16):
        folders.put(number)
        watcher.look()
    watcher.look()
    ended = list(range(5, 15))  # each version but the last, 15, gave way to the next one
    assert [status.version for status in watcher.versions.statuses()] == [2, *ended, 15]
    folders.remove(2)
    watcher.look()
    assert [status.version for status in watcher.versions.statuses()] == [*ended, 15]


def test_the_last_version_stays_when_its_files_are_deleted_and_that_is_reported_once(watch, folders, caplog):
    watcher = watch(5)
    folders.remove(5)
    for _ in range(3):
        watcher.look()
    assert served(watcher) == (5, {5})
    assert caplog.text.count("no wanted version: version 5 stays") == 1


def test_a_base_path_that_cannot_be_read_changes_nothing_and_is_reported_once(watch, folders, caplog):
    watcher = watch(3)
    folders.offline = True
    for _ in range(3):
        watcher.look()
    assert served(watcher) == (3, {3})
    assert caplog.text.count("cannot read") == 1
    folders.offline = False
    watcher.look()
    folders.offline = True
    watcher.look()
    assert caplog.text.count("cannot read") == 2


@pytest.mark.parametrize(
    ("numbers", "broken", "policy", "labels", "complaint"),
    [
        ([], [], VersionPolicy(), {}, "no model version"),
        ([], [4, 5], VersionPolicy(), {}, "5: damaged"),
        ([3], [], VersionPolicy(numbers=frozenset([4])), {}, "version 4: .* 3"),
        ([3], [4], VersionPolicy(numbers=frozenset([4])), {}, "4: damaged"),
        ([3], [], VersionPolicy(), {"stable": 4}, "version 4: .* 3"),
        ([5], [4], VersionPolicy(), {"stable": 4}, "4: damaged"),
    ],
)
def test_a_start_without_a_wanted_version_is_refused(watch, folders, numbers, broken, policy, labels, complaint):
    for number in broken:
        folders.put(number, "half")
    watcher = watch(*numbers, policy=policy, labels=labels)
    with pytest.raises(InputError, match=complaint):
        watcher.check()


def test_another_base_path_brings_other_engines_under_the_same_numbers(watch, tmp_path):
    watcher = watch(5)
    other = Folders(tmp_path / "other")
    other.put(5)
    watcher.reload(wanted(other.base))
    with watcher.versions.borrow(5) as engine:
        assert engine.folder == other.base / "5"
    assert watcher.versions.statuses() == [VersionStatus(5, State.AVAILABLE)]


def test_what_is_prepared_changes_nothing_and_a_reload_then_loads_nothing(watch, folders, tmp_path):
    watcher = watch(3, 5)
    other = Folders(tmp_path / "other")
    for number in (4, 5):
        other.put(number)
    two = wanted(other.base, VersionPolicy(count=2))
    watcher.prepare(two)
    assert folders.loads == [5, 5, 4]
    assert served(watcher) == (5, {5})
    with watcher.versions.borrow(5) as engine:
        assert engine.folder == folders.base / "5"
    watcher.reload(two)
    assert folders.loads == [5, 5, 4]
    assert served(watcher) == (5, {4, 5})
    with watcher.versions.borrow(5) as engine:
        assert engine.folder == other.base / "5"


def test_what_was_prepared_and_dropped_is_loaded_again(watch, folders):
    watcher = watch(3)
    pinned = wanted(folders.base, VersionPolicy(numbers=frozenset([4])))
    folders.put(4)
    watcher.prepare(pinned)
    watcher.drop_prepared()
    assert watcher.versions.statuses()[1] == VersionStatus(4, State.END)
    watcher.reload(pinned)
    assert folders.loads == [3, 4, 4]
    assert served(watcher) == (4, {4})


def test_what_cannot_be_prepared_is_refused_with_the_reason_and_the_old_configuration_stays(watch, folders):
    watcher = watch(3)
    folders.put(4, "half")
    with pytest.raises(PreconditionError, match=r"triage .*4: damaged"):
        watcher.prepare(wanted(folders.base, VersionPolicy(numbers=frozenset([4]))))
    with pytest.raises(PreconditionError, match=r"triage .* 7: .*3, 4"):
        watcher.prepare(wanted(folders.base, VersionPolicy(numbers=frozenset([7]))))
    folders.offline = True
    with pytest.raises(PreconditionError, match=rf"triage .*{folders.base}: cannot read"):
        watcher.prepare(wanted(folders.base))
    assert served(watcher) == (3, {3})
    folders.offline = False
    folders.put(8)
    watcher.look()
    assert served(watcher) == (8, {8})


def test_looking_continues_after_an_error_and_stops_on_request(watch, caplog):
    watcher = watch(3)
    stop, rounds = threading.Event(), []

    def after():
        rounds.append(None)
        if len(rounds) == 1:
            raise RuntimeError("a fault")
        stop.set()

    with caplog.at_level(logging.ERROR):
        watcher.run(0.001, stop, after)
    assert len(rounds) == 2
    assert "new versions failed" in caplog.text


def test_an_unexpected_error_of_a_version_is_reported_without_its_text(watch, folders, caplog):
    def fail(folder):
        raise KeyError("raw text")

    folders.before_load = fail
    watcher = watch(3)
    (status,) = watcher.versions.statuses()
    assert status.error.startswith(f"{folders.base / '3'}: an unexpected KeyError")
    assert "raw text" in caplog.text
