"""The Kubeflow pipeline: prepare -> split, train and evaluate each fold with each seed -> train -> gate -> push.

Each component runs commands of this package, so that every step can be run by hand. KFP extracts the source of a
component's function from this file, so each imports what it needs. A parameter of such a function is an input or output
of the component, and one of the pipeline a field of the form that starts a run: KFP types, shows and caches them one by
one, so they are not grouped. Needs kfp (extra `kubeflow`); only `trainer.commands.kubeflow` imports this module.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from kfp import dsl, kubernetes

NAME = "dyqn-triage"
MOUNT = "/mnt/triage"
"""Where tasks on a cluster find the volume with the vignettes and the model base path."""


class Cluster(NamedTuple):
    """Where the tasks run."""

    image: str  # with this package and its extra `kubeflow`
    claim: str  # PersistentVolumeClaim, mounted at MOUNT; "" mounts none


def triage(arguments: list, accepted: tuple = (0,)) -> int:
    """Runs a command of this package, whose output goes to the task's log; returns its exit code, one of `accepted`."""
    import subprocess
    import sys

    command = [sys.executable, "-m", "triage_cli", *(str(argument) for argument in arguments)]
    code = subprocess.run(command, check=False).returncode  # noqa: S603
    if code not in accepted:
        raise RuntimeError(f"triage {arguments[0]} ended with exit code {code}; the lines above say why")
    return code


def prepare(
    vignettes: str,
    vocabulary: str,
    vignette_format: str,
    test_fraction: float,
    seed: int,
    data: dsl.Output[dsl.Dataset],
) -> None:
    """Turns a file of vignettes into a data directory."""
    import json
    import pathlib

    arguments = ["prepare", "--format", vignette_format, "--vignettes", vignettes, "--out", data.path]
    arguments += ["--vocabulary", vocabulary] if vocabulary else []
    triage([*arguments, "--test-fraction", test_fraction, "--seed", seed])
    stats = json.loads((pathlib.Path(data.path) / "stats.json").read_text(encoding="utf-8"))
    data.metadata["data_fingerprint"] = stats["data_fingerprint"]
    data.metadata["vocabulary_fingerprint"] = stats["vocabulary_fingerprint"]


def plan(folds: int, seeds: list) -> list:
    """Returns the runs of the cross-validation: every fold with every seed."""
    if folds < 2 or not seeds:
        raise ValueError(f"folds must be at least 2 and seeds not empty, not {folds} and {seeds}")
    return [{"fold": fold, "seed": int(seed)} for fold in range(folds) for seed in seeds]


def split(data: dsl.Input[dsl.Dataset], folds: int, fold: int, seed: int, part: dsl.Output[dsl.Dataset]) -> None:
    """Divides the training split into one fold to test on, and the others to train on."""
    triage(["fold", "--data", data.path, "--out", part.path, "--folds", folds, "--fold", fold, "--seed", seed])
    part.metadata["fold"] = fold


def train(data: dsl.Input[dsl.Dataset], steps: int, seed: int, settings: str, agent: dsl.Output[dsl.Model]) -> None:
    """Trains an agent; `settings` is a JSON configuration as `triage train --config` reads it."""
    import pathlib
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        config = pathlib.Path(scratch) / "config.json"
        config.write_text(settings, encoding="utf-8")
        triage(["train", "--data", data.path, "--job-dir", agent.path, "--config", config, "--steps", steps,
                "--seed", seed])  # fmt: skip
    agent.metadata["seed"] = seed


def evaluate(
    data: dsl.Input[dsl.Dataset], agent: dsl.Input[dsl.Model], fold: int, seed: int, orders: int,
    metrics: dsl.Output[dsl.Metrics],
) -> dict:  # fmt: skip
    """Measures an agent on the test split of its data directory."""
    import json
    import pathlib
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        report = pathlib.Path(scratch) / "report.json"
        triage(["evaluate", "--job-dir", agent.path, "--data", data.path, "--orders", orders, "--json", report])
        estimates = json.loads(report.read_text(encoding="utf-8"))["agent"]
    means = {name: estimate["mean"] for name, estimate in estimates.items()}
    for name, mean in means.items():
        metrics.log_metric(name, mean)
    return {"fold": fold, "seed": seed, **means}


def summarise(results: list, metrics: dsl.Output[dsl.Metrics]) -> dict:
    """Returns mean and standard deviation of each metric over all folds and seeds."""
    import statistics

    summary = {}
    for name in sorted(set(results[0]) - {"fold", "seed"}):
        values = [result[name] for result in results]
        summary[name] = statistics.fmean(values)
        summary[f"{name}_sd"] = statistics.stdev(values) if len(values) > 1 else 0.0
    for name, value in summary.items():
        metrics.log_metric(name, value)
    return summary


def gate(
    data: dsl.Input[dsl.Dataset], agent: dsl.Input[dsl.Model], summary: dict, push_to: str, margin: float,
    minimum_safety: float, orders: int, cases: str, allow_small_test: bool, model: dsl.Output[dsl.Model],
    metrics: dsl.Output[dsl.Metrics],
) -> str:  # fmt: skip
    """Exports the agent as a version marked BLESSED or NOT_BLESSED, and returns which.

    It is blessed where it is not less safe than the version that is served from `push_to`, the mean safety of the
    cross-validation is at least `minimum_safety`, and it sends no emergency among the textbook cases in the file
    `cases` ("" for none) later than that version.
    """
    import json
    import pathlib
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        report = pathlib.Path(scratch) / "report.json"
        rejected = 3
        triage(
            ["export", "--job-dir", agent.path, "--model-base-path", model.path, "--compare-with", push_to, "--data",
             data.path, "--margin", margin, "--orders", orders, "--json", report,
             *(["--cases", cases] if cases else []), *(["--allow-small-test"] if allow_small_test else [])],
            accepted=(0, rejected),
        )  # fmt: skip
        exported = json.loads(report.read_text(encoding="utf-8"))
    folder = pathlib.Path(exported["path"])
    if summary["safety"] < minimum_safety and (folder / "BLESSED").exists():
        print(f"mean safety over folds and seeds is {summary['safety']:.3f}, below {minimum_safety}")  # noqa: T201
        (folder / "BLESSED").rename(folder / "NOT_BLESSED")
    verdict = "BLESSED" if (folder / "BLESSED").exists() else "NOT_BLESSED"
    model.metadata["version"], model.metadata["verdict"] = folder.name, verdict
    for name, estimate in exported["metrics"]["metrics"].items():
        metrics.log_metric(name, estimate["mean"])
    return verdict


def push(model: dsl.Input[dsl.Model], verdict: str, push_to: str) -> str:
    """Copies a blessed version to where it is served from, and returns its folder; any other stays where it is, and "".

    It looks at the verdict itself, as TFX's Pusher does, so that a run shows that nothing was pushed, and why.
    """
    import pathlib

    [folder] = [path for path in pathlib.Path(model.path).iterdir() if path.name.isdecimal()]
    if verdict != "BLESSED":
        print(f"version {folder.name} is {verdict}: not pushed")  # noqa: T201
        return ""
    triage(["push", "--version-dir", folder, "--to", push_to])
    return str(pathlib.Path(push_to) / folder.name)


def build(cluster: Cluster) -> Any:
    """Returns the pipeline, a KFP graph component."""
    part = _components(cluster)

    @dsl.pipeline(name="cross-validate")
    def cross_validate(
        data: dsl.Input[dsl.Dataset], runs: list, folds: int, steps: int, settings: str, orders: int
    ) -> list[dict]:
        with dsl.ParallelFor(runs, name="folds-and-seeds") as run:
            # The division is the same for all seeds: their spread is that of training alone.
            fold = part["split"](data=data, folds=folds, fold=run.fold, seed=0)
            trained = part["train"](data=fold.outputs["part"], steps=steps, seed=run.seed, settings=settings)
            measured = part["evaluate"](
                data=fold.outputs["part"], agent=trained.outputs["agent"], fold=run.fold, seed=run.seed, orders=orders
            )
        return dsl.Collected(measured.outputs["Output"])

    @dsl.pipeline(
        name=NAME, description="Cross-validates a triage agent, trains one on all, and pushes it if it is safe."
    )
    def pipeline(
        vignettes: str = f"{MOUNT}/vignettes.jsonl",
        vocabulary: str = f"{MOUNT}/vocabulary.csv",
        push_to: str = f"{MOUNT}/models",
        vignette_format: str = "jsonl",
        test_fraction: float = 0.1,
        folds: int = 3,
        seeds: list = [0, 1, 2],  # noqa: B006
        steps: int = 0,
        settings: str = "{}",
        orders: int = 10,
        margin: float = 0.02,
        minimum_safety: float = 0.0,
        cases: str = "",
        allow_small_test: bool = False,
    ) -> None:
        prepared = part["prepare"](
            vignettes=vignettes,
            vocabulary=vocabulary,
            vignette_format=vignette_format,
            test_fraction=test_fraction,
            seed=0,
        )
        data = prepared.outputs["data"]
        runs = part["plan"](folds=folds, seeds=seeds)
        validated = cross_validate(
            data=data, runs=runs.output, folds=folds, steps=steps, settings=settings, orders=orders
        )
        summary = part["summarise"](results=validated.output)
        candidate = part["train"](data=data, steps=steps, seed=0, settings=settings).set_display_name("train-on-all")
        gated = part["gate"](
            data=data, agent=candidate.outputs["agent"], summary=summary.outputs["Output"], push_to=push_to,
            margin=margin, minimum_safety=minimum_safety, orders=orders, cases=cases, allow_small_test=allow_small_test,
        )  # fmt: skip
        part["push"](model=gated.outputs["model"], verdict=gated.outputs["Output"], push_to=push_to)

    return pipeline


def _components(cluster: Cluster) -> dict[str, Callable[..., Any]]:
    """Returns what makes a task of each component, by name."""
    outside = (prepare, gate, push)  # what reads or writes the volume; a cached task would not
    made: dict[str, Callable[..., Any]] = {}
    for function in (prepare, plan, split, train, evaluate, summarise, gate, push):
        component = dsl.component(base_image=cluster.image, install_kfp_package=False, additional_funcs=[triage])(
            function
        )

        def task(component: Any = component, mounted: bool = function in outside, **inputs: Any) -> Any:
            made_task = component(**inputs)
            if mounted:
                made_task.set_caching_options(False)
                if cluster.claim:
                    kubernetes.mount_pvc(made_task, pvc_name=cluster.claim, mount_path=MOUNT)
            if component.name == "train":
                made_task.set_cpu_request("2").set_memory_request("2Gi").set_memory_limit("4Gi").set_retry(2)
            return made_task

        made[function.__name__] = task
    return made
