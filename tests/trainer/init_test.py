"""What importing the trainer package does. That Keras 3 then stands beside TF-Agents: tests/triage_cli_test.py."""

import runpy
import sys

import pytest
import tensorflow as tf

import trainer


def test_tensorflow_imported_first_without_the_variable_is_an_error_that_says_what_to_do(monkeypatch):
    assert sys.modules["tensorflow"] is tf
    monkeypatch.delenv("TF_USE_LEGACY_KERAS")
    with pytest.raises(ImportError, match="TF_USE_LEGACY_KERAS=1"):
        runpy.run_path(trainer.__file__)


@pytest.mark.slow
def test_the_package_alone_loads_no_tensorflow(python, monkeypatch):
    monkeypatch.delenv("TF_USE_LEGACY_KERAS")
    code = "import trainer, sys; assert 'tensorflow' not in sys.modules"
    assert python.run("-c", code, timeout=120).returncode == 0
