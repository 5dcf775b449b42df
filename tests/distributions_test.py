"""What a package index gets: complete, checked, of one version, and with no requirement more than the code has."""

import ast
import email
import json
import os
import pathlib
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import triage_cli
from schemas import VERSION
from tests.builders import write_version
from triage_client import TriageClient, evidence_state

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).resolve().parents[1]
SERVING = ROOT / "distributions" / "serving"
PROJECT = tomllib.loads((SERVING / "pyproject.toml").read_text())["project"]
RELEASE = runpy.run_path(str(ROOT / "distributions" / "release.py"))
# Distributions that are not called what one imports.
DISTRIBUTIONS = {
    "google": "protobuf", "google.rpc": "googleapis-common-protos", "grpc": "grpcio",
    "grpc_health": "grpcio-health-checking", "grpc_reflection": "grpcio-reflection", "grpc_status": "grpcio-status",
    "markdown_it": "markdown-it-py", "opentelemetry": "opentelemetry-api", "opentelemetry.sdk": "opentelemetry-sdk",
    "tensorflow_serving": "tensorflow-serving-api",
}  # fmt: skip
BY_NAME = {"opentelemetry-exporter-otlp-proto-http"}  # loaded on request: --traces otlp_proto_http
EXTRAS = {
    "apache-beam", "cryptography", "opentelemetry-api", "opentelemetry-sdk", "pyarrow", "scipy", "tensorflow",
    "tensorflow-serving-api", *BY_NAME,
}  # fmt: skip


PACKAGES = ("schemas", "triage_runtime", "trainer", "serving", "dyqn_triage", "proto", "clients/python/triage_client")
FILES = {"setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "triage_cli.py"}
# What is no module and is read at run time, or by whoever builds on the contract.
DATA = (".css", ".csv", ".jinja", ".js", ".json", ".pbtxt", ".proto", ".pyi", ".toml")


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("clients/python/pyproject.toml", f'version = "{VERSION}"'),
        ("MODULE.bazel", f'    version = "{VERSION}",'),
        ("deploy/serving/docker-compose.yaml", f"  image: dyqn-triage-serving:{VERSION}"),
        ("deploy/kubeflow/trainjob.yaml", f"    image: dyqn-triage:{VERSION}"),
    ],
)
def test_what_cannot_read_the_version_names_the_same(path, line):
    assert line in (ROOT / path).read_text().splitlines()


def _imports(path, at_start_only):
    """Yields the modules that a file imports: all, or those that it needs to be imported itself."""
    tree = ast.parse(path.read_text())
    nodes = tree.body if at_start_only else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If) and "version_info" in ast.unparse(node.test):
            yield "tomli"


def _distribution(module):
    parts = module.split(".")
    return canonicalize_name(DISTRIBUTIONS.get(".".join(parts[:2]), DISTRIBUTIONS.get(parts[0], parts[0])))


def _shipped():
    roots = {"schemas": "schemas", "triage_runtime": "triage_runtime", "serving": "serving", "triage": "proto/triage",
             "triage_client": "clients/python/triage_client"}  # fmt: skip
    files = {
        ".".join([name, *path.relative_to(ROOT / folder).with_suffix("").parts]).removesuffix(".__init__"): path
        for name, folder in roots.items()
        for path in (ROOT / folder).rglob("*.py")
    }
    return files | {"triage_cli": ROOT / "triage_cli.py"}


def test_it_requires_what_its_code_imports_and_nothing_else():
    files = _shipped()
    ours = {name.split(".")[0] for name in files} | sys.stdlib_module_names | {"_typeshed", "tomllib"}
    imported = {
        _distribution(module)
        for path in files.values()
        for module in _imports(path, at_start_only=False)
        if module.split(".")[0] not in ours
    }
    asked = {Requirement(line).name for line in PROJECT["dependencies"]}
    extras = {Requirement(line).name for lines in PROJECT["optional-dependencies"].values() for line in lines}
    assert extras - {"dyqn-triage-serving"} == EXTRAS

    assert imported - EXTRAS - {"markupsafe"} == asked  # which jinja2 brings


def test_no_module_that_serves_with_litert_loads_an_extra():
    """The imports at the start of each module, from those that the commands name."""
    files = _shipped()
    waiting = [
        "triage_cli", "serving.commands.serve", "serving.commands.ask", "serving.commands.health",
        "serving.commands.console",
    ]  # fmt: skip
    seen, loaded = set(), set()
    while waiting:
        name = waiting.pop()
        seen.add(name)
        for module in _imports(files[name], at_start_only=True):
            parts = module.split(".")
            prefixes = {".".join(parts[:count]) for count in range(1, len(parts) + 1)} & files.keys()
            waiting += prefixes - seen - set(waiting)
            if parts[0] not in {each.split(".")[0] for each in files}:
                loaded.add(_distribution(module))
    assert {"serving.engine.litert", "serving.wires.http_endpoints"} <= seen
    assert loaded & EXTRAS == set()


def test_its_ranges_hold_what_the_project_is_tested_with_and_those_of_the_whole():
    locked = {canonicalize_name(pin.name): pin for pin in map(Requirement, _lines("bazel/requirements.txt"))}
    lines = [*PROJECT["dependencies"], *(line for each in PROJECT["optional-dependencies"].values() for line in each)]
    for asked in map(Requirement, lines):
        if asked.name != "dyqn-triage-serving":
            [pin] = locked[canonicalize_name(asked.name)].specifier
            assert asked.specifier.contains(pin.version), asked
    whole = {
        Requirement(node.value).name
        for node in ast.walk(ast.parse((ROOT / "setup.py").read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.match(r"^[a-z0-9-]+>=", node.value)
    }
    assert {Requirement(line).name for line in lines} - {"dyqn-triage-serving"} <= whole


def _lines(path):
    return (ROOT / path).read_text().splitlines()


def test_the_notes_of_a_release_are_its_section_of_the_changelog():
    changelog = "# Changelog\n\n## [Unreleased]\n\nLater.\n\n## [0.2.0] - 2026-12-01\n\n### Added\n\n- That.\n\n"
    changelog += "## [0.1.0] - 2026-11-01\n\nFirst.\n\n[0.2.0]: elsewhere\n"
    assert RELEASE["notes"](changelog, "0.2.0") == "### Added\n\n- That.\n"
    assert RELEASE["notes"](changelog, "0.1.0") == "First.\n"
    assert RELEASE["notes"](changelog, "0.3.0") == "Later.\n"
    with pytest.raises(LookupError, match=r"0\.3\.0 or Unreleased"):
        RELEASE["notes"]("# Changelog\n", "0.3.0")
    assert RELEASE["notes"]((ROOT / "CHANGELOG.md").read_text(), VERSION).startswith("### Added")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The files of a release, from a copy of the repository, as setuptools leaves files beside the sources."""
    folder = tmp_path_factory.mktemp("release")
    ignored = shutil.ignore_patterns(
        ".git", ".venv", "build", "dist", "demo", "node_modules", "__pycache__", "*.egg-info"
    )
    copy = shutil.copytree(ROOT, folder / "copy", ignore=ignored, symlinks=True)
    release = runpy.run_path(str(copy / "distributions" / "release.py"))
    return {path.name: path for path in release["build"](folder / "out", "--no-isolation")}


def test_each_project_gives_a_source_distribution_and_a_wheel(built):
    names = ("dyqn_triage", "dyqn_triage_client", "dyqn_triage_serving")
    endings = (f"-{VERSION}-py3-none-any.whl", f"-{VERSION}.tar.gz")
    assert set(built) == {name + ending for name in names for ending in endings}


@pytest.fixture(scope="module")
def source_distribution(built):
    """What a prebuilt training container installs, with all that the code reads."""
    return built[f"dyqn_triage-{VERSION}.tar.gz"]


def test_every_module_and_every_file_that_the_packages_read_is_in_it(source_distribution):
    with tarfile.open(source_distribution) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {
        path.relative_to(ROOT).as_posix()
        for folder in (*PACKAGES[:5], "proto/triage", PACKAGES[-1])
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", *DATA) and "__pycache__" not in path.parts
    }
    assert len(wanted) > 150
    assert wanted - names - {"proto/triage/__init__.py"} == set()
    assert names >= FILES


def _install(source_distribution, folder):
    """Makes an environment with nothing in it but the package; what that needs comes from this one."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=120)
    python = folder / "bin" / "python"
    [packages] = (folder / "lib").glob("python*/site-packages")
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir", "install", "--quiet",
               "--no-compile", "--no-deps", "--no-build-isolation", "--target", str(packages),
               str(source_distribution)]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    for number, path in enumerate(path for path in sys.path if path.endswith("site-packages")):
        (packages / f"needed{number}.pth").write_text(f"{path}\n")
    return python


def test_a_fresh_environment_runs_a_job_from_it_on_what_the_service_says(
    source_distribution, tmp_path, toy_knowledge_directory
):
    python = _install(source_distribution, tmp_path / "environment")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment |= {
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "AIP_TRAINING_DATA_URI": str(tmp_path / "data" / "train-*"),
        "AIP_TEST_DATA_URI": str(tmp_path / "data"),
        "AIP_CHECKPOINT_DIR": str(tmp_path / "out" / "checkpoints"),
        "AIP_TENSORBOARD_LOG_DIR": str(tmp_path / "out" / "logs"),
        "AIP_MODEL_DIR": str(tmp_path / "out" / "model"),
    }

    simulate = ["simulate", "--knowledge", str(toy_knowledge_directory), "--vignettes", "60"]
    assert triage_cli.main([*simulate, "--out", str(tmp_path / "data")]) == 0
    small = ["--steps", "60", "--hidden-sizes", "8", "--batch-size", "8", "--burn-in-steps", "20",
             "--networks", "1"]  # fmt: skip
    finished = subprocess.run(
        [python, "-m", "trainer.task", *small],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr
    assert (tmp_path / "out" / "checkpoints" / "run.json").exists()
    assert list((tmp_path / "out" / "logs").glob("events*"))
    manifest = json.loads((tmp_path / "out" / "model" / "manifest.json").read_text())
    assert (manifest["training"]["steps"], manifest["package_version"]) == (60, "0.1.0")
    assert (tmp_path / "out" / "model" / "saved_model.pb").exists()


def _metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(archive.read(name))


@pytest.mark.parametrize("name", ["dyqn_triage", "dyqn_triage_serving", "dyqn_triage_client"])
def test_the_metadata_are_those_that_an_index_shows(built, name):
    metadata = _metadata(built[f"{name}-{VERSION}-py3-none-any.whl"])
    assert metadata["License-Expression"] == "Apache-2.0"
    assert not [line for line in metadata.get_all("Classifier") if line.startswith("License ::")]
    assert "Typing :: Typed" in metadata.get_all("Classifier")
    labels = {line.split(",")[0] for line in metadata.get_all("Project-URL")}
    assert labels == {"Documentation", "Source", "Changelog", "Paper"}
    assert metadata["Description-Content-Type"] == "text/markdown"
    with zipfile.ZipFile(built[f"{name}-{VERSION}-py3-none-any.whl"]) as archive:
        tops = {each.split("/")[0] for each in archive.namelist() if each.count("/") and ".dist-info" not in each}
        assert {f"{top}/py.typed" for top in tops} <= set(archive.namelist())


def test_the_wheel_that_serves_is_the_whole_one_without_training(built):
    contents = {}
    for name in ("dyqn_triage", "dyqn_triage_serving"):
        with zipfile.ZipFile(built[f"{name}-{VERSION}-py3-none-any.whl"]) as archive:
            contents[name] = {each: archive.read(each) for each in archive.namelist() if ".dist-info/" not in each}
    whole = {
        path: text
        for path, text in contents["dyqn_triage"].items()
        if not path.startswith(("trainer/", "dyqn_triage/"))
    }
    assert contents["dyqn_triage_serving"] == whole
    with tarfile.open(built[f"dyqn_triage_serving-{VERSION}.tar.gz"]) as archive:
        assert not [member.name for member in archive if member.issym() or "trainer" in member.name]


def _interpreters():
    """Returns the Pythons of this machine that the distribution is for."""
    # Those of pyenv first: what it has on the path starts only the version that is chosen for the folder.
    places = [
        *map(str, pathlib.Path.home().glob(".pyenv/versions/*/bin")),
        *os.environ.get("PATH", "").split(os.pathsep),
    ]
    names = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
    there = {name: shutil.which(f"python{name}", path=os.pathsep.join(places)) for name in names}
    return {name: program for name, program in there.items() if program}


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("extra", ["", "tensorflow"])
@pytest.mark.parametrize("python", _interpreters())
def test_a_server_answers_from_a_fresh_environment_of_each_python(python, extra, built, guarded_model, tmp_path):
    programs = tmp_path / "environment" / "bin"
    subprocess.run([_interpreters()[python], "-m", "venv", "--without-pip", programs.parent], check=True, timeout=600)
    version = subprocess.run([programs / "python", "--version"], capture_output=True, text=True, check=True, timeout=60)
    assert version.stdout.startswith(f"Python {python}.")
    wheel = built[f"dyqn_triage_serving-{VERSION}-py3-none-any.whl"]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", programs / "python"]
    # A clone on PYTHONPATH would count as installed.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    install = [*pip, "install", "--quiet", f"{wheel}[{extra}]" if extra else wheel]
    subprocess.run(install, check=True, env=environment, timeout=2400)
    command = [programs / "triage", "serve", "--model-base-path", guarded_model, "--port", "0"]
    command += ["--engine", "saved-model" if extra else "litert"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            with TriageClient(server.stdout.readline().split()[2].rstrip(",")) as client:
                answer = client.triage(evidence_state(["fever"]))
        finally:
            server.terminate()
    assert answer.model_version == "1"


@pytest.fixture(scope="module")
def guarded_model(tmp_path_factory):
    """A base path with a version that the server under test answers with."""
    from tests.builders import network_of, symptoms, trained_agent

    base = tmp_path_factory.mktemp("models")
    write_version(base, trained_agent(network_of(([[1] * 5], 0)), symptoms("fever")))
    return base
