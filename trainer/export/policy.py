"""Plays an exported version on vignettes: the exported graph decides, not a network of the trainer."""

import dataclasses
import os
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tf_agents.policies import tf_policy
from tf_agents.trajectories import policy_step
from tf_agents.trajectories import time_step as ts

from schemas import directories, features
from schemas.errors import InputError, first_line
from schemas.evidence import Vocabulary
from schemas.model_directory import read_version
from schemas.triage import NO_QUESTIONS_LEFT
from trainer.data.arrays import VignetteArrays
from trainer.dyqn.environment import action_spec, time_step_spec
from trainer.dyqn.rollout import Outcomes, Rollout

_HEADS = {"q": features.Q_VALUES, "appropriate": features.P_APPROPRIATE, "safe": features.P_SAFE}
Track = Callable[[Sequence[int]], Iterable[int]]
"""Yields its items, and may show the progress."""


@dataclasses.dataclass(frozen=True)
class LoadedVersion:
    """A version of an exported model, ready to play."""

    folder: pathlib.Path
    vocabulary: Vocabulary
    max_questions: int
    model: Any  # from tf.saved_model.load; its signatures alone do not keep the variables alive

    @property
    def signature(self) -> Any:
        """The function from states `[B, E]` and questions asked `[B]` to the decision tensors."""
        return self.model.signatures[features.STATE]

    def decide(self, states: np.ndarray, questions_asked: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the decision tensors of states float32 `[B, E]` and questions asked int32 `[B]`."""
        given = {features.STATES: tf.constant(states), features.QUESTIONS_ASKED: tf.constant(questions_asked)}
        return {name: tensor.numpy() for name, tensor in self.signature(**given).items()}


class ServablePolicy(tf_policy.TFPolicy):
    """Takes the action that a version decides on; if the observation forces a triage, its best triage decision.

    The policy's info is what the network says, as in `trainer.dyqn.policy.QPolicy`.
    """

    def __init__(self, version: LoadedVersion):
        self._version = version
        time_steps = time_step_spec(len(version.vocabulary))
        answers = version.signature.structured_outputs
        self._heads = {head: name for head, name in _HEADS.items() if name in answers}
        info = {head: tf.TensorSpec(answers[name].shape[1:]) for head, name in self._heads.items()}
        super().__init__(time_steps, action_spec(), info_spec=info, name="servable_policy")

    def _variables(self) -> Sequence[tf.Variable]:
        return self._version.signature.variables

    def _action(self, time_step: ts.TimeStep, policy_state: Any, seed: Any = None) -> policy_step.PolicyStep:
        observation = time_step.observation
        questions_asked = tf.where(observation.forced, NO_QUESTIONS_LEFT, 0)
        answer = self._version.signature(
            **{features.STATES: observation.state, features.QUESTIONS_ASKED: questions_asked}
        )
        heads = {head: answer[name] for head, name in self._heads.items()}
        return policy_step.PolicyStep(answer[features.ACTION], policy_state, heads)


def load_version(folder: pathlib.Path) -> LoadedVersion:
    """Loads the version that `triage export` wrote to `folder`.

    Raises:
        InputError: a file is missing, damaged, or does not fit the others.
    """
    info, vocabulary = read_version(folder)
    try:
        version = LoadedVersion(folder, vocabulary, info.max_questions, tf.saved_model.load(os.fspath(folder)))
    # Depending on the damage, TensorFlow's readers raise different errors.
    except (OSError, tf.errors.OpError, ValueError, RuntimeError, IndexError, KeyError) as error:
        raise _damaged(folder, f"cannot load the SavedModel: {first_line(error)}") from error
    _probe(version)
    return version


def in_codes_of(version_vocabulary: Vocabulary, vignettes: VignetteArrays, data: Vocabulary) -> VignetteArrays:
    """Returns vignettes in the codes of a version's vocabulary.

    Those of `data`, with which they are encoded, may be others, in another order.

    Raises:
        InputError: a vignette has a code that the version does not know.
    """
    if data.fingerprint == version_vocabulary.fingerprint:
        return vignettes
    codes: np.ndarray = vignettes.signed_codes.astype(np.int32)
    cells = {code: cell for cell, code in enumerate(version_vocabulary.codes)}
    unknown = [code for cell in np.unique(np.abs(codes)) if (code := data.codes[cell - 1]) not in cells]
    if unknown:
        more = f" and {len(unknown) - 3:,} more" if len(unknown) > 3 else ""
        raise InputError(f"the vignettes have evidence that the version does not know, {', '.join(unknown[:3])}{more}")
    recoded = np.array([cells.get(code, -1) + 1 for code in data.codes], np.int32)
    return vignettes._replace(signed_codes=np.sign(codes) * recoded[np.abs(codes) - 1])


def version_outcomes(
    version: LoadedVersion, vignettes: VignetteArrays, data: Vocabulary, seeds: Sequence[int], track: Track = iter
) -> Outcomes:
    """Plays every vignette once for each seed, as `trainer.dyqn.rollout.Rollout` does.

    The same seeds give the same evidence orders for every version and any number of vignettes, of which there is at
    least one, encoded with the vocabulary `data`. `track` yields the seeds.

    Raises:
        InputError: a vignette has a code that the version does not know, or the version fails.
    """
    coded = in_codes_of(version.vocabulary, vignettes, data)
    rollout = Rollout(coded, len(version.vocabulary), version.max_questions, ServablePolicy(version))
    try:
        return rollout.run(track(seeds))
    except (tf.errors.OpError, ValueError) as error:
        raise _damaged(version.folder, f"it fails on the vignettes: {first_line(error)}") from error


def _probe(version: LoadedVersion) -> None:
    """Runs one state, so that a fault of the version shows before vignettes are played."""
    if features.STATE not in version.model.signatures:
        raise _damaged(version.folder, f"it has no signature {features.STATE!r}")
    states, questions_asked = tf.one_hot([0], len(version.vocabulary)), tf.constant([version.max_questions])
    try:
        answer = version.signature(**{features.STATES: states, features.QUESTIONS_ASKED: questions_asked})
        forced, q_values = answer[features.FORCED].numpy(), answer[features.Q_VALUES].numpy()
    except (tf.errors.OpError, ValueError, TypeError, KeyError) as error:
        raise _damaged(version.folder, f"it does not answer a state: {first_line(error)}") from error
    if not np.isfinite(q_values).all():
        raise _damaged(version.folder, "its Q-values are not finite")
    if not forced.all():
        raise _damaged(version.folder, f"it does not triage at the max_questions of {directories.MANIFEST}")


def _damaged(folder: pathlib.Path, reason: str) -> InputError:
    return InputError(f"{folder}: {reason}: export it again, or remove this version")
