"""Takes the pictures of the report in docs/evaluating.md: `python docs/site/screenshots.py [DEMO]`, needs Chromium.

DEMO is the directory of `make demo`, by default demo/. The pictures are of the agent in it, so they change with it.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from PIL import Image

import triage_cli

ROOT = pathlib.Path(__file__).resolve().parents[2]
ASSETS = ROOT / "docs" / "assets"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
HEADLESS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
SIZES = {"report-desktop": (1280, 1060), "report-phone": (360, 1060)}
COLOURS = 96  # of a picture, so that it stays small


def main(demo: pathlib.Path) -> int:
    """Writes the pictures; returns the exit code."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None or not (demo / "job").is_dir():
        missing = "a browser: install chromium" if browser is None else f"{demo}/job: run make demo first"
        sys.stderr.write(f"no pictures, there is not {missing}\n")
        return 1
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        given = ["--job-dir", demo / "job", "--data", demo / "data", "--html", folder / "report.html"]
        code = triage_cli.main(["evaluate", *map(str, given), "--json", os.devnull])
        for name, size in SIZES.items() if code == 0 else ():
            _take(browser, folder, *size).quantize(COLOURS, Image.Quantize.MAXCOVERAGE).save(
                ASSETS / f"{name}.png", optimize=True
            )
    return code


def _take(browser: str, folder: pathlib.Path, width: int, height: int) -> Image.Image:
    """Returns the top of `folder`/report.html as a window of this size shows it."""
    # A window has a least width; a frame in it has not.
    frame = f'<body style="margin:0"><iframe src="report.html" width="{width}" height="{height}" style="border:0">'
    (folder / "frame.html").write_text(f"<!doctype html>{frame}</iframe></body>")
    picture = folder / "picture.png"
    window = [f"--window-size={max(width, 600)},{height}", f"--screenshot={picture}", str(folder / "frame.html")]
    subprocess.run([browser, *HEADLESS, *window], check=True, capture_output=True)  # noqa: S603
    with Image.open(picture) as whole:
        return whole.convert("RGB").crop((0, 0, width, height))


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "demo")))
