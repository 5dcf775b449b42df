"""Bazel's own Python rules under the names of rules_python."""

py_binary = native.py_binary
py_library = native.py_library
py_runtime = native.py_runtime
py_test = native.py_test
