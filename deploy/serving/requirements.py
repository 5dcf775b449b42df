"""Writes the requirements of the serving image: `python deploy/serving/requirements.py [OUT]`, default: its folder.

requirements.in holds the distributions that `triage serve` and `triage health` import or load by name, in the versions
of setup.py, and nothing of what training needs. requirements.txt locks those and all that they need, by version and
hash, as the project is tested with them (bazel/requirements.txt). That takes the program uv (`pip install uv`) and the
package index; without uv only requirements.in is written.
"""

import ast
import pathlib
import re
import runpy
import shutil
import subprocess
import sys

from packaging.markers import Marker

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ROOTS = ("serving.command", "serving.client.health")
BY_NAME = {"opentelemetry-exporter-otlp-proto-http"}  # loaded on request: --traces otlp_proto_http
PYTHON = "3.11"
PLATFORM = "x86_64-manylinux_2_28"
# The same library without the code for graphics cards: half the download, and the image runs on processors.
INSTEAD = {"tensorflow": "tensorflow-cpu"}
HEADER = "# Written by deploy/serving/requirements.py: change that, not this.\n"


def needed() -> set[str]:
    """Returns the names of the distributions that the modules ROOTS import, directly or not."""
    build_files = runpy.run_path(str(ROOT / "bazel" / "build_files.py"))
    project = build_files["Project"](ROOT)
    files = [file for folder in build_files["PACKAGES"] for file in build_files["files"](ROOT, folder)]
    labels = {f"{file.folder}:{file.target}": file for file in files}
    waiting = [next(file for file in files if file.module == name) for name in ROOTS]
    packages: set[str] = set()
    seen = set(waiting)
    while waiting:
        file = waiting.pop()
        for label in project.dependencies(file):
            if label.startswith("@pip//"):
                packages.add(label.removeprefix("@pip//").replace("_", "-"))
                continue
            folder, _, target = label.removeprefix("//").rpartition(":") if ":" in label else (label[2:], "", "")
            other = labels[f"{folder or file.folder}:{target or folder.split('/')[-1]}"]
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return packages


def requirements() -> list[str]:
    """Returns the lines of requirements.in.

    Raises:
        LookupError: the code imports something for which setup.py has no version.
    """
    tree = ast.parse((ROOT / "setup.py").read_text(encoding="utf-8"))
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    matches = [match for text in texts if (match := re.fullmatch(r"([a-z0-9-]+)([<>=~]=[^;]+)(?:; (.+))?", text))]
    asked: dict[str, str] = {}
    for match in matches:
        if match[3] is None or Marker(match[3]).evaluate({"python_version": PYTHON}):
            asked.setdefault(match[1], match[2])  # the requirements of all come before the extras
    wanted = needed() | BY_NAME
    missing = wanted - {match[1] for match in matches}
    if missing:
        raise LookupError(f"setup.py has no version of {', '.join(sorted(missing))}")
    return [f"{INSTEAD.get(name, name)}{asked[name]}" for name in sorted(wanted & asked.keys())]


def lock(out: pathlib.Path) -> None:
    """Writes requirements.txt for the requirements.in in `out`, with uv.

    Raises:
        subprocess.CalledProcessError: there is no such set of versions; uv has printed why.
    """
    overrides = out / "overrides.tmp"
    overrides.write_text("".join(f'{name}; sys_platform == "never"\n' for name in INSTEAD), encoding="utf-8")
    arguments = ["--generate-hashes", "--no-header", "--no-annotate", "--python-version", PYTHON]
    arguments += ["--python-platform", PLATFORM, "--override", str(overrides)]
    arguments += ["--constraint", str(ROOT / "bazel" / "requirements.txt"), str(out / "requirements.in")]
    try:
        command = ["uv", "pip", "compile", "--quiet", "--no-config", *arguments]
        locked = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
    finally:
        overrides.unlink()
    (out / "requirements.txt").write_text(HEADER + locked.stdout, encoding="utf-8")


def main() -> None:
    """Writes both files."""
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    (out / "requirements.in").write_text(HEADER + "\n".join([*requirements(), ""]), encoding="utf-8")
    if shutil.which("uv"):
        lock(out)
    else:
        sys.stderr.write("requirements.txt was left as it is: that takes uv (pip install uv)\n")


if __name__ == "__main__":
    main()
