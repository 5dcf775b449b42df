"""Checks whether a version keeps its promise, against clinicians' decisions on cases that it has served."""

import collections
import json
import pathlib
from typing import Any

import numpy as np

from schemas.errors import InputError
from schemas.evidence import Vocabulary
from schemas.model_directory import ModelInfo
from schemas.text_file import read_text
from schemas.triage import DECISION_LABELS, TRIAGE_DECISIONS, may_be_red, parse_decision
from serving.monitor.audit_reader import ServedCase
from triage_runtime import promise
from triage_runtime.case import parse_object, read_codes

_Evidence = tuple[frozenset[str], frozenset[str]]


def promise_of(info: ModelInfo) -> dict[str, float]:
    """Returns the levels that a version promises.

    Raises:
        InputError: it promises nothing.
    """
    made = json.loads(info.manifest_json).get("promise")
    if not made:
        raise InputError(f"--labels: version {info.model_version} makes no promise: export one with --promise")
    levels: dict[str, float] = made["levels"]
    return levels


class Labelled:
    """Labelled cases, and how they were decided when they were served.

    A served case is one with the evidence of a label; each label counts once. Patients with the same evidence count
    each, by the first answer to it: an audit log cannot tell them apart. Pooled decisions would excuse errors, as a
    clinician's decision on one patient is none on another.

    Args:
        path: vignettes in JSON Lines, with decisions and optional tags.
        levels: the largest rate of each error that the version promises.
        hand_over_from: P(Red is appropriate) from which the version hands over. By it alone a promise hands over: where
            a caller's own `defer_below` or a novel case did, the decision counts.
        vocabulary: says which codes a number in the labels stands for.

    Raises:
        InputError: the file cannot be read, or a line is no vignette with decisions.
    """

    def __init__(
        self,
        path: pathlib.Path,
        levels: dict[str, float],
        vocabulary: Vocabulary,
        hand_over_from: float | None = None,
    ):
        self._levels = levels
        self._hand_over_from = hand_over_from
        self._vocabulary = vocabulary
        self._labels: dict[_Evidence, list[tuple[list[int], list[str]]]] = {}
        self._decided: dict[_Evidence, int] = {}
        for number, line in enumerate(read_text(path, "--labels").split("\n"), start=1):
            if line.strip():
                try:
                    self._read(parse_object(line))
                except InputError as error:
                    raise InputError(
                        f"--labels {path}: line {number}: expected a vignette with present, absent and decisions "
                        f"(docs/data.md): {error}"
                    ) from None

    def _read(self, fields: dict[str, Any]) -> None:
        for key in ("present", "absent", "decisions"):
            if key not in fields:
                raise InputError(f"{key}: missing")
        counted = collections.Counter(map(parse_decision, read_codes(fields["decisions"], "decisions")))
        if not counted:
            raise InputError("decisions: none")
        given = (read_codes(fields[key], key) for key in ("present", "absent"))
        present, absent, _ = self._vocabulary.read_numbers(*given)
        label = [counted[each] for each in TRIAGE_DECISIONS], read_codes(fields.get("tags"), "tags")
        self._labels.setdefault((frozenset(present), frozenset(absent)), []).append(label)

    def add(self, case: ServedCase) -> None:
        """Notes how a case was decided, if it is labelled."""
        key = case.present - case.unknown, case.absent - case.unknown
        if key in self._labels:
            red, least = case.deferred_red, self._hand_over_from
            handed_over = red is not None and least is not None and may_be_red(case.action, red, least)
            self._decided.setdefault(key, promise.HANDED_OVER if handed_over else case.action)

    def compare(self, alpha: float) -> dict[str, Any]:
        """Returns the promise's figures on the labelled cases, ready for JSON.

        Args:
            alpha: probability that one of all intervals misses: half of it is for those of all patients, who alone are
                promised anything, and half for those of groups.

        Returns:
            `labelled` cases that were served, and those `not_served`; `broken`, whether a risk of all patients is above
            its level; `risks`, each for all patients (`group` None) and for those with each tag: `errors`, `patients`,
            the exact `interval` and whether it is `above` the level.
        """
        served = [(decision, *label) for key, decision in self._decided.items() for label in self._labels[key]]
        decisions = np.array([decision for decision, _, _ in served], int)
        counts = np.array([counted for _, counted, _ in served], int).reshape(-1, len(DECISION_LABELS))
        tags = [set(own) for _, _, own in served]
        groups: list[str | None] = [None, *sorted(set().union(*tags))]
        risks = []
        for group in groups:
            each = alpha / (4 * len(self._levels)) / (1 if group is None else len(groups) - 1)
            rows = np.array([group is None or group in own for own in tags], bool)
            counted = promise.count(decisions[rows], counts[rows])
            for name, level in self._levels.items():
                interval = [promise.lower_bound(counted[name], each), promise.upper_bound(counted[name], each)]
                risks.append(
                    {
                        "group": group,
                        "risk": name,
                        "level": level,
                        **counted[name]._asdict(),
                        "interval": interval,
                        "above": interval[0] > level,
                    }
                )
        return {
            "labelled": len(served),
            "not_served": sum(map(len, self._labels.values())) - len(served),
            "broken": any(risk["above"] for risk in risks if risk["group"] is None),
            "risks": risks,
        }
