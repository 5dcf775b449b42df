"""Commands of the pages, run as they are written, each page in the folder of one who has come as far as exporting."""

import json
import pathlib
import shutil

import pytest

import triage_cli
from tests.builders import served
from tests.docs_test import COMMANDS, ROOT
from triage_client import TriageClient, evidence_state

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

RUN = {"dossier", "evaluate", "export", "knowledge", "monitor", "prepare", "score", "stats", "tflite"}
"""Commands that end by themselves, in seconds."""
NOT_HERE = ("$", "gs://", "/nfs", "--beam-options", "--track", "advice.csv", "release_", "wide.csv", "my-knowledge",
            "labelled.jsonl", "own-job", "--promise", "private.pem", "rules.toml", "feedback")  # fmt: skip
"""What needs a cloud, or a file that a reader brings."""
SMALL = ["--environments", "8", "--window-episodes", "8", "--networks", "2", "--hidden-sizes", "8", "--batch-size", "8",
         "--memory-capacity", "100", "--burn-in-steps", "20", "--steps", "60", "--checkpoint-interval", "60",
         "--steps-per-call", "30", "--evaluation-interval", "0"]  # fmt: skip
PAGES: dict[str, list[list[str]]] = {}
for _page, _words in COMMANDS:
    if _words[0] in RUN and not any(text in word for text in NOT_HERE for word in _words):
        PAGES.setdefault(_page, []).append(_words)


def run(*words):
    """Runs a command; `triage monitor` may find drift, since the agent has hardly learned."""
    code = triage_cli.main([str(word) for word in words])
    assert code == 0 or (code == 1 and "--fail-on-drift" in words), words


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with data, job, models, stored cases and an audit log, under the names that the pages use."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        run("simulate", "--vignettes", 400, "--test-fraction", 0.5, "--out", "data")
        run("train", "--data", "data", "--job-dir", "job", *SMALL)
        run("export", "--job-dir", "job", "--model-base-path", "models", "--data", "data")
        shutil.copytree(ROOT / "examples", "examples", ignore=shutil.ignore_patterns("mobile"))
        shutil.copytree("examples", ".", dirs_exist_ok=True)
        codes = [line.split(",")[0] for line in pathlib.Path("data/vocabulary.csv").read_text().splitlines()[1:]]
        pathlib.Path("cases").mkdir()
        cases = [{"vignette_id": code, "present": [code]} for code in codes[:150]]
        pathlib.Path("cases/a.jsonl").write_text("".join(f"{json.dumps(case)}\n" for case in cases))
        with (
            served(pathlib.Path("models"), audit_log="audit") as server,
            TriageClient(server.address, timeout_seconds=60.0) as client,
        ):
            client.batch_triage([evidence_state(case["present"], no_more_evidence=True) for case in cases])
    return home


def test_most_commands_that_end_by_themselves_run_here():
    assert {words[0] for commands in PAGES.values() for words in commands} == RUN
    assert sum(map(len, PAGES.values())) >= 25


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run_one_after_the_other(home, tmp_path, monkeypatch, page):
    shutil.copytree(home, tmp_path / "home")
    monkeypatch.chdir(tmp_path / "home")
    for words in PAGES[page]:
        if words[0] == "prepare":  # its reader has no data yet
            shutil.rmtree(words[words.index("--out") + 1], ignore_errors=True)
        run(*words)


def test_the_audit_log_of_a_served_model_is_compared_with_its_reference(home, monkeypatch, capsys):
    monkeypatch.chdir(home)
    assert ["monitor", "--log", "audit", "--model", "models", "--fail-on-drift"] in PAGES["docs/monitoring.md"]
    run("monitor", "--log", "audit", "--model", "models", "--fail-on-drift")
    assert "150 decided cases, 0 answers that ask, 0 from other versions" in capsys.readouterr().out
