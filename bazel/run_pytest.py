"""Runs a `pytest_test`: pytest on one file, without the slow tests, as `make test` does."""

import os
import sys

import pytest


def main() -> int:
    """Returns pytest's exit code; 0 also if a file has only slow tests."""
    root = os.path.join(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"])
    # The home directory cannot be written in Bazel's sandbox: Matplotlib says so on standard error, npm fails.
    os.environ.setdefault("MPLCONFIGDIR", os.environ["TEST_TMPDIR"])
    os.environ.setdefault("npm_config_cache", os.path.join(os.environ["TEST_TMPDIR"], "npm"))
    # Processes that a test starts import from the same places as the test.
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    code = pytest.main(
        [f"--rootdir={root}", f"--config-file={root}/pyproject.toml", "-p", "no:cacheprovider", "-m", "not slow",
         *sys.argv[1:]]
    )  # fmt: skip
    return 0 if code == pytest.ExitCode.NO_TESTS_COLLECTED else int(code)


if __name__ == "__main__":
    sys.exit(main())
