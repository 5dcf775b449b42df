"""Builds what a package index takes: `python distributions/release.py [OUT]`, by default `dist/`.

That is a source distribution and a wheel of each project, which twine checks, and RELEASE_NOTES.md, the section of this
version in CHANGELOG.md.
"""

import pathlib
import re
import runpy
import subprocess
import sys
from collections.abc import Sequence

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROJECTS = (".", "distributions/serving", "clients/python")
NOTES = "RELEASE_NOTES.md"
UNRELEASED = "Unreleased"


def notes(changelog: str, version: str) -> str:
    """Returns the section of a version without its heading, or that of what is unreleased as long as it has none.

    Raises:
        LookupError: there is neither.
    """
    sections = re.split(r"^## \[(.+?)\].*\n", changelog, flags=re.MULTILINE)
    texts = dict(zip(sections[1::2], sections[2::2], strict=True))
    for name in (version, UNRELEASED):
        if name in texts:
            return re.sub(r"^\[.+\]: .*\n?", "", texts[name], flags=re.MULTILINE).strip() + "\n"
    raise LookupError(f"CHANGELOG.md has no section {version} or {UNRELEASED}")


def build(out: pathlib.Path, *options: str) -> list[pathlib.Path]:
    """Builds and checks all projects, and writes the notes; returns the files to upload.

    Args:
        out: an empty or missing directory.
        options: of `python -m build`.

    Raises:
        subprocess.CalledProcessError: a project cannot be built, or twine refuses its metadata.
    """
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        raise FileExistsError(f"{out}: not empty: delete it, or name another directory")
    for project in PROJECTS:
        _run("build", *options, "--outdir", str(out), str(ROOT / project))
    files = sorted(out.iterdir())
    _run("twine", "check", "--strict", *map(str, files))
    version = runpy.run_path(str(ROOT / "schemas" / "__init__.py"))["VERSION"]
    (out / NOTES).write_text(notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version), encoding="utf-8")
    return files


def _run(module: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", module, *arguments], check=True)  # noqa: S603


def main(arguments: Sequence[str]) -> None:
    """Builds, and says what to upload."""
    for path in build(pathlib.Path(arguments[0]) if arguments else ROOT / "dist"):
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
