"""Runs the unfinished tasks of a study, each in its own process, several at a time."""

import concurrent.futures
import contextlib
import dataclasses
import graphlib
import multiprocessing
import multiprocessing.process
import pathlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

from rich import progress as bars
from rich.console import Console

from trainer.study.directory import StudyDirectory
from trainer.study.study import Task
from trainer.study.worker import Work, work
from triage_runtime.command_line.progress import say

_POLL_SECONDS = 0.5


@dataclasses.dataclass(frozen=True)
class Machine:
    """How tasks are run."""

    data: pathlib.Path
    out: pathlib.Path
    processes: int
    threads: int  # of each process
    tasks_module: str = "trainer.study.tasks"


class StudyRun:
    """Runs tasks until all are done or `stopping` returns true; failed tasks are then in `failures`."""

    def __init__(self, tasks: Sequence[Task], machine: Machine, stopping: Callable[[], bool]):
        self.failures: dict[str, str] = {}
        self._machine = machine
        self._stopping = stopping
        self._store = StudyDirectory(machine.out)
        self._tasks = {task.name: task for task in tasks}
        # First those that need nothing, so that few wait in a thread for one that runs.
        order = graphlib.TopologicalSorter({task.name: task.needs for task in tasks}).static_order()
        self._waiting = [name for name in order if self._store.outcome(self._tasks[name]) is None]
        self.reused = len(tasks) - len(self._waiting)
        self.unfinished = len(self._waiting)
        """Number of tasks that have neither finished nor failed."""
        self._futures: dict[str, concurrent.futures.Future[str | None]] = {}
        self._processes: set[multiprocessing.process.BaseProcess] = set()
        self._starting = threading.Lock()
        self._ended = False
        self._console = Console(stderr=True)

    def run(self) -> None:
        """Runs the tasks; leaves no process running."""
        bar = _progress_bar(self._console)
        counter = bar.add_task("study", total=len(self._tasks), completed=self.reused, now="")
        pool = concurrent.futures.ThreadPoolExecutor(self._machine.processes)
        try:
            for name in self._waiting:
                self._futures[name] = pool.submit(self._do, self._tasks[name])
            unsettled = dict(self._futures)
            with bar:
                while unsettled and not self._stopping():
                    concurrent.futures.wait(
                        unsettled.values(), _POLL_SECONDS, return_when=concurrent.futures.FIRST_COMPLETED
                    )
                    for name in [name for name, future in unsettled.items() if future.done()]:
                        self._settle(name, unsettled.pop(name).result())
                    now = ", ".join(name for name, future in unsettled.items() if future.running())
                    bar.update(counter, completed=len(self._tasks) - self.unfinished, now=now)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            self._end_processes()
            pool.shutdown()

    def _do(self, task: Task) -> str | None:
        """Runs a task in a process of its own, after those it needs; returns why it failed, None if it did not."""
        for need in task.needs:
            if need in self._futures and self._futures[need].result() is not None:
                return f"needs {need}, which failed"
        machine = self._machine
        needs = {need: self._tasks[need] for need in task.needs}
        job = Work(task, needs, machine.data, machine.out, machine.threads, machine.tasks_module)
        context = multiprocessing.get_context("spawn")  # TensorFlow's threads do not survive a fork
        receiving, sending = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(job, sending), name=task.name)
        with self._starting:
            if self._ended:
                return "the study was stopped"
            process.start()
            self._processes.add(process)
        sending.close()
        reason = None
        with contextlib.suppress(EOFError):  # it sends nothing unless it fails
            reason = str(receiving.recv())
        process.join()
        self._processes.discard(process)
        if reason is None and self._store.outcome(task) is None:
            reason = f"its process ended with exit code {process.exitcode}, possibly out of memory"
        return reason

    def _settle(self, name: str, reason: str | None) -> None:
        self.unfinished -= 1
        if reason is not None:
            self.failures[name] = reason
            say(self._console, f"{name}: failed: {reason}")
        elif not self._console.is_terminal:
            say(self._console, f"{len(self._tasks) - self.unfinished} of {len(self._tasks)}  {name}: done")

    def _end_processes(self) -> None:
        with self._starting:
            self._ended = True
            for process in list(self._processes):
                process.kill()


def _progress_bar(console: Console) -> bars.Progress:
    columns: list[Any] = [
        bars.BarColumn(bar_width=None),
        bars.TextColumn("{task.completed:.0f} of {task.total:.0f} tasks"),
        bars.TimeElapsedColumn(),
        bars.TextColumn("{task.fields[now]}"),
    ]
    return bars.Progress(*columns, console=console, disable=not console.is_terminal, expand=True)
