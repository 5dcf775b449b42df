"""Prepares a process of the study. Imports nothing heavy, as libraries read these settings when they load."""

import os

_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS",
               "TF_NUM_INTEROP_THREADS")  # fmt: skip


def prepare() -> None:
    """Leaves the libraries one thread, and discards their standard error while they load."""
    os.environ |= dict.fromkeys(_ONE_THREAD, "1") | {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}  # processes share a card
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    os.close(null)
