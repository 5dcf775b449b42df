import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from trainer.study.directory import StudyDirectory
from trainer.study.study import Task
from trainer.study.worker import Work, work

TASK = Task("one", "kind", {"answer": 42}, "a" * 64)


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Does TASK with the given function body in a process of its own; returns its exit code and what it sent."""

    def start(body):
        source = f"import os, sys, time\ndef kind(job):\n{textwrap.indent(body, '    ')}\nKINDS = {{'kind': kind}}\n"
        (tmp_path / "toy_worker_kinds.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path)
        (tmp_path / "tasks").mkdir(exist_ok=True)
        context = multiprocessing.get_context("spawn")
        receiving, sending = context.Pipe(duplex=False)
        job = Work(TASK, {}, tmp_path, tmp_path, 1, "toy_worker_kinds")
        process = context.Process(target=work, args=(job, sending))
        process.start()
        sending.close()
        process.join(60)
        try:
            return process.exitcode, receiving.recv()
        except EOFError:  # it sent nothing
            return process.exitcode, None

    return start


def test_what_a_task_found_is_kept_with_its_settings(start, tmp_path):
    assert start("return {'twice': 2 * job.task.settings['answer']}") == (0, None)
    outcome = StudyDirectory(tmp_path).outcome(TASK)
    assert outcome["result"] == {"twice": 84}
    assert outcome["settings"] == {"answer": 42}


def test_a_figure_that_is_not_finite_fails_the_task(start, tmp_path):
    code, reason = start("return {'mean': float('nan')}")
    assert code == 1
    assert "not JSON compliant" in reason
    assert StudyDirectory(tmp_path).outcome(TASK) is None


def test_what_libraries_write_to_standard_error_is_dropped(start, capfd):
    assert start("print('a warning', file=sys.stderr, flush=True)\nreturn {}") == (0, None)
    assert "a warning" not in capfd.readouterr().err


def test_threads_are_counted_before_libraries_load_and_nothing_heavy_is_loaded(start, tmp_path):
    loaded = "sorted({'numpy', 'tensorflow'} & set(sys.modules))"
    start(f"return {{'loaded': {loaded}, 'threads': os.environ['TF_NUM_INTRAOP_THREADS']}}")
    assert StudyDirectory(tmp_path).outcome(TASK)["result"] == {"loaded": [], "threads": "1"}


PARENT = """\
import multiprocessing, pathlib, sys
from trainer.study.study import Task
from trainer.study.worker import Work, work

if __name__ == "__main__":
    here = pathlib.Path(sys.argv[1])
    context = multiprocessing.get_context("spawn")
    _, sending = context.Pipe(duplex=False)
    job = Work(Task("one", "kind", {}, "a" * 64), {}, here, here, 1, "orphan_kinds")
    process = context.Process(target=work, args=(job, sending))
    process.start()
    process.join()
"""


def test_a_worker_ends_when_its_parent_was_killed(tmp_path):
    kinds = "import os, time\ndef kind(job):\n    (job.out / 'pid').write_text(str(os.getpid()))\n    time.sleep(600)\n"
    (tmp_path / "orphan_kinds.py").write_text(kinds + "KINDS = {'kind': kind}\n")
    (tmp_path / "parent.py").write_text(PARENT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    parent = subprocess.Popen([sys.executable, str(tmp_path / "parent.py"), str(tmp_path)], env=environment)
    pid = _wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert _wait_for(lambda: not _runs(int(pid)))


def _wait_for(condition):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.05)
    return None


def _runs(pid):
    """Whether a process is there and no zombie that nobody has waited for."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
