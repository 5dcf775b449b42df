import sys
import time

import pytest

from trainer.bench.worker import Trained, Worker, WorkerFailedError, learning

ECHO = """
from trainer.bench import worker
worker.answer(lambda request: print("noise") or {"twice": 2 * request["number"]})
"""


def test_a_worker_answers_each_request_whatever_else_it_prints():
    with Worker("echo", [sys.executable, "-c", ECHO]) as worker:
        assert worker.ask(number=4) == {"twice": 8}
        assert worker.ask(number=5) == {"twice": 10}


def test_a_worker_that_ends_is_an_error_with_its_last_lines():
    code = "import sys; sys.stdin.readline(); sys.exit('no such library')"
    broken = Worker("broken", [sys.executable, "-c", code])
    with broken, pytest.raises(WorkerFailedError, match="broken: ended with code 1: no such library"):
        broken.ask(steps=1)


def test_a_worker_that_does_not_start_is_an_error():
    with Worker("absent", [sys.executable, "-c", "raise SystemExit(3)"]) as worker:
        worker.process.wait()
        with pytest.raises(WorkerFailedError, match="absent: ended with code 3"):
            worker.ask(steps=1)


def test_the_process_has_ended_after_the_block():
    with Worker("echo", [sys.executable, "-c", ECHO]) as worker:
        process = worker.process
    assert process.returncode is not None


@pytest.mark.slow
def test_learning_counts_from_the_start_of_the_process_without_the_evaluations():
    def train(stopping):
        while not stopping():
            time.sleep(0.01)
        return Trained(finished=False, steps=7)

    def decide():
        time.sleep(2.0)
        return "decided"

    respond = learning(train, decide)
    began = time.time() - 2.0  # a process that took 2 s to start
    first = respond({"began": began, "until": 2.1})
    assert 2.1 <= first["seconds"] < 3.0
    time.sleep(0.3)  # until the next request comes
    second = respond({"began": began, "until": 2.3})
    # With the evaluation and the wait it would be at least 4.4.
    assert 2.3 <= second["seconds"] < 4.0
    assert (second["finished"], second["steps"], second["decisions"]) == (False, 7, "decided")
