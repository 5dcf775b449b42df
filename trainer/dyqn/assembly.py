"""Makes a training loop from a configuration: the network, the environment, the agent, the memory, in this order.

Another environment, network, loss or memory is made here and handed in; the loop does not change.
"""

from collections.abc import Callable, Mapping

import keras
import numpy as np
import tensorflow as tf

from schemas.evidence import Vocabulary
from trainer.config import TrainConfig
from trainer.data.state import Vignettes
from trainer.dyqn.agent import build_agent
from trainer.dyqn.calibrate import Selection, Settling
from trainer.dyqn.environment import Mode, VignetteEnvironment
from trainer.dyqn.episodes import Episodes, OrderedEpisodes
from trainer.dyqn.loop import TrainingLoop
from trainer.dyqn.network import build_network
from trainer.dyqn.policy import DecayingNoise
from trainer.dyqn.replay import BucketMemory
from trainer.dyqn.workers import ALONE, Workers
from trainer.graph.mixture import Mixture

MakeEpisodes = Callable[[tf.random.Generator], Episodes]
"""From the generator of all draws to the episodes of a run."""


def build_loop(
    vignettes: Vignettes,
    vocabulary: Vocabulary | int,
    config: TrainConfig,
    workers: Workers = ALONE,
    patients: Mixture | None = None,
    interviews: MakeEpisodes | None = None,
    settling: Settling | None = None,
    start: Callable[[keras.Model], None] | None = None,
) -> TrainingLoop:
    """Returns a loop at step 0.

    Args:
        vignettes: from which the agent learns.
        vocabulary: of their E pieces of evidence, or E.
        config: the settings of all parts.
        workers: that train together. Each has its own episodes, memory and random draws; all have the same weights.
        patients: the mixture from which a network with probabilities starts; None for a start from zero.
        interviews: makes the episodes in which the agent learns; None means random orders of the evidence.
        settling: what the agent is calibrated by; None if it is not.
        start: sets the initial weights; None means random ones.
    """
    # With op determinism, a resumed run equals an uninterrupted one, bit for bit on one machine.
    tf.config.experimental.enable_op_determinism()
    network_seed, generators = _seeds(config.loop.seed, workers.index)
    network = build_network(vocabulary, config.network, network_seed, patients, config.target)
    if start is not None:
        start(network)
    noise = DecayingNoise(config.exploration, generators["exploration"])
    agent = build_agent(network, config, noise if interviews is None else None, workers)
    evidence_count = network.input_shape[-1]
    if interviews is None:
        mode = Mode(True, config.environment.max_questions, config.target.ask_successor != "same_state")
        rows = config.environment.environments
        environment = VignetteEnvironment(vignettes, evidence_count, mode, generators["environment"], rows)
        # The first piece of evidence, one more for each question, and one for the successor of the last state.
        most = config.environment.max_questions + 2
        policy = agent.collect_policy
        episodes: Episodes = OrderedEpisodes(environment, network, policy, noise, config.target, most)
    else:
        episodes = interviews(generators["environment"])
    memory = BucketMemory(evidence_count, episodes.known_limit, config.memory)
    chosen = network
    if settling is not None or config.optimiser.average:
        chosen = build_network(vocabulary, config.network, 0, patients, config.target)
    selection = Selection(agent, chosen, settling)
    return TrainingLoop(config, episodes, agent, memory, selection, generators, workers)


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
