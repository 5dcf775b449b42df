"""The policies of questions that are compared: the agent's on a card, and two that need no model."""

import numpy as np
import scipy.special
import tensorflow as tf

from trainer.data.state import Vignettes
from trainer.graph.questions import Network, QuestionGraph
from trainer.interviews.patients import whole_patients
from trainer.interviews.play import Policy

_LEAST = 1e-6
_SMOOTHING = 2.0  # weight of the overall frequency for each decision, in patients


def random_policy(seed: int) -> Policy:
    """Returns the policy that asks at random, as in the paper."""
    generator = np.random.default_rng(seed)
    return lambda states, open_codes: highest(generator.random(states.shape), open_codes)


def static_policy(vignettes: Vignettes, evidence_count: int) -> Policy:
    """Returns the policy with one order for all patients, by the mutual information of a piece and the decision.

    It is that of training vignettes, where what is not listed counts as absent.
    """
    patients = whole_patients(vignettes, evidence_count)
    shares = patients.decision_counts / patients.decision_counts.sum(axis=1, keepdims=True)  # [V, 4]
    present = (patients.answers > 0).astype(np.float64)
    overall = (present.sum(axis=0) + 0.5) / (len(present) + 1)
    given = (shares.T @ present + _SMOOTHING * overall) / (shares.sum(axis=0)[:, np.newaxis] + _SMOOTHING)  # [4, E]
    decisions = shares.mean(axis=0)[:, np.newaxis]  # [4, 1]
    together = np.stack([decisions * given, decisions * (1 - given)])  # [2, 4, E]: yes and no, and the decision
    apart = scipy.special.entr(together.sum(axis=0)).sum(axis=0) + scipy.special.entr(together.sum(axis=1)).sum(axis=0)
    information = apart - scipy.special.entr(together).sum(axis=(0, 1))  # [E]
    return lambda states, open_codes: highest(np.broadcast_to(information, states.shape), open_codes)


def card_policy(graph: QuestionGraph, network: Network) -> Policy:
    """Returns the learned policy for patients who can be asked only about what is on a card.

    Few codes are open, so the network itself evaluates both answers to each. The value of a question is the expected
    Kullback-Leibler divergence of the probabilities of the decisions.
    """

    def policy(states: np.ndarray, open_codes: np.ndarray) -> np.ndarray:
        values = np.full(states.shape, -np.inf)
        rows, cells = np.nonzero(open_codes)
        if len(rows):
            after = np.repeat(states[rows][np.newaxis], 2, axis=0)
            after[0, np.arange(len(rows)), cells], after[1, np.arange(len(rows)), cells] = 1, -1
            heads = network(tf.constant(np.concatenate([states, after.reshape(-1, states.shape[1])])))
            truths = np.clip(np.concatenate([heads["appropriate"], heads["safe"]], axis=1), _LEAST, 1 - _LEAST)
            now, (yes, no) = truths[: len(states)][rows], np.split(truths[len(states) :], 2)
            likely = graph.likely_on_card(tf.constant(states)).numpy()[rows, cells][:, np.newaxis]
            moved = likely * _divergence(yes, now) + (1 - likely) * _divergence(no, now)
            values[rows, cells] = moved.sum(axis=1)
        return highest(values, open_codes)

    return policy


def highest(scores: np.ndarray, open_codes: np.ndarray) -> np.ndarray:
    """Returns the open code with the highest of `scores` `[B, E]`: int `[B, 1]`, -1 where no code is open."""
    best = np.where(open_codes, scores, -np.inf).argmax(axis=1)
    return np.where(open_codes.any(axis=1), best, -1)[:, np.newaxis]


def _divergence(after: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Returns the Kullback-Leibler divergence of probabilities `after` from those `before`."""
    return scipy.special.rel_entr(after, before) + scipy.special.rel_entr(1 - after, 1 - before)
