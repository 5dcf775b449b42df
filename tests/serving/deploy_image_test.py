"""The image: linted, from pinned bases, without root, with all that the server needs and nothing of training."""

import argparse
import importlib.metadata
import json
import pathlib
import re
import runpy
import subprocess
import sys

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from serving.commands import serve as command
from serving.config import vertex
from tests.serving.conftest import IMAGE_MODELS, IMAGE_OPTIONS

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy" / "serving"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
REQUIREMENTS = runpy.run_path(str(DEPLOY / "requirements.py"))


def stages():
    """The instructions of each stage, as (name, text); the one without FROM, which holds the arguments, is left out."""
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^\s*#.*\n", "", DOCKERFILE, flags=re.MULTILINE))
    instructions = [tuple(line.split(None, 1)) for line in joined.splitlines() if line.strip()]
    instructions_of = []
    for instruction in instructions:
        if instruction[0] == "FROM":
            instructions_of.append([])
        if instructions_of:
            instructions_of[-1].append(instruction)
    return instructions_of


BUILD, IMAGE = stages()


def texts(name):
    return [text for instruction, text in IMAGE if instruction == name]


def last(name):
    return texts(name)[-1]


def lines(name):
    return [line for line in (DEPLOY / name).read_text().splitlines() if line and not line.startswith(("#", " "))]


LOCKS = tuple(REQUIREMENTS["EXTRAS"])
"""With TensorFlow, and without it."""


def pins(lock):
    return {
        canonicalize_name(pin.name): pin.specifier
        for pin in (Requirement(line.rstrip(" \\")) for line in lines(f"{lock}.txt"))
    }


def test_the_linter_has_nothing_to_say():
    linter = pathlib.Path(sys.executable).with_name("hadolint")
    linted = subprocess.run([linter, DEPLOY / "Dockerfile"], capture_output=True, text=True, timeout=60)
    assert linted.returncode == 0, linted.stdout


def test_nothing_is_copied_but_the_code_and_the_lock():
    copied = [text.split()[:-1] for instruction, text in BUILD + IMAGE if instruction == "COPY"]
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert "*" in ignored
    let_in = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    assert {path for paths in copied for path in paths} == let_in | {"--from=build", "/opt/triage"}
    for path in let_in:
        assert (ROOT / path).exists()


def test_its_command_is_the_one_that_the_manifests_add_to():
    assert json.loads(last("ENTRYPOINT")) == ["triage", "serve", *IMAGE_OPTIONS]
    probe = json.loads(last("HEALTHCHECK").split("CMD", 1)[1])
    assert probe == ["triage", "health", "--server", "127.0.0.1:8502"]
    assert last("EXPOSE").split() == ["8500", "8502", "9090"]


@pytest.mark.parametrize(
    ("variables", "options", "base"),
    [
        ({}, [], IMAGE_MODELS),
        ({}, ["--model-base-path=/mnt/models"], "/mnt/models"),
        # The service sets these for a container, and gives it no options.
        ({vertex.PORT: "8080", vertex.STORAGE: "gs://bucket/models"}, [], "gs://bucket/models"),
    ],
)
def test_it_serves_the_models_of_its_volume_or_those_that_it_is_given(monkeypatch, variables, options, base):
    environment = dict(pair.split("=", 1) for text in texts("ENV") for pair in text.split())
    for name, value in (environment | variables).items():
        if name.startswith("AIP_"):
            monkeypatch.setenv(name, value)
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    parsed = parser.parse_args([*json.loads(last("ENTRYPOINT"))[2:], *options])
    command.check(parsed)
    assert parsed.model_base_path == base


@pytest.mark.parametrize("lock", LOCKS)
def test_it_holds_what_the_distribution_requires_in_the_versions_of_the_project(lock):
    assert lines(f"{lock}.in") == REQUIREMENTS["requirements"](lock), "run: python deploy/serving/requirements.py"
    project = {canonicalize_name(pin.name): pin for pin in map(Requirement, lines("../../bazel/requirements.txt"))}
    instead = {value: key for key, value in REQUIREMENTS["INSTEAD"].items()}
    for line in lines(f"{lock}.in"):
        wanted = Requirement(line)
        [locked] = pins(lock)[wanted.name]
        assert wanted.specifier.contains(locked.version), f"{line}: run: python deploy/serving/requirements.py"
    for name, specifier in pins(lock).items():
        same = project.get(instead.get(name, name))
        assert same is None or same.specifier == specifier, f"{name}: run: python deploy/serving/requirements.py"


@pytest.mark.parametrize("lock", LOCKS)
def test_the_lock_is_closed_and_by_hash_and_names_no_place(lock):
    text = (DEPLOY / f"{lock}.txt").read_text()
    assert "://" not in text
    for entry in re.split(r"\n(?=[a-z])", text.split("\n", 1)[1]):
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry
    there = pins(lock).keys() | REQUIREMENTS["INSTEAD"].keys()
    for name in pins(lock):
        try:
            needs = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # not installed here; its requirements are locked too
        for need in map(Requirement, needs):
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                assert canonicalize_name(need.name) in there, f"{name} needs {need.name}"


# Allows imports from site-packages only of what the lock names, with TensorFlow's variant.
ONLY_LOCKED = """
import importlib.metadata, importlib.util, sys
allowed = set(sys.argv.pop(1).split(","))
owners = importlib.metadata.packages_distributions()
class OnlyLocked:
    def find_spec(self, name, path=None, target=None):
        top = name.split(".")[0]
        distributions = {owner.lower().replace("_", "-") for owner in owners.get(top, ())}
        if name.startswith("trainer") or (distributions and not distributions & allowed):
            raise ModuleNotFoundError(f"{name} is not in the image", name=name)
sys.meta_path.insert(0, OnlyLocked())
find_spec = importlib.util.find_spec
def found(name):
    try:
        return find_spec(name)
    except ModuleNotFoundError:
        return None
importlib.util.find_spec = found
"""
RUN = """
import triage_cli
sys.exit(triage_cli.main())
"""
ANSWER = """
import pathlib, serving.commands.ask, serving.commands.serve, serving.service.service
from serving.config.settings import ServeConfig
from serving.messages import state_message
from serving.engine.served_models import open_model
from serving.engine.model_config import ModelConfig
watcher = open_model(ServeConfig(), ModelConfig("triage", sys.argv.pop(1)))
watcher.look()
with watcher.versions.borrow() as engine:
    [answer] = engine.triage([state_message(["fever"])])
print("version", answer.model_version, "tensorflow" in sys.modules)
"""


def with_locked(lock, code, *arguments):
    """Runs code in the image's place; the code of training is missing there, too."""
    allowed = ",".join([*pins(lock), "dyqn-triage", "dyqn-triage-client"])
    if lock == "requirements":
        allowed = ",".join([allowed, *REQUIREMENTS["INSTEAD"]])
    return subprocess.run(
        [sys.executable, "-c", ONLY_LOCKED + code, allowed, *map(str, arguments)],
        cwd=ROOT, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{ROOT}:{ROOT / 'proto'}:{ROOT / 'clients' / 'python'}"},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip


@pytest.mark.parametrize("lock", LOCKS)
def test_answering_and_serving_need_no_more_than_the_lock_and_nothing_of_training(lock, model_base_path, tmp_path):
    # A folder without versions is reported only after everything was loaded.
    serve = ["serve", "--model-base-path", tmp_path, "--port", "0", "--http-port", "0"]
    ran = with_locked(lock, ANSWER + RUN, model_base_path, *serve)
    assert ran.stdout == f"version 3 {lock == 'requirements'}\n", ran.stderr
    assert ran.returncode == 2
    assert re.search("error: .* version", ran.stderr), ran.stderr


def test_the_image_checks_its_health_with_no_more_than_the_lock():
    ran = with_locked("requirements-litert", RUN, "health", "--server", "127.0.0.1:1")
    assert ran.returncode == 1
    assert "no server at 127.0.0.1:1" in ran.stderr


@pytest.mark.parametrize("lock", ["requirements", "requirements-litert"])
def test_the_bill_of_materials_lists_each_locked_package_with_its_hashes(lock, environment_of, tmp_path):
    python = environment_of("sbom", "cyclonedx-bom>=7.5,<8")
    commands = (ROOT / "Makefile").read_text().replace("\\\n", "").splitlines()
    [made] = [line for line in commands if "cyclonedx-py requirements" in line and f"/{lock}.txt" in line]
    arguments = re.sub(r"build/sbom/\S+", str(tmp_path / "bom.json"), made).split()[1:]
    subprocess.run([python.with_name("cyclonedx-py"), *arguments], cwd=ROOT, check=True, timeout=300)
    components = json.loads((tmp_path / "bom.json").read_text())["components"]
    listed = {canonicalize_name(each["name"]): f"=={each['version']}" for each in components}
    assert listed == {name: str(specifier) for name, specifier in pins(lock).items()}
    for each in components:
        assert each["purl"] == f"pkg:pypi/{each['name'].lower()}@{each['version']}"
        assert each["externalReferences"][0]["hashes"]
