"""Bazel's own proto_library."""

proto_library = native.proto_library
