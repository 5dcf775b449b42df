"""Whether served cases differ from reference cases by more than chance, and by enough to matter."""

import collections
import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from schemas.reference import Reference
from schemas.triage import DECISION_LABELS
from serving.monitor.audit_reader import ServedCase

SMALL_EFFECT = 0.2
"""Cohen's h from which two rates count as different: 0.05 and 0.10 differ by 0.19, 0.40 and 0.50 by 0.20."""

LARGE_SHIFT = 0.2
"""Population stability index from which two distributions count as different, by convention."""

FEWEST_CASES = 100
"""Least number of cases for a conclusion: rates of fewer cases differ by chance."""

UNKNOWN_LIMIT = 0.01
"""Share of cases with unknown codes from which somebody must look: a caller sends another vocabulary's codes."""

_FEWEST = 5.0  # expected cases per class of a chi-square test


@dataclasses.dataclass
class Observed:
    """Counts of the decided cases in a log."""

    cases: int = 0
    forced: int = 0
    with_unknown: int = 0
    present: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    absent: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    unknown: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    urgencies: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    pieces: collections.Counter[int] = dataclasses.field(default_factory=collections.Counter)

    def add(self, case: ServedCase) -> None:
        """Counts one case; codes that the version does not know are not counted as evidence."""
        self.cases += 1
        self.forced += case.forced
        self.with_unknown += bool(case.unknown)
        self.unknown.update(case.unknown)
        self.present.update(case.present - case.unknown)
        self.absent.update(case.absent - case.unknown)
        self.urgencies[DECISION_LABELS[case.action]] += 1
        self.pieces[len((case.present | case.absent) - case.unknown)] += 1


def compare(observed: Observed, reference: Reference, alpha: float = 0.01) -> dict[str, Any]:
    """Returns the figures of the comparison, ready for JSON.

    `verdict` is `drift`, `no_drift` or `too_few_cases`. `distributions` compares the urgencies and the number of pieces
    of evidence: population stability index and chi-square test. `evidence` lists the pieces
    of evidence that drifted, the clearest first: rates and Fisher's exact test. The p-values of each of the two groups
    are corrected to q-values (Benjamini-Hochberg). `unknown_codes` has a Wilson interval. `smallest_effect` is the
    Cohen's h that a single test of rates would detect with a probability of 0.8.

    Args:
        observed: the served cases.
        reference: what they are compared with.
        alpha: share of false alarms among alarms (false discovery rate), and of the intervals that miss.
    """
    figures: dict[str, Any] = {
        "cases": observed.cases,
        "reference_cases": reference.cases,
        "reference": reference.source,
        "alpha": alpha,
        "fewest_cases": FEWEST_CASES,
        "forced_share": _share(observed.forced, observed.cases),
        "unknown_codes": _unknown(observed, alpha),
    }
    if observed.cases < FEWEST_CASES:
        return {"verdict": "too_few_cases", **figures}
    distributions = _distributions(observed, reference)
    evidence = _evidence(observed, reference)
    for tests in (distributions, evidence):  # separately, or a thousand rates would outweigh two distributions
        corrected = stats.false_discovery_control([test["p"] for test in tests]).tolist() if tests else []
        for test, q in zip(tests, corrected, strict=True):
            effect = test["psi"] >= LARGE_SHIFT if "psi" in test else abs(test["effect"]) >= SMALL_EFFECT
            test["q"], test["drifted"] = q, bool(q < alpha and effect)
    drifted = sorted((test for test in evidence if test["drifted"]), key=lambda test: (test["q"], -abs(test["effect"])))
    drift = bool(drifted) or any(test["drifted"] for test in distributions) or figures["unknown_codes"]["drifted"]
    both = 1 / observed.cases + 1 / reference.cases
    power = (stats.norm.ppf(1 - alpha / 2) + stats.norm.ppf(0.8)) * math.sqrt(both)
    return {
        "verdict": "drift" if drift else "no_drift",
        **figures,
        "smallest_effect": float(power),
        "distributions": distributions,
        "evidence_tested": len(evidence),
        "evidence": drifted,
    }


def wilson(count: int, total: int, alpha: float) -> tuple[float, float]:
    """Returns the Wilson interval of a rate with confidence 1 - `alpha`; (0, 1) without cases."""
    if not total:
        return 0.0, 1.0
    interval = stats.binomtest(count, total).proportion_ci(1 - alpha, method="wilson")
    return float(interval.low), float(interval.high)


def stability_index(observed: Sequence[float], expected: Sequence[float]) -> float:
    """Returns the population stability index of two lists of counts [C]; half a case is added to each class."""
    first, second = (np.asarray(counts, float) + 0.5 for counts in (observed, expected))
    first, second = first / first.sum(), second / second.sum()
    return float(((first - second) * np.log(first / second)).sum())


def _unknown(observed: Observed, alpha: float) -> dict[str, Any]:
    low, high = wilson(observed.with_unknown, observed.cases, alpha)
    return {
        "cases": observed.with_unknown,
        "share": _share(observed.with_unknown, observed.cases),
        "interval": [low, high],
        "most_frequent": dict(observed.unknown.most_common(10)),
        "drifted": observed.cases >= FEWEST_CASES and low > UNKNOWN_LIMIT,
    }


def _distributions(observed: Observed, reference: Reference) -> list[dict[str, Any]]:
    numbers = range(max([*observed.pieces, *reference.pieces]) + 1)
    return [
        _distribution("urgencies", DECISION_LABELS, observed.urgencies, reference.urgencies),
        _distribution("pieces of evidence", numbers, observed.pieces, reference.pieces),
    ]


def _distribution(name: str, classes: Sequence[Any], observed: Any, expected: Any) -> dict[str, Any]:
    table = np.array([[counts.get(each, 0) for each in classes] for counts in (observed, expected)], float)  # [2, C]
    merged = _merge(table)
    p = float(stats.chi2_contingency(merged).pvalue) if merged.shape[1] > 1 else 1.0
    shares = {
        side: {str(each): _share(count, row.sum()) for each, count in zip(classes, row, strict=True) if count}
        for side, row in zip(("served", "reference"), table, strict=True)
    }
    return {"name": name, "psi": stability_index(*merged), "p": p, **shares}


def _merge(table: np.ndarray) -> np.ndarray:
    """Returns `table` [2, C] with neighbouring classes merged until each expects enough cases on both sides."""
    smaller = min(table.sum(axis=1)) / table.sum()
    columns: list[np.ndarray] = []
    for column in table.T:
        if columns and columns[-1].sum() * smaller < _FEWEST:
            columns[-1] = columns[-1] + column
        else:
            columns.append(column)
    if len(columns) > 1 and columns[-1].sum() * smaller < _FEWEST:
        last = columns.pop()
        columns[-1] = columns[-1] + last
    return np.stack(columns, axis=1)


def _evidence(observed: Observed, reference: Reference) -> list[dict[str, Any]]:
    tests = []
    for status, counts, expected in (
        ("present", observed.present, reference.present),
        ("absent", observed.absent, reference.absent),
    ):
        for code in sorted(set(counts) | set(expected)):
            served, other = counts[code], round(expected.get(code, 0.0))
            table = [[served, observed.cases - served], [other, reference.cases - other]]
            rates = served / observed.cases, other / reference.cases
            tests.append(
                {
                    "code": code,
                    "status": status,
                    "served": rates[0],
                    "reference": rates[1],
                    "effect": 2 * math.asin(math.sqrt(rates[0])) - 2 * math.asin(math.sqrt(rates[1])),
                    "p": float(stats.fisher_exact(table).pvalue),
                }
            )
    return tests


def _share(count: float, total: float) -> float | None:
    return float(count / total) if total else None
