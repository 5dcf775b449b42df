"""Prepares a process of the study. Imports nothing heavy, as libraries read these settings when they load."""

import os

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")


def prepare(threads: int) -> None:
    """Sets the libraries' number of threads, and discards their standard error while they load."""
    os.environ |= dict.fromkeys(_THREAD_VARIABLES, str(threads))
    os.environ["TF_NUM_INTEROP_THREADS"] = "1"
    os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"  # several processes share a graphics card
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    os.close(null)
