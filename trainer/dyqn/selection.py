"""The weights that a run keeps: those with the lowest validation loss, or the latest ones."""

import keras
import numpy as np
import tensorflow as tf

from trainer.config import TrainConfig
from trainer.dyqn.agent import DyqnAgent
from trainer.dyqn.validation import Validates
from trainer.graph.operating_point import HeldOutOutputs


class Selection:
    """Chooses weights of an agent while it trains, and calibrates them when it is done.

    Weights may be chosen after three quarters of the steps. The loss may be lower earlier, but a network that has not
    learned a rare decision such as Red can have a low loss too, and the average of several networks keeps improving
    while the loss of each one rises.
    """

    def __init__(self, agent: DyqnAgent, chosen: keras.Model, validator: Validates | None, config: TrainConfig):
        """Makes the selection.

        Args:
            agent: whose weights are chosen.
            chosen: gets them; the agent's own network if its latest weights are always the ones to keep.
            validator: of vignettes that networks do not learn from; None if there are none.
            config: of the run.
        """
        self.chosen = chosen
        self._agent = agent
        self._validator = validator
        self._interval = config.validation.validation_interval
        self._patience = config.validation.patience
        burn_in, steps = config.loop.burn_in_steps, config.loop.steps
        self._first_step = burn_in + max(steps - burn_in, 0) * 3 // 4
        self._best_loss = tf.Variable(np.inf, dtype=tf.float32, name="best_loss")
        self._best_step = tf.Variable(0, dtype=tf.int64, name="best_step")

    @property
    def validates(self) -> bool:
        """Whether there are vignettes for validation, which may end the training."""
        return self._validator is not None

    @property
    def best_step(self) -> int:
        """The step whose weights had the lowest validation loss, 0 before any are chosen."""
        return int(self._best_step)

    @property
    def led(self) -> np.ndarray | None:
        """See `trainer.dyqn.validation.Validates`."""
        return None if self._validator is None else self._validator.led

    def variables(self) -> dict[str, tf.Variable | keras.Model]:
        """Returns everything that changes, for checkpoints."""
        return {"best_loss": self._best_loss, "best_step": self._best_step, "chosen": self.chosen}

    def forget_early(self) -> None:
        """Forgets weights that were chosen, in a run of fewer steps, before this run may choose any."""
        if self.best_step < self._first_step:
            self._best_loss.assign(np.inf)
            self._best_step.assign(0)

    def exhausted(self, step: int) -> bool:
        """Returns whether the validation loss has not fallen for `patience` validations."""
        waited = step - max(self.best_step, self._first_step)
        return self.validates and waited >= self._patience * self._interval

    def due(self, step: int) -> bool:
        """Returns whether weights of `step` are to be validated, as every `validation_interval` steps."""
        return self.validates and step % self._interval == 0

    def validate(self, step: int) -> float | None:
        """Returns the validation loss after `step` steps, and chooses the weights if it is the lowest one.

        None without vignettes for validation.
        """
        if self._validator is None:
            return None
        best = self.chosen.get_weights()
        self._agent.copy_weights_to(self.chosen)
        loss = self._validator.loss(self.chosen)
        if step >= self._first_step and loss < float(self._best_loss):
            self._best_loss.assign(loss)
            self._best_step.assign(step)
        else:
            self.chosen.set_weights(best)
        return loss

    def choose_latest(self) -> None:
        """Chooses the latest weights if none are chosen yet, as a run may end before that."""
        if self.chosen is not self._agent.network and not self.best_step:
            self._agent.copy_weights_to(self.chosen)

    def settle(self) -> HeldOutOutputs | None:
        """Calibrates the chosen weights, and returns their outputs for vignettes that networks do not learn from."""
        self.choose_latest()
        return None if self._validator is None else self._validator.settle(self.chosen)
