"""Imports run one way: schemas <- triage_runtime <- trainer and serving <- dyqn_triage, inside each by layers."""

import ast
import functools
import graphlib
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGES = ("schemas", "triage_runtime", "trainer", "serving", "dyqn_triage")
# A package, or a module at the root, imports only from itself and from the lines above its own.
LAYERS = {
    "triage_runtime": (
        ("case",),
        ("storage",),
        ("command_line",),
        ("litert", "promise"),
    ),
    "trainer": (
        ("config",),
        ("data", "presets"),
        ("graph", "simulation"),
        ("dyqn",),
        ("interviews",),
        ("evaluation", "training"),
        ("export", "reports", "study"),
        ("cloud",),
        ("task",),
        ("commands",),
    ),
    "serving": (
        ("call", "errors", "fair_queue", "messages", "process", "tensor_messages"),
        ("security",),
        ("config",),
        ("engine",),
        ("telemetry",),
        ("admission",),
        ("service",),
        ("wires",),
        ("hospital",),
        ("server",),
        ("client", "monitor", "scoring"),
        ("console",),
        ("commands",),
    ),
    "dyqn_triage": (
        ("frames", "keywords"),
        ("data", "model"),
        ("agent",),
        ("classifier",),
    ),
}

# Their `__init__` names what others may use. Elsewhere it is empty, as it would load TensorFlow with all modules.
FACADES = (
    "dyqn_triage",
    "serving.admission",
    "serving.security",
    "serving.telemetry",
    "serving.service",
)

# The functions that take an `argparse.Namespace`. Readers return a dataclass, which all other functions take.
COMMANDS = {"run", "check", "needs_tensorflow", "reads_addresses"}
READERS_OF_OPTIONS = {"read", "from_arguments", "chosen_format", "settings_of"}
STAGING = {"any_remote", "staged", "upload"}  # for every command, before its options are read


@functools.cache
def _nodes(path):
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@functools.cache
def _imports(path):
    names = []
    for node in _nodes(path):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names


def _modules(package):
    return sorted((ROOT / package).rglob("*.py"))


def _dotted(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _roots(path):
    return {name.split(".")[0] for name in _imports(path)}


def import_graph():
    """Returns the modules of ours that each module of ours imports."""
    paths = {_dotted(path): path for package in PACKAGES for path in _modules(package)}
    return {
        name: {imported for imported in _imports(path) if imported in paths} - {name} for name, path in paths.items()
    }


@pytest.mark.parametrize(
    ("package", "others"),
    [
        ("schemas", {"triage_runtime", "trainer", "serving", "triage", "tensorflow", "keras", "tf_agents",
                     "apache_beam", "ai_edge_litert", "argparse", "rich"}),
        ("triage_runtime", {"trainer", "serving", "triage"}),
        ("trainer", {"serving"}),
        ("serving", {"trainer", "keras", "tf_keras", "tf_agents"}),
    ],
)  # fmt: skip
def test_a_package_imports_nothing_of_those_that_it_must_not_know(package, others):
    assert [path.name for path in _modules(package) if _roots(path) & others] == []


def test_imports_run_one_way_from_layer_to_layer():
    graph = import_graph()
    for package, layers in LAYERS.items():
        places = {name: place for place, names in enumerate(layers) for name in names}
        modules = {name: name.split(".")[1] for name in graph if name.startswith(f"{package}.")}
        assert set(modules.values()) == set(places), f"give each part of {package} its place in LAYERS"
        wrong = [
            f"{name} imports {imported}"
            for name, part in modules.items()
            for imported in graph[name] & modules.keys()
            if modules[imported] != part and places[modules[imported]] >= places[part]
        ]
        assert wrong == []


@pytest.mark.parametrize(
    ("room", "others"),
    [
        ("trainer.training", ("trainer.evaluation",)),
        ("trainer.interviews", ("trainer.evaluation", "trainer.training")),
        ("trainer.graph", ("trainer.simulation",)),
        ("trainer.export", ("trainer.reports",)),
        ("trainer.study", ("trainer.reports",)),
        ("serving.service", ("serving.wires", "serving.hospital")),
    ],
)
def test_a_room_imports_nothing_of_those_that_it_must_not_know(room, others):
    wrong = [
        f"{name} imports {imported}"
        for name, imports in import_graph().items()
        if name.startswith(f"{room}.")
        for imported in imports
        if imported.startswith(others)
    ]
    assert wrong == []


def test_only_the_server_hands_in_the_hospital():
    importers = {
        name
        for name, imports in import_graph().items()
        if not name.startswith("serving.hospital") and any(each.startswith("serving.hospital") for each in imports)
    }
    assert importers == {"serving.server.triage_server"}


def test_what_examples_and_benchmarks_import_of_ours_is_there():
    """Of packages mypy says it, and tests are imported to be run."""
    there = import_graph().keys()
    facades = {
        _dotted(path): path.read_text(encoding="utf-8")
        for top in PACKAGES
        for path in (ROOT / top).rglob("__init__.py")
    }
    missing = [
        f"{path.relative_to(ROOT)}: {node.module}.{alias.name}"
        for top in ("examples", "benchmarks")
        for path in _modules(top)
        for node in _nodes(path)
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in PACKAGES
        for alias in node.names
        if f"{node.module}.{alias.name}" not in there
        and (node.module not in there or alias.name not in facades.get(node.module, alias.name))
    ]
    assert missing == []


def test_packages_with_a_facade_are_imported_through_it():
    wrong = [
        f"{name} imports {imported}"
        for name, imports in import_graph().items()
        for imported in imports
        for facade in FACADES
        if imported.startswith(f"{facade}.") and not name.startswith(facade)
    ]
    assert wrong == []


def test_only_facades_import_their_modules():
    facades = {
        _dotted(path)
        for package in PACKAGES
        for path in _modules(package)
        if path.stem == "__init__" and any(name.split(".")[0] in PACKAGES for name in _imports(path))
    }
    assert facades == set(FACADES)


def test_no_module_imports_itself_by_way_of_others():
    parents = set(PACKAGES)  # `import trainer` stands in each of its modules' imports
    graph = {name: imported - parents for name, imported in import_graph().items() if name not in parents}
    assert list(graphlib.TopologicalSorter(graph).static_order())  # raises CycleError, which names the modules


def test_parsed_arguments_become_dataclasses_where_a_command_starts():
    takers = {
        function.name
        for package in PACKAGES
        for path in _modules(package)
        for function in _nodes(path)
        if isinstance(function, ast.FunctionDef)
        and any(each.annotation and "Namespace" in ast.unparse(each.annotation) for each in function.args.args)
    }
    assert takers == COMMANDS | READERS_OF_OPTIONS | STAGING


def test_packages_are_flat():
    modules = [_dotted(path) for package in PACKAGES for path in _modules(package) if path.stem != "__init__"]
    assert max(name.count(".") for name in modules) == 2, "packages inside packages lie too deep"


def test_every_package_has_tests_of_its_own():
    folders = {path.parent for package in PACKAGES for path in _modules(package) if path.stem != "__init__"}
    tests = {path.parent for path in (ROOT / "tests").rglob("*_test.py")}
    assert [folder for folder in folders if ROOT / "tests" / folder.relative_to(ROOT) not in tests] == []
