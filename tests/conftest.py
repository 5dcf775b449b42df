"""Loads the trainer package before any test imports TensorFlow, as its legacy-Keras switch demands."""

import os

import hypothesis

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import trainer  # noqa: F401

# No deadlines: a busy machine is no bug. A gate gives the same verdict for the same code; a developer's run explores.
hypothesis.settings.register_profile("explore", deadline=None)
hypothesis.settings.register_profile("gate", deadline=None, derandomize=True)
hypothesis.settings.load_profile("gate" if os.environ.get("CI") else "explore")
