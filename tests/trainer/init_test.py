"""What importing the trainer package does to a fresh interpreter."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def _run(code):
    environment = {name: value for name, value in os.environ.items() if name != "TF_USE_LEGACY_KERAS"}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "proto")])
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120)


def test_tf_agents_and_keras_3_work_side_by_side_without_any_variable_set():
    code = "import trainer, tf_agents.agents.tf_agent, keras; print(keras.__version__.split('.')[0])"
    finished = _run(code)
    assert finished.stdout.strip() == "3", finished.stderr
    assert "unmaintained" not in finished.stderr  # gym's notice, about a library that nothing here uses


def test_tensorflow_imported_first_without_the_variable_is_an_error_that_says_what_to_do():
    finished = _run("import tensorflow, trainer")
    assert finished.returncode == 1
    assert "Import trainer first, or set TF_USE_LEGACY_KERAS=1" in finished.stderr


def test_the_package_alone_loads_no_tensorflow():
    assert _run("import trainer, sys; assert 'tensorflow' not in sys.modules").returncode == 0
