"""BUILD files: what is committed is what the code's imports say."""

import ast
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "bazel" / "build_files.py"
# Other workspaces, as .bazelignore has them, and what npm, the README's commands and the package's build make.
IGNORED = {"build", "data", "demo", "dist", "job", "models", "node_modules", "offline"}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    out = tmp_path_factory.mktemp("build_files")
    subprocess.run([sys.executable, SCRIPT, out], check=True, timeout=60)
    return {path.relative_to(out).as_posix(): path.read_text() for path in out.rglob("BUILD")}


def test_the_committed_files_are_those_that_the_imports_give(written):
    for path, text in written.items():
        assert (ROOT / path).read_text() == text, f"{path} is old: make build-files"


def test_every_module_test_script_and_proto_is_in_the_build_file_of_its_folder(written):
    tops = [path for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith((".", "bazel-"))]
    tracked = [
        path.relative_to(ROOT)
        for top in tops
        if not (top / "pyvenv.cfg").exists()
        for path in top.rglob("*")
        if path.suffix in (".py", ".proto") and not path.is_symlink() and not IGNORED & {*path.relative_to(ROOT).parts}
    ]
    assert len(tracked) > 200
    for path in [*tracked, pathlib.Path("triage_cli.py")]:
        build = (path.parent / "BUILD").as_posix()
        assert f'"{path.name}"' in written.get(build, ""), f"{path} is in no BUILD file"


def test_every_file_that_a_package_reads_is_in_its_data(written):
    code = {".py", ".pyi", ".proto", ".typed", ".pyc"}
    read = [
        path.relative_to(ROOT)
        for top in ("schemas", "serving", "trainer")
        for path in (ROOT / top).rglob("*")
        if path.is_file() and path.suffix not in code and path.name != "BUILD"
    ]
    assert len(read) > 20
    for path in read:
        package = next(folder for folder in path.parents if f"{folder.as_posix()}/BUILD" in written)
        data = written[f"{package.as_posix()}/BUILD"].partition('    name = "data",\n')[2].partition(")")[0]
        assert f'"{path.relative_to(package).as_posix()}"' in data, f"{path} is in no data"


def test_every_package_that_is_asked_for_is_among_the_locked(written):
    lines = (ROOT / "bazel" / "requirements.txt").read_text().splitlines()
    locked = {canonicalize_name(Requirement(line).name) for line in lines}
    asked = {(name, path) for path, text in written.items() for name in re.findall(r'"@pip//(\w+)"', text)}
    assert len(asked) > 100
    assert {(name, path) for name, path in asked if canonicalize_name(name) not in locked} == set()


def test_nothing_that_is_run_gets_an_init_that_would_hide_another_package(written):
    binaries = [part for text in written.values() for part in text.split("\n\n") if part.startswith("py_binary(")]
    assert len(binaries) > 10
    assert [binary for binary in binaries if "legacy_create_init = 0," not in binary] == []
    assert "legacy_create_init = 0," in (ROOT / "bazel" / "pytest_test.bzl").read_text()


def test_the_files_are_in_the_format_of_buildifier(written, tmp_path):
    buildifier = shutil.which("buildifier")
    if not buildifier:
        pytest.skip("needs the program buildifier (npm: @bazel/buildifier)")
    for name in ("MODULE.bazel", "WORKSPACE", "bazel/pytest_test.bzl", "bazel/offline/pip.bzl"):
        written[name] = (ROOT / name).read_text()
    for path, text in written.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    checked = subprocess.run(
        [buildifier, "-mode=check", *written], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_what_a_test_starts_or_reads_is_among_what_it_needs(tmp_path):
    for path, text in {
        "triage_cli.py": "",
        "trainer/task.py": "",
        "schemas/a.py": "",
        "docs/walk.md": "",
        "tests/starts_test.py": 'COMMAND = ["-m", "trainer.task", "triage_cli.py", "schemas"]\n',
        "tests/schemas/reads_test.py": 'import pathlib\nTEXT = pathlib.Path(__file__).parents[2] / "docs/walk.md"\n',
        "tests/schemas/runs_test.py": 'CODE = "import sys, schemas.a"\nDOCS = "docs"\n',
        "bazel/build_files.py": SCRIPT.read_text(),
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    subprocess.run([sys.executable, tmp_path / "bazel" / "build_files.py", tmp_path], check=True, timeout=60)
    starts, below = ((tmp_path / folder / "BUILD").read_text() for folder in ("tests", "tests/schemas"))
    assert 'deps = [\n        "//:triage_cli",\n        "//trainer:task",\n    ],' in starts
    assert 'src = "reads_test.py",\n    data = ["//:files"],\n)' in below
    assert 'src = "runs_test.py",\n    deps = ["//schemas:a"],\n)' in below


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


def test_a_module_that_does_not_exist_is_named(tmp_path):
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
    # All lists but that of SB3, which wants an environment of its own, and that of packages.
    names_of_others = {"SB3", "PACKAGES_OF_TRAINER"}
    asked = [
        Requirement(node.value)
        for statement in ast.parse((ROOT / "setup.py").read_text()).body
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.List)
        if statement.targets[0].id not in names_of_others
        for node in ast.walk(statement.value)
        if isinstance(node, ast.Constant)
    ]
    lines = (ROOT / "bazel" / "requirements.txt").read_text().splitlines()
    locked = {canonicalize_name(each.name): each for each in map(Requirement, lines)}
    assert {"kfp", "opentelemetry-api", "tensorflow", "pytest"} <= {requirement.name for requirement in asked}
    for requirement in asked:
        [pin] = locked[canonicalize_name(requirement.name)].specifier
        assert pin.operator == "=="
        if requirement.marker and not requirement.marker.evaluate({"python_version": "3.11"}):
            continue  # the lock is of Python 3.11
        assert requirement.specifier.contains(pin.version), f"{requirement} is locked at {pin.version}"
