"""Checks tf.Examples against a TensorFlow Metadata schema, the schema.pbtxt of a data directory."""

import math
import pathlib
from collections.abc import Iterator, Sequence

import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from schemas.errors import InputError, first_line
from trainer.importing.anomalies import EXAMPLES, Findings, Kind, Place
from trainer.vignettes.vignette import shown

_KINDS = {
    schema_pb2.BYTES: "bytes_list",
    schema_pb2.INT: "int64_list",
    schema_pb2.FLOAT: "float_list",
}


class _Rule:
    """What the schema requires of a feature."""

    def __init__(self, feature: schema_pb2.Feature, domains: dict[str, Sequence[str]]):
        self.kind = _KINDS.get(feature.type)  # None: any
        self.least, self.most = 0, math.inf
        if feature.HasField("value_count"):
            self.least = feature.value_count.min
            self.most = feature.value_count.max if feature.value_count.HasField("max") else math.inf
        if feature.HasField("shape"):
            self.least = self.most = math.prod(dim.size for dim in feature.shape.dim)
        self.min_count = feature.presence.min_count
        self.min_fraction = feature.presence.min_fraction
        inline = feature.string_domain.value if feature.HasField("string_domain") else None
        values = domains.get(feature.domain) if feature.HasField("domain") else inline
        self.domain = None if values is None else frozenset(value.encode() for value in values)

    def faults(self, feature: tf.train.Feature) -> Iterator[tuple[Kind, str]]:
        """Yields the faults of a feature's values; the feature has some kind of list."""
        kind = feature.WhichOneof("kind")
        if self.kind not in (None, kind):
            yield Kind.WRONG_TYPE, f"{kind}, expected {self.kind}"
            return
        values = getattr(feature, kind).value
        if not self.least <= len(values) <= self.most:
            most = "or more" if self.most == math.inf else f"to {self.most}"
            expected = f"{self.least}" if self.least == self.most else f"{self.least} {most}"
            yield Kind.WRONG_COUNT, f"{len(values)}, expected {expected}"
        if self.domain is not None and not self.domain.issuperset(values):
            stray = next(value for value in values if value not in self.domain)
            yield Kind.OUTSIDE_DOMAIN, shown(stray.decode(errors="backslashreplace"))


class SchemaCheck:
    """Checks the tf.Examples of a data directory one by one.

    Checks type, presence, number of values (`shape`, `value_count`) and string domain of each feature.

    Args:
        schema: the known features; others are anomalies.
        findings: collects the faults.
    """

    def __init__(self, schema: schema_pb2.Schema, findings: Findings):
        domains = {domain.name: domain.value for domain in schema.string_domain}
        self._rules = {feature.name: _Rule(feature, domains) for feature in schema.feature}
        self._findings = findings
        self._examples = 0
        self._lacking: dict[str, int] = dict.fromkeys(self._rules, 0)
        self._places: dict[str, list[Place]] = {name: [] for name in self._rules}

    def add(self, example: tf.train.Example, place: Place) -> None:
        """Checks one record."""
        self._examples += 1
        features = example.features.feature
        for name in features:
            rule = self._rules.get(name)
            if rule is None:
                self._findings.add(Kind.UNKNOWN_FEATURE, place, shown(name))
            elif features[name].WhichOneof("kind") is not None:
                for kind, detail in rule.faults(features[name]):
                    self._findings.add(kind, place, detail, subject=name)
        for name in self._rules:
            # Reading a missing key would add it. A feature without a list has no values.
            if name not in features or features[name].WhichOneof("kind") is None:
                self._lacking[name] += 1
                if len(self._places[name]) < EXAMPLES:
                    self._places[name].append(place)

    def finish(self) -> None:
        """Checks how many of the records had each feature."""
        for name, rule in self._rules.items():
            lacking = self._lacking[name]
            having = self._examples - lacking
            if lacking and (having < rule.min_count or having < rule.min_fraction * self._examples):
                *others, last = self._places[name]
                for place in others:
                    self._findings.add(Kind.MISSING_FEATURE, place, subject=name)
                self._findings.add(Kind.MISSING_FEATURE, last, subject=name, count=lacking - len(others))


def load_schema(path: pathlib.Path) -> schema_pb2.Schema:
    """Reads a schema.pbtxt.

    Raises:
        InputError: the file cannot be read, is not a schema, or names an unknown domain.
    """
    try:
        schema = text_format.Parse(path.read_text(encoding="utf-8"), schema_pb2.Schema())
    except OSError as error:
        raise InputError(f"{path}: cannot read the schema: {error.strerror or error}") from error
    except (text_format.ParseError, UnicodeDecodeError) as error:
        reason = first_line(error)
        raise InputError(f"{path}: not a TensorFlow Metadata schema: {reason}: prepare the data again") from error
    domains = {domain.name for domain in schema.string_domain}
    for feature in schema.feature:
        if feature.HasField("domain") and feature.domain not in domains:
            raise InputError(f"{path}: feature {feature.name!r}: no string_domain is named {feature.domain!r}")
    return schema
