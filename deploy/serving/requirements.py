"""Writes the requirements of the serving images: `python deploy/serving/requirements.py [OUT]`, default: its folder.

They are those of the distribution dyqn-triage-serving (distributions/serving/pyproject.toml): in requirements.in with
its extras `tensorflow`, `signing` and `tracing`, in requirements-litert.in without the first. The .txt files lock those
and all that they need, by version and hash, as the project is tested with them (bazel/requirements.txt). That takes the
program uv (`pip install uv`) and the package index; without uv only the .in files are written.
"""

import pathlib
import shutil
import subprocess
import sys

from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
EXTRAS = {"requirements": ("tensorflow", "signing", "tracing"), "requirements-litert": ("signing", "tracing")}
PYTHON = "3.11"
PLATFORM = "x86_64-manylinux_2_28"
# The same library without the code for graphics cards: half the download, and the image runs on processors.
INSTEAD = {"tensorflow": "tensorflow-cpu"}
HEADER = "# Written by deploy/serving/requirements.py: change that, not this.\n"


def requirements(name: str) -> list[str]:
    """Returns the lines of the file `name`.in."""
    text = (ROOT / "distributions" / "serving" / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    lines = list(project["dependencies"])
    for extra in EXTRAS[name]:
        lines += project["optional-dependencies"][extra]
    here = {"python_version": PYTHON, "sys_platform": "linux"}
    asked = [each for each in map(Requirement, lines) if each.marker is None or each.marker.evaluate(here)]
    return sorted(f"{INSTEAD.get(each.name, each.name)}{each.specifier}" for each in asked)


def lock(out: pathlib.Path, name: str) -> None:
    """Writes `name`.txt for the `name`.in in `out`, with uv.

    Raises:
        subprocess.CalledProcessError: there is no such set of versions; uv has printed why.
    """
    overrides = out / "overrides.tmp"
    overrides.write_text("".join(f'{each}; sys_platform == "never"\n' for each in INSTEAD), encoding="utf-8")
    arguments = ["--generate-hashes", "--no-header", "--no-annotate", "--python-version", PYTHON]
    arguments += ["--python-platform", PLATFORM, "--override", str(overrides)]
    arguments += ["--constraint", str(ROOT / "bazel" / "requirements.txt"), str(out / f"{name}.in")]
    try:
        command = ["uv", "pip", "compile", "--quiet", "--no-config", *arguments]
        locked = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
    finally:
        overrides.unlink()
    (out / f"{name}.txt").write_text(HEADER + locked.stdout, encoding="utf-8")


def main() -> None:
    """Writes all files."""
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    for name in EXTRAS:
        (out / f"{name}.in").write_text(HEADER + "\n".join([*requirements(name), ""]), encoding="utf-8")
        if shutil.which("uv"):
            lock(out, name)
    if not shutil.which("uv"):
        sys.stderr.write("the locks were left as they are: they take uv (pip install uv)\n")


if __name__ == "__main__":
    main()
