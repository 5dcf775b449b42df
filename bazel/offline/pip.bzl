"""Stands in for rules_python's pip: packages that are installed already, beside the python3 that runs the targets."""

def _installed_impl(repository):
    lines = repository.read(repository.attr.requirements).split("\n")
    for line in lines:
        name = line.split("==")[0].split(";")[0].strip().lower().replace("-", "_").replace(".", "_")
        if name and not name.startswith("#"):
            repository.file(name + "/BUILD", """
load("@rules_python//python:defs.bzl", "py_library")

py_library(
    name = "%s",
    visibility = ["//visibility:public"],
)
""" % name)

installed = repository_rule(
    implementation = _installed_impl,
    attrs = {"requirements": attr.label(allow_single_file = True)},
    doc = "One empty library for each package that a requirements file names.",
)
