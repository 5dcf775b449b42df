"""Makes a training loop from a configuration: the network, the environment, the agent, the memory, in this order.

Another environment, network, loss or memory is made here and handed in; the loop does not change.
"""

from collections.abc import Callable, Mapping

import keras
import numpy as np
import tensorflow as tf

from trainer.config import TrainConfig
from trainer.dyqn import targets
from trainer.dyqn.agent import build_agent
from trainer.dyqn.environment import Interviews, Mode, VignetteEnvironment
from trainer.dyqn.loop import TrainingLoop
from trainer.dyqn.network import TEXT_FEATURES, build_network, set_output_bias
from trainer.dyqn.policy import DecayingNoise
from trainer.dyqn.replay import BucketMemory
from trainer.dyqn.validation import Selection, build_validator, divide
from trainer.dyqn.workers import ALONE, Workers
from trainer.graph import rewards
from trainer.graph.closure import Closure
from trainer.vignettes.state import Vignettes


def build_loop(
    vignettes: Vignettes,
    evidence_count: int,
    config: TrainConfig,
    workers: Workers = ALONE,
    text_features: np.ndarray | None = None,
    start: Callable[[keras.Model], None] | None = None,
    interviewing: Interviews | None = None,
    closure: Closure | None = None,
    learned_before: np.ndarray | None = None,
) -> TrainingLoop:
    """Returns a loop at step 0.

    Args:
        vignettes: of the training split.
        evidence_count: E.
        config: of the run.
        workers: that train together. Each has its own environment, memory and random draws; all have the same weights.
        text_features: float32 `[E, W]`, see `trainer.dyqn.text_features`; required if the network has them as inputs.
        start: sets the initial weights; None means random ones.
        interviewing: the interviews in which the agent learns; None means random orders of the evidence.
        closure: of the vocabulary; None if none of its codes is related to another.
        learned_before: see `trainer.dyqn.validation.divide`.
    """
    # With op determinism, a resumed run equals an uninterrupted one, bit for bit on one machine.
    tf.config.experimental.enable_op_determinism()
    seed = config.loop.seed
    network_seed, generators = _seeds(seed, workers.index)
    division = divide(vignettes, config.validation, seed, learned_before)
    network = build_network(evidence_count, config.network, network_seed, closure)
    _initialise(network, config, division.learned, text_features, start)
    environment = _training_environment(division.learned, network, config, generators["environment"], interviewing)
    noise = DecayingNoise(config.exploration, generators["exploration"])
    interviewer = environment.interviewer
    imagine = None if interviewer is None else interviewer.imagine
    agent = build_agent(network, config, noise, workers, imagine)
    known_limit = environment.signed_codes.shape[1]
    if interviewing is None and config.environment.start == "one":
        # The first piece of evidence, one more for each question, and one for the successor of the last state.
        known_limit = min(known_limit, config.environment.max_questions + 2)
    memory = BucketMemory(evidence_count, known_limit, config.memory)
    validator = build_validator(division, evidence_count, config.environment.max_questions, seed, interviewing)
    chosen = network
    if validator is not None or config.optimiser.average or config.network.text_features:
        chosen = build_network(evidence_count, config.network.served, seed=0, closure=closure)
    selection = Selection(agent, chosen, validator, config)
    return TrainingLoop(config, environment, agent, noise, memory, selection, generators, workers)


def _initialise(
    network: keras.Model,
    config: TrainConfig,
    vignettes: Vignettes,
    text_features: np.ndarray | None,
    start: Callable[[keras.Model], None] | None,
) -> None:
    """Sets the weights of a network to the initial ones."""
    if config.network.text_features:
        network.get_layer(TEXT_FEATURES).set_weights([text_features])
    if start is not None:
        start(network)
    elif config.network.output_bias == "means":
        r_t = rewards.counterfactual_reward(vignettes.decision_counts)
        set_output_bias(network, targets.mean_logits(r_t, config.network.outputs == "probabilities"))


def _training_environment(
    vignettes: Vignettes,
    network: keras.Model,
    config: TrainConfig,
    generator: tf.random.Generator,
    interviewing: Interviews | None,
) -> VignetteEnvironment:
    settings = config.environment
    interviewer = None if interviewing is None else interviewing.begin(vignettes, network, generator)
    mode = Mode(
        training=True,
        max_questions=settings.max_questions,
        counterfactual=config.target.ask_successor != "same_state",
        any_start=settings.start == "any",
        masking=settings.masking,
        epochs=settings.draw == "epochs",
        card_starts=1.0 if interviewing is None else interviewing.card_starts,
        card_reading=0.0 if interviewing is None else interviewing.card_reading,
    )
    evidence_count = network.input_shape[-1]
    return VignetteEnvironment(vignettes, evidence_count, mode, generator, settings.environments, interviewer)


def _seeds(seed: int, worker: int) -> tuple[int, Mapping[str, tf.random.Generator]]:
    """Returns the seed of the network, which all workers share, and this worker's generators."""
    network_seed, *generator_seeds = (int(state) for state in np.random.SeedSequence(seed).generate_state(4))
    if worker:
        own = np.random.SeedSequence(seed, spawn_key=(worker,))
        generator_seeds = [int(state) for state in own.generate_state(3)]
    names = ("environment", "exploration", "memory")
    return network_seed, {
        name: tf.random.Generator.from_seed(each, alg="philox")
        for name, each in zip(names, generator_seeds, strict=True)
    }
