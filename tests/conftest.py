"""Loads the trainer package before any test imports TensorFlow, as its legacy-Keras switch demands.

TensorFlow itself is not imported here: pytest-xdist's controller, which runs no test, loads this file too.
"""

import contextlib
import fcntl
import gc
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import urllib.parse

import hypothesis
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import trainer  # noqa: F401  # isort: skip

from trainer.simulation.knowledge_base import KnowledgeBase

# A shell that runs the tests in the background has SIGINT ignored, by them and by every process that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is no bug, so nothing here may be too slow. `make test` gives the same verdict for the same code, with
# fewer examples; other runs explore.
BUSY = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("explore", **BUSY)
hypothesis.settings.register_profile("gate", max_examples=40, derandomize=True, **BUSY)
hypothesis.settings.load_profile("gate" if {"CI", "QUICK_GRAPHS"} & os.environ.keys() else "explore")


def pytest_collection():
    gc.disable()  # half a million objects are made, and all of them stay


def pytest_collection_finish():
    gc.freeze()  # what was imported stays for good: no collection needs to look at it
    gc.set_threshold(100_000, 5, 20)  # tracing makes so many objects that collections take much of the time
    gc.enable()


def pytest_make_parametrize_id(val, argname):
    # Every worker must give a test the same name, and compressed bytes hold the second in which they were made.
    return argname if isinstance(val, bytes) else None


@pytest.hookimpl(trylast=True)  # when the fixtures of the module are gone
def pytest_runtest_teardown(item, nextitem):
    # TFLite's converter and the server collect all garbage now and then: with what earlier modules left, a second each.
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _quick_graphs():
    if os.environ.get("QUICK_GRAPHS") and "tensorflow" in sys.modules:
        sys.modules["tensorflow"].config.optimizer.set_experimental_options({"disable_meta_optimizer": True})


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    """Returns a folder that the first worker of pytest-xdist to need it makes for all; who changes it takes a copy."""
    folders = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folders = folders.parent  # which holds one of each worker

    def folder(name, make):
        place, complete = folders / name, folders / f"{name}.complete"
        with (folders / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not complete.exists():
                shutil.rmtree(place, ignore_errors=True)  # what a worker has left that failed
                place.mkdir()
                make(place)
                complete.touch()
        return place

    return folder


@pytest.fixture
def full_disk(monkeypatch):
    """Limits files of this process to some bytes in a block; Python turns the signal into an OSError."""

    @contextlib.contextmanager
    def limited(room):
        monkeypatch.setattr(sys, "dont_write_bytecode", True)  # half of a module would stay for the next import
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited


TOY_EVIDENCE = """\
code,kind,name,question,system,parent,exclusive,only_if,background
fever,symptom,Fever,Do you have a fever?,general,,,,0.1
fever_over_39,symptom,Fever over 39,Was it over 39?,general,fever,,,0.02
cough,symptom,Cough,Do you cough?,respiratory,,,,0.1
runny_nose,symptom,Runny nose,Does your nose run?,ent,,,,0.1
headache,symptom,Headache,Does your head ache?,neurological,,,,0.1
fatigue,symptom,Fatigue,Are you tired?,general,,,,0.1
nausea,symptom,Nausea,Do you feel sick?,gastrointestinal,,,,0.1
chest_pain,symptom,Chest pain,Does your chest hurt?,cardiovascular,,,,0.02
crushing_chest_pain,symptom,Crushing chest pain,Is it crushing?,cardiovascular,chest_pain,,,0.001
sweating,symptom,Sweating,Do you sweat?,general,,,,0.05
mild_pain,symptom,Mild pain,Is the pain mild?,general,,pain_severity,,0.05
severe_pain,symptom,Severe pain,Is the pain severe?,general,,pain_severity,,0.01
vaginal_bleeding,symptom,Vaginal bleeding,Do you bleed?,gynaecological,,,woman !child,0.01
child,risk_factor,Child,Are you under 18?,demographic,,age,,0.25
adult,risk_factor,Adult,Are you 18 or older?,demographic,,age,,0.75
woman,risk_factor,Woman,Are you a woman?,demographic,,sex,,0.5
man,risk_factor,Man,Are you a man?,demographic,,sex,,0.5
pregnant,risk_factor,Pregnant,Are you pregnant?,pregnancy,,,,0.1
smoker,risk_factor,Smoker,Do you smoke?,habit,,,,0.2
"""
TOY_RISK_FACTORS = """\
[pregnant]
child = 0
man = 0

[smoker]
child = 0
"""
TOY_CONDITIONS = """\
[common_cold]
name = "Common cold"
icd10 = "J00"
prevalence = 80
urgency = { Green = 0.2, Blue = 0.8 }

[common_cold.evidence]
cough = 0.8
runny_nose = 0.9
fever = 0.3
fever_over_39 = 0.05
headache = 0.3
fatigue = 0.4
mild_pain = 0.3
nausea = 0.02

[heart_attack]
name = "Heart attack"
icd10 = "I21.9"
prevalence = 15
urgency = { Red = 0.8, Yellow = 0.2 }
red_flags = ["sweating"]
urgent_with = ["smoker"]

[heart_attack.risk_factors]
child = 0
man = 2
woman = 1
smoker = 3

[heart_attack.evidence]
chest_pain = 0.9
crushing_chest_pain = 0.6
sweating = 0.5
nausea = 0.3
fatigue = 0.3
severe_pain = 0.6
mild_pain = 0.2
cough = 0.05

[threatened_miscarriage]
name = "Threatened miscarriage"
icd10 = "O20.0"
prevalence = 5
urgency = { Red = 0.1, Yellow = 0.7, Green = 0.2 }
red_flags = ["severe_pain", "fever"]
requires = ["pregnant"]

[threatened_miscarriage.risk_factors]
adult = 1

[threatened_miscarriage.evidence]
vaginal_bleeding = 0.95
mild_pain = 0.4
severe_pain = 0.1
nausea = 0.3
fatigue = 0.2
fever = 0.02
sweating = 0.05
headache = 0.1
"""


@pytest.fixture
def toy_knowledge_directory(tmp_path):
    """A knowledge base of 19 pieces of evidence and 3 conditions, to be read and to be broken."""
    directory = tmp_path / "knowledge"
    (directory / "conditions").mkdir(parents=True)
    (directory / "evidence.csv").write_text(TOY_EVIDENCE)
    (directory / "risk_factors.toml").write_text(TOY_RISK_FACTORS)
    (directory / "conditions" / "toy.toml").write_text(TOY_CONDITIONS)
    return directory


@pytest.fixture
def toy_knowledge(toy_knowledge_directory):
    return KnowledgeBase.load(toy_knowledge_directory)


STORE_SCHEME = "gs://"
STORE_USES = ("copy", "exists", "isdir", "walk", "remove")


class ObjectStore:
    """An object store behind `tf.io.gfile`: whole objects under names, and nothing else that a file system has.

    No folders (a prefix that no object has is not there), no renaming, no appending, no locks. Objects are files of one
    folder, each named by its quoted address, so that several processes can share a store; `history` tells what this one
    did. What it does not offer fails.
    """

    def __init__(self, folder):
        import tensorflow as tf

        self.folder = pathlib.Path(folder)
        self.folder.mkdir(exist_ok=True)
        self.history = []  # (what was done, address)
        self._tf = tf
        self._real = {name: getattr(tf.io.gfile, name) for name in STORE_USES}

    def install(self, replace=setattr):
        """Puts the store into `tf.io.gfile`; whatever else that offers fails on its addresses, as nobody may use it."""
        for name in STORE_USES:
            replace(self._tf.io.gfile, name, self._for_addresses(name))
        for name in ("GFile", "glob", "listdir", "makedirs", "mkdir", "rename", "rmtree", "stat"):
            replace(self._tf.io.gfile, name, self._missing(name, getattr(self._tf.io.gfile, name)))

    def read(self, address):
        return self._file(address).read_bytes()

    def write(self, address, content):
        self._file(address).write_bytes(content)

    def put(self, folder, address, but=()):
        """Writes the files of a folder of this machine, except those of some names."""
        for path in pathlib.Path(folder).rglob("*"):
            if path.is_file() and path.name not in but:
                self.write(f"{address}/{path.relative_to(folder).as_posix()}", path.read_bytes())

    def delete(self, address):
        self._file(address).unlink()

    def names(self, address=STORE_SCHEME):
        """The addresses that begin with `address`."""
        unquoted = (urllib.parse.unquote(path.name) for path in self.folder.iterdir())
        return sorted(name for name in unquoted if name.startswith(address))

    def _file(self, address):
        return self.folder / urllib.parse.quote(address, safe="")

    def _for_addresses(self, name):
        def call(*arguments, **options):
            if any(str(argument).startswith(STORE_SCHEME) for argument in arguments):
                return getattr(self, f"_{name}")(*arguments, **options)
            return self._real[name](*arguments, **options)

        return call

    def _missing(self, name, real):
        def call(*arguments, **options):
            assert not any(str(argument).startswith(STORE_SCHEME) for argument in arguments), (
                f"an object store has no {name}"
            )
            return real(*arguments, **options)

        return call

    def _exists(self, address):
        return self._file(address).exists() or self._isdir(address)

    def _isdir(self, address):
        return bool(self.names(address.rstrip("/") + "/"))

    def _remove(self, address):
        if not self._file(address).exists():
            raise self._tf.errors.NotFoundError(None, None, f"{address}; No such object")
        self.history.append(("remove", address))
        self._file(address).unlink()

    def _copy(self, source, target, overwrite=False):
        if source.startswith(STORE_SCHEME):
            if not self._file(source).exists():
                raise self._tf.errors.NotFoundError(None, None, f"{source}; No such object")
            content = self.read(source)
        else:
            content = pathlib.Path(source).read_bytes()
        if target.startswith(STORE_SCHEME):
            self.history.append(("write", target))
            self.write(target, content)
        else:
            pathlib.Path(target).write_bytes(content)

    def _walk(self, address):
        """As TensorFlow's own does on a store: folders come with a slash, and an empty name marks one."""
        prefix = address.rstrip("/") + "/"
        rests = [name[len(prefix) :] for name in self.names(prefix)]
        folders = sorted({rest.partition("/")[0] + "/" for rest in rests if "/" in rest})
        yield address, folders, [rest for rest in rests if "/" not in rest]
        for folder in folders:
            yield from self._walk(prefix + folder)


@pytest.fixture
def object_store(tmp_path, monkeypatch):
    """What `gs://` means, for the length of a test."""
    store = ObjectStore(tmp_path / "objects")
    store.install(monkeypatch.setattr)
    return store


@pytest.fixture(scope="session")
def without_litert():
    """A context in which versions are written without the file for LiteRT, which their manifests name all the same."""
    from schemas import directories
    from trainer.export import saved_model

    @contextlib.contextmanager
    def context():
        with pytest.MonkeyPatch.context() as patch:
            entry = {"file": directories.LITERT, "sha256": "made up"}
            patch.setattr(saved_model, "_write_litert", lambda folder, trained: entry)
            yield

    return context


class Python:
    """Starts Python in a process of its own, with the packages of this checkout."""

    def start(self, *arguments, **options):
        """Does what `subprocess.Popen` does with `sys.executable` before the arguments."""
        variables = {"TF_CPP_MIN_LOG_LEVEL": "3", **(options.pop("env", None) or os.environ)}
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        return subprocess.Popen([sys.executable, *arguments], env=variables, **options)

    def run(self, *arguments, timeout, **options):
        """Returns what `subprocess.run` does of a command whose output it captures as text."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with self.start(*arguments, **pipes, **options) as process:
            try:
                output, errors = process.communicate(timeout=timeout)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


@pytest.fixture(scope="session")
def python():
    """For tests that need a process: one that is killed, that is interrupted, or that serves. They are slow ones."""
    return Python()
