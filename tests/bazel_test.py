"""BUILD files: each package has its target, with all its modules and the packages that they import."""

import ast
import importlib.metadata
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILDS = {path.parent.name: path for path in ROOT.glob("*/BUILD") if not path.parent.name.startswith("bazel")}
OURS = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))
LOCK = (ROOT / "bazel" / "requirements.txt").read_text().splitlines()
LOCKED = {canonicalize_name(pin.name): pin for pin in map(Requirement, LOCK)}


def _asked(folder):
    """Returns the distributions that a BUILD file names."""
    return {canonicalize_name(name) for name in re.findall(r'"@pip//(\w+)"', BUILDS[folder].read_text())}


@pytest.mark.parametrize("folder", OURS)
def test_each_package_is_one_target_with_every_module_below_it(folder):
    assert f'    name = "{folder}",\n    srcs = glob(["**/*.py"]),' in BUILDS[folder].read_text()
    assert f'"//{folder}:files"' in (ROOT / "BUILD").read_text()
    # A BUILD file further down would take the modules beside it out of the target.
    assert list((ROOT / folder).glob("*/**/BUILD")) == []


@pytest.mark.parametrize("folder", OURS)
def test_a_target_asks_for_the_packages_that_its_modules_import(folder):
    distributions = importlib.metadata.packages_distributions()
    ours = {*OURS, "triage", "triage_cli", "triage_client", "tomllib", "_typeshed"} | sys.stdlib_module_names
    missing = {
        name
        for path in (ROOT / folder).rglob("*.py")
        for name in _imported(path.read_text())
        if name not in ours
        and not {canonicalize_name(each) for each in distributions.get(name, [name])} & _asked(folder)
    }
    assert missing == set()


def _imported(source):
    """Yields the first names of the modules that a source text imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module.split(".")[0]


def test_the_files_are_in_the_format_of_buildifier():
    buildifier = shutil.which("buildifier")
    if not buildifier:
        pytest.skip("needs the program buildifier (npm: @bazel/buildifier)")
    files = [ROOT / "BUILD", *BUILDS.values(), ROOT / "MODULE.bazel", ROOT / "WORKSPACE", *ROOT.glob("bazel/**/*.bzl")]
    checked = subprocess.run([buildifier, "-mode=check", *files], capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_locked_packages_are_those_that_the_project_asks_for():
    asked = [
        Requirement(node.value)
        for statement in ast.parse((ROOT / "setup.py").read_text()).body
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.List)
        if statement.targets[0].id != "PACKAGES_OF_TRAINER"
        for node in ast.walk(statement.value)
        if isinstance(node, ast.Constant)
    ]
    assert {"kfp", "opentelemetry-api", "tensorflow", "pytest"} <= {requirement.name for requirement in asked}
    for requirement in asked:
        [pin] = LOCKED[canonicalize_name(requirement.name)].specifier
        assert pin.operator == "=="
        if requirement.marker and not requirement.marker.evaluate({"python_version": "3.11"}):
            continue  # the lock is of Python 3.11
        assert requirement.specifier.contains(pin.version), f"{requirement} is locked at {pin.version}"
