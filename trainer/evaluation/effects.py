"""What each known piece of evidence does to an answer: leaving it out, exactly.

The server says the same of a state with `explain` (`serving.triage.explanation`), after the safety rules.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from schemas.triage import NUM_ACTIONS, NUM_DECISIONS
from trainer.evaluation.question_policies import Network
from trainer.vignettes import state


def leave_one_out(codes: Sequence[int], evidence_count: int, network: Network) -> tuple[np.ndarray, np.ndarray]:
    """Returns what the network says of the decisions on all pieces, `[T]`, and without each of them, `[n, T]`.

    T is 8, P(appropriate) and P(safe) of each decision, or 4, Q-values, for a network without probabilities.

    Args:
        codes: n signed codes, see `trainer.vignettes.state`.
        evidence_count: E.
        network: of the agent.
    """
    known = np.tile(np.asarray(codes, np.int32), [len(codes) + 1, 1])
    np.fill_diagonal(known[1:], 0)
    outputs = np.asarray(network(state.from_signed_codes(tf.constant(known), evidence_count)))
    said = (
        outputs[:, NUM_ACTIONS : NUM_ACTIONS + 2 * NUM_DECISIONS]
        if outputs.shape[1] > NUM_ACTIONS
        else outputs[:, :NUM_DECISIONS]
    )
    return said[0], said[1:]


def effects(codes: Sequence[int], evidence_count: int, network: Network) -> np.ndarray:
    """Returns how much leaving out each piece moves what the network says: the mean absolute change, float `[n]`."""
    here, without = leave_one_out(codes, evidence_count, network)
    return np.abs(without - here).mean(axis=1)
