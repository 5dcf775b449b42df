"""Every hyper-parameter: frozen dataclasses that are the configuration file and the command line of `triage train`.

A field's metadata holds the text of its `--help`; a field's name is its flag. The defaults are the preset `paper`, see
`trainer.presets`.
"""

import dataclasses
import difflib
import json
import math
import typing
from collections.abc import Mapping
from typing import Any

from schemas.errors import InputError
from schemas.triage import MAX_QUESTIONS

PAPER_QUERIES = ("or", "and")
"""The queries of the paper, which its study compares."""
ASK_QUERIES = (*PAPER_QUERIES, "value")
"""The names in `trainer.dyqn.targets.QUERIES`, which loads TensorFlow and so is not imported here."""


STEPS_PER_ROOT = 13
"""Steps by the square root of the number of vignettes, where the number of steps follows from it: many epochs on few
vignettes, few on many."""


def _field(default: Any, text: str, choices: tuple[str, ...] | None = None) -> Any:
    return dataclasses.field(default=default, metadata={"help": text, "choices": choices})


@dataclasses.dataclass(frozen=True)
class EnvironmentConfig:
    """The vignette environment (paper, section "The Vignette environment")."""

    max_questions: int = _field(MAX_QUESTIONS, "questions after which the agent must triage")
    environments: int = _field(1, "episodes that run side by side; each step takes one action in each of them")
    episodes: str = _field(
        "order", "what ask reveals: the vignette's evidence in a random order (order), or the answer to the "
        "question that the agent chooses (interview)", ("order", "interview"),
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class NetworkConfig:
    """The Q-network (paper, section "The Agent")."""

    hidden_sizes: tuple[int, ...] = _field((1024, 1024), "units of each hidden layer")
    activation: str = _field("selu", "activation of the hidden layers", ("selu", "relu"))
    inputs: str = _field(
        "signed", "inputs for each code: one with a sign, or two, for present and for absent, which leave out "
        "implied findings",
        ("signed", "two"),
    )  # fmt: skip
    dropout: float = _field(0.0, "dropout rate of the hidden layers")
    networks: int = _field(1, "networks whose outputs are averaged")
    outputs: str = _field(
        "q_values", "Q-values only, or also the probability that each decision is appropriate, and safe",
        ("q_values", "probabilities"),
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class TargetConfig:
    """The TD targets (paper, section "Dynamic Q-Learning"); with probabilities, decisions have their utility."""

    ask_query: str = _field("or", "query that gives the target of ask, for networks without probabilities", ASK_QUERIES)
    safety_weight: float = _field(
        1.0, "W, the weight of safety: with probabilities, the Q-value of a decision is (P(appropriate) + W P(safe)) / "
        "(1 + W)"
    )  # fmt: skip
    price: float = _field(0.004, "price of a question, in units of Q: with probabilities, the target of ask is the "
                          "highest Q-value after the answer, less the price")  # fmt: skip
    loss: str = _field("squared", "loss between an output and its target", ("squared", "cross_entropy"))
    bootstrap: float = _field(
        0.0, "weight of the networks' own estimate in s' in the target of a probability; the clinicians have the rest"
    )
    best_triage_over: str = _field(
        "appropriate", "decisions whose maximum is Q_m: the appropriate ones, or all",
        ("appropriate", "all"),
    )  # fmt: skip
    ask_successor: str = _field(
        "counterfactual",
        "s' of a stored triage decision: the state that asking would reach; none (ask has no loss); or s itself",
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

    memory_capacity: int = _field(50_000, "transitions kept; the oldest is replaced first")
    batch_size: int = _field(100, "transitions sampled for one optimisation")
    bucket_probabilities: tuple[float, ...] = _field(
        (0.01, 0.04, 0.15, 0.80), "sampling probability of each priority bucket, lowest priorities first"
    )
    bucket_thresholds: tuple[float, ...] = _field(
        (0.001, 0.003, 0.01), "priorities that separate the buckets, in ascending order"
    )
    priority_decay: float = _field(0.999, "factor on a transition's priority each time it is sampled")


@dataclasses.dataclass(frozen=True)
class ValidationConfig:
    """Vignettes that a network does not learn from: for calibration and for promises."""

    set_apart: float = _field(
        0.0, "share of the training vignettes, at most 2,000, to set apart from all learning for triage export "
        "--promise; 0 means none"
    )  # fmt: skip
    held_out_share: float = _field(
        0.0, "share of the training vignettes, at most 1,000, to hold out from the networks for calibration; "
        "0 means none"
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class OptimiserConfig:
    """The optimiser, which the paper does not specify; for the choice, see docs/training.md."""

    algorithm: str = _field("sgd", "optimisation algorithm", ("adam", "sgd"))
    learning_rate: float = _field(0.02, "step size")
    schedule: str = _field(
        "constant", "schedule of the step size: constant, or a warm-up followed by a cosine decay",
        ("constant", "cosine"),
    )  # fmt: skip
    average: float = _field(
        0.0, "momentum of the moving average of the weights that the trained agent uses; 0 means no average"
    )


@dataclasses.dataclass(frozen=True)
class LoopConfig:
    """The training cycle (paper, algo:dyqn); how the number of steps was chosen: docs/training.md."""

    steps: int = _field(
        6000, "training steps, each one action in every environment; 0 derives the number from that of the "
        "vignettes"
    )  # fmt: skip
    burn_in_steps: int = _field(1000, "steps before the first optimisation")
    collect_interval: int = _field(1, "optimisation steps for each step of the episodes")
    seed: int = _field(0, "seed of every random draw")
    evaluation_interval: int = _field(1000, "steps between evaluations on the test split; 0 means never")
    checkpoint_interval: int = _field(2000, "steps between checkpoints")


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """All of the above, as it is saved beside what it made."""

    environment: EnvironmentConfig = EnvironmentConfig()
    network: NetworkConfig = NetworkConfig()
    target: TargetConfig = TargetConfig()
    exploration: ExplorationConfig = ExplorationConfig()
    memory: MemoryConfig = MemoryConfig()
    validation: ValidationConfig = ValidationConfig()
    optimiser: OptimiserConfig = OptimiserConfig()
    loop: LoopConfig = LoopConfig()

    def __post_init__(self) -> None:
        _check(self)

    def resolved(self, vignettes: int) -> "TrainConfig":
        """Returns the configuration with the number of steps that suits a training split of so many vignettes.

        Where none is given, they grow with the square root of the number of vignettes.
        """
        if self.loop.steps:
            return self
        steps = self.loop.burn_in_steps + round(STEPS_PER_ROOT * math.sqrt(vignettes))
        return dataclasses.replace(self, loop=dataclasses.replace(self.loop, steps=steps))

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
        if not isinstance(value, list | tuple) or not (
            value or field.name == "bucket_thresholds"
        ):  # one bucket has none
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
    positive = ("memory_capacity", "batch_size", "environments", "networks", "checkpoint_interval", "collect_interval",
                "max_questions", "ask_noise_episodes")  # fmt: skip
    network, validation = config.network, config.validation
    sections = [getattr(config, section.name) for section in dataclasses.fields(config)]
    values = {name: value for section in sections for name, value in dataclasses.asdict(section).items()}
    defaults = {field.name: field.default for section in sections for field in dataclasses.fields(section)}
    rules = [(values[name] >= 1, f"{name} must be at least 1") for name in positive]
    rules += [
        (all(size >= 1 for size in config.network.hidden_sizes), "hidden_sizes must be at least 1 each"),
        (min(buckets) >= 0 and math.isclose(sum(buckets), 1.0), "bucket_probabilities must be 0 or more and sum to 1"),
        (buckets[-1] > 0, "the last bucket must have a positive probability"),
        (len(memory.bucket_thresholds) == len(buckets) - 1, "bucket_thresholds must be one fewer than buckets"),
        (list(memory.bucket_thresholds) == sorted(set(memory.bucket_thresholds)), "bucket_thresholds must rise"),
        (0 < memory.priority_decay <= 1, "priority_decay must lie in (0, 1]"),
        (0 < config.optimiser.learning_rate < math.inf, "learning_rate must be positive"),
        (all(0 <= scale < math.inf for scale in (exploration.ask_noise_initial, exploration.ask_noise_final)),
         "ask noise must be 0 or more"),
        (min(loop.evaluation_interval, loop.seed) >= 0, "evaluation_interval and seed must be 0 or more"),
        (loop.burn_in_steps >= 1, "burn_in_steps must be at least 1: the first optimisation needs a memory"),
        (0 <= network.dropout < 1, "dropout must lie in [0, 1)"),
        (0 <= config.target.bootstrap < 1, "bootstrap must lie in [0, 1)"),
        (0 <= config.target.price < 1, "price must lie in [0, 1)"),
        (0 <= config.target.safety_weight < math.inf, "safety_weight must be 0 or more"),
        (config.environment.episodes == "order" or network.outputs == "probabilities",
         "episodes interview needs outputs probabilities"),
        (0 <= config.optimiser.average < 1, "average must lie in [0, 1)"),
        (0 <= validation.set_apart <= 0.5, "set_apart must lie in [0, 0.5]"),
        (0 <= validation.held_out_share <= 0.5, "held_out_share must lie in [0, 0.5]"),
        (memory.memory_capacity >= config.environment.environments, "memory_capacity must be at least environments"),
        (loop.steps >= 0, "steps must be 0 or more"),
    ]  # fmt: skip
    ordered, q_values = config.environment.episodes == "order", network.outputs == "q_values"
    acting = {
        ("ask_noise_initial", "ask_noise_final", "ask_noise_episodes", "ask_successor"): (ordered, "episodes order"),
        ("ask_query", "best_triage_over"): (q_values, "outputs q_values"),
        ("safety_weight", "bootstrap"): (not q_values, "outputs probabilities"),
        ("priority_decay",): (len(buckets) > 1, "several bucket_probabilities"),
    }
    rules += [
        (acts or values[name] == defaults[name], f"{name} acts only with {where}: else set it to {defaults[name]}")
        for names, (acts, where) in acting.items()
        for name in names
    ]
    for holds, message in rules:
        if not holds:
            raise InputError(f"configuration: {message}")
