import os
import signal
import threading
import time

import pytest

from trainer.study.directory import StudyDirectory
from trainer.study.run import Machine, StudyRun
from trainer.study.study import Task

KINDS = """\
import os, pathlib, time

from schemas.errors import InputError
from trainer.study.directory import StudyDirectory


def note(job):
    with (job.out / "ran.txt").open("a") as file:
        file.write(job.task.name + "\\n")
    results = {name: StudyDirectory(job.out).outcome(task)["result"]["threads"] for name, task in job.needs.items()}
    return {"threads": os.environ["OMP_NUM_THREADS"], "needs": results}


def fail(job):
    raise ValueError("the loss is  not\\nfinite")


def refuse(job):
    raise InputError("too few vignettes")


def die(job):
    os._exit(9)


def hang(job):
    (job.out / "hanging").touch()
    time.sleep(600)


KINDS = {"note": note, "fail": fail, "refuse": refuse, "die": die, "hang": hang}
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs tasks to their end; returns the run."""
    (tmp_path / "toy_kinds.py").write_text(KINDS)
    monkeypatch.syspath_prepend(tmp_path)
    out = tmp_path / "out"
    (out / "tasks").mkdir(parents=True)

    def run(*tasks, processes=2, stopping=lambda: False):
        machine = Machine(tmp_path / "data", out, processes, threads=3, tasks_module="toy_kinds")
        study = StudyRun(tasks, machine, stopping)
        study.run()
        return study

    run.out = out
    return run


def _task(name, kind="note", needs=(), version="a"):
    return Task(name, kind, {}, (name + version).encode().hex().ljust(64, "0"), needs)


def _ran(run):
    path = run.out / "ran.txt"
    return path.read_text().split() if path.exists() else []


def test_a_task_runs_after_what_it_needs_and_reads_its_outcome(run):
    first, second = _task("first"), _task("second", needs=("first",))
    study = run(second, first)
    assert _ran(run) == ["first", "second"]
    assert (study.failures, study.unfinished, study.reused) == ({}, 0, 0)
    # Each process is limited to its share of threads before its libraries load.
    assert StudyDirectory(run.out).outcome(second)["result"] == {"threads": "3", "needs": {"first": "3"}}


def test_a_finished_task_is_not_run_again_and_a_changed_one_is(run):
    run(_task("kept"), _task("changed"))
    study = run(_task("kept"), _task("changed", version="b"))
    assert sorted(_ran(run)) == ["changed", "changed", "kept"]
    assert study.reused == 1


def test_a_failed_task_is_reported_with_its_reason_and_the_others_continue(run, capfd):
    study = run(
        _task("bad", "fail"), _task("waiting", needs=("bad",)), _task("refused", "refuse"), _task("killed", "die"),
        _task("good"),
    )  # fmt: skip
    assert study.failures["bad"].startswith("ValueError: the loss is not finite (toy_kinds.py:")
    assert study.failures["waiting"] == "needs bad, which failed"
    assert study.failures["refused"] == "too few vignettes"
    assert study.failures["killed"] == "its process ended with exit code 9, possibly out of memory"
    assert _ran(run) == ["good"]
    assert "bad: failed: ValueError: the loss is not finite" in capfd.readouterr().err
    # A failure is not an outcome: the next run tries again.
    assert run(_task("bad", "note"), _task("good")).reused == 1


def test_stopping_ends_the_tasks_in_flight_and_keeps_the_finished_ones(run):
    done, hanging = _task("done"), _task("hanging", "hang", needs=("done",))
    began = time.monotonic()
    study = run(done, hanging, _task("later", needs=("hanging",)), stopping=lambda: (run.out / "hanging").exists())
    assert time.monotonic() - began < 60
    assert study.unfinished == 2
    assert run(done).reused == 1


def test_ctrl_c_in_the_terminal_does_not_reach_the_tasks(run):
    """The parent ends them; a traceback from each would hide what it says."""
    hanging = _task("hanging", "hang")
    others = _children()  # such as joblib's, which outlive the tests that made them
    interrupted = threading.Event()

    def interrupt():
        while not (run.out / "hanging").exists():
            time.sleep(0.05)
        for child in _children() - others:
            os.kill(child, signal.SIGINT)
        time.sleep(1.0)
        interrupted.set()

    threading.Thread(target=interrupt).start()
    study = run(hanging, stopping=interrupted.is_set)
    assert (study.failures, study.unfinished) == ({}, 1)
    assert _children() <= others


def _children():
    """Process ids of the children that run."""
    import multiprocessing

    return {process.pid for process in multiprocessing.active_children()}
