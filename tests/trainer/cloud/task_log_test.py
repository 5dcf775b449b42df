import io

import pytest

from trainer.cloud.task_log import TaskLog

CYAN, END = "\x1b[96m", "\x1b[0m"


def _log(*lines):
    """Returns the log after these lines, its file, and the tasks that it told of."""
    file, started, ended = io.StringIO(), [], []
    log = TaskLog(file, started.append, ended.append)
    for line in lines:
        log.write(line)
    return log, file.getvalue(), started, ended


def test_tasks_are_told_as_they_start_and_end_and_all_lines_are_kept_without_colours():
    log, kept, started, ended = _log(
        f"12:00 - INFO - Executing task {CYAN}'train-2'{END}\n",
        "    ", "a line of the task\n",
        f"12:01 - INFO - Task {CYAN}'train-2'{END} finished with status {CYAN}SUCCESS{END}\n",
        "    pushed to models/3\n",
    )  # fmt: skip
    assert (started, ended, log.failed) == (["train-2"], ["train-2"], None)
    assert (log.verdict, log.pushed) == ("pushed to models/3", True)
    assert not _log("version 2 is NOT_BLESSED: not pushed\n")[0].pushed
    assert kept.splitlines()[:2] == ["12:00 - INFO - Executing task 'train-2'", "    a line of the task"]


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (
            ["triage prepare: error: v.jsonl: no such file\n", "RuntimeError: triage prepare ended with exit code 2\n"],
            "triage prepare: error: v.jsonl: no such file",
        ),
        (["Traceback\n", "ValueError: folds must be at least 2\n"], "ValueError: folds must be at least 2"),
    ],
)
def test_of_a_task_that_failed_the_line_that_says_why_is_found(lines, fault):
    log, _, _, ended = _log(*lines, "12:01 - ERROR - Task 'plan' finished with status FAILURE\n")
    assert (log.failed, log.fault, ended) == ("plan", fault, [])
