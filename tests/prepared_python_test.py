"""The prepared Python of `conftest.py`: for who starts and signals a command, it is Python."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow  # it is a tool of tests, which show that it works
WHERE = "import json, os, sys; print(json.dumps([sys.argv, os.getcwd(), os.environ['OF_THE_TEST'], __name__]))"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("program") / "program.py"
    path.write_text(WHERE)
    return str(path)


def _of(process):
    """What is known of a process that has ended; the last line of its errors, as the frames above it may differ."""
    output, errors = process.communicate(timeout=60)
    return process.returncode, output, errors.splitlines()[-1:]


def _both(prepared_python, arguments, **options):
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    yield prepared_python.start(*arguments, **streams, **options)
    yield subprocess.Popen([sys.executable, *arguments], **streams, **options)


@pytest.mark.parametrize(
    ("code", "returncode"),
    [
        ("print('done')", 0),
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit('it failed')", 1),
        ("import sys; sys.exit(-2)", 254),
        ("import sys; sys.exit()", 0),
        ("raise ValueError('it failed')", 1),
        ("raise KeyboardInterrupt", -signal.SIGINT),
        ("import atexit; atexit.register(print, 'at the end'); print('begun')", 0),
        ("import threading, time; threading.Thread(target=lambda: (time.sleep(0.05), print('late'))).start()", 0),
        ("import os; os._exit(7)", 7),
        ("import subprocess; print(subprocess.run(['false']).returncode)", 0),
    ],
)
def test_a_command_ends_as_it_does_in_python(prepared_python, code, returncode):
    prepared, plain = map(_of, _both(prepared_python, ["-c", code]))
    assert prepared == plain
    assert prepared[0] == returncode


@pytest.mark.parametrize("how", ["-c", "-m", "script"])
def test_a_command_has_its_own_arguments_folder_and_variables(prepared_python, program, tmp_path, how):
    beginning = {"-c": ["-c", WHERE], "-m": ["-m", "program"], "script": [program]}[how]
    options = {"cwd": pathlib.Path(program).parent, "env": {**os.environ, "OF_THE_TEST": "its own"}}
    prepared, plain = map(_of, _both(prepared_python, [*beginning, "first", "-x"], **options))
    assert prepared == plain
    assert prepared[0] == 0
    assert "its own" in prepared[1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_ends_a_command_and_no_other_one(prepared_python, number):
    code = "import sys, time; print('begun', flush=True); sys.stdin.read()"
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    ended, other = (prepared_python.start("-c", code, **streams) for _ in range(2))
    for process in (ended, other):
        assert process.stdout.readline() == "begun\n"
    ended.send_signal(number)
    assert ended.wait(60) == -number
    assert other.poll() is None
    other.communicate(timeout=60)  # which closes its input
    assert other.returncode == 0
    ended.communicate()


def test_tensorflow_is_there_already(prepared_python):
    finished = prepared_python.run("-c", "import sys; print('tensorflow' in sys.modules)", timeout=60)
    assert (finished.returncode, finished.stdout) == (0, "True\n")
