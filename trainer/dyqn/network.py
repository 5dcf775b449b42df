"""The Q-network: a Keras 3 model from states to the Q-value of every action."""

from collections.abc import Sequence

import keras

from schemas.triage import NUM_ACTIONS


def build_network(evidence_count: int, hidden_sizes: Sequence[int], seed: int) -> keras.Model:
    """Returns Q_theta (paper, section "The Agent").

    Fully connected SELU layers with LeCun-normal kernels, which SELU's self-normalisation supposes, then one sigmoid
    for each action, so that Q-values can be read as probabilities.

    Args:
        evidence_count: E, the width of the state.
        hidden_sizes: units of each hidden layer; the paper's are (1024, 1024).
        seed: of the initial kernels.

    Returns:
        A model from states `[B, E]` float32 to Q-values `[B, A]` float32 in (0, 1).
    """
    seeds = keras.random.SeedGenerator(seed)
    states = keras.Input((evidence_count,), name="states")
    hidden = states
    for number, size in enumerate(hidden_sizes, start=1):
        hidden = keras.layers.Dense(
            size,
            activation="selu",
            kernel_initializer=keras.initializers.LecunNormal(seed=seeds),
            name=f"hidden_{number}",
        )(hidden)
    q_values = keras.layers.Dense(
        NUM_ACTIONS,
        activation="sigmoid",
        kernel_initializer=keras.initializers.LecunNormal(seed=seeds),
        name="q_values",
    )(hidden)
    return keras.Model(states, q_values, name="q_network")
