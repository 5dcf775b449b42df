"""Runs the unfinished tasks of a study, each in its own process, several at a time."""

import contextlib
import dataclasses
import multiprocessing
import multiprocessing.connection
import multiprocessing.process
import pathlib
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rich import progress as bars
from rich.console import Console

from trainer.progress import say
from trainer.studies.directory import StudyDirectory
from trainer.studies.study import Task
from trainer.studies.worker import Work, work

_POLL_SECONDS = 0.5
_PATIENCE_SECONDS = 5.0


@dataclasses.dataclass(frozen=True)
class Machine:
    """How tasks are run."""

    data: pathlib.Path
    out: pathlib.Path
    processes: int
    threads: int  # of each process
    tasks_module: str = "trainer.studies.tasks"


@dataclasses.dataclass
class _Running:
    task: Task
    process: multiprocessing.process.BaseProcess
    failure: multiprocessing.connection.Connection


class StudyRun:
    """Runs tasks until all are done or `stopping` returns true; failed tasks are then in `failures`."""

    def __init__(self, tasks: Sequence[Task], machine: Machine, stopping: Callable[[], bool]):
        self.failures: dict[str, str] = {}
        self._machine = machine
        self._stopping = stopping
        self._store = StudyDirectory(machine.out)
        self._tasks = {task.name: task for task in tasks}
        self._seconds = {
            task.name: float(outcome["seconds"]) for task in tasks if (outcome := self._store.outcome(task)) is not None
        }
        self.reused = len(self._seconds)
        self._waiting = [task for task in tasks if task.name not in self._seconds]
        self._running: list[_Running] = []
        self._console = Console(stderr=True)

    def run(self) -> None:
        """Runs the tasks; leaves no process running."""
        bar = _progress_bar(self._console)
        counter = bar.add_task("study", total=len(self._tasks), completed=self.reused, left="", now="")
        try:
            with bar:
                while (self._waiting or self._running) and not self._stopping():
                    self._start_what_can()
                    self._wait()
                    bar.update(counter, completed=self._ended(), left=self._time_left(), now=self._now())
        finally:
            self._end_all()

    @property
    def unfinished(self) -> int:
        """Number of tasks that have neither finished nor failed."""
        return len(self._tasks) - self._ended()

    def _ended(self) -> int:
        return len(self._seconds) + len(self.failures)

    def _start_what_can(self) -> None:
        for task in list(self._waiting):
            lost = [need for need in task.needs if need in self.failures]
            if lost:
                self._fail(task, f"needs {lost[0]}, which failed")
                self._waiting.remove(task)
            elif len(self._running) < self._machine.processes and all(need in self._seconds for need in task.needs):
                self._waiting.remove(task)
                self._running.append(self._start(task))

    def _start(self, task: Task) -> _Running:
        machine = self._machine
        needs = {need: self._tasks[need] for need in task.needs}
        job = Work(task, needs, machine.data, machine.out, machine.threads, machine.tasks_module)
        context = multiprocessing.get_context("spawn")  # TensorFlow's threads do not survive a fork
        receiving, sending = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(job, sending), name=task.name)
        with _interrupts_ignored():  # inherited by the child, which Ctrl-C reaches too: the parent ends it
            process.start()
        sending.close()
        return _Running(task, process, receiving)

    def _wait(self) -> None:
        multiprocessing.connection.wait([running.process.sentinel for running in self._running], _POLL_SECONDS)
        for running in list(self._running):
            if running.process.is_alive():
                continue
            running.process.join()
            self._running.remove(running)
            self._settle(running)

    def _settle(self, running: _Running) -> None:
        outcome = self._store.outcome(running.task)
        if outcome is not None:
            self._seconds[running.task.name] = float(outcome["seconds"])
            if not self._console.is_terminal:
                done = f"{self._ended()} of {len(self._tasks)}  {running.task.name}: {outcome['seconds']:.0f} s"
                say(self._console, "; ".join(filter(None, (done, self._time_left()))))
            return
        reason = f"its process ended with exit code {running.process.exitcode}, possibly out of memory"
        with contextlib.suppress(EOFError):
            reason = str(running.failure.recv()) if running.failure.poll() else reason
        self._fail(running.task, reason)

    def _fail(self, task: Task, reason: str) -> None:
        self.failures[task.name] = reason
        say(self._console, f"{task.name}: failed: {reason}")

    def _time_left(self) -> str:
        done = [self._tasks[name] for name in self._seconds]
        left = [*self._waiting, *(running.task for running in self._running)]
        seconds = seconds_left(done, self._seconds, left, self._machine.processes)
        return "" if seconds is None or not left else f"about {_duration(seconds)} left"

    def _now(self) -> str:
        return ", ".join(running.task.name for running in self._running)

    def _end_all(self) -> None:
        for running in self._running:
            running.process.terminate()
        for running in self._running:
            running.process.join(_PATIENCE_SECONDS)
            if running.process.is_alive():
                running.process.kill()
                running.process.join()
        self._running.clear()


def seconds_left(
    done: Sequence[Task], seconds: Mapping[str, float], left: Sequence[Task], processes: int
) -> float | None:
    """Estimates the time for the tasks left; None if no task has been measured.

    A task's expected cost is scaled by the time of finished tasks of its kind, or else of all tasks. Running tasks
    count in full.

    Args:
        done: finished tasks.
        seconds: the duration of each of them.
        left: the others.
        processes: number of tasks that run at a time.
    """
    if not done:
        return None

    def pace(tasks: Sequence[Task]) -> float:
        return sum(seconds[task.name] for task in tasks) / sum(task.cost for task in tasks)

    kinds = {task.kind for task in done}
    paces = {kind: pace([task for task in done if task.kind == kind]) for kind in kinds}
    expected = [task.cost * paces.get(task.kind, pace(done)) for task in left]
    return max([sum(expected) / processes, *expected])


@contextlib.contextmanager
def _interrupts_ignored() -> Iterator[None]:
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _progress_bar(console: Console) -> bars.Progress:
    columns: list[Any] = [
        bars.BarColumn(bar_width=None),
        bars.TextColumn("{task.completed:.0f} of {task.total:.0f} tasks"),
        bars.TimeElapsedColumn(),
        bars.TextColumn("{task.fields[left]}"),
        bars.TextColumn("{task.fields[now]}"),
    ]
    return bars.Progress(*columns, console=console, disable=not console.is_terminal, expand=True)
