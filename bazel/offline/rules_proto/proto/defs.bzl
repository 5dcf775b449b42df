"""Bazel's own protobuf rules, which its tools load under the names of rules_proto."""

proto_lang_toolchain = native.proto_lang_toolchain
proto_library = native.proto_library
