"""Compares `triage powerset` with a plain Python loop that makes the same rows, in the same run.

    python benchmarks/powerset.py DIR [--split train] --json FILE

The loop reads the vignettes, expands them and writes one TFRecord file; the ratio shows the cost of Apache Beam and of
the checks of the command. Needs the extra `beam`.
"""

import argparse
import json
import pathlib
import tempfile
import time
from typing import Any

from rich.console import Console

from trainer.supervised import powerset_pipeline
from trainer.supervised.powerset import expand
from trainer.vignettes.tfrecord import DataDirectory, decode_example, encode_example, read_records
from triage_runtime.command_line import figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--split", default="train")
    figures.add_argument(parser)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        plain = measure_loop(arguments.data, arguments.split, pathlib.Path(scratch))
        pipeline = measure_pipeline(arguments.data, arguments.split, pathlib.Path(scratch))
    speeds = {"plain": plain, "pipeline": pipeline, "ratio": pipeline["rows_per_second"] / plain["rows_per_second"]}
    Console().print(speeds)
    figures.write(speeds, arguments.json)


def measure_loop(data: pathlib.Path, split: str, scratch: pathlib.Path) -> dict[str, Any]:
    """Returns rows and rows per second of the loop."""
    import tensorflow as tf  # after the package trainer

    start, rows = time.monotonic(), 0
    with tf.io.TFRecordWriter(str(scratch / "plain.tfrecord")) as writer:
        for shard in DataDirectory.open(data).shards(split):
            for record in read_records(shard, shard.suffix == ".gz"):
                for row in expand(decode_example(record), seed=0):
                    writer.write(encode_example(row))
                    rows += 1
    return {"rows": rows, "rows_per_second": rows / (time.monotonic() - start)}


def measure_pipeline(data: pathlib.Path, split: str, scratch: pathlib.Path) -> dict[str, Any]:
    """Returns rows, rows per second and memory of the command in this process."""
    parser = argparse.ArgumentParser()
    powerset_pipeline.add_arguments(parser)
    options = ["--data", str(data), "--out", str(scratch / "out"), "--split", split]
    powerset_pipeline.run(parser.parse_args([*options, "--json", str(scratch / "figures.json")]))
    written = json.loads((scratch / "figures.json").read_text())
    return {name: written[name] for name in ("rows", "rows_per_second", "peak_memory_bytes")}


if __name__ == "__main__":
    main()
