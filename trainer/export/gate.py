"""The gate before publishing: is the new version as safe as the serving one, to within a margin?

If textbook cases are given, it must also decide no emergency among them less urgently than the serving one.

Both play the same vignettes in the same random evidence orders, so that results are compared in pairs. The bootstrap
resamples the differences over vignettes: the difficulty that a vignette has for both versions cancels out, and a
difference shows that two separate intervals would hide.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.stats

from schemas.errors import InputError
from trainer.dyqn.rollout import Outcomes
from trainer.evaluation import metrics
from trainer.evaluation.cases import CaseDecisions, later_emergencies
from trainer.reports.numbers import bracketed, estimate_at
from trainer.vignettes.arrays import VignetteArrays
from trainer.vignettes.split_warnings import FEW_TEST_VIGNETTES
from trainer.vignettes.textbook_case import EMERGENCY, TextbookCase
from trainer.vignettes.vignette import shown

DECIDING = "safety"
REPORTED = (DECIDING, "appropriateness", "under_triage", "questions")
BLESSED, NOT_BLESSED = "BLESSED", "NOT_BLESSED"
"""Names of the empty files that mark a version, as TFX names them."""

MINIMUM_VIGNETTES = FEW_TEST_VIGNETTES
"""Test vignettes that it takes to bless a version, unless the caller allows fewer."""

_WORST = 5
_ROUNDING = 1e-9  # means of shares are not exact; a loss of exactly the margin passes


class Played(NamedTuple):
    """The outcomes of one version."""

    name: str  # number of the version
    outcomes: Outcomes


def lower_bound(differences: np.ndarray, seed: int) -> float:
    """Returns the one-sided 95% lower confidence bound of the mean of `differences` `[V]`, V at least 2.

    It is the 5th percentile of the means of bootstrap resamples over vignettes, drawn from `seed`.
    """
    result = scipy.stats.bootstrap(
        (np.asarray(differences, np.float64),),
        np.mean,
        n_resamples=metrics.RESAMPLES,
        batch=max(1, 20_000_000 // len(differences)),  # bounds the resampled matrix to about 160 MB
        confidence_level=metrics.CONFIDENCE,
        alternative="greater",
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    return float(result.confidence_interval.low)


def require_pairs(vignettes: int) -> None:
    """Raises InputError if there are too few vignettes for an interval."""
    if vignettes < 2:
        raise InputError("the test split has only one vignette, too few to compare two versions: use more data")


def compare(new: Played, serving: Played, vignettes: VignetteArrays, margin: float, seed: int) -> dict[str, Any]:
    """Returns the verdict on `new`, and the figures behind it.

    Args:
        new: the version to publish; both played the same vignettes in the same evidence orders.
        serving: the version that it would replace.
        vignettes: the V vignettes, at least 2.
        margin: the accepted loss of safety.
        seed: of the bootstrap.

    Returns:
        `passed`; `margin`; `new_version` and `serving_version`; `vignettes`; `lower_bound` of the difference in
        safety, see above; `metrics`, for each the means `new` and `serving` and the `difference` new - serving with
        its two-sided interval; `worse`, the number of vignettes on which safety fell; `worst`, some of them.
    """
    counts = vignettes.decision_counts
    new_values, serving_values = (metrics.agent_metrics(played.outcomes, counts) for played in (new, serving))
    differences = {name: new_values[name] - serving_values[name] for name in REPORTED}
    bound = lower_bound(differences[DECIDING], seed)
    return {
        "passed": _safe_enough(bound, margin),
        "margin": margin,
        "new_version": new.name,
        "serving_version": serving.name,
        "vignettes": len(counts),
        "lower_bound": bound,
        "metrics": {
            name: {
                "new": float(new_values[name].mean()),
                "serving": float(serving_values[name].mean()),
                "difference": metrics.estimate(differences[name], seed)._asdict(),
            }
            for name in REPORTED
        },
        "worse": int((differences[DECIDING] < -_ROUNDING).sum()),
        "worst": _worst(vignettes, new_values[DECIDING], serving_values[DECIDING]),
    }


def _safe_enough(bound: float, margin: float) -> bool:
    return bound >= -margin - _ROUNDING


def _worst(vignettes: VignetteArrays, new: np.ndarray, serving: np.ndarray) -> list[dict[str, Any]]:
    """Returns the vignettes with the largest loss of safety, the worst first."""
    order = np.argsort(new - serving, kind="stable")[:_WORST]
    return [
        {"vignette_id": vignettes.vignette_ids[row], "new": float(new[row]), "serving": float(serving[row])}
        for row in order
        if new[row] - serving[row] < -_ROUNDING
    ]


def compare_cases(cases: Sequence[TextbookCase], new: CaseDecisions, serving: CaseDecisions) -> dict[str, Any]:
    """Returns the verdict on textbook cases.

    Returns:
        `passed`: no emergency is decided too late and later than by the serving version; `cases` and `emergencies`, how
        many there are; `sent_later`, how many emergencies are decided later; `later`, the decisions of both versions on
        those, see `trainer.evaluation.cases.later_emergencies`.
    """
    later = later_emergencies(cases, new, serving)
    return {
        "passed": not later,
        "cases": len(cases),
        "emergencies": sum(case.category == EMERGENCY for case in cases),
        "sent_later": len({row["vignette_id"] for row in later}),
        "later": later,
    }


def public(verdict: dict[str, Any]) -> dict[str, Any]:
    """Returns the verdict without ids of vignettes and cases, for the manifest, which every client can read."""
    shared = {key: value for key, value in verdict.items() if key != "worst"}
    if "textbook_cases" in verdict:
        textbook = verdict["textbook_cases"]
        shared["textbook_cases"] = {key: value for key, value in textbook.items() if key != "later"}
    return shared


def require_vignettes(verdict: dict[str, Any], vignettes: int, minimum: int) -> dict[str, Any]:
    """Returns the verdict, which nothing passes on fewer than `minimum` vignettes: `minimum_vignettes` then says so."""
    if vignettes >= minimum:
        return verdict
    return {**verdict, "passed": False, "vignettes": vignettes, "minimum_vignettes": minimum}


def require_promise(verdict: dict[str, Any], promise: dict[str, Any] | None) -> dict[str, Any]:
    """Returns the verdict, which no version passes whose promise the test vignettes show to be broken.

    Args:
        verdict: so far.
        promise: of the version, with what these vignettes say of it as `newer`; None without a promise.
    """
    if promise is None or promise["newer"]["holds"]:
        return verdict
    return {**verdict, "passed": False, "promise_broken": promise["newer"]["broken"]}


def broken_promise_text(verdict: dict[str, Any]) -> str:
    """Returns which promise is broken, "" if none is."""
    if "promise_broken" not in verdict:
        return ""
    risks = "; ".join(f"{setting}: {', '.join(names)}" for setting, names in verdict["promise_broken"].items())
    return f"  the promise does not hold on these vignettes ({risks})"


def small_test_text(verdict: dict[str, Any]) -> str:
    """Returns why there were too few vignettes, "" if there were enough."""
    if "minimum_vignettes" not in verdict:
        return ""
    return (
        f"  {verdict['vignettes']:,} test vignettes are too few to judge a version by: it takes "
        f"{verdict['minimum_vignettes']:,}, or --allow-small-test"
    )


def verdict_text(verdict: dict[str, Any]) -> str:
    """Returns the verdict of `compare`, with that of `compare_cases` as its `textbook_cases`, as lines of text."""
    lines = _safety_lines(verdict)
    if "textbook_cases" in verdict:
        lines += _case_lines(verdict["textbook_cases"])
    return "\n".join(filter(None, [*lines, small_test_text(verdict), broken_promise_text(verdict)]))


def _case_lines(textbook: dict[str, Any]) -> list[str]:
    """Returns the lines about textbook cases, two for a case that is late in both readings."""
    if textbook["passed"]:
        return [f"  none of the {textbook['emergencies']:,} textbook emergencies is sent later than before"]
    return [
        f"  textbook emergencies sent later than before: {textbook['sent_later']:,} of {textbook['emergencies']:,}",
        *(
            f"    {shown(row['title'])}: {row['new']}, was {row['before']} ({row['reading'].replace('_', ' ')})"
            for row in textbook["later"]
        ),
    ]


def _safety_lines(verdict: dict[str, Any]) -> list[str]:
    said = "is not less safe" if _safe_enough(verdict["lower_bound"], verdict["margin"]) else "may be less safe"
    lines = [
        f"version {verdict['new_version']} {said} than the serving version {verdict['serving_version']} by more than "
        f"the margin of {verdict['margin']:g}:",
        f"  the lower bound of the difference in safety is {verdict['lower_bound']:+.4f}, and must not be below "
        f"{-verdict['margin']:g}",
        f"  (5th percentile, one-sided 95%; paired bootstrap over {verdict['vignettes']:,} vignettes)",
        f"  {'':16}{'new':>9}{'serving':>9}  difference [95% interval]",
    ]
    for name, row in verdict["metrics"].items():
        means = f"{row['new']:9.3f}{row['serving']:9.3f}"
        lines.append(f"  {name.replace('_', ' '):16}{means}  {bracketed(estimate_at(row['difference']), '+.3f')}")
    fell = f"  vignettes on which safety fell: {verdict['worse']:,}"
    lines.append(f"{fell}; the worst:" if verdict["worst"] else fell)
    lines += [
        f"    {shown(row['vignette_id'])}: safe in {row['new']:.0%} of the evidence orders, was {row['serving']:.0%}"
        for row in verdict["worst"]
    ]
    return lines
