"""The source distribution: what a prebuilt training container installs, with all that the code reads."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

import pytest

import triage_cli

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGES = ("schemas", "triage_runtime", "trainer", "serving", "dyqn_triage", "proto", "clients/python/triage_client")
FILES = ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "triage_cli.py")
# What is no module and is read at run time, or by whoever builds on the contract.
DATA = (".css", ".csv", ".jinja", ".js", ".json", ".pbtxt", ".proto", ".pyi", ".toml")


@pytest.fixture(scope="module")
def source_distribution(tmp_path_factory):
    """The file that `python -m build --sdist` makes, here without a network."""
    folder = tmp_path_factory.mktemp("dist")
    copy = folder / "checkout"
    for name in PACKAGES:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, copy / name)
    command = [sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", str(folder)]
    subprocess.run(command, cwd=copy, check=True, capture_output=True, timeout=300)
    [made] = folder.glob("*.tar.gz")
    return made


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
    assert set(FILES) <= names


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
