"""Writes the BUILD files from the imports of the code: `python bazel/build_files.py [OUT]`, in place by default.

Each module is a library whose dependencies are what it imports, also inside functions; each test file is a test, each
script a binary. A test compares what this writes with what is committed, so that no module, test or .proto file can be
missing from BUILD.
"""

import ast
import contextlib
import dataclasses
import pathlib
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence

ROOT = pathlib.Path(__file__).resolve().parents[1]
CLIENT = "clients/python/triage_client"
CONCEPTS = tuple(
    path.parent.relative_to(ROOT).as_posix()
    for package in ("schemas", "trainer", "serving")
    for path in sorted((ROOT / package).glob("*/__init__.py"))
)
"""The packages inside `schemas`, `trainer` and `serving`; their tests are in folders of the same names."""
PACKAGES = (
    "schemas", "trainer", "serving", *CONCEPTS, "proto/triage", "proto/triage/open_inference", "proto/triage/v1",
    CLIENT, f"{CLIENT}/v1",
)  # fmt: skip
TESTS = (
    "tests", "tests/bazel", "tests/clients", "tests/schemas", "tests/serving", "tests/trainer",
    *(f"tests/{name}" for name in CONCEPTS),
)  # fmt: skip
WHOLE = ("tests", "tests/bazel", "tests/clients")
"""Tests that read the project itself."""
UNIMPORTED = ("benchmarks", "clients", "deploy", "distributions", "docs", "examples")
"""Folders of the root whose files a test reads or runs, but does not import."""
SCRIPTS = (
    "bazel", "benchmarks", "clients/node", "clients/python", "deploy/dataflow", "deploy/serving", "distributions",
    "docs/site", "examples", "examples/mobile", "proto",
)  # fmt: skip
IMPORTED_FROM = ("clients/python", "proto")
"""Folders whose content is imported as if they were the root."""
HEADER = '"""Written by bazel/build_files.py (`make build-files`): change that, not this."""\n'
VISIBILITY = 'package(default_visibility = ["//visibility:public"])\n'
PYTHON = "@rules_python//python:defs.bzl"
PROTOBUF = "@com_google_protobuf//bazel:{}.bzl"
PYTEST = "//bazel:pytest_test.bzl"

# Distributions that are not called what one imports.
DISTRIBUTIONS = {
    "google": "protobuf", "google.api_core": "google_api_core", "google.auth": "google_auth",
    "google.cloud": "google_cloud_aiplatform", "google.rpc": "googleapis_common_protos", "grpc": "grpcio",
    "grpc_health": "grpcio_health_checking", "grpc_reflection": "grpcio_reflection", "grpc_status": "grpcio_status",
    "grpc_tools": "grpcio_tools", "hypertune": "cloudml_hypertune", "markdown_it": "markdown_it_py",
    "opentelemetry": "opentelemetry_api", "opentelemetry.sdk": "opentelemetry_sdk", "proto": "proto_plus",
    "PIL": "pillow", "sklearn": "scikit_learn", "tensorflow_serving": "tensorflow_serving_api", "yaml": "pyyaml",
}  # fmt: skip
# Modules that a file loads by a name that it holds as text.
BY_NAME = {
    # The default of study_worker, which study_tasks imports.
    "trainer.studies.reproduce": ("trainer.studies.tasks",),
    "trainer.bench.contestants": tuple(
        f"trainer.bench.{name}" for name in ("ours", "tf_agents_loop", "sb3_loop", "floor")
    ),
    "trainer.bench.learn": ("trainer.bench.learners", "trainer.bench.sb3_loop"),
    "trainer.dyqn.network": ("tensorflow",),  # Keras's backend
    "examples.demo": ("triage_cli",),
    "tests.proto_test": ("grpc_tools",),
    "tests.serving.console.browser_test": ("playwright",),
    "tests.serving.scoring.job_test": ("gcp_storage_emulator",),
    "bazel.run_pytest": ("pytest_timeout",),
    "clients.node.generate": ("google.rpc",),
    "generate": ("grpc_tools",),  # of the client's, through proto/generate.py
}
STANDARD = sys.stdlib_module_names | {"tomllib"}
"""The standard library's modules; Python 3.10 lacks one that code for later versions imports."""
DATA = (".css", ".csv", ".jinja", ".js", ".json", ".jsonl", ".pbtxt", ".toml")
"""Endings of the files that a package reads."""
RUNNER = "run_pytest.py"
"""The runner of every test."""
COMMANDS = "triage_cli"
"""Loads the modules that its strings name, as do tests, which start programs."""
UNTRACKED = ("**/__pycache__/**", "**/node_modules/**")
"""Folders that are not part of the project."""


@dataclasses.dataclass(frozen=True)
class File:
    """A Python file of the project."""

    path: pathlib.PurePosixPath  # below the root

    @property
    def folder(self) -> str:
        """Its Bazel package, "" for the root."""
        return self.path.parent.as_posix().strip(".")

    @property
    def module(self) -> str:
        """Its name in imports."""
        parts = self.path.with_suffix("").parts[_depth(self.path) :]
        return ".".join(part for part in parts if part != "__init__")

    @property
    def target(self) -> str:
        """The name of its target; that of a package's __init__ is the package's."""
        return self.path.parent.name if self.path.stem == "__init__" else self.path.stem


def files(root: pathlib.Path, folder: str) -> list[File]:
    """Returns the Python files of a folder, by name."""
    paths = (path.relative_to(root).as_posix() for path in (root / folder).glob("*.py"))
    return [File(pathlib.PurePosixPath(path)) for path in sorted(paths)]


def imported(text: str) -> Iterator[str]:
    """Yields the dotted names that a source text imports when it runs, `a.b` too for `from a import b`."""

    def visit(node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            return
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        for child in ast.iter_child_nodes(node):
            yield from visit(child)

    yield from visit(ast.parse(text))


def texts(source: str) -> Iterator[str]:
    """Yields the string literals of a source text."""
    constants = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    yield from (value for value in constants if isinstance(value, str))


def _named(text: str) -> Iterator[str]:
    """Yields possible names of modules in a string: all of it, a program's file, or its imports if it is code."""
    if "." in text or text == COMMANDS:  # any other may be just a word
        yield from (text, text.removesuffix(".py"))
    if "import " in text:
        with contextlib.suppress(SyntaxError):
            yield from imported(textwrap.dedent(text))


class Project:
    """The modules below a root, and their dependencies."""

    def __init__(self, root: pathlib.Path):
        self.root = root
        importable = [file for folder in PACKAGES for file in files(root, folder)] + [File(_path("triage_cli.py"))]
        self._modules: Mapping[str, File] = {file.module: file for file in importable}
        self._ours = {module.split(".")[0] for module in self._modules}
        self._importing = {file for file in importable if file.path.stem == "__init__" and self._imports_its_own(file)}

    def dependencies(self, file: File) -> list[str]:
        """Returns the labels of what a file needs, in buildifier's order.

        Raises:
            LookupError: it imports a module of ours that is not there.
        """
        text = (self.root / file.path).read_text(encoding="utf-8")
        names = {*imported(text), *BY_NAME.get(file.module, ())}
        if file.module == COMMANDS or file.path.parts[0] == "tests":
            names |= {name for value in texts(text) for name in _named(value) if name in self._modules}
        if file.module in self._modules:
            names.add(file.module)  # for its package's __init__
        labels = {label for name in names for label in self._labels(name, file)}
        return sorted(labels, key=_order)

    def _labels(self, name: str, file: File) -> Iterator[str]:
        parts = name.split(".")
        if parts[0] not in self._ours:
            if parts[0] not in STANDARD:
                top = DISTRIBUTIONS.get(parts[0], parts[0])
                yield f"@pip//{DISTRIBUTIONS.get('.'.join(parts[:2]), top)}"
            return
        # A package's __init__ runs before any module in it. What stands behind a module's name is in the module.
        prefixes = [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
        candidates = [self._modules[prefix] for prefix in prefixes if prefix in self._modules]
        if not candidates:
            raise LookupError(f"{file.path}: imports {name}, which is no module here")
        needed = (module for module in candidates if module != file and not self._would_be_a_circle(module, file))
        yield from (_label(module, file.folder) for module in needed)

    def _would_be_a_circle(self, module: File, file: File) -> bool:
        """Whether `module` is an __init__ above `file` that imports from its package, and so may need `file` itself."""
        return module in self._importing and file.path.is_relative_to(module.path.parent)

    def _imports_its_own(self, package: File) -> bool:
        names = imported((self.root / package.path).read_text(encoding="utf-8"))
        return any(name.startswith(f"{package.module}.") for name in names)


def _depth(path: pathlib.PurePosixPath) -> int:
    """Returns the number of folders between the root and the folder that `path` is imported from."""
    return max((len(_path(folder).parts) for folder in IMPORTED_FROM if path.is_relative_to(folder)), default=0)


def _path(text: str) -> pathlib.PurePosixPath:
    return pathlib.PurePosixPath(text)


def _order(label: str) -> tuple[bool, bool, str]:
    return (not label.startswith(":"), label.startswith("@"), label.replace(":", "!"))


def _label(file: File, package: str) -> str:
    if file.folder == package:
        return f":{file.target}"
    if file.path.parent.name == file.target:
        return f"//{file.folder}"
    return f"//{file.folder}:{file.target}"


def quoted(*texts: str) -> str:
    """Returns a list of strings as buildifier writes it."""
    if len(texts) == 1:
        return f'["{texts[0]}"]'
    return "\n".join(["[", *(f'        "{text}",' for text in texts), "    ]"])


def rule(kind: str, name: str, **attributes: str | Sequence[str] | None) -> str:
    """Returns a target as buildifier writes it; a text is an expression, a sequence a list of strings."""
    lines = [f"{kind}(", f'    name = "{name}",']
    for key, value in attributes.items():
        if value:
            lines.append(f"    {key} = {value if isinstance(value, str) else quoted(*value)},")
    return "\n".join([*lines, ")"]) + "\n"


_OURS_ALONE = "0"
"""Bazel must not create __init__.py files: one in proto/ would hide the package proto of the Vertex SDK."""
_UNTRACKED = quoted(*UNTRACKED).replace("\n", "\n    ")
FILES = rule("filegroup", "files", srcs=f'glob(\n        ["**"],\n        exclude = {_UNTRACKED},\n    )')


def load(source: str, *names: str) -> str:
    """Returns a load statement."""
    listed = ", ".join(f'"{text}"' for text in (source, *names))
    return f"load({listed})\n"


def package_build(project: Project, folder: str) -> str:
    """Returns the BUILD of a package: a library for each module, and the .proto files if there are any."""
    protos = sorted((project.root / folder).glob("*.proto"))
    loads = [load(PYTHON, "py_library")]
    if protos:
        loads = [load(PROTOBUF.format(name), name) for name in ("proto_library", "py_proto_library")] + loads
    depth = _depth(_path(folder))
    up = "/".join([".."] * (len(_path(folder).parts) - depth))
    data = sorted(
        path.relative_to(project.root / folder).as_posix()
        for path in (project.root / folder).rglob("*")
        if path.suffix in DATA and not _in_package_below(path, project.root / folder)
    )
    targets = [
        rule(
            "py_library",
            file.target,
            srcs=[file.path.name],
            data='[":data"]' if file.path.stem == "__init__" and data else None,
            imports=[up] if depth else None,
            deps=project.dependencies(file),
        )
        for file in files(project.root, folder)
    ]
    targets += [rule("filegroup", "data", srcs=data)] if data else []
    targets += [target for proto in protos for target in _proto(proto)]
    return "\n".join([HEADER, "".join(loads), VISIBILITY, *targets, FILES])


def _in_package_below(path: pathlib.Path, folder: pathlib.Path) -> bool:
    between = path.relative_to(folder).parents[:-1]
    return any((folder / parent / "__init__.py").exists() for parent in between)


def _proto(path: pathlib.Path) -> list[str]:
    prefix = "triage/v1/"
    needed = [
        line.split('"')[1] for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("import ")
    ]
    deps = [f":{name.removeprefix(prefix).removesuffix('.proto')}_proto" for name in needed]
    return [
        rule("proto_library", f"{path.stem}_proto", srcs=[path.name], strip_import_prefix='"/proto"', deps=deps),
        rule("py_proto_library", f"{path.stem}_py_proto", deps=[f":{path.stem}_proto"]),
    ]


def tests_build(project: Project, folder: str) -> str:
    """Returns the BUILD of a folder of tests: a test for each file, and a library of the fixtures that they share.

    Any other file is a program that the fixtures start.
    """
    targets = []
    above = [folder, *(parent.as_posix() for parent in _path(folder).parents)]
    shared = {
        _label(File(_path(f"{parent}/conftest.py")), folder)
        for parent in above
        if (project.root / parent / "conftest.py").exists()
    }
    inside = files(project.root, folder)
    programs = [f":{file.target}" for file in inside if file.target != "conftest" and not file.target.endswith("_test")]
    for file in inside:
        deps = project.dependencies(file)
        if not file.target.endswith("_test"):
            if file.target == "conftest":
                deps = sorted([*programs, *deps], key=_order)
            targets.append(rule("py_library", file.target, testonly="True", srcs=[file.path.name], deps=deps))
        else:
            needed = sorted({*deps, *shared}, key=_order)
            whole = ["//:files"] if folder in WHOLE or _reads_the_project(project.root / file.path) else None
            targets.append(rule("pytest_test", file.target, src=f'"{file.path.name}"', data=whole, deps=needed))
    loads = [load(PYTHON, "py_library")] if (project.root / folder / "conftest.py").exists() else []
    return "\n".join([HEADER, "".join([*loads, load(PYTEST, "pytest_test")]), VISIBILITY, *targets, FILES])


def _reads_the_project(path: pathlib.Path) -> bool:
    """Whether a test reads a folder without modules by a path relative to its own."""
    source = path.read_text(encoding="utf-8")
    return "__file__" in source and any(text.split("/")[0] in UNIMPORTED for text in texts(source))


def scripts_build(project: Project, folder: str) -> str:
    """Returns the BUILD of a folder of programs."""
    targets = [
        rule(
            "py_library" if file.path.name == RUNNER else "py_binary",
            file.target,
            srcs=[file.path.name],
            legacy_create_init=None if file.path.name == RUNNER else _OURS_ALONE,
            deps=project.dependencies(file),
        )
        for file in files(project.root, folder)
    ]
    exports = [f'exports_files(["{RUNNER}"])\n'] if (project.root / folder / RUNNER).exists() else []
    kinds = ["py_binary", "py_library"] if exports else ["py_binary"]
    return "\n".join([HEADER, load(PYTHON, *kinds), VISIBILITY, *exports, *targets, FILES])


def root_build(project: Project) -> str:
    """Returns the BUILD of the root: the console script, whole and without training, and all files, for some tests."""
    cli = File(_path("triage_cli.py"))
    needed = project.dependencies(cli)
    packages = sorted({f"//{folder}:files" for folder in (*PACKAGES, *SCRIPTS, *TESTS)}, key=_order)
    own = sorted(
        path.name
        for path in project.root.iterdir()
        if path.suffix in (".md", ".py", ".toml") or path.name in ("LICENSE", "MANIFEST.in", "Makefile")
    )
    return "\n".join([
        HEADER,
        load(PYTHON, "py_binary", "py_library"),
        VISIBILITY,
        'exports_files(["pyproject.toml"])\n',
        rule("py_library", cli.target, srcs=[cli.path.name], deps=needed),
        rule(
            "py_binary",
            "triage_serving",
            srcs=[cli.path.name],
            legacy_create_init=_OURS_ALONE,
            main=f'"{cli.path.name}"',
            deps=[label for label in needed if not label.startswith("//trainer")],
        ),
        rule(
            "py_binary",
            "triage",
            srcs=[cli.path.name],
            legacy_create_init=_OURS_ALONE,
            main=f'"{cli.path.name}"',
            deps=[f":{cli.target}"],
        ),
        rule("filegroup", "files", srcs=f"glob({quoted('deploy/**', 'docs/**')}) + {quoted(*own, *packages)}"),
    ])  # fmt: skip


def builds(root: pathlib.Path) -> dict[str, str]:
    """Returns the text of each BUILD file, by its path below the root."""
    project = Project(root)
    return {
        "BUILD": root_build(project),
        **{f"{folder}/BUILD": package_build(project, folder) for folder in PACKAGES},
        **{f"{folder}/BUILD": tests_build(project, folder) for folder in TESTS},
        **{f"{folder}/BUILD": scripts_build(project, folder) for folder in SCRIPTS},
    }


def main() -> None:
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    for path, text in builds(ROOT).items():
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        (out / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
