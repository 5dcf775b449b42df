"""A test file that pytest runs."""

load("@rules_python//python:defs.bzl", "py_test")

_RUNNER = "//bazel:run_pytest.py"

def pytest_test(name, src, data = [], deps = []):
    """Declares a test.

    Args:
      name: of the target.
      src: the test file.
      data: files that it reads.
      deps: libraries that it imports, and those of its fixtures.
    """
    py_test(
        name = name,
        size = "large",
        srcs = [
            src,
            _RUNNER,
        ],
        args = ["$(location %s)" % src],
        data = data + ["//:pyproject.toml"],
        # An __init__.py that Bazel would put into proto/ would hide the package proto of the Vertex SDK.
        legacy_create_init = 0,
        main = _RUNNER,
        deps = deps + ["//bazel:run_pytest"],
    )
