"""Settings to start from, and how a configuration file and flags override them on the command line."""

import argparse
import dataclasses
import typing
from collections.abc import Mapping
from typing import Any

from schemas.errors import InputError
from trainer.config import TrainConfig
from triage_runtime.storage import locations
from triage_runtime.storage.whole_file import read_json

PAPER: dict[str, dict[str, Any]] = {}
"""Algorithm 1 as written: the defaults in `trainer.config`."""

DEFAULT: dict[str, dict[str, Any]] = {
    "environment": {"environments": 256, "episodes": "interview"},
    "network": {
        "hidden_sizes": (256, 256),
        "activation": "relu",
        "inputs": "two",
        "dropout": 0.5,
        "networks": 2,
        "outputs": "probabilities",
    },
    "target": {"safety_weight": 1.0, "price": 0.01, "loss": "cross_entropy", "bootstrap": 0.5},
    "memory": {
        "memory_capacity": 200_000,
        "batch_size": 256,
        "bucket_probabilities": (1.0,),
        "bucket_thresholds": (),
    },
    "validation": {"held_out_share": 0.1},
    "optimiser": {"algorithm": "adam", "learning_rate": 0.002, "schedule": "cosine", "average": 0.99},
    "loop": {"steps": 0, "burn_in_steps": 100, "collect_interval": 2},
}
"""What was measured to be best (docs/how-it-works.md); the steps follow from the number of vignettes.

Probabilities learned from single patients alone become overconfident (`bootstrap`), absence is not the opposite of
presence (`inputs`), averages of networks and of weights are less noisy (`networks`, `average`), and the squared error
has almost no gradient where the network is confidently wrong (`outputs`, `loss`). A question must raise the expected
utility by one percentage point (`price`).
"""

PRESETS = {"default": DEFAULT, "paper": PAPER}
"""Two tables of settings for one learner; what a table leaves out is as in the paper.

Their targets differ: with the outputs `probabilities`, the Q-value of a decision is its expected utility.
"""


def preset(name: str) -> TrainConfig:
    """Returns the configuration of a preset, one of `PRESETS`."""
    return TrainConfig.from_dict(PRESETS[name], f"preset {name}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Gives `parser` a flag for each hyper-parameter, and `--config FILE`."""
    parser.add_argument(
        "--preset", choices=tuple(PRESETS), help="settings to start from: the recommended ones or the paper's "
        "(default: default)"
    )  # fmt: skip
    parser.add_argument(
        "--config", type=locations.source, metavar="FILE",
        help="JSON file of settings, which may name a preset; settings override the preset, and options override both",
    )  # fmt: skip
    presets = {name: preset(name) for name in PRESETS}
    for section in dataclasses.fields(TrainConfig):
        group = parser.add_argument_group(section.name)
        for field in dataclasses.fields(typing.cast(type, section.type)):
            default = field.default
            several = isinstance(default, tuple)
            values = {name: getattr(getattr(config, section.name), field.name) for name, config in presets.items()}
            kind = type(default[0]) if isinstance(default, tuple) else type(default)
            group.add_argument(
                "--" + field.name.replace("_", "-"),
                type=kind,
                nargs="+" if several else None,
                choices=field.metadata["choices"],
                default=argparse.SUPPRESS,
                help=f"{field.metadata['help']} ({_shown(values)})",
            )


def _shown(values: Mapping[str, Any]) -> str:
    """Returns a field's value in each preset, as `--help` shows it."""
    texts = {name: " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
             for name, value in values.items()}  # fmt: skip
    if texts["paper"] == texts["default"]:
        return f"default {texts['default']}"
    return f"default {texts['default'] or 'none'}; paper {texts['paper'] or 'none'}"


def from_arguments(arguments: argparse.Namespace, start: Mapping[str, Mapping[str, Any]] | None = None) -> TrainConfig:
    """Returns the settings `start`, or the preset, overridden by the file `--config`, if any, and that by the flags.

    Raises:
        InputError: the file cannot be read, or a value is not as expected.
    """
    values: dict[str, Any] = {} if arguments.config is None else read_json(arguments.config)
    name = arguments.preset or values.pop("preset", "default")
    values.pop("preset", None)
    if name not in PRESETS:
        raise InputError(f"{arguments.config}: preset {name!r}: expected one of {', '.join(PRESETS)}")
    given = vars(arguments)
    flags = {
        section.name: {field.name: given[field.name] for field in dataclasses.fields(kind) if field.name in given}
        for section in dataclasses.fields(TrainConfig)
        if dataclasses.is_dataclass(kind := section.type)
    }
    merged: dict[str, Any] = dict(PRESETS[name] if start is None else start)
    for name, settings in (*values.items(), *flags.items()):
        before = merged.get(name, {})
        if isinstance(before, Mapping):  # what is no object of settings is left to the checks
            merged[name] = {**before, **settings} if isinstance(settings, Mapping) else settings
    return TrainConfig.from_dict(merged, str(arguments.config or "command line"))
