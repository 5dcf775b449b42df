"""States that mean the same get the same answer, by gRPC and by HTTP."""

import hashlib

import numpy as np
import pytest

from schemas.evidence import Evidence, Vocabulary
from schemas.safety_rules import RuleSet, SafetyRule
from schemas.triage import Action
from serving.wires.message_json import message_figures
from tests.builders import http_to, random_network, served, trained_agent, write_version
from trainer.graph.mixture import Mixture
from triage_client import TriageClient, evidence_state

RELATED = {"chest": ("pain", ""), "crushing": ("chest", ""), "woman": ("", "sex"), "man": ("", "sex"),
           "pregnant": ("woman", ""), "mild": ("pain", "severity"), "severe": ("pain", "severity"),
           "child": ("", "age"), "adult": ("", "age"), "old": ("", "age")}  # fmt: skip
CODES = ("pain", "fever", "cough", "rash", *RELATED)
COUNT = len(CODES)
VOCABULARY = Vocabulary(Evidence(code, "symptom", code, f"{code}?", (), *RELATED.get(code, ())) for code in CODES)


@pytest.fixture(scope="module")
def trained():
    """A network of random weights, with rules about parents and denials, and with questions."""
    generator = np.random.default_rng(1)
    network = random_network(
        VOCABULARY, (16,), 0.5, activation="relu", inputs="two", networks=2, outputs="probabilities"
    )
    rules = (
        SafetyRule("pain", "r", Action.RED, True, all_of=(("pain", True), ("fever", True)), none_of=(("man", True),)),
        SafetyRule("rash", "r", Action.YELLOW, False, (("pain", True), ("rash", True)), (), (("woman", True),)),
        SafetyRule("no", "r", Action.YELLOW, False, all_of=(("crushing", False), ("cough", True))),
    )
    present = generator.uniform(0.1, 0.6, [4, COUNT]).astype(np.float32)
    truths = generator.uniform(0.1, 0.9, [4, 8]).astype(np.float32)
    return trained_agent(
        network, VOCABULARY,
        rules=RuleSet(rules, "made", f"sha256:{hashlib.sha256(b'').hexdigest()}", ""),
        questions=Mixture(np.full(4, np.log(1 / 4), np.float32), present, truths, present),
    )  # fmt: skip


@pytest.fixture(scope="module")
def base(trained, without_litert, made_once):
    with without_litert():
        return made_once("closure", lambda folder: write_version(folder, trained))


@pytest.fixture(scope="module")
def server(base):
    with served(base, http_port=0) as server:
        yield server


SAME = {
    "a child says its parents": ((["crushing", "fever"], []), (["crushing", "fever", "pain", "chest"], [])),
    "a denied parent denies its children": ((["cough"], ["pain"]), (["cough"], ["pain", "crushing", "mild"])),
    "one sex rules out the other": ((["pain", "rash", "man"], []), (["pain", "rash", "man"], ["woman"])),
    "an age and a pregnancy": ((["pregnant", "adult"], []), (["pregnant", "adult", "woman"], ["man", "child", "old"])),
    "a rule that does not hold for women": ((["severe", "rash"], []), (["severe", "rash", "pain"], ["mild"])),
}


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
