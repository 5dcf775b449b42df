"""What a supervisor does with its workers, which here are processes that say what files tell them to."""

import importlib
import os
import signal
import time

import pytest

from schemas.errors import InputError
from serving.config import ServeConfig
from serving.fleet.supervisor import Supervisor

OBEDIENT = """
import os
import pathlib

from serving.fleet.messages import DRAIN, PREPARE, SERVE, STOP, Pinned, Report


def work(connection, config, models):
    # Of a file NAME-PID and a file NAME in the folder `models` the first that is there counts.
    [folder] = models
    folder = pathlib.Path(folder)

    def told(name):
        for path in (folder / f"{name}-{os.getpid()}", folder / name):
            if path.exists():
                return path.read_text()
        return ""

    while True:
        number, kind, details = connection.recv()
        if kind in (DRAIN, STOP):
            with (folder / "log").open("a") as log:
                log.write(f"{os.getpid()} {kind}\\n")
        if kind == STOP:
            return
        if kind == PREPARE:
            text = told("prepared")
            answer = (True, {"triage": Pinned(frozenset([int(text)]), {})}) if text else (False, "nothing there")
        elif kind == SERVE:
            [version] = details["triage"].numbers
            with (folder / "log").open("a") as log:
                log.write(f"{os.getpid()} {version}\\n")
            if told("refused") == str(version):
                answer = (False, f"{version} has gone")
            else:
                answer = (True, [Report("triage", version, {}, ())])
        else:
            continue
        connection.send((number, *answer))
"""
"""A worker without a server: it says what files tell it to say, and writes down what it is told to serve."""


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """What a worker does, in a module that its process can import."""
    folder = tmp_path_factory.mktemp("modules")
    (folder / "obedient_worker.py").write_text(OBEDIENT)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield importlib.import_module("obedient_worker").work


def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)


class Fleet:
    """Two workers, and the folder that tells them what to say."""

    def __init__(self, folder, work):
        self.folder = folder
        self.say("prepared", 3)
        config = ServeConfig(processes=2, poll_seconds=0.05, grace_seconds=0.0)
        self.supervisor = Supervisor(config, [str(folder)], work)

    def say(self, name, value):
        (self.folder / f"{name}.new").write_text(str(value))
        (self.folder / f"{name}.new").rename(self.folder / name)

    def log(self):
        return [tuple(line.split()) for line in (self.folder / "log").read_text().splitlines()]

    def served(self):
        """Returns what each worker was last told to serve."""
        last = dict(self.log())
        return [last.get(str(process)) for process in self.supervisor.processes]


@pytest.fixture
def fleet(tmp_path, work):
    fleet = Fleet(tmp_path, work)
    yield fleet
    fleet.supervisor.stop()


@pytest.fixture
def running(fleet):
    fleet.supervisor.start()
    return fleet


def test_all_workers_serve_what_all_of_them_have_loaded(running):
    assert running.served() == ["3", "3"]
    assert running.supervisor.reports[0].default == 3
    running.say("prepared", 5)
    wait_for(lambda: running.supervisor.reports[0].default == 5)
    assert running.served() == ["5", "5"]
    time.sleep(0.2)
    assert len(running.log()) == 4  # nobody is told again what it serves


def test_the_old_version_stays_until_the_last_worker_has_loaded_the_new_one(running, caplog):
    one, other = running.supervisor.processes
    running.say(f"prepared-{one}", 5)
    wait_for(lambda: "the processes have not loaded the same versions: the old ones stay" in caplog.text)
    assert running.served() == ["3", "3"]
    running.say(f"prepared-{other}", 5)
    wait_for(lambda: running.served() == ["5", "5"])
    assert caplog.text.count("not loaded the same versions") == 1


def test_all_go_back_if_one_cannot_change(running, caplog):
    one, _ = running.supervisor.processes
    running.say(f"refused-{one}", 5)
    running.say("prepared", 5)
    wait_for(lambda: len(running.log()) >= 6)
    running.say("prepared", 3)
    versions = [version for _, version in running.log()]
    assert versions[:6] == ["3", "3", "5", "5", "3", "3"]
    assert "the old versions stay: 5 has gone" in caplog.text
    wait_for(lambda: running.served() == ["3", "3"])
    assert running.supervisor.reports[0].default == 3


def test_a_worker_that_dies_is_replaced_by_one_that_serves_the_same(running, caplog):
    running.say("prepared", 5)
    wait_for(lambda: running.served() == ["5", "5"])
    one, other = running.supervisor.processes
    os.kill(one, signal.SIGKILL)
    wait_for(lambda: len(running.supervisor.processes) == 2 and one not in running.supervisor.processes)
    assert other in running.supervisor.processes
    assert running.served() == ["5", "5"]
    assert f"process {one} died (exit code -9)" in caplog.text


def test_a_replacement_that_cannot_serve_is_tried_again(running, caplog):
    running.say("refused", 3)
    one, other = running.supervisor.processes
    os.kill(one, signal.SIGKILL)
    wait_for(lambda: "cannot serve, and is started again: 3 has gone" in caplog.text)
    (running.folder / "refused").unlink()
    wait_for(lambda: len(running.supervisor.processes) == 2)
    assert other in running.supervisor.processes


def test_the_end_reaches_all_workers(running):
    processes = running.supervisor.processes
    running.supervisor.drain()
    running.supervisor.stop()
    ended = running.log()[2:]
    assert sorted(ended) == sorted((str(process), kind) for process in processes for kind in ("drain", "stop"))


def test_a_fleet_that_cannot_serve_does_not_start(fleet):
    (fleet.folder / "prepared").unlink()
    with pytest.raises(InputError, match=r"^nothing there$"):
        fleet.supervisor.start()
