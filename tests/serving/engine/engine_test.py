"""The in-process engine: when it chooses questions, and its threads."""

import os

import pytest

from serving.engine.engine import THREADS
from serving.engine.saved_model import SavedModelEngine
from serving.engine.state_tensors import NO_WISH, Wish
from serving.messages import state_message


def test_questions_are_chosen_only_where_they_are_wished_for_and_can_be_asked(grouping_base_path, monkeypatch):
    engine, runs = SavedModelEngine(grouping_base_path / "1"), []
    choose = engine.choose_questions
    monkeypatch.setattr(engine, "choose_questions", lambda inputs: runs.append(len(inputs["states"])) or choose(inputs))
    headache, over = state_message(["headache"]), state_message(["headache"], no_more_evidence=True)
    (first,) = engine.triage([headache], [Wish(3)])
    put = [question.code for question in first.next_questions]
    runs.clear()
    wishes = [NO_WISH, Wish(1), Wish(2), Wish(1, [*put[:1], "gout"])]
    responses = engine.triage([headache, headache, over, headache], wishes)
    asked = [[question.code for question in response.next_questions] for response in responses]
    assert (runs, asked[:3]) == ([2], [[], put[:1], []])
    assert len(asked[3]) == 1
    assert asked[3] != put[:1]
    for response in responses:
        response.ClearField("next_questions")
    assert responses == engine.triage([headache, headache, over, headache])


# Runs a product that TensorFlow splits among its threads, and prints the number of threads.
COUNT_THREADS = """
import os, sys, tensorflow as tf
from serving.engine.engine import run_in_one_thread
if sys.argv[1] == "one":
    run_in_one_thread()
tf.linalg.matmul(tf.ones((512, 512)), tf.ones((512, 512)))
print(len(os.listdir("/proc/self/task")))
"""


def threads_of_tensorflow(python, argument, **environment):
    variables = {name: value for name, value in os.environ.items() if name != THREADS}
    return int(python.run("-c", COUNT_THREADS, argument, env=variables | environment, timeout=120).stdout)


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="counts threads as Linux tells them")
def test_an_operation_runs_in_one_thread_unless_the_environment_wants_more(python):
    one = threads_of_tensorflow(python, "one")
    assert threads_of_tensorflow(python, "one", **{THREADS: "7"}) == one + 6
