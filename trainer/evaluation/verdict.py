"""What the gate says of a version, as types; `Verdict.described` makes JSON of them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from trainer.evaluation.cases import Later
from trainer.evaluation.figures import Estimate
from triage_runtime.command_line.json_output import plain


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


class Comparison(NamedTuple):
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


class Verdict(NamedTuple):
    """The verdict on a version, and the figures behind it."""

    passed: bool
    margin: float  # accepted loss of safety, a share
    new_version: str
    compared: Comparison | None  # None for a first version
    textbook_cases: CaseVerdict | None = None  # None if none were played
    too_few: TooFew | None = None
    promise_broken: Mapping[str, Sequence[str]] | None = None  # by setting, the risks that exceed their level

    def described(self, ids: bool = True) -> dict[str, Any]:
        """Returns the verdict as JSON holds it, which leaves out what was not judged.

        Args:
            ids: with those of vignettes and cases. A manifest has none, as every client can read it.
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
