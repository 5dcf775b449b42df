"""The examples of the pages on clients run as they stand, save for addresses and, on a busy machine, deadlines."""

import json
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ("clients/python/README.md", "docs/clients.md")


def blocks(language):
    """The code of the pages by where it stands; whole interviews are in `loops_test.py`."""
    return {
        f"{page} {place}": block
        for page in PAGES
        for place, block in enumerate(
            re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
        )
        if ".interview(" not in block
    }


PYTHON, CURL = blocks("python"), {place: block for place, block in blocks("sh").items() if block.startswith("curl")}


def test_the_pages_have_their_examples():
    assert (len(PYTHON), len(CURL)) == (5, 1)


@pytest.mark.parametrize("example", PYTHON.values(), ids=PYTHON)
def test_an_example_runs(example, server, encrypted, certificates, monkeypatch, capsys):
    monkeypatch.chdir(certificates)
    addresses = {"127.0.0.1:8500": server.address, "127.0.0.1:8501": encrypted[1]}
    code = example.replace(", timeout_seconds=2.0", "")
    code = re.sub(r'"(127[.:\d]+)"', lambda match: f'"{addresses[match[1]]}", timeout_seconds=30', code)
    names = {}
    exec(compile(code, "page.md", "exec"), names)  # noqa: S102
    output = capsys.readouterr().out
    if "TriageAction.Name" in code:
        assert output.endswith("TRIAGE_ACTION_YELLOW\n")
    if "asyncio" in code:
        assert [each.model_version for each in names["responses"]] == ["7", "7"]
    if "fevr" in code:
        assert output == "state.evidence[0].code ('fever',)\n"
    if "TOKEN" in code:
        assert encrypted[0].tokens == ["Bearer TOKEN"]


@pytest.mark.parametrize("example", CURL.values(), ids=CURL)
def test_a_request_of_curl_is_answered(example, server):
    code = example.replace("http://127.0.0.1:8501", server.http.url)
    ran = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(ran.stdout)["best_triage"] == "Red"
