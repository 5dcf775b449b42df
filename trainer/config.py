"""Every hyper-parameter: frozen dataclasses that are the configuration file and the command line of `triage train`.

A field's metadata holds the text of its `--help`; a field's name is its flag.
"""

import argparse
import dataclasses
import difflib
import json
import math
import pathlib
import typing
from collections.abc import Mapping
from typing import Any

from schemas import locations
from schemas.errors import InputError
from schemas.triage import MAX_QUESTIONS


def _field(default: Any, text: str, choices: tuple[str, ...] | None = None) -> Any:
    return dataclasses.field(default=default, metadata={"help": text, "choices": choices})


@dataclasses.dataclass(frozen=True)
class EnvironmentConfig:
    """The vignette environment (paper, section "The Vignette environment")."""

    max_questions: int = _field(MAX_QUESTIONS, "questions after which the agent must triage")


@dataclasses.dataclass(frozen=True)
class NetworkConfig:
    """The Q-network (paper, section "The Agent")."""

    hidden_sizes: tuple[int, ...] = _field((1024, 1024), "units of each hidden SELU layer")


@dataclasses.dataclass(frozen=True)
class TargetConfig:
    """The TD target of `ask` (paper, section "Dynamic Q-Learning")."""

    ask_query: str = _field("or", "heuristic of the ask target", ("or", "and"))
    best_triage_over: str = _field(
        "appropriate", "decisions over which Q_m is the maximum: all, or the vignette's appropriate ones",
        ("appropriate", "all"),
    )  # fmt: skip
    ask_successor: str = _field(
        "counterfactual",
        "s' of a stored triage decision: what asking would have revealed; none (ask has no loss there); or s",
        ("counterfactual", "taken_only", "same_state"),
    )


@dataclasses.dataclass(frozen=True)
class ExplorationConfig:
    """The Gaussian noise on Q(s, ask) while collecting (paper, section "The Agent")."""

    ask_noise_initial: float = _field(0.05, "standard deviation of the noise in the first episode")
    ask_noise_final: float = _field(0.001, "standard deviation of the noise after the decay")
    ask_noise_episodes: int = _field(3000, "episodes over which the noise falls, linearly")


@dataclasses.dataclass(frozen=True)
class MemoryConfig:
    """The priority memory (paper, section "Memory")."""

    memory_capacity: int = _field(50_000, "transitions kept; the oldest goes first")
    batch_size: int = _field(100, "transitions sampled for one optimisation")
    bucket_probabilities: tuple[float, ...] = _field(
        (0.01, 0.04, 0.15, 0.80), "sampling probability of each priority bucket, lowest priorities first"
    )
    bucket_thresholds: tuple[float, ...] = _field(
        (0.001, 0.003, 0.01), "priorities at which the next bucket begins, rising, one fewer than buckets"
    )
    priority_decay: float = _field(0.999, "factor on a transition's priority each time it is sampled")


@dataclasses.dataclass(frozen=True)
class OptimiserConfig:
    """The optimiser, which the paper leaves open; how it was chosen: docs/training.md."""

    algorithm: str = _field("sgd", "how gradients become updates", ("adam", "sgd"))
    learning_rate: float = _field(0.02, "step size")
    weight_decay: float = _field(0.0, "decoupled decay of the kernels, times the step size; 0 means none")


@dataclasses.dataclass(frozen=True)
class LearnerConfig:
    """How an optimisation is computed, not what is computed; the measurements are in docs/performance.md."""

    engine: str = _field(
        "fused", "fused: one pass over s and s', sparse first layer, compiled; plain: automatic gradients, dense",
        ("fused", "plain"),
    )  # fmt: skip
    precision: str = _field(
        "float32", "of the hidden layers' matrix products in an optimisation; sums and weights stay float32",
        ("float32", "bfloat16"),
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class LoopConfig:
    """The training cycle (paper, algo:dyqn); how the number of steps was chosen: docs/training.md."""

    steps: int = _field(6000, "steps (actions of the agent) to train for")
    burn_in_steps: int = _field(1000, "steps before the first optimisation")
    seed: int = _field(0, "seed of every random draw")
    window_episodes: int = _field(20, "episodes in the sliding window of the training metrics")
    steps_per_call: int = _field(200, "steps that the compiled loop takes before it returns to Python")
    evaluation_interval: int = _field(1000, "steps between evaluations on the test split; 0 means never")
    evaluation_orders: int = _field(3, "random evidence orders that an evaluation during training averages over")
    checkpoint_interval: int = _field(2000, "steps between checkpoints")
    checkpoints_kept: int = _field(3, "newest checkpoints that are kept")


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """All of the above, as it is saved beside what it made."""

    environment: EnvironmentConfig = EnvironmentConfig()
    network: NetworkConfig = NetworkConfig()
    target: TargetConfig = TargetConfig()
    exploration: ExplorationConfig = ExplorationConfig()
    memory: MemoryConfig = MemoryConfig()
    optimiser: OptimiserConfig = OptimiserConfig()
    learner: LearnerConfig = LearnerConfig()
    loop: LoopConfig = LoopConfig()

    def __post_init__(self) -> None:
        _check(self)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Returns the configuration as JSON can hold it; `from_dict` reads it back."""
        return json.loads(json.dumps(dataclasses.asdict(self)))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], source: str = "configuration") -> "TrainConfig":
        """Returns the configuration of a nested mapping, defaults where it is silent.

        Raises:
            InputError: an unknown section or key, a value of the wrong type or out of range.
        """
        sections = {section.name: typing.cast(type, section.type) for section in dataclasses.fields(cls)}
        _reject_unknown(values, sections, source)
        built = {}
        for name, section in sections.items():
            given = values.get(name, {})
            if not isinstance(given, Mapping):
                raise InputError(f"{source}: {name}: expected an object of settings, not {given!r}")
            fields = {field.name: field for field in dataclasses.fields(section)}
            _reject_unknown(given, fields, f"{source}: {name}")
            built[name] = section(**{key: _typed(fields[key], given[key], f"{source}: {name}.{key}") for key in given})
        return cls(**built)


def _reject_unknown(given: Mapping[str, Any], known: Mapping[str, Any], source: str) -> None:
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
            raise InputError(f"{source}: unknown key {key!r}: {hint}")


def _typed(field: "dataclasses.Field[Any]", value: Any, source: str) -> Any:
    """Returns a JSON value as the field's type, which is that of its default."""
    default = field.default
    if isinstance(default, tuple):
        if not isinstance(value, list | tuple) or not value:
            raise InputError(f"{source}: expected a list of numbers, not {value!r}")
        return tuple(_number(type(default[0]), item, source) for item in value)
    if isinstance(default, str):
        if value not in field.metadata["choices"]:
            raise InputError(f"{source}: expected one of {', '.join(field.metadata['choices'])}, not {value!r}")
        return value
    return _number(type(default), value, source)


def _number(kind: type, value: Any, source: str) -> Any:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if (kind is int and not whole) or (kind is float and not whole and not isinstance(value, float)):
        raise InputError(f"{source}: expected {'a whole number' if kind is int else 'a number'}, not {value!r}")
    return kind(value)


def _check(config: TrainConfig) -> None:
    """Raises InputError where a value is out of range, or two values do not fit together."""
    memory, loop, exploration = config.memory, config.loop, config.exploration
    buckets = memory.bucket_probabilities
    positive = ("memory_capacity", "batch_size", "window_episodes", "steps_per_call", "evaluation_orders", "steps",
                "checkpoint_interval", "checkpoints_kept", "max_questions", "ask_noise_episodes")  # fmt: skip
    sections = (getattr(config, section.name) for section in dataclasses.fields(config))
    values = {name: value for section in sections for name, value in dataclasses.asdict(section).items()}
    rules = [(values[name] >= 1, f"{name} must be at least 1") for name in positive]
    rules += [
        (all(size >= 1 for size in config.network.hidden_sizes), "hidden_sizes must be at least 1 each"),
        (min(buckets) >= 0 and math.isclose(sum(buckets), 1.0), "bucket_probabilities must be 0 or more and sum to 1"),
        (buckets[-1] > 0, "the last bucket must have a positive probability"),
        (len(memory.bucket_thresholds) == len(buckets) - 1, "bucket_thresholds must be one fewer than buckets"),
        (list(memory.bucket_thresholds) == sorted(set(memory.bucket_thresholds)), "bucket_thresholds must rise"),
        (0 < memory.priority_decay <= 1, "priority_decay must lie in (0, 1]"),
        (0 < config.optimiser.learning_rate < math.inf, "learning_rate must be positive"),
        (0 <= config.optimiser.weight_decay < math.inf, "weight_decay must be 0 or more"),
        (all(0 <= scale < math.inf for scale in (exploration.ask_noise_initial, exploration.ask_noise_final)),
         "ask noise must be 0 or more"),
        (min(loop.burn_in_steps, loop.evaluation_interval, loop.seed) >= 0,
         "burn_in_steps, evaluation_interval and seed must be 0 or more"),
        (config.learner.engine == "fused" or config.learner.precision == "float32",
         "precision bfloat16 needs the engine fused"),
        (loop.burn_in_steps >= 1, "burn_in_steps must be at least 1: the first optimisation needs a memory"),
    ]  # fmt: skip
    for holds, message in rules:
        if not holds:
            raise InputError(f"configuration: {message}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` a flag for each hyper-parameter, and `--config FILE`."""
    parser.add_argument("--config", type=locations.source, metavar="FILE", help="JSON configuration; flags override it")
    for section in dataclasses.fields(TrainConfig):
        group = parser.add_argument_group(section.name)
        for field in dataclasses.fields(typing.cast(type, section.type)):
            default = field.default
            several = isinstance(default, tuple)
            shown = " ".join(map(str, default)) if isinstance(default, tuple) else default
            kind = type(default[0]) if isinstance(default, tuple) else type(default)
            group.add_argument(
                "--" + field.name.replace("_", "-"),
                type=kind,
                nargs="+" if several else None,
                choices=field.metadata["choices"],
                default=argparse.SUPPRESS,
                help=f"{field.metadata['help']} (default {shown})",
            )


def from_arguments(arguments: argparse.Namespace) -> TrainConfig:
    """Returns the configuration of the file `--config`, if any, overridden by the flags given.

    Raises:
        InputError: the file cannot be read, or a value is not as expected.
    """
    values: dict[str, Any] = {}
    if arguments.config is not None:
        values = read_json(arguments.config)
    given = vars(arguments)
    for section in dataclasses.fields(TrainConfig):
        names = [field.name for field in dataclasses.fields(typing.cast(type, section.type))]
        flags = {name: given[name] for name in names if name in given}
        if flags:
            values = {**values, section.name: {**values.get(section.name, {}), **flags}}
    return TrainConfig.from_dict(values, str(arguments.config or "command line"))


def read_json(path: pathlib.Path) -> dict[str, Any]:
    """Returns the JSON object that a file holds.

    Raises:
        InputError: the file cannot be read, or holds no JSON object.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror or error}") from error
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON: {error}") from error
    if not isinstance(values, dict):
        raise InputError(f"{path}: expected a JSON object, not {type(values).__name__}")
    return values
