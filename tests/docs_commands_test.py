"""Commands of the pages, run as they are written, each page in the folder of one who has come as far as exporting."""

import json
import pathlib
import shutil
import subprocess

import pytest

import triage_cli
from tests.builders import served
from tests.docs_test import COMMANDS, ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

RUN = {"ask", "evaluate", "export", "health", "knowledge", "prepare", "score",
       "simulate", "stats", "tflite"}  # fmt: skip
"""Commands that end by themselves, in seconds."""
FEWER = {"simulate": ["--vignettes", "400"]}
"""What makes them so short, after the words of the page."""
NOT_HERE = ("$", "gs://", "/nfs", "--beam-options", "release_", "wide.csv", "my-knowledge", "own-job",
            "--promise", "feedback", "--interactive", "children", "secrets/", "ca.pem", "ddxplus",
            "tokens", "labelled.jsonl")  # fmt: skip
"""What needs a cloud, a file that a reader brings, or somebody who answers."""
SMALL = ["--environments", "8", "--networks", "2", "--hidden-sizes", "8", "--batch-size", "8",
         "--memory-capacity", "100", "--burn-in-steps", "20", "--steps", "60", "--checkpoint-interval", "60",
         "--evaluation-interval", "0"]  # fmt: skip
PAGES: dict[str, list[list[str]]] = {}
for _page, _words in COMMANDS:
    if _words[0] in RUN and not any(text in word for text in NOT_HERE for word in _words):
        PAGES.setdefault(_page, []).append(_words)


def run(*words):
    """Runs a command."""
    assert triage_cli.main([str(word) for word in words]) == 0, words


@pytest.fixture(scope="module")
def address(home):
    """Where the model of `home` is served."""
    with served(home / "models") as server:
        yield server.address


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with data, job, models and stored cases, under the names that the pages use."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        run("simulate", "--vignettes", 400, "--test-fraction", 0.5, "--out", "data")
        run("train", "--data", "data", "--job-dir", "job", *SMALL)
        run("export", "--job-dir", "job", "--model-base-path", "models", "--data", "data")
        shutil.copytree(ROOT / "examples", "examples", ignore=shutil.ignore_patterns("mobile"))
        shutil.copytree("examples", ".", dirs_exist_ok=True)
        codes = [line.split(",")[0] for line in pathlib.Path("data/vocabulary.csv").read_text().splitlines()[1:]]
        key = ["openssl", "genpkey", "-algorithm", "ed25519", "-out", "private.pem"]
        subprocess.run(key, check=True, capture_output=True)
        pathlib.Path("cases").mkdir()
        cases = [{"vignette_id": code, "present": [code]} for code in codes[:150]]
        pathlib.Path("cases/a.jsonl").write_text("".join(f"{json.dumps(case)}\n" for case in cases))
    return home


def test_most_commands_that_end_by_themselves_run_here():
    assert {words[0] for commands in PAGES.values() for words in commands} == RUN
    assert sum(map(len, PAGES.values())) >= 30


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run_one_after_the_other(home, address, tmp_path, monkeypatch, page):
    shutil.copytree(home, tmp_path / "home")
    monkeypatch.chdir(tmp_path / "home")
    for words in PAGES[page]:
        if words[0] in ("prepare", "simulate"):  # its reader has no data yet
            shutil.rmtree(words[words.index("--out") + 1], ignore_errors=True)
        run(*words, *(["--server", address] if words[0] in ("ask", "health") else FEWER.get(words[0], [])))
