"""Measures the steps around training: `triage simulate`, `triage prepare`, and the evaluation of a test split.

    python benchmarks/pipeline.py --json pipeline.json

The commands run as users run them, on two sizes: the difference of their times does not include the start of the
process, and that of their peak memory shows whether memory grows with the vignettes. The floor of `prepare` is a bare
loop over the same lines in a separate process: `json.loads`, a tf.Example and a TFRecord file, without checks, split,
statistics or fingerprint.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from schemas import directories
from triage_runtime.command_line import figures

ORDERS = 10
ROOT = pathlib.Path(__file__).resolve().parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--vignettes", type=int, nargs=2, default=(100_000, 200_000), metavar="N", help="two sizes (100000 200000)"
    )
    parser.add_argument("--repeats", type=int, default=10, help="evaluations, of which the fastest counts (default 10)")
    figures.add_argument(parser)
    arguments = parser.parse_args()
    figures.check(arguments.json)
    small, large = sorted(arguments.vignettes)
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        simulated = [_command("simulate", scratch / f"s{n}", "--vignettes", n) for n in (small, large)]
        lines = _lines(scratch / f"s{large}", scratch / "large.jsonl")
        _head(scratch / "large.jsonl", small, scratch / "small.jsonl")
        vocabulary = scratch / f"s{large}" / directories.VOCABULARY
        prepared = [
            _command(
                "prepare", scratch / f"p{size}", "--vignettes", scratch / f"{size}.jsonl", "--vocabulary", vocabulary
            )
            for size in ("small", "large")
        ]
        floor = lines / _bare_loop(scratch / "large.jsonl", scratch / "bare.tfrecord")
        evaluation = measure_evaluation(arguments.repeats)
    speeds = {
        "simulate": _growth(simulated, small, large),
        "prepare": _growth(prepared, small, large) | {"floor_vignettes_per_second": floor},
        "evaluate": evaluation,
    }
    speeds["prepare"]["ratio"] = speeds["prepare"]["vignettes_per_second"] / floor
    _show(speeds)
    figures.write(speeds, arguments.json)


def _command(name: str, out: pathlib.Path, *options: Any) -> dict[str, float]:
    """Runs `triage`; returns its seconds and the peak memory of its largest process."""
    command = [sys.executable, str(ROOT / "triage_cli.py"), name, "--out", str(out), *map(str, options)]
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)}: failed")
    return {"seconds": time.monotonic() - start, "peak_bytes": usage.ru_maxrss * 1024}


def _growth(runs: list[dict[str, float]], small: int, large: int) -> dict[str, Any]:
    longer = runs[1]["seconds"] - runs[0]["seconds"]
    return {
        "vignettes_per_second": (large - small) / longer,
        "with_start_vignettes_per_second": large / runs[1]["seconds"],
        "runs": [{"vignettes": n, **run} for n, run in zip((small, large), runs, strict=True)],
    }


def _lines(data: pathlib.Path, path: pathlib.Path) -> int:
    """Writes the vignettes of a data directory as JSON Lines; returns how many."""
    from trainer.vignettes.tfrecord import DataDirectory, decode_example, read_records

    count = 0
    with path.open("w", encoding="utf-8") as file:
        for split in directories.SPLITS:
            for shard in DataDirectory.open(data).shards(split):
                for record in read_records(shard):
                    vignette = decode_example(record)
                    fields = {
                        "vignette_id": vignette.vignette_id,
                        "present": vignette.present,
                        "absent": vignette.absent,
                        "decisions": [decision.label for decision in vignette.decisions],
                        "tags": vignette.tags,
                    }
                    file.write(json.dumps(fields) + "\n")
                    count += 1
    return count


def _head(path: pathlib.Path, count: int, out: pathlib.Path) -> None:
    with path.open("rb") as lines, out.open("wb") as file:
        for _, line in zip(range(count), lines, strict=False):
            file.write(line)


def _bare_loop(lines: pathlib.Path, out: pathlib.Path) -> float:
    """Returns the seconds of the floor."""
    import tensorflow as tf

    start = time.monotonic()
    with lines.open("rb") as file, tf.io.TFRecordWriter(str(out)) as writer:
        for line in file:
            fields = json.loads(line)
            fields["vignette_id"] = [fields["vignette_id"]]
            example = tf.train.Example()
            for name, texts in fields.items():
                example.features.feature[name].bytes_list.value.extend([text.encode() for text in texts])
            writer.write(example.SerializeToString())
    return time.monotonic() - start


def measure_evaluation(repeats: int) -> dict[str, Any]:
    """Returns the seconds of an evaluation of the default test split, the first one and the fastest later one.

    The agent asks until the limit, so that it must judge every state of every order.
    """
    from trainer.config import NetworkConfig
    from trainer.dyqn.network import build_network
    from trainer.dyqn.rollout import Rollout, greedy_policy
    from trainer.evaluation.measurement import order_seeds
    from trainer.vignettes.tfrecord import DataDirectory

    with tempfile.TemporaryDirectory() as name:
        _command("simulate", pathlib.Path(name) / "data")
        data = DataDirectory.open(pathlib.Path(name) / "data")
        vignettes = data.read("test")
    network = build_network(len(data.vocabulary), NetworkConfig(), seed=0)
    output = network.get_layer("q_values")
    output.set_weights([output.kernel.numpy(), np.array([0.0, 0.0, 0.0, 0.0, 9.0])])
    rollout = Rollout(vignettes, len(data.vocabulary), 23, greedy_policy(network))
    seconds = []
    for seed in range(1 + repeats):
        start = time.monotonic()
        outcomes = rollout.run(order_seeds(seed, ORDERS))
        seconds.append(time.monotonic() - start)
    return {
        "vignettes": len(vignettes.decision_counts),
        "orders": ORDERS,
        "mean_questions": float(outcomes.questions.mean()),
        "first_seconds": seconds[0],
        "seconds": min(seconds[1:]),
    }


def _show(speeds: dict[str, Any]) -> None:
    table = Table("command", "vignettes/s", "with the start", "peak memory of the two sizes (MB)")
    for name in ("simulate", "prepare"):
        rows = speeds[name]
        peaks = ", ".join(f"{run['peak_bytes'] / 1e6:.0f}" for run in rows["runs"])
        rates = [f"{rows[key]:,.0f}" for key in ("vignettes_per_second", "with_start_vignettes_per_second")]
        table.add_row(name, *rates, peaks)
    table.add_row("the bare loop", f"{speeds['prepare']['floor_vignettes_per_second']:,.0f}", "", "")
    evaluation = speeds["evaluate"]
    Console().print(table, f"prepare against the bare loop: {speeds['prepare']['ratio']:.2f}")
    Console().print(
        f"{evaluation['vignettes']} vignettes in {evaluation['orders']} orders: {evaluation['seconds']:.2f} s, the "
        f"first time {evaluation['first_seconds']:.2f} s"
    )


if __name__ == "__main__":
    main()
