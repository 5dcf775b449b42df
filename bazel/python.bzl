"""Every file of a folder, as tests, programs or data: none is named, so that none can be forgotten."""

load("@rules_python//python:defs.bzl", "py_binary", "py_test")

_RUNNER = "//bazel:run_pytest.py"
_MADE = ["**/__pycache__/**", "**/node_modules/**"]

def project_files():
    """Declares `files`: all files of the package, for the tests that read the project."""
    native.filegroup(
        name = "files",
        srcs = native.glob(["**"], exclude = _MADE),
    )

def programs(srcs, deps = []):
    """Declares a binary for each program, named after its path without the ending.

    Args:
      srcs: the programs.
      deps: libraries that they import.
    """
    for src in srcs:
        py_binary(
            name = src[:-len(".py")],
            srcs = [src],
            # An __init__.py that Bazel would put into proto/ would hide the package proto of the Vertex SDK.
            legacy_create_init = 0,
            main = src,
            deps = deps,
        )

def pytest_tests(srcs, data = [], deps = []):
    """Declares a test that pytest runs for each file, named after its path, and a suite for each folder with tests.

    Args:
      srcs: the test files.
      data: files that they read.
      deps: libraries that they import, and those of their fixtures.
    """
    suites = {}
    for src in srcs:
        name = src[:-len(".py")]
        py_test(
            name = name,
            size = "large",
            srcs = [src, _RUNNER],
            args = ["$(location %s)" % src],
            data = data,
            legacy_create_init = 0,
            main = _RUNNER,
            deps = deps,
        )
        folders = name.split("/")[:-1]
        for depth in range(len(folders)):
            suites.setdefault("/".join(folders[:depth + 1]), []).append(name)
    for folder, tests in suites.items():
        native.test_suite(
            name = folder,
            tests = tests,
        )
