"""Measures what each distribution takes on the disk, and how long a server takes from its start to its first answer.

    python benchmarks/distributions.py --model-base-path models --python python3.13 --json distributions.json

builds a wheel of each, makes a fresh environment for each row of the table (without pip), installs the wheel in it, and
starts `triage serve` there several times. pip downloads what it has not cached, with TensorFlow some 600 MB.
"""

import argparse
import itertools
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, NamedTuple

from schemas.model_directory import find_version, read_version
from triage_client import TriageClient, evidence_state
from triage_runtime.command_line import figures

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROJECTS = {"dyqn-triage": ROOT, "dyqn-triage-serving": ROOT / "distributions" / "serving"}
START_SECONDS = 120


class Row(NamedTuple):
    """What to install, and what to run."""

    distribution: str
    extra: str
    engine: str


ROWS = (
    Row("dyqn-triage-serving", "", "litert"),
    Row("dyqn-triage-serving", "tensorflow", "saved-model"),
    Row("dyqn-triage", "", "saved-model"),
)


def wheel_of(distribution: str, folder: pathlib.Path) -> pathlib.Path:
    """Builds a wheel, through a source distribution as for an upload, so that nothing of an earlier build is in it."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(PROJECTS[distribution])]
    subprocess.run(command, check=True, capture_output=True)
    [wheel] = folder.glob(f"{distribution.replace('-', '_')}-*.whl")
    return wheel


def install(python: str, wheel: pathlib.Path, extra: str, folder: pathlib.Path) -> pathlib.Path:
    """Makes an environment with the wheel, and returns its folder of scripts."""
    subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], check=True)
    target = f"{wheel}[{extra}]" if extra else str(wheel)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(folder / "bin" / "python")]
    # A clone on PYTHONPATH would count as installed.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([*pip, "install", "--quiet", target], check=True, env=environment)
    return folder / "bin"


def megabytes(folder: pathlib.Path) -> float:
    """Returns the size of all files below a folder, links not followed."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir()) / 1e6


def first_answer(scripts: pathlib.Path, base: pathlib.Path, engine: str) -> float:
    """Starts a server, and returns the seconds until its first answer."""
    folder = find_version(base)
    code = read_version(folder)[1].codes[0]
    with tempfile.TemporaryDirectory() as scratch:
        port_file = pathlib.Path(scratch) / "port"
        command = [scripts / "triage", "serve", "--model-base-path", base, "--port", "0", "--engine", engine]
        begin = time.perf_counter()
        with subprocess.Popen([*command, "--port-file", port_file], stdout=subprocess.DEVNULL) as server:
            try:
                while not port_file.exists():
                    if server.poll() is not None or time.perf_counter() - begin > START_SECONDS:
                        raise RuntimeError(f"{scripts}: the server did not start: exit code {server.poll()}")
                    time.sleep(0.002)
                with TriageClient(f"127.0.0.1:{port_file.read_text()}") as client:
                    answer = client.triage(evidence_state([code]))
                seconds = time.perf_counter() - begin
            finally:
                server.terminate()
        if answer.model_version != folder.name:
            raise RuntimeError(f"version {answer.model_version} answered, not {folder.name}")
        return seconds


def measure(row: Row, python: str, wheel: pathlib.Path, base: pathlib.Path, starts: int) -> dict[str, Any]:
    """Returns the figures of one row."""
    with tempfile.TemporaryDirectory() as folder:
        scripts = install(python, wheel, row.extra, pathlib.Path(folder))
        version = subprocess.run([scripts / "python", "--version"], capture_output=True, text=True, check=True).stdout
        [packages] = pathlib.Path(folder).glob("lib/python*/site-packages")
        size = megabytes(packages)
        seconds = [first_answer(scripts, base, row.engine) for _ in range(starts + 1)]
    return {
        **row._asdict(),
        "python": version.split()[1],
        "megabytes": round(size),
        "first_start_seconds": round(seconds[0], 2),  # compiles the modules to bytecode first, as pip does not for all
        "seconds": round(statistics.median(seconds[1:]), 2),
    }


def table(figures_of_rows: list[dict[str, Any]]) -> str:
    """Returns a table in Markdown."""
    lines = ["| distribution | engine | Python | MB | first start, s | later starts, s |", "| --- " * 6 + "|"]
    for row in figures_of_rows:
        name = row["distribution"] + (f"[{row['extra']}]" if row["extra"] else "")
        values = (f"`{name}`", f"`{row['engine']}`", row["python"], f"{row['megabytes']:,}")
        lines.append(f"| {' | '.join(values)} | {row['first_start_seconds']:.2f} | {row['seconds']:.2f} |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model-base-path", type=pathlib.Path, required=True, metavar="BASE")
    parser.add_argument("--python", nargs="+", default=[sys.executable], metavar="PROGRAM", help="interpreters")
    parser.add_argument("--distribution", nargs="+", choices=list(PROJECTS), default=list(PROJECTS))
    parser.add_argument("--extra", nargs="*", choices=["", "tensorflow"], default=["", "tensorflow"])
    parser.add_argument("--starts", type=int, default=5, metavar="N", help="starts of which the median counts")
    figures.add_argument(parser)
    arguments = parser.parse_args()
    figures.check(arguments.json)
    measured = []
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.distribution:
            wheel = wheel_of(name, pathlib.Path(folder) / name)
            rows = [row for row in ROWS if row.distribution == name and row.extra in arguments.extra]
            for row, python in itertools.product(rows, arguments.python):
                measured.append(measure(row, python, wheel, arguments.model_base_path, arguments.starts))
                sys.stderr.write(f"{measured[-1]}\n")
    sys.stdout.write(table(measured))
    figures.write({"rows": measured}, arguments.json)


if __name__ == "__main__":
    main()
