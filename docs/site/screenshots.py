"""Takes the pictures of pages in the documentation: `python docs/site/screenshots.py [DEMO]`, needs Chromium.

DEMO is the directory of `make demo`, by default demo/. The pictures are of the agent in it, so they change with it.
"""

import contextlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from PIL import Image
from playwright import sync_api as playwright

import triage_cli

ROOT = pathlib.Path(__file__).resolve().parents[2]
ASSETS = ROOT / "docs" / "assets"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTHS = {"desktop": 1440, "phone": 390}
REPORT_HEIGHT, CONSOLE_HEIGHT = 1060, 900
ASKED = ("headache", "age_30_to_44", "sex_female", "fever")
DECIDED = ("thunderclap_headache", "age_45_to_59", "sex_male")
"""What two patients have: one who is asked about several red flags at once, one for whom a safety rule decides."""
COLOURS = 96  # of a picture, so that it stays small


def main(demo: pathlib.Path) -> int:
    """Writes the pictures; returns the exit code."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    missing = [str(demo / name) for name in ("job", "data", "models") if not (demo / name).is_dir()]
    if program is None or missing:
        wanted = "a browser: install chromium" if program is None else f"{missing[0]}: run make demo first"
        sys.stderr.write(f"no pictures, there is not {wanted}\n")
        return 1
    with tempfile.TemporaryDirectory() as scratch, playwright.sync_playwright() as driver:
        report = pathlib.Path(scratch) / "report.html"
        given = ["--job-dir", demo / "job", "--data", demo / "data", "--html", report]
        code = triage_cli.main(["evaluate", *map(str, given), "--json", os.devnull])
        if code:
            return code
        browser = driver.chromium.launch(executable_path=program)
        with _console(demo / "models") as url:
            for device, width in WIDTHS.items():
                page = browser.new_page(viewport={"width": width, "height": REPORT_HEIGHT}, color_scheme="light")
                page.goto(report.as_uri())
                _take(page, f"report-{device}")
                page = browser.new_page(viewport={"width": width, "height": CONSOLE_HEIGHT}, color_scheme="light")
                _interview(page, url, ASKED, until=".sign")
                _take(page, f"console-{device}")
                _interview(page, url, DECIDED, until=".final")
                _take(page, f"console-decision-{device}")
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


def _interview(page: Any, url: str, patient: tuple[str, ...], until: str) -> None:
    """Answers whatever is asked for a patient, until a page has what the selector `until` names.

    Args:
        page: the browser's.
        url: of the console.
        patient: the codes that are present, the presenting complaint first. All others are absent.
        until: a selector.
    """
    page.goto(url)
    page.fill("#search", patient[0])
    page.click(f'button[value="add present {patient[0]}"]')
    while not page.query_selector(until):
        for code in patient:
            if sign := page.query_selector(f'[name="says {code}"][value="present"]'):
                sign.check()
        known = [f'[value="answer present {code}"]' for code in patient]
        answers = (*known, '[value^="answer absent"]', '[value^="answer not_known"]')
        answer = next(filter(page.query_selector, answers), None)
        if answer is None:
            raise RuntimeError(f"the interview about {patient[0]} ended without {until}")
        page.click(answer)


def _take(page: Any, name: str) -> None:
    """Writes what the window shows."""
    with Image.open(io.BytesIO(page.screenshot())) as picture:
        small = picture.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE)
        small.save(ASSETS / f"{name}.png", optimize=True)


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "demo")))
