"""The image: linted, from pinned bases, with what the distribution needs in the versions of the project."""

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


def test_it_serves_the_models_of_its_volume_where_nothing_else_is_said():
    environment = dict(pair.split("=", 1) for text in texts("ENV") for pair in text.split())
    assert environment[vertex.STORAGE] == IMAGE_MODELS


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
