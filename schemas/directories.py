"""File names inside a data directory and a model directory, and first bytes by which files are known."""

import re

# A data directory, as `triage prepare` writes it.
VOCABULARY = "vocabulary.csv"
DATA_SCHEMA = "schema.pbtxt"
STATS = "stats.json"
WHOLE_PATIENT = "whole_patient"
"""True among the options in `STATS` where a patient lacks what a vignette does not list."""
REJECTS = "rejects.jsonl"
SPLITS = ("train", "test")
_SHARD = re.compile(r"(train|test)-(\d{5})-of-(\d{5})\.tfrecord")

# A servable version, `<model base path>/<integer>/`, as TensorFlow Serving reads it.
SAVED_MODEL = "saved_model.pb"
MANIFEST = "manifest.json"
ASSETS = "assets"
MODEL_CARD = "model_card.md"
CARD_FOR_MAKERS = ("Hyper-parameters", "How to reproduce")
"""Its sections that are for who makes models, and not for clinicians."""
MODEL_CARD_JSON = "model_card.json"
RULES = "assets.extra/rules.toml"
DANGER_SIGNS = "danger_signs.toml"
"""In a job directory."""
VERSION_DANGER_SIGNS = f"assets.extra/{DANGER_SIGNS}"
"""Only if the version has danger signs, see `schemas.danger_signs`."""
WARMUP_REQUESTS = "assets.extra/tf_serving_warmup_requests"
LITERT = "assets.extra/state.tflite"
"""For LiteRT, in float32: the signature `state` for any number of states, and `questions` where a model chooses them.
Its SHA-256 is in the manifest."""
CHECKSUMS = "SHA256SUMS"
"""SHA-256 of each other file, as the program `sha256sum` writes it; only if the version was signed."""
SIGNATURE = "SHA256SUMS.sig"
"""Ed25519 signature of `CHECKSUMS`, 64 bytes."""
GZIP_MAGIC = b"\x1f\x8b"
"""The first bytes of what gzip compressed."""
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
"""The first bytes of text in UTF-16, as spreadsheets save it."""
MANIFEST_FORMAT = 1
"""`format_version` of the manifest, raised when older readers would misread it."""


def shard_name(split: str, shard: int, shards: int) -> str:
    """Returns the file name of shard `shard` of `shards`, such as `train-00000-of-00001.tfrecord`."""
    return f"{split}-{shard:05d}-of-{shards:05d}.tfrecord"


def shard_parts(name: str) -> tuple[str, int, int] | None:
    """Returns (split, shard, shards) of a shard's file name, None for any other name."""
    match = _SHARD.fullmatch(name)
    return (match[1], int(match[2]), int(match[3])) if match else None


LARGEST_VERSION = 2**63 - 1
"""Versions are 64-bit integers on the wire."""


def version_number(name: str) -> int | None:
    """Returns the number of a version's folder, None for a name that servers ignore."""
    number = int(name) if name.isascii() and name.isdecimal() else None
    return None if number is None or number > LARGEST_VERSION else number
