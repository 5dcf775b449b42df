"""What `make docs` adds to the pages: the reference, written from the code and its tables; and what it refuses.

MkDocs calls the functions whose names begin with `on_`; mkdocs.yml names this file.
"""

import contextlib
import io
import os
import pathlib
import re
from collections.abc import Iterator
from typing import Any
from unittest import mock

import triage_cli
from schemas import danger_signs
from trainer.simulation.knowledge_base import KnowledgeBase

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMANDS_PAGE = "reference/commands.md"
DANGER_SIGNS_PAGE = "reference/danger-signs.md"
PYTHON_PAGE = "reference/python/{}.md"
CLIENT = "triage_client"
LOADED = re.compile(
    r"""<(?:script|img|iframe|source|audio|video|embed)\b[^>]*\bsrc=["']?(?:https?:)?//"""
    r"""|<link\b(?![^>]*rel=["']?(?:canonical|next|prev))[^>]*\bhref=["']?(?:https?:)?//"""
    r"""|url\(["']?(?:https?:)?//|@import\s+["'](?:https?:)?//""",
    re.IGNORECASE,
)
"""What makes a browser fetch something from another machine when it opens a page."""


def on_config(config: Any) -> Any:
    """Puts the pages of the packages into the navigation, in place of PYTHON."""
    [reference] = (section["Reference"] for section in config["nav"] if "Reference" in section)
    [python] = (entry for entry in reference if isinstance(entry, dict))
    python["Python"] = list(python_pages())
    return config


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages of the reference."""
    from mkdocs.structure.files import File

    pages = {COMMANDS_PAGE: commands_page(), DANGER_SIGNS_PAGE: danger_signs_page(), **python_pages()}
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_post_build(config: Any) -> None:
    """Refuses a site whose pages load anything from elsewhere."""
    from mkdocs.exceptions import PluginError

    loaded = list(loads_from_elsewhere(pathlib.Path(config["site_dir"])))
    if loaded:
        raise PluginError("pages must load nothing from other machines:\n" + "\n".join(loaded))


def commands_page() -> str:
    """Returns the page of all commands, with their `--help`."""
    sections = ["# Commands\n\nThe output of `--help`, taken from the code.\n", f"```text\n{help_text([])}```\n"]
    sections += [f"## triage {name}\n\n```text\n{help_text([name])}```\n" for name in triage_cli.COMMANDS]
    return "\n".join(sections)


def danger_signs_page() -> str:
    """Returns the packaged table of danger signs, with names in place of codes; a line is a group."""
    vocabulary = KnowledgeBase.load().catalogue.vocabulary
    signs = danger_signs.load(ROOT / "schemas" / "rules" / "danger_signs.toml", vocabulary)

    def row(code: str, *groups: tuple[str, ...]) -> str:
        named = ("; ".join(vocabulary[vocabulary.index(sign)].name for sign in group) for group in groups)
        return f"| {vocabulary[vocabulary.index(code)].name} | {'<br>'.join(named)} |"

    parts = ["# Danger signs\n\nThe table of `schemas/rules/danger_signs.toml`. No clinician reviewed it.\n"]
    parts += ["| Complaint | Asked about, a group a line |\n| --- | --- |"]
    parts += [row(code, *groups) for code, groups in signs.groups.items()]
    parts += ["\n| Patient | Not asked about |\n| --- | --- |"]
    parts += [row(code, codes) for code, codes in signs.not_asked.items()]
    return "\n".join(parts) + "\n"


def help_text(words: list[str]) -> str:
    """Returns what `triage WORDS --help` prints on a terminal of 100 columns."""
    shown = io.StringIO()
    with (
        mock.patch.dict(os.environ, {"COLUMNS": "100"}),
        contextlib.redirect_stdout(shown),
        contextlib.suppress(SystemExit),
    ):
        triage_cli.main([*words, "--help"])
    return shown.getvalue()


def python_pages() -> dict[str, str]:
    """Returns a page for each package, by its path."""
    packages = [
        CLIENT,
        *(
            f"{top}.{path.parent.name}" if path.parent.name != top else top
            for top in ("schemas", "triage_runtime", "trainer", "serving", "dyqn_triage")
            for path in sorted([ROOT / top / "__init__.py", *(ROOT / top).glob("*/__init__.py")])
        ),
    ]
    return {PYTHON_PAGE.format(package): python_page(package) for package in packages}


def python_page(package: str) -> str:
    """Returns the page of a package: its docstring, then each of its modules."""
    folder = ROOT / ("clients/python" if package == CLIENT else "") / package.replace(".", "/")
    modules = sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__")
    parts = [f"# {package}\n\n::: {package}\n    options:\n      show_root_heading: false\n      members: []\n"]
    parts += [f"## {module}\n\n::: {package}.{module}\n" for module in modules]
    return "\n".join(parts)


def loads_from_elsewhere(site: pathlib.Path) -> Iterator[str]:
    """Yields each place at which a page or a style sheet of the site loads something from another machine."""
    for path in sorted(site.rglob("*")):
        if path.suffix in (".html", ".css"):
            for match in LOADED.finditer(path.read_text(encoding="utf-8")):
                yield f"{path.relative_to(site)}: {match.group()}"
