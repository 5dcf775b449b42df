"""Triage agents in a notebook: vignettes from a data frame, training, evaluation, export, and interviews.

Each function does what the command of its name does, with the same code. Its keywords are the command's options:
`fit(data, "job", steps=200)` is `triage train --data data --job-dir job --steps 200`. Errors are `InputError`.

Research software, not a medical device.
"""

import importlib
import logging
import os

from triage_runtime.command_line.extras import need
from triage_runtime.command_line.standard_error import silent_unless_failing

need("pandas", "dyqn_triage", "notebook")
# As the commands do, before TensorFlow is loaded; where somebody types, it would also log what it writes.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
with silent_unless_failing():
    importlib.import_module("trainer")  # chooses TensorFlow's Keras
    importlib.import_module("tensorflow")
logging.getLogger("tensorflow").setLevel(logging.WARNING)

from dyqn_triage.agent import Agent, Evaluation, fit
from dyqn_triage.classifier import TriageClassifier
from dyqn_triage.data import DataDirectory, open_data, prepare, train_test_split
from dyqn_triage.model import Interview, Model, Question
from schemas.errors import InputError

__all__ = [
    "Agent",
    "DataDirectory",
    "Evaluation",
    "InputError",
    "Interview",
    "Model",
    "Question",
    "TriageClassifier",
    "fit",
    "open_data",
    "prepare",
    "train_test_split",
]
