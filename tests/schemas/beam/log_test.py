"""Whatever writes to standard error, the terminal shows only what this process says."""

import os
import subprocess
import sys

import pytest

from schemas.beam.log import HeldLog


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


def test_python_writes_to_the_terminal_where_it_wrote_to_standard_error_itself(tmp_path):
    """As in the command; tests have a stand-in for sys.stderr."""
    program = "import os, sys\nfrom schemas.beam.log import HeldLog\n"
    program += "with HeldLog(): os.write(2, b'held'); print('\u00e9', file=sys.stderr)\nprint('after', file=sys.stderr)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, env=_path())
    assert run.stderr.decode() == "\u00e9\nafter\n"


def _path():
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sys.path)), "PYTHONIOENCODING": "utf-8"}
