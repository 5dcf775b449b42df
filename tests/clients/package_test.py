"""The client's wheel: its content, and what it loads; generated_code_test.py has its requirements."""

import ast
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLIENT = ROOT / "clients" / "python"
SOURCES = sorted((CLIENT / "triage_client").rglob("*.py"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    if not all(importlib.util.find_spec(name) for name in ("pip", "setuptools", "wheel")):
        pytest.skip("needs pip, setuptools and wheel, which build the package")
    folder = tmp_path_factory.mktemp("wheel")
    # A copy, as setuptools leaves its build folder beside the sources and would include it the next time.
    skipped = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
    shutil.copytree(CLIENT, folder / "source", ignore=skipped)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--quiet"]
    built = subprocess.run(
        [*command, "--wheel-dir", folder, folder / "source"], capture_output=True, text=True, timeout=300
    )
    assert built.returncode == 0, built.stderr
    [path] = folder.glob("*.whl")
    return path


@pytest.mark.slow
def test_the_wheel_holds_the_package_with_its_types_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        licences = [name for name in archive.namelist() if name.endswith("LICENSE")]
        assert [archive.read(name) for name in licences] == [(ROOT / "LICENSE").read_bytes()]
    files = [*SOURCES, *(CLIENT / "triage_client").rglob("*.pyi"), CLIENT / "triage_client" / "py.typed"]
    assert names == {path.relative_to(CLIENT).as_posix() for path in files}


@pytest.mark.slow
def test_importing_the_wheel_loads_neither_tensorflow_nor_numpy_nor_the_server(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    script = (
        "import sys, triage_client; print(triage_client.__file__); "
        "print(*sorted({name.split('.')[0] for name in sys.modules}))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["PYTHONPATH"] = str(tmp_path)
    output = subprocess.run(
        [sys.executable, "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    loaded = set(output[1].split())
    assert output[0] == str(tmp_path / "triage_client" / "__init__.py")
    assert "grpc" in loaded
    assert not loaded & {"tensorflow", "keras", "tf_keras", "numpy", "rich", "schemas", "serving", "trainer", "triage"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_the_code_is_python_3_9(path):
    assert ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))  # or a SyntaxError
