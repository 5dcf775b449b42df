"""The examples of the client's README run as they stand, save for addresses and, on a busy machine, deadlines."""

import pathlib
import re

import pytest

README = (pathlib.Path(__file__).resolve().parents[2] / "clients" / "python" / "README.md").read_text(encoding="utf-8")
EXAMPLES = {
    section.split("\n")[0]: section.split("```python\n")[1].split("```")[0]
    for section in README.split("\n## ")
    if "```python\n" in section and "input(" not in section  # which `loops_test.py` runs
}


def test_the_readme_has_its_examples():
    assert len(EXAMPLES) == README.count("```python") - 1 == 4


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_an_example_runs(example, server, encrypted, certificates, monkeypatch, capsys):
    monkeypatch.chdir(certificates)
    addresses = {"127.0.0.1:8500": server.address, "127.0.0.1:8501": encrypted[1]}
    code = re.sub(r'"(127[.:\d]+)"', lambda match: f'"{addresses[match[1]]}", timeout_seconds=30', example)
    assert code != example
    names = {}
    exec(compile(code, "README.md", "exec"), names)  # noqa: S102
    output = capsys.readouterr().out
    if "TriageAction.Name" in code:
        assert output == "TRIAGE_ACTION_ASK TRIAGE_ACTION_YELLOW\n"
    if "asyncio" in code:
        assert [each.model_version for each in names["responses"]] == ["7", "7"]
    if "fevr" in code:
        assert output == "state.evidence[0].code ('fever',)\n"
    if "TOKEN" in code:
        assert encrypted[0].tokens == ["Bearer TOKEN"]
