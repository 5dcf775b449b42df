"""A process that runs one task of the study. Imports nothing heavy, as thread counts must be set before NumPy loads."""

import dataclasses
import importlib
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import signal
import threading
import time
import traceback
from collections.abc import Mapping

from schemas.errors import InputError
from trainer.study.directory import StudyDirectory
from trainer.study.study import Task

# Libraries read them once, when they load.
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")


@dataclasses.dataclass(frozen=True)
class Work:
    """The work of a process."""

    task: Task
    needs: Mapping[str, Task]
    data: pathlib.Path
    out: pathlib.Path
    threads: int
    tasks_module: str = "trainer.study.tasks"  # its KINDS maps a task's kind to a function


def work(job: Work, failure: multiprocessing.connection.Connection) -> None:
    """Runs a task and saves its outcome; on failure, sends the reason instead."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal: the parent ends this one
    _end_with_parent()
    for variable in _THREAD_VARIABLES:
        os.environ[variable] = str(job.threads)
    os.environ["TF_NUM_INTEROP_THREADS"] = "1"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")  # several processes share a graphics card
    began = time.monotonic()
    try:
        _quietly()
        result = importlib.import_module(job.tasks_module).KINDS[job.task.kind](job)
        StudyDirectory(job.out).record(job.task, time.monotonic() - began, result)
    except Exception as error:  # the parent shows any error with the task's name
        failure.send(_reason(error))
        raise SystemExit(1) from None


def _reason(error: Exception) -> str:
    """Returns one line, with the place in the code unless the input is at fault."""
    said = " ".join(str(error).split()) or repr(error)
    if isinstance(error, InputError):
        return said
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {said} ({pathlib.Path(place.filename).name}:{place.lineno})"


def _quietly() -> None:
    """Discards what libraries write to standard error, which would disturb the parent's progress bar."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    os.close(null)


def _end_with_parent() -> None:
    """Ends this process if its parent is killed."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
