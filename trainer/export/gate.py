"""The gate before publishing: is the new version as safe as the serving one, to within a margin?

If textbook cases are given, it must also decide no emergency among them less urgently than the serving one.

Both play the same vignettes in the same random evidence orders, so that results are compared in pairs. The bootstrap
resamples the differences over vignettes: the difficulty that a vignette has for both versions cancels out, and a
difference shows that two separate intervals would hide.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from schemas.errors import shown
from trainer.data.arrays import VignetteArrays
from trainer.data.split import FEW_TEST_VIGNETTES
from trainer.data.textbook_case import EMERGENCY, TextbookCase
from trainer.dyqn.rollout import Outcomes
from trainer.evaluation import metrics
from trainer.evaluation.cases import CaseDecisions, Later, later_emergencies
from trainer.evaluation.estimates import Estimate, bracketed
from triage_runtime.command_line.json_output import plain

DECIDING = "safety"
REPORTED = (DECIDING, "appropriateness", "under_triage", "questions")
BLESSED, NOT_BLESSED = "BLESSED", "NOT_BLESSED"
"""Names of the empty files that mark a version, as TFX names them."""

MINIMUM_VIGNETTES = FEW_TEST_VIGNETTES
"""Test vignettes that it takes to bless a version, unless the caller allows fewer."""

_WORST = 5
_ROUNDING = 1e-9  # means of shares are not exact; a loss of exactly the margin passes


class Means(NamedTuple):
    """A metric of two versions."""

    new: float
    serving: float
    difference: Estimate  # new - serving, vignette by vignette


class Loss(NamedTuple):
    """A vignette on which safety fell, with the shares of evidence orders in which each version is safe."""

    vignette_id: str
    new: float
    serving: float


class VersionComparison(NamedTuple):
    """A version beside the serving one, on the same vignettes in the same evidence orders."""

    serving_version: str
    vignettes: int
    lower_bound: float  # of the difference in safety, see `trainer.export.gate.lower_bound`
    metrics: Mapping[str, Means]
    worse: int  # number of vignettes on which safety fell
    worst: Sequence[Loss]  # some of them, the worst first


class CaseVerdict(NamedTuple):
    """The verdict on textbook cases."""

    passed: bool  # no emergency is decided too late and later than by the serving version
    cases: int
    emergencies: int
    sent_later: int  # number of emergencies decided later
    later: Sequence[Later]


class TooFew(NamedTuple):
    """There were fewer vignettes than it takes to bless a version."""

    vignettes: int
    minimum_vignettes: int


class GateVerdict(NamedTuple):
    """The verdict on a version, and the figures behind it."""

    passed: bool
    margin: float  # accepted loss of safety, a share
    new_version: str
    compared: VersionComparison | None  # None for a first version
    textbook_cases: CaseVerdict | None = None  # None if none were played
    too_few: TooFew | None = None
    promise_broken: Mapping[str, Sequence[str]] | None = None  # by setting, the risks that exceed their level

    def described(self, ids: bool = True) -> dict[str, Any]:
        """Returns the verdict as JSON holds it, which leaves out what was not judged.

        Without `ids`, those of vignettes and cases are left out, too, as every client can read a manifest.
        """
        described = {
            "passed": self.passed, "margin": self.margin, "new_version": self.new_version, "serving_version": None,
            **plain(self.compared or {}),
            **({} if self.textbook_cases is None else {"textbook_cases": plain(self.textbook_cases)}),
            **plain(self.too_few or {}),
            **({} if self.promise_broken is None else {"promise_broken": self.promise_broken}),
        }  # fmt: skip
        if not ids:
            described.pop("worst", None)
            described.get("textbook_cases", {}).pop("later", None)
        return described

    def text(self, base: str) -> str:
        """Returns the verdict as lines of text; `base` is where the serving version was looked for."""
        if self.compared is None:
            lines = [f"  {base} holds no version to compare with"]
        else:
            lines = _safety_lines(self, self.compared)
        if self.textbook_cases is not None:
            lines += _case_lines(self.textbook_cases)
        if (few := self.too_few) is not None:
            lines.append(
                f"  {few.vignettes:,} test vignettes are too few to judge a version: give "
                f"{few.minimum_vignettes:,} or more, or --allow-small-test"
            )
        if self.promise_broken is not None:
            risks = "; ".join(f"{setting}: {', '.join(names)}" for setting, names in self.promise_broken.items())
            lines.append(f"  the promise does not hold on these vignettes ({risks})")
        return "\n".join(lines)


class Played(NamedTuple):
    """The outcomes of one version."""

    name: str  # number of the version
    outcomes: Outcomes


def lower_bound(differences: np.ndarray, seed: int) -> float:
    """Returns the one-sided 95% lower confidence bound of the mean of `differences` `[V]`, V at least 2.

    It is the 5th percentile of the means of bootstrap resamples over vignettes, drawn from `seed`.
    """
    means = metrics.resampled_sums(differences, seed) / len(differences)
    return float(np.quantile(means, 1 - metrics.CONFIDENCE))


def compare(new: Played, serving: Played, vignettes: VignetteArrays, margin: float, seed: int) -> GateVerdict:
    """Returns the verdict on `new`, and the figures behind it.

    Both versions played the same `vignettes`, at least 2, in the same evidence orders. The `margin` is the accepted
    loss of safety, the `seed` that of the bootstrap.
    """
    counts = vignettes.decision_counts
    new_values, serving_values = (metrics.agent_metrics(played.outcomes, counts) for played in (new, serving))
    differences = {name: new_values[name] - serving_values[name] for name in REPORTED}
    bound = lower_bound(differences[DECIDING], seed)
    means = {
        name: Means(
            float(new_values[name].mean()),
            float(serving_values[name].mean()),
            metrics.estimate(differences[name], seed),
        )
        for name in REPORTED
    }
    worse = int((differences[DECIDING] < -_ROUNDING).sum())
    worst = _worst(vignettes, new_values[DECIDING], serving_values[DECIDING])
    compared = VersionComparison(serving.name, len(counts), bound, means, worse, worst)
    return GateVerdict(_safe_enough(bound, margin), margin, new.name, compared)


def _safe_enough(bound: float, margin: float) -> bool:
    return bound >= -margin - _ROUNDING


def _worst(vignettes: VignetteArrays, new: np.ndarray, serving: np.ndarray) -> list[Loss]:
    """Returns the vignettes with the largest loss of safety, the worst first."""
    order = np.argsort(new - serving, kind="stable")[:_WORST]
    return [
        Loss(vignettes.vignette_ids[row], float(new[row]), float(serving[row]))
        for row in order
        if new[row] - serving[row] < -_ROUNDING
    ]


def compare_cases(cases: Sequence[TextbookCase], new: CaseDecisions, serving: CaseDecisions) -> CaseVerdict:
    """Returns the verdict on textbook cases."""
    later = later_emergencies(cases, new, serving)
    emergencies = sum(case.category == EMERGENCY for case in cases)
    return CaseVerdict(not later, len(cases), emergencies, len({each.vignette_id for each in later}), later)


def require_promise(verdict: GateVerdict, promise: dict[str, Any] | None) -> GateVerdict:
    """Returns the verdict, which no version passes whose `promise` its part `newer` says to be broken."""
    if promise is None or promise["newer"]["holds"]:
        return verdict
    return verdict._replace(passed=False, promise_broken=promise["newer"]["broken"])


def _case_lines(textbook: CaseVerdict) -> list[str]:
    """Returns the lines about textbook cases, two for a case that is late in both readings."""
    if textbook.passed:
        return [f"  none of the {textbook.emergencies:,} textbook emergencies is triaged less urgently than before"]
    return [
        f"  textbook emergencies triaged less urgently now: {textbook.sent_later:,} of {textbook.emergencies:,}",
        *(
            f"    {shown(each.title)}: {each.new}, was {each.before} ({each.reading.replace('_', ' ')})"
            for each in textbook.later
        ),
    ]


def _safety_lines(verdict: GateVerdict, compared: VersionComparison) -> list[str]:
    said = "is not less safe" if _safe_enough(compared.lower_bound, verdict.margin) else "may be less safe"
    lines = [
        f"version {verdict.new_version} {said} than the serving version {compared.serving_version} by more than "
        f"the margin of {verdict.margin:g}:",
        f"  the lower bound of the difference in safety is {compared.lower_bound:+.4f}, and must not be below "
        f"{-verdict.margin:g}",
        f"  (5th percentile, one-sided 95%; paired bootstrap over {compared.vignettes:,} vignettes)",
        f"  {'':16}{'new':>9}{'serving':>9}  difference [95% interval]",
    ]
    for name, row in compared.metrics.items():
        means = f"{row.new:9.3f}{row.serving:9.3f}"
        lines.append(f"  {name.replace('_', ' '):16}{means}  {bracketed(row.difference, '+.3f')}")
    fell = f"  vignettes with lower safety: {compared.worse:,}"
    lines.append(f"{fell}; the worst:" if compared.worst else fell)
    lines += [
        f"    {shown(each.vignette_id)}: safe in {each.new:.0%} of the evidence orders, was {each.serving:.0%}"
        for each in compared.worst
    ]
    return lines
