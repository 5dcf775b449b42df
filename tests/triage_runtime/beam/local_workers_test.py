"""Whatever writes to standard error, the terminal shows only what this process says."""

import os
import subprocess
import sys
import threading
import time

import pytest

from triage_runtime.beam.local_workers import HeldLog, ending_with_workers


@pytest.fixture(autouse=True)
def _folder(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def _write():
    os.write(2, b"from C++\n")
    subprocess.run("echo from a process >&2", shell=True, check=True)  # noqa: S602


def test_what_is_written_below_python_and_by_other_processes_is_held_and_deleted(capfd, tmp_path):
    with HeldLog():
        _write()
        sys.stderr.write("from us\n")
    os.write(2, b"later\n")
    assert capfd.readouterr().err == "from us\nlater\n"
    assert list(tmp_path.iterdir()) == []


def test_what_is_kept_is_a_file_that_has_all_of_it(capfd):
    with HeldLog() as log:
        assert log.keep() is None  # nothing yet
        _write()
        path = log.keep()
    assert path.read_text() == "from C++\nfrom a process\n"
    assert capfd.readouterr().err == ""


HELD = """
import os, sys, threading
from triage_runtime.beam.local_workers import HeldLog

def say(text):
    print(text, file=sys.stderr)

with HeldLog():
    os.write(2, b"held")
    say("\u00e9")
    thread = threading.Thread(target=say, args=["held, too"])  # as Beam's worker does
    thread.start()
    thread.join()
say("after")
"""


def test_python_writes_to_the_terminal_where_it_wrote_to_standard_error_itself(tmp_path):
    """As in the command; tests have a stand-in for sys.stderr."""
    run = subprocess.run([sys.executable, "-c", HELD], capture_output=True, check=True, env=_path())
    assert run.stderr.decode() == "\u00e9\nafter\n"


def _path():
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sys.path)), "PYTHONIOENCODING": "utf-8"}


@ending_with_workers()
def _wait_for_a_worker_that_ends(code, interrupted=False):
    """As Beam does, and after Ctrl-C with an error of its own."""

    def watch():
        raise RuntimeError(f"Worker subprocess exited with return code {code}")

    thread = threading.Thread(target=watch, name="run_worker")
    thread.start()
    if not interrupted:
        time.sleep(10)
    thread.join()
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        raise RuntimeError("the pipeline was stopped")  # noqa: B904


def test_a_worker_that_was_killed_ends_what_waits_for_it(capfd):
    with pytest.raises(RuntimeError, match="exited with return code -9"):
        _wait_for_a_worker_that_ends(-9)
    assert "RuntimeError: Worker subprocess" in capfd.readouterr().err  # the log has it, too


def test_an_interruption_stays_one_though_it_ends_the_workers():
    with pytest.raises(KeyboardInterrupt):
        _wait_for_a_worker_that_ends(-2, interrupted=True)


def test_other_errors_of_threads_are_only_logged(capfd):
    with ending_with_workers():
        thread = threading.Thread(target=lambda: 1 // 0)
        thread.start()
        thread.join()
    assert "ZeroDivisionError" in capfd.readouterr().err
