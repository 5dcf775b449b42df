"""Learns a triage policy from vignettes, evaluates it and exports it.

TF-Agents runs on the legacy Keras only, and TensorFlow reads the variable below once, when it is first imported: it
is set here, before any module of this package imports TensorFlow. `import keras` is Keras 3 all the same.
"""

import contextlib
import os
import sys

_VARIABLE = "TF_USE_LEGACY_KERAS"

if os.environ.get(_VARIABLE) not in ("1", "true", "True"):
    if "tensorflow" in sys.modules:
        raise ImportError(
            f"TensorFlow was imported before the trainer package, without {_VARIABLE}=1, which TF-Agents needs. "
            f"Import trainer first, or set {_VARIABLE}=1 in the environment."
        )
    os.environ[_VARIABLE] = "1"

# TF-Agents imports gym, which prints that it is unmaintained; nothing here uses it.
with contextlib.suppress(ImportError):
    from gym_notices.notices import notices

    notices.clear()
