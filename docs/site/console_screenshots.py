"""Takes the pictures in docs/console.md: `python docs/site/console_screenshots.py [DEMO]`, needs Chromium.

DEMO is the directory of `make demo`, by default demo/. The pictures are of the model in it, so they change with it.
"""

import contextlib
import io
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from PIL import Image
from playwright import sync_api as playwright

ROOT = pathlib.Path(__file__).resolve().parents[2]
ASSETS = ROOT / "docs" / "assets"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SIZES = {"console-desktop": (1280, 900), "console-phone": (360, 900)}
COLOURS = 96  # of a picture, so that it stays small


def main(demo: pathlib.Path) -> int:
    """Writes the pictures; returns the exit code."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None or not (demo / "models").is_dir():
        missing = "a browser: install chromium" if program is None else f"{demo}/models: run make demo first"
        sys.stderr.write(f"no pictures, there is not {missing}\n")
        return 1
    with _console(demo / "models") as url, playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program)
        for name, (width, height) in SIZES.items():
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme="light")
            _put_a_case(page, url)
            with Image.open(io.BytesIO(page.screenshot())) as picture:
                small = picture.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE)
                small.save(ASSETS / f"{name}.png", optimize=True)
        browser.close()
    return 0


@contextlib.contextmanager
def _console(models: pathlib.Path) -> Iterator[str]:
    """Runs the console on a free port, and yields its address."""
    command = [sys.executable, "-m", "triage_cli", "console", "--model-base-path", str(models), "--port", "0"]
    with subprocess.Popen([*command, "--no-open"], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        try:
            match = re.search(r"console at (\S+)", "".join(process.stdout.readline() for _ in range(2)))  # type: ignore[union-attr]
            if match is None:
                raise RuntimeError("the console did not start")
            yield match[1]
        finally:
            process.terminate()


def _put_a_case(page: Any, url: str) -> None:
    """Goes from a complaint through two answers."""
    page.goto(url)
    page.fill("#search", "chest hurts")
    page.click('[aria-label="Present: Chest pain"]')
    for answer in ("No", "No"):
        page.click(f"button:text-is('{answer}')")
    page.wait_for_selector("text=Question 3")


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "demo")))
