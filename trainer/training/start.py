"""The agent that a training starts from: its weights, matched to the codes of another vocabulary."""

import dataclasses
import pathlib
from typing import Any, NamedTuple

import keras
import numpy as np

from schemas.errors import InputError
from schemas.evidence import Vocabulary
from trainer.config import NetworkConfig, TrainConfig
from trainer.data.state import Vignettes
from trainer.dyqn.network import start_from
from trainer.graph.mixture import FEWEST_LEARNED
from trainer.training import set_apart
from trainer.training.job import load_network
from trainer.training.set_apart import Seen
from triage_runtime.storage import locations

_NAMED = 5
_OF_TRAINING = ("dropout",)  # settings that affect training, not the network that it produces


class Start(NamedTuple):
    """An agent to start from."""

    network: keras.Model
    places: np.ndarray
    """int64 `[E]`: the place of each code in the agent's vocabulary, -1 if it does not know the code."""
    identity: str
    """The agent in run.json and in the manifest: the fingerprint of its data, and its steps."""
    description: str
    """How the vocabularies match, in one line."""
    seen: Seen
    apart: np.ndarray | None
    """The keys of what is set apart there, see `trainer.training.set_apart.keys`; None if nothing is."""

    def learned_from(self, vignettes: Vignettes, vocabulary: Vocabulary) -> np.ndarray:
        """Returns from which vignettes it has learned, or from others just like them, bool `[V]`."""
        return np.isin(set_apart.keys(vignettes, vocabulary), self.seen.learned)

    def initialise(self, network: keras.Model) -> None:
        """Sets the initial weights of `network` to those of this agent.

        Raises:
            InputError: only one of the two corrects a mixture of patients, so that weights mean something else.
        """
        here, there = ({layer.name for layer in each.layers} for each in (network, self.network))
        if here != there:
            few = "the data here has" if there - here else "that agent was trained on"
            raise InputError(
                f"--start-from: {few} fewer than {FEWEST_LEARNED} vignettes to learn from, too few for a mixture of "
                "patients, from which only the other agent starts: give more vignettes"
            )
        start_from(network, self.network, self.places)


def read(job_dir: pathlib.Path, vocabulary: Vocabulary, config: TrainConfig) -> Start:
    """Returns the agent of a job directory, for a training with `vocabulary` and `config`.

    Raises:
        InputError: there is no agent, its network is of another kind, it knows none of the codes, or the file that
            says which vignettes it has seen is missing or damaged.
    """
    trained = load_network(job_dir)
    shown = locations.shown(job_dir)
    theirs, ours = _kind(TrainConfig.from_dict(trained.config).network), _kind(config.network)
    differences = [
        f"{name} {theirs[name]!r} there, {value!r} here" for name, value in ours.items() if value != theirs[name]
    ]
    if differences:
        raise InputError(
            f"--start-from {shown}: its network differs ({'; '.join(differences)}): train with its settings"
        )
    known = {code: place for place, code in enumerate(trained.vocabulary.codes)}
    places = np.array([known.get(code, -1) for code in vocabulary.codes])
    matched = int((places >= 0).sum())
    if not matched:
        raise InputError(
            f"--start-from {shown}: its vocabulary has none of the codes of this one, such as {vocabulary.codes[0]!r}: "
            "prepare the data with the same codes"
        )
    seen, apart = set_apart.read_seen(job_dir), set_apart.read(job_dir)
    new = [code for code in vocabulary.codes if code not in known]
    unused = [code for code in trained.vocabulary.codes if code not in vocabulary]
    description = f"starts from {shown}: {matched:,} of {len(places):,} codes match"
    description += _list_codes("new to it", new) + _list_codes("not used here", unused)
    identity = f"{trained.data_fingerprint} after {trained.training['steps']} steps"
    kept = None if apart is None else set_apart.keys(apart.vignettes, trained.vocabulary)
    return Start(trained.model, places, identity, description, seen, kept)


def _kind(config: NetworkConfig) -> dict[str, Any]:
    return {name: value for name, value in dataclasses.asdict(config).items() if name not in _OF_TRAINING}


def _list_codes(what: str, codes: list[str]) -> str:
    if not codes:
        return ""
    more = f" and {len(codes) - _NAMED:,} more" if len(codes) > _NAMED else ""
    return f"; {what}: {', '.join(codes[:_NAMED])}{more}"
