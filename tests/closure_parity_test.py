"""States that mean the same get the same answer by every route: agent, SavedModel, LiteRT, gRPC and HTTP."""

import hashlib
import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tf_agents.trajectories import time_step as ts

from schemas import features
from schemas.evidence import Evidence, Vocabulary
from schemas.safety_rules import RuleSet, SafetyRule
from schemas.triage import Action
from serving.engine.safeguards import SafeguardedModels
from serving.engine.served_models import LocalModels
from serving.wires.message_json import message_figures
from tests.builders import http_to, served, trained_agent, watching, write_version
from trainer.config import NetworkConfig
from trainer.dyqn.environment import Observation, action_spec, time_step_spec
from trainer.dyqn.network import build_network
from trainer.dyqn.policy import QPolicy
from trainer.export.conversion import QUANTIZATIONS, convert
from trainer.export.policy import load_version
from trainer.export.tflite_parity import run_each
from trainer.graph.closure import Closure
from trainer.graph.decide import NEUTRAL
from trainer.graph.mixture import Mixture
from trainer.graph.novelty import Novelty
from trainer.graph.questions import QuestionGraph
from trainer.graph.rules import RuleGraph
from triage_client import TriageClient, evidence_state
from triage_runtime.litert import LiteRtModel

RELATED = {"chest": ("pain", ""), "crushing": ("chest", ""), "woman": ("", "sex"), "man": ("", "sex"),
           "pregnant": ("woman", ""), "mild": ("pain", "severity"), "severe": ("pain", "severity"),
           "child": ("", "age"), "adult": ("", "age"), "old": ("", "age")}  # fmt: skip
CODES = ("pain", "fever", "cough", "rash", *RELATED)
COUNT = len(CODES)
VOCABULARY = Vocabulary(Evidence(code, "symptom", code, f"{code}?", (), *RELATED.get(code, ())) for code in CODES)
SERVER_RULES = """
[house]
reason = "Pain with a rash."
urgency = "Yellow"
all.present = ["pain", "rash"]
none.present = ["woman"]
"""


@pytest.fixture(scope="module")
def trained():
    """A network of random weights, with rules about parents and denials, novelty and questions."""
    generator = np.random.default_rng(1)
    shape = NetworkConfig(hidden_sizes=(16,), activation="relu", inputs="two", networks=2, outputs="probabilities")
    network = build_network(COUNT, shape, seed=0, closure=Closure(VOCABULARY))
    for layer in network.layers:
        layer.set_weights([generator.normal(0, 0.5, weight.shape) for weight in layer.get_weights()])
    rules = (
        SafetyRule("pain", "r", Action.RED, True, all_of=(("pain", True), ("fever", True)), none_of=(("man", True),)),
        SafetyRule("no", "r", Action.YELLOW, False, all_of=(("crushing", False), ("cough", True))),
    )
    present = generator.uniform(0.1, 0.6, [4, COUNT]).astype(np.float32)
    truths = generator.uniform(0.1, 0.9, [4, 8]).astype(np.float32)
    literals = generator.normal(size=[2 * COUNT, 4]).astype(np.float32)
    return trained_agent(
        network, VOCABULARY,
        rules=RuleSet(rules, "made", f"sha256:{hashlib.sha256(b'').hexdigest()}", ""),
        novelty=Novelty(np.log([0.2, 0.3, 0.5]).astype(np.float32), literals,
                        np.sort(generator.normal(size=[4, 50])).astype(np.float32), 200),
        questions=Mixture(np.full(4, np.log(1 / 4), np.float32), present, truths, present),
    )  # fmt: skip


@pytest.fixture(scope="module")
def base(trained, without_litert, tmp_path_factory):
    base = tmp_path_factory.mktemp("models")
    with without_litert():  # `unrounded` is the file that is looked at
        write_version(base, trained)
    return base


@pytest.fixture(scope="module")
def version(base):
    return load_version(base / "1")


@pytest.fixture(scope="module")
def unrounded(version):
    return convert(version, "none")


@pytest.fixture(scope="module")
def by_route(trained, version, unrounded):
    """Each route as a function from states `[B, E]` to all that it says of them."""
    policy = QPolicy(
        time_step_spec(COUNT), action_spec(), trained.model, rules=RuleGraph(trained.rules.rules, VOCABULARY)
    )
    graph = QuestionGraph(trained.questions, VOCABULARY, trained.rules.rules, NEUTRAL, trained.model)
    phone = LiteRtModel(unrounded)

    @tf.function(autograph=False)
    def agent(states):
        time_step = ts.TimeStep(
            step_type=tf.fill([states.shape[0]], ts.StepType.MID),
            reward=tf.zeros([states.shape[0], 4]),
            discount=tf.ones([states.shape[0]]),
            observation=Observation(states, tf.zeros([states.shape[0]], tf.bool)),
        )
        decided = policy.action(time_step)
        asked = graph(states, tf.zeros(states.shape, tf.bool))
        return {"action": decided.action, "outputs": decided.info, **asked._asdict()}

    def signatures(states):
        asked = {"questions_asked": tf.zeros([len(states)], tf.int32)}
        present, absent = ([names(row, sign) for row in states] for sign in (1, -1))
        codes = version.model.signatures["serving_default"](present=padded(present), absent=padded(absent), **asked)
        questions = version.model.signatures[features.QUESTIONS](
            states=tf.constant(states), not_to_ask=tf.zeros(states.shape, tf.bool)
        )
        given = {f"{name} by codes": values for name, values in codes.items() if "codes" not in name}
        return given | version.signature(states=tf.constant(states), **asked) | questions

    def litert(states):
        nothing: np.ndarray = np.zeros([1, COUNT], bool)
        questions = [phone.ask(row[np.newaxis], nothing) for row in states]
        asked = {name: np.concatenate([each[name] for each in questions]) for name in questions[0]}
        return run_each(phone, states, np.zeros(len(states), np.int32)) | asked

    return {"agent": lambda states: agent(tf.constant(states)), "SavedModel": signatures, "LiteRT": litert}


def names(row, sign):
    return [code for code, cell in zip(CODES, row, strict=True) if cell == sign]


def padded(rows):
    return tf.ragged.constant(rows, dtype=tf.string).to_tensor("", shape=[None, COUNT])


@st.composite
def meanings(draw):
    """States `[4, E]` that mean the same: what is said of a possible patient, and that with more and more of the rest.

    What follows is derived from the patient and the relations of the vocabulary, by what each piece rules out.
    """
    level, severity = draw(st.integers(0, 3)), draw(st.sampled_from(["", "mild", "severe"]))
    sex, age = draw(st.sampled_from(["woman", "man"])), draw(st.sampled_from(["child", "adult", "old"]))
    has = {sex, age, severity, *("pain", "chest", "crushing")[:level], *(["pain"] if severity else [])}
    has |= {code for code in ("fever", "cough", "rash") if draw(st.booleans())}
    has |= {"pregnant"} if sex == "woman" and draw(st.booleans()) else set()
    said = draw(st.sets(st.sampled_from(CODES), min_size=1, max_size=6))
    known = {code: code in has for code in said}
    follows = dict(known)
    for _ in CODES:  # until nothing more follows
        for code, (parent, group) in RELATED.items():
            others = [other for other, (_, its) in RELATED.items() if group and its == group and other != code]
            if follows.get(code) and parent:
                follows[parent] = True
            if follows.get(parent) is False:
                follows[code] = False
            if follows.get(code):
                follows |= dict.fromkeys(others, False)
            if group == "sex" and follows.get(code) is False:
                follows[others[0]] = True
    added = draw(st.permutations(sorted(follows.keys() - known.keys())))
    states = [known | {code: follows[code] for code in added[: len(added) * part // 3]} for part in range(4)]
    return np.array([[{None: 0, True: 1, False: -1}[each.get(code)] for code in CODES] for each in states], np.float32)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(meanings())
def test_states_that_mean_the_same_get_the_same_answer(by_route, states):
    for route, answers in by_route.items():
        for name, values in answers(states).items():
            values = np.asarray(values)
            for row in values[1:]:
                if values.dtype.kind == "f":
                    np.testing.assert_allclose(row, values[0], atol=1e-5, rtol=0, err_msg=f"{route}: {name}")
                else:
                    np.testing.assert_array_equal(row, values[0], err_msg=f"{route}: {name}")


@pytest.fixture(scope="module")
def server(base, tmp_path_factory):
    rules = tmp_path_factory.mktemp("rules") / "rules.toml"
    rules.write_text(SERVER_RULES)
    with served(watching(base, SafeguardedModels(LocalModels(), str(rules))), http_port=0) as server:
        yield server


SAME = {
    "a child says its parents": ((["crushing", "fever"], []), (["crushing", "fever", "pain", "chest"], [])),
    "a denied parent denies its children": ((["cough"], ["pain"]), (["cough"], ["pain", "crushing", "mild"])),
    "one sex rules out the other": ((["pain", "rash", "man"], []), (["pain", "rash", "man"], ["woman"])),
    "an age and a pregnancy": ((["pregnant", "adult"], []), (["pregnant", "adult", "woman"], ["man", "child", "old"])),
    "a rule of the server": ((["severe", "rash"], []), (["severe", "rash", "pain"], ["mild"])),
}


FINER_THAN_INT8 = ("float16", "dynamic")  # so that int8 would show first what rounding does


@pytest.mark.parametrize(
    "quantization", [pytest.param(each, marks=[pytest.mark.slow] * (each in FINER_THAN_INT8)) for each in QUANTIZATIONS]
)
def test_a_phone_answers_the_same_however_its_file_is_rounded(version, unrounded, quantization):
    states = np.zeros([2 * len(SAME), COUNT], np.float32)
    for row, (present, absent) in zip(states, itertools.chain(*SAME.values()), strict=True):
        row[[CODES.index(code) for code in present]], row[[CODES.index(code) for code in absent]] = 1, -1
    model = LiteRtModel(unrounded if quantization == "none" else convert(version, quantization, states))
    answers = run_each(model, states, np.zeros(len(states), np.int32))
    np.testing.assert_array_equal(answers["rules_fired"][::2], answers["rules_fired"][1::2])
    for name in ("q_values", "p_appropriate", "p_safe"):
        np.testing.assert_allclose(answers[name][::2], answers[name][1::2], atol=0.01, rtol=0)
    unlike = np.abs(np.diff(answers["p_appropriate"][::2], axis=0)).max(axis=1)
    assert unlike.min() > 0.02  # other meanings have other answers


@pytest.mark.parametrize(("short", "long"), SAME.values(), ids=SAME)
def test_a_server_answers_explains_and_asks_the_same(server, short, long):
    with TriageClient(server.address, timeout_seconds=60) as client:
        answers = [client.triage(evidence_state(*each), questions=3, explain=True) for each in (short, long)]
    bodies = [{"present": p, "absent": a, "questions": 3, "explain": True} for p, a in (short, long)]
    with http_to(server) as http:
        over_http = [http.post("/v1/triage", json=body).raise_for_status().json() for body in bodies]
    said = [message_figures(answer) for answer in answers]
    assert_like(said[1], said[0])
    assert_like(over_http[1], over_http[0])


def assert_like(answer, other, path="answer"):
    if isinstance(answer, dict):
        assert answer.keys() == other.keys(), path
        for name in answer:
            assert_like(answer[name], other[name], f"{path}.{name}")
    elif isinstance(answer, list):
        assert len(answer) == len(other), path
        for place, (one, two) in enumerate(zip(answer, other, strict=True)):
            assert_like(one, two, f"{path}[{place}]")
    elif isinstance(answer, float):
        assert answer == pytest.approx(other, abs=1e-4), path
    else:
        assert answer == other, path


def test_rules_of_the_model_and_of_the_server_are_about_children_too(server):
    with TriageClient(server.address, timeout_seconds=60) as client:
        fired = [
            {rule.rule_id for rule in client.triage(evidence_state(present)).fired_rules}
            for present in (
                ["crushing", "fever"],
                ["crushing", "fever", "man"],
                ["severe", "rash"],
                ["pregnant", "rash"],
            )
        ]
    assert fired == [{"pain"}, set(), {"house"}, set()]


def test_what_contradicts_itself_is_refused_as_before(server):
    body = {"present": ["crushing"], "absent": ["pain"]}
    with http_to(server) as http:
        refused = http.post("/v1/triage", json=body)
    assert refused.status_code == 400
    assert "who has the first has the second" in refused.text
