"""BUILD files: what is committed is what the code's imports say."""

import ast
import pathlib
import subprocess
import sys

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "bazel" / "build_files.py"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    out = tmp_path_factory.mktemp("build_files")
    subprocess.run([sys.executable, SCRIPT, out], check=True, timeout=60)
    return {path.relative_to(out).as_posix(): path.read_text() for path in out.rglob("BUILD")}


def test_the_committed_files_are_those_that_the_imports_give(written):
    for path, text in written.items():
        assert (ROOT / path).read_text() == text, f"{path} is old: make build-files"


def test_every_module_test_script_and_proto_is_in_the_build_file_of_its_folder(written):
    tops = ["schemas", "trainer", "serving", "proto", "tests", "benchmarks", "clients", "deploy", "examples", "bazel"]
    tracked = [
        path.relative_to(ROOT)
        for top in tops
        for path in (ROOT / top).rglob("*")
        if path.suffix in (".py", ".proto") and not {"offline", "node_modules"} & {*path.parts}
    ]
    assert len(tracked) > 200
    for path in [*tracked, pathlib.Path("triage_cli.py")]:
        build = (path.parent / "BUILD").as_posix()
        assert f'"{path.name}"' in written[build], f"{path} is in no BUILD file"


def test_imports_become_dependencies_and_nothing_else_does(tmp_path):
    for path, text in {
        "triage_cli.py": 'COMMANDS = {"go": ("trainer.go", "goes")}\n',
        "schemas/__init__.py": "",
        "schemas/a.py": "import json\nimport sklearn.svm\n",
        "trainer/__init__.py": "",
        "trainer/go.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from trainer import late\n"
        "def run():\n    from schemas.a import thing\n    from google.protobuf import json_format\n",
        "trainer/late.py": "import trainer.go\n",
    }.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "bazel").mkdir()
    (tmp_path / "bazel" / "build_files.py").write_text(SCRIPT.read_text())
    out = tmp_path / "out"
    subprocess.run([sys.executable, tmp_path / "bazel" / "build_files.py", out], check=True, timeout=60)
    trainer, schemas, root = ((out / folder / "BUILD").read_text() for folder in ("trainer", "schemas", "."))
    assert (
        'deps = [\n        ":trainer",\n        "//schemas",\n        "//schemas:a",\n        "@pip//protobuf",\n    ]'
        in trainer
    )
    assert (
        'name = "late",\n    srcs = ["late.py"],\n    deps = [\n        ":go",\n        ":trainer",\n    ]' in trainer
    )
    assert 'deps = [\n        ":schemas",\n        "@pip//scikit_learn",\n    ]' in schemas
    assert 'deps = [\n        "//trainer",\n        "//trainer:go",\n    ]' in root


def test_a_package_that_imports_its_own_modules_is_no_circle(tmp_path):
    for path, text in {
        "triage_cli.py": "import schemas.a\n",
        "schemas/__init__.py": "from schemas.a import thing\n",
        "schemas/a.py": "import schemas.b\n",
        "schemas/b.py": "",
        "bazel/build_files.py": SCRIPT.read_text(),
    }.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    subprocess.run([sys.executable, tmp_path / "bazel" / "build_files.py", tmp_path], check=True, timeout=60)
    build = (tmp_path / "schemas" / "BUILD").read_text()
    assert 'name = "schemas",\n    srcs = ["__init__.py"],\n    deps = [":a"],' in build
    assert 'name = "a",\n    srcs = ["a.py"],\n    deps = [":b"],' in build
    assert 'deps = [\n        "//schemas",\n        "//schemas:a",\n    ]' in (tmp_path / "BUILD").read_text()


def test_a_module_that_is_not_there_is_named(tmp_path):
    for folder in ("schemas", "bazel"):
        (tmp_path / folder).mkdir()
    (tmp_path / "triage_cli.py").write_text("")
    (tmp_path / "schemas" / "a.py").write_text("import schemas.gone\n")
    (tmp_path / "bazel" / "build_files.py").write_text(SCRIPT.read_text())
    failed = subprocess.run(
        [sys.executable, tmp_path / "bazel" / "build_files.py", tmp_path], capture_output=True, text=True, timeout=60
    )
    assert failed.returncode != 0
    assert "schemas/a.py: imports schemas.gone, which is no module here" in failed.stderr


def test_the_locked_packages_are_those_that_the_project_asks_for():
    names = {"HYPERTUNE", "VERTEX", "REQUIREMENTS", "BEAM", "DEVELOPMENT", "MOBILE"}
    asked = [
        Requirement(node.value)
        for statement in ast.parse((ROOT / "setup.py").read_text()).body
        if isinstance(statement, ast.Assign) and statement.targets[0].id in names
        for node in ast.walk(statement.value)
        if isinstance(node, ast.Constant)
    ]
    lines = (ROOT / "bazel" / "requirements.txt").read_text().splitlines()
    locked = {canonicalize_name(each.name): each for each in map(Requirement, lines)}
    assert len(asked) > 20
    for requirement in asked:
        [pin] = locked[canonicalize_name(requirement.name)].specifier
        assert pin.operator == "=="
        assert requirement.specifier.contains(pin.version), f"{requirement} is locked at {pin.version}"
