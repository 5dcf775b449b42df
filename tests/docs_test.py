"""What the pages say of the code: commands that exist, files that exist, pictures and reference made from it."""

import ast
import contextlib
import importlib
import io
import pathlib
import re
import runpy
import shlex
import subprocess
import sys

import pytest

import triage_cli
from examples import demo
from schemas import danger_signs, safety_rules
from schemas.triage import DECISION_LABELS
from tests.builders import fired_in
from trainer.simulation.knowledge_base import KnowledgeBase

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("clients/*/README.md"), *ROOT.glob("examples/*.md")]
)
HOOKS = runpy.run_path(str(ROOT / "docs" / "site" / "hooks.py"))
CODE = (
    "schemas",
    "triage_runtime",
    "trainer",
    "serving",
    "dyqn_triage",
    "clients/python",
    "deploy",
    "benchmarks",
    "examples",
    "tests",
    "proto",
    "bazel",
)
OURS = ("schemas", "triage_runtime", "trainer", "serving", "dyqn_triage", "triage", "triage_client")
PATH = re.compile(
    r"\b(?:benchmarks|bazel|clients|deploy|docs|examples|proto|schemas|serving|tests|trainer|triage_runtime)/[\w./-]*\w\.\w+"
)


def _commands(page):
    """Yields the `triage` commands of the code blocks of a page, as words."""
    lines = page.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    fenced = False
    for line in lines:
        if line.strip().startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            match = re.match(r"\s*(?:\$ |[A-Z_]+='[^']*' )*triage ((?:[a-z]+|--[a-z]+)(?: .*)?)$", line)
            if match:
                words = shlex.split(match[1], comments=True)
                yield [word for word in words if word != "&"]


COMMANDS = [(page.relative_to(ROOT).as_posix(), words) for page in PAGES for words in _commands(page)]


def test_the_pages_show_most_commands():
    shown = {words[0] for _, words in COMMANDS}
    assert shown >= {*triage_cli.COMMANDS} - {"fold"}
    assert len(COMMANDS) > 60


@pytest.mark.parametrize(("page", "words"), COMMANDS, ids=[f"{page}: {' '.join(words)}" for page, words in COMMANDS])
def test_every_command_in_the_pages_is_one_that_triage_takes(page, words):
    shown, code = io.StringIO(), 0
    with contextlib.redirect_stderr(shown), contextlib.redirect_stdout(shown):
        try:
            triage_cli.parser(words).parse_args(words)
        except SystemExit as ended:
            code = ended.code
    assert code == 0, f"{page}: triage {' '.join(words)}: {shown.getvalue()}"


def _imports(page):
    """Yields the modules and names of ours that the Python blocks of a page import."""
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in OURS:
                yield from ((node.module, alias.name) for alias in node.names)


def test_every_import_in_the_pages_is_there():
    imports = {(page.name, *each) for page in PAGES for each in _imports(page)}
    assert len(imports) > 5
    missing = [each for each in sorted(imports) if not hasattr(importlib.import_module(each[1]), each[2])]
    assert missing == []


def test_every_file_that_a_page_names_exists():
    missing = [
        f"{page.relative_to(ROOT)}: {path}"
        for page in PAGES
        for path in PATH.findall(page.read_text(encoding="utf-8"))
        if "XX" not in path and not (ROOT / path).exists() and not (page.parent / path).exists()
    ]
    assert missing == []


def test_the_demo_in_the_readme_is_the_demo():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    vocabulary = KnowledgeBase.load().catalogue.vocabulary
    rules, _ = safety_rules.choose(safety_rules.DEFAULT, vocabulary)
    shown = re.findall(r"^    │ (.+?) +│ (\w+) +│ (.+?) +│ [01]\.\d\d │$", text, re.MULTILINE)
    assert [patient for patient, _, _ in shown] == list(demo.PATIENTS)
    by_patient = fired_in(rules, vocabulary, *demo.PATIENTS.values())
    for (patient, decision, why), ids in zip(shown, by_patient, strict=True):
        fired = [rule for rule in rules if rule.rule_id in ids]
        assert why == (", ".join(f"rule {rule.rule_id}" for rule in fired) or "learned"), patient
        assert not fired or decision == DECISION_LABELS[min(rule.urgency for rule in fired)]
    learned_from = round(demo.VIGNETTES * (1 - demo.TEST_FRACTION))
    assert f"learned from {learned_from:,} simulated vignettes" in text


def test_every_page_that_the_code_names_exists():
    named = {
        (path.relative_to(ROOT).as_posix(), page)
        for folder in CODE
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".toml", ".yaml", ".ts", ".proto") and "node_modules" not in path.parts
        for page in re.findall(r"\bdocs/[a-z-]+\.md\b", path.read_text(encoding="utf-8"))
    }
    named -= {each for each in named if each[0].startswith("tests/bazel/")}  # made up there
    assert len(named) > 10
    assert sorted(each for each in named if not (ROOT / each[1]).exists()) == []


def test_the_reading_path_is_ten_files_of_at_most_2500_lines():
    page = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8")
    files = re.findall(r"^\| `([\w/]+\.py)` \|", page, re.MULTILINE)
    assert len(files) == 10
    assert sum(len((ROOT / file).read_text(encoding="utf-8").splitlines()) for file in files) <= 2_500


@pytest.mark.slow
def test_the_picture_of_the_packages_is_that_of_the_imports(tmp_path):
    out = tmp_path / "packages.svg"
    subprocess.run([sys.executable, ROOT / "docs" / "site" / "package_picture.py", out], check=True, timeout=60)
    assert out.read_text() == (ROOT / "docs" / "assets" / "packages.svg").read_text(), "is old: make docs"


def test_the_picture_leaves_out_imports_that_follow_from_others():
    direct = runpy.run_path(str(ROOT / "docs" / "site" / "package_picture.py"))["direct"]
    assert direct({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == {"a": {"b"}, "b": {"c"}, "c": set()}


def test_the_reference_of_commands_has_every_option(capsys):
    page = HOOKS["commands_page"]()
    for name in triage_cli.COMMANDS:
        section = page.split(f"## triage {name}\n")[1].split("\n## ")[0]
        assert f"usage: triage {name} " in section
        assert "--help" in section
    assert "--learning-rate" in page.split("## triage train\n")[1].split("\n## ")[0]
    assert capsys.readouterr().out == ""


def test_the_python_reference_has_every_module():
    text = "\n".join(HOOKS["python_pages"]().values())
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for package in ("schemas", "triage_runtime", "trainer", "serving", "dyqn_triage")
        for path in (ROOT / package).rglob("*.py")
        if path.stem != "__init__"
    }
    assert {module for module in modules if f"::: {module}\n" not in text} == set()
    assert "::: triage_client.client\n" in text


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ('<script src="https://example.org/a.js"></script>', 1),
        ("<link rel=stylesheet href=//example.org/a.css>", 1),
        ('<img alt="a" src="http://example.org/a.png">', 1),
        ("@font-face{src:url(https://example.org/a.woff)}", 1),
        ('<a href="https://example.org/">elsewhere</a><img src="a.png"><link rel="icon" href="a.ico">', 0),
    ],
)
def test_a_page_that_loads_from_another_machine_is_found(tmp_path, text, places):
    (tmp_path / "page.html").write_text(text)
    assert len(list(HOOKS["loads_from_elsewhere"](tmp_path))) == places


def test_the_reference_has_the_danger_signs_of_each_complaint_and_whom_not_to_ask():
    signs = danger_signs.packaged(KnowledgeBase.load().catalogue.vocabulary)
    rows = [line for line in HOOKS["danger_signs_page"]().splitlines() if line.startswith("| ")]
    assert len(rows) == 2 + len(signs.groups) + 2 + len(signs.not_asked)  # each table has a head and a line below it
    assert rows[2].startswith("| Fever | Rash that does not fade under glass; Stiff neck; ")
    assert rows[-1] == "| 30 to 44 years old | Headache with tender scalp |"
