"""Draws evidence top down: a child only if its parent is present, and at most one member of an exclusive group."""

from collections.abc import Sequence

import numpy as np

from schemas.catalogue import CatalogueEntry

NO_PARENT = -1


class EvidenceTree:
    """The relations among N pieces of evidence that are drawn together.

    Args:
        entries: the pieces, parents before their children; parents that are not among them are ignored.
    """

    def __init__(self, entries: Sequence[CatalogueEntry]):
        place = {entry.code: number for number, entry in enumerate(entries)}
        self.parents = tuple(place.get(entry.parent or "", NO_PARENT) for entry in entries)
        groups: dict[str, list[int]] = {}
        for number, entry in enumerate(entries):
            if entry.exclusive is not None:
                groups.setdefault(entry.exclusive, []).append(number)
        self.groups = tuple(groups.values())

    def given_parent(self, marginal: np.ndarray) -> np.ndarray:
        """Returns the probability of each piece given that its parent is present, `[rows, N]`, at most 1.

        Args:
            marginal: probability of each piece, `[rows, N]`, at most that of its parent.
        """
        given = marginal.copy()
        for child, parent in enumerate(self.parents):
            if parent != NO_PARENT:
                above = np.maximum(marginal[:, parent], np.finfo(np.float64).tiny)
                given[:, child] = np.minimum(marginal[:, child] / above, 1.0)
        return given

    def marginal(self, given_parent: np.ndarray) -> np.ndarray:
        """Returns the probability of each piece, `[rows, N]`: the inverse of `given_parent`."""
        marginal = given_parent.copy()
        for child, parent in enumerate(self.parents):
            if parent != NO_PARENT:
                marginal[:, child] *= marginal[:, parent]
        return marginal


class EvidenceSampler:
    """Draws the pieces of a tree.

    Args:
        tree: the relations.
        given_parent: float `[rows, N]`, probability of each piece given that its parent is present. A group whose sum
            is above 1 is divided by its sum.
    """

    def __init__(self, tree: EvidenceTree, given_parent: np.ndarray):
        self._tree = tree
        self._lower = np.zeros_like(given_parent)
        self._upper = given_parent.copy()
        self._uniform = np.arange(given_parent.shape[1])
        for members in tree.groups:
            # The intervals of a group are stacked, so that one number decides between its members.
            shares = given_parent[:, members]
            tops = np.cumsum(shares / np.maximum(shares.sum(axis=1, keepdims=True), 1.0), axis=1)
            self._lower[:, members] = np.concatenate([np.zeros((len(tops), 1)), tops[:, :-1]], axis=1)
            self._upper[:, members] = tops
            self._uniform[members] = members[0]

    def draw(self, rows: np.ndarray, uniform: np.ndarray, possible: np.ndarray | None = None) -> np.ndarray:
        """Returns which pieces are present, bool `[B, N]`.

        Args:
            rows: int `[B]`.
            uniform: float `[B, N]` in (0, 1).
            possible: bool `[B, N]`, False if a piece cannot be present; None if all can.
        """
        value = uniform[:, self._uniform]
        drawn = (value >= self._lower[rows]) & (value < self._upper[rows])
        if possible is not None:
            drawn &= possible
        for child, parent in enumerate(self._tree.parents):
            if parent != NO_PARENT:
                drawn[:, child] &= drawn[:, parent]
        return drawn
