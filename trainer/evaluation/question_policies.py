"""The policies of questions that are compared: the learned one and simple ones."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import scipy.special
import tensorflow as tf

from schemas.triage import NUM_DECISIONS
from trainer.data.state import Vignettes
from trainer.evaluation.options import NAIVE_BAYES, PREVALENCE, RANDOM, STATIC, UNCERTAINTY
from trainer.graph.questions import Network, QuestionGraph
from trainer.interviews.patients import whole_patients
from trainer.interviews.play import Policy, highest

Scores = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""From the same to scores `[B, E]`, of which the highest is asked."""

_LEAST = 1e-6
_SMOOTHING = 2.0  # weight of the overall frequency for each decision, in patients


class Frequencies(NamedTuple):
    """The frequencies behind the simple policies: of each piece given each decision; not listed counts as absent."""

    present: np.ndarray  # float64 [4, E]
    decisions: np.ndarray  # float64 [4]


def frequencies(vignettes: Vignettes, evidence_count: int) -> Frequencies:
    """Returns the frequencies of training vignettes."""
    patients = whole_patients(vignettes, evidence_count)
    shares = patients.decision_counts / patients.decision_counts.sum(axis=1, keepdims=True)  # [V, 4]
    present = (patients.answers > 0).astype(np.float64)
    overall = (present.sum(axis=0) + 0.5) / (len(present) + 1)
    table = (shares.T @ present + _SMOOTHING * overall) / (shares.sum(axis=0)[:, np.newaxis] + _SMOOTHING)
    return Frequencies(table, shares.mean(axis=0))


def simple_policies(known: Frequencies, seed: int) -> Mapping[str, Policy]:
    """Returns the policies that need no model, by name.

    `random` is as in the paper. `prevalence` asks the most common piece first. `static` has one order for all patients,
    by the mutual information of a piece and the decision. `uncertainty` asks the piece that is hardest to predict.
    `naive-bayes` asks by the value of information for the decision, if pieces are independent given the decision.
    """
    generator = np.random.default_rng(seed)
    share = known.decisions @ known.present  # [E]
    given_yes = known.decisions[:, np.newaxis] * known.present / share
    given_no = known.decisions[:, np.newaxis] * (1 - known.present) / (1 - share)
    information = _entropy(known.decisions) - share * _entropy(given_yes.T) - (1 - share) * _entropy(given_no.T)

    def of_all(values: np.ndarray) -> Scores:
        return lambda states, open_codes: np.broadcast_to(values, states.shape)

    policies: Mapping[str, Scores] = {
        RANDOM: lambda states, open_codes: generator.random(states.shape),
        PREVALENCE: of_all(share),
        STATIC: of_all(information),
        UNCERTAINTY: lambda states, open_codes: -np.abs(_posterior(known, states) @ known.present - 0.5),
        NAIVE_BAYES: lambda states, open_codes: _naive_bayes(known, states),
    }
    return {name: _of_highest(scores) for name, scores in policies.items()}


def _of_highest(scores: Scores) -> Policy:
    return lambda states, open_codes: highest(scores(states, open_codes), open_codes)


def card_policy(graph: QuestionGraph, network: Network) -> Policy:
    """Returns the learned policy for patients who can be asked only about what is on a card.

    Few codes are open, so the network itself evaluates both answers to each. The value of a question is the expected
    Kullback-Leibler divergence of the probabilities of the decisions.
    """

    def scores(states: np.ndarray, open_codes: np.ndarray) -> np.ndarray:
        values = np.full(states.shape, -np.inf)
        rows, cells = np.nonzero(open_codes)
        if not len(rows):
            return values
        after = np.repeat(states[rows][np.newaxis], 2, axis=0)
        after[0, np.arange(len(rows)), cells], after[1, np.arange(len(rows)), cells] = 1, -1
        heads = network(tf.constant(np.concatenate([states, after.reshape(-1, states.shape[1])])))
        truths = np.clip(np.concatenate([heads["appropriate"], heads["safe"]], axis=1), _LEAST, 1 - _LEAST)
        now, (yes, no) = truths[: len(states)][rows], np.split(truths[len(states) :], 2)
        likely = graph.likely_on_card(tf.constant(states)).numpy()[rows, cells][:, np.newaxis]
        moved = likely * divergence(yes, now) + (1 - likely) * divergence(no, now)
        values[rows, cells] = moved.sum(axis=1)
        return values

    return _of_highest(scores)


def divergence(after: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Returns the Kullback-Leibler divergence of probabilities `after` from those `before`."""
    return after * np.log(after / before) + (1 - after) * np.log((1 - after) / (1 - before))


def _naive_bayes(known: Frequencies, states: np.ndarray) -> np.ndarray:
    """Returns the expected gain of the best decision from each answer, plus a little of the answer's probability."""
    true, taken = np.arange(NUM_DECISIONS)[:, np.newaxis], np.arange(NUM_DECISIONS)
    utility = ((true == taken) + 1.0 * (taken <= true)) / 2  # [4, 4]
    posterior = _posterior(known, states)  # [B, 4]
    now = posterior @ utility  # [B, 4]
    yes = np.stack([(posterior * column) @ known.present for column in utility.T], axis=2)  # [B, E, 4]
    gain = yes.max(axis=2) + (now[:, np.newaxis] - yes).max(axis=2) - now.max(axis=1, keepdims=True)
    return gain + 1e-6 * (posterior @ known.present)  # if no answer changes the decision, the most likely piece


def _posterior(known: Frequencies, states: np.ndarray) -> np.ndarray:
    """Returns the probability of each decision, `[B, 4]`, in states `[B, E]`."""
    logs = (states > 0) @ np.log(known.present).T + (states < 0) @ np.log1p(-known.present).T
    return scipy.special.softmax(logs + np.log(np.maximum(known.decisions, 1e-9)), axis=1)


def _entropy(shares: np.ndarray) -> np.ndarray:
    """Returns the entropy of distributions along the last axis."""
    return scipy.special.entr(shares).sum(axis=-1)
