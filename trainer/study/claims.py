"""What the paper claims of its agents, and whether a study supports it; and what we claim of ours.

Agents, clinicians and models are judged alike: on the test vignettes on which clinicians are judged, each by all
clinicians but one, and by differences vignette by vignette. A claim holds where the 95% interval shows it, fails where
the interval shows the contrary, and is not shown where it leaves both open.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from schemas.triage import MAX_QUESTIONS
from trainer.evaluation.figures import Estimate
from trainer.reports.sentences import ASKS_MORE
from trainer.study.by_evidence import SMALL
from trainer.study.comparison import QUALITY, paired, ratio, unpaired
from trainer.study.measured import Measured, Values
from trainer.study.study import ALL_DECISIONS, DEFAULT_PRESET

HOLDS, FAILS, NOT_SHOWN, NOT_MEASURED = "holds", "fails", "not shown", "not measured"

MUCH_EARLIER = 0.5
"""DyQN-AND stops much earlier if it asks at most this share of DyQN-OR's questions (in the paper a tenth: 1.4 of
13.3)."""
NEVER_STOPS = 22.5
"""Mean number of questions from which an agent counts as never stopping before the limit of 23."""
TEN, NEAR = 10.35, 3.0
"""The paper's number of questions of the partially observed AND agent, and the distance that counts as near."""
LESS = 0.95
"""Share of the evidence up to which an agent needs less; any agent that ever stops early sees slightly less."""
SLIGHTLY = 0.1
"""A difference up to this is slight; the paper calls 0.04 so."""

PAPER_TEST = 126
"""Vignettes in the paper's test split."""
_DRAWS = 2_000

_OR, _AND, _PO_OR, _PO_AND = "dyqn_or", "dyqn_and", "partially_observed_or", "partially_observed_and"
_LEARNING = (_OR, _AND, _PO_OR, _PO_AND)
_HUMAN, _FULL = "human", "fully_observed"
_LABELS = {
    _AND: "DyQN-AND", _PO_OR: "partially observed OR", _PO_AND: "partially observed AND", "random": "random",
    "always_green": "always Green", _HUMAN: "clinicians", _FULL: "fully observed model", _OR: "DyQN-OR",
}  # fmt: skip
_MEASURES = {"appropriateness": "more often appropriate", "safety": "safer"}


class Found(NamedTuple):
    """What a study says about a claim."""

    outcome: str
    numbers: str
    seen: float | None = None
    """Share of random test sets as small as the paper's in which the means are in the claimed order."""


def above(estimate: Estimate, bar: float = 0) -> str:
    """Returns whether a figure is above `bar`; of a difference, by default, whether the first is better."""
    if estimate.ends is None:
        return NOT_SHOWN
    low, high = estimate.ends
    return HOLDS if low > bar else FAILS if high <= bar else NOT_SHOWN


def slightly(estimate: Estimate) -> str:
    """Returns whether a difference is above 0, and at most `SLIGHTLY`."""
    return every([above(estimate), above(_negative(estimate), -SLIGHTLY)])


def within(estimate: Estimate, least: float, most: float) -> str:
    """Returns whether a figure lies between `least` and `most`.

    For a difference of two agents and a margin on both sides, these are two one-sided tests, each at 2.5% (Schuirmann,
    Journal of Pharmacokinetics and Biopharmaceutics 15(6), 1987).
    """
    if estimate.ends is None:
        return NOT_SHOWN
    low, high = estimate.ends
    if least <= low and high <= most:
        return HOLDS
    return FAILS if high < least or low > most else NOT_SHOWN


def every(outcomes: Sequence[str]) -> str:
    """Returns the outcome of a claim that consists of several."""
    return FAILS if FAILS in outcomes else HOLDS if set(outcomes) == {HOLDS} else NOT_SHOWN


def ordered_share(gains: np.ndarray, seed: int) -> float | None:
    """Returns how often all mean gains are above 0 on random test sets as small as the paper's.

    Args:
        gains: float `[D, V]`, differences of the same vignettes.
        seed: of the sets, drawn without replacement.

    Returns:
        A share; None without twice as many vignettes, which the sets would all but share.
    """
    vignettes = gains.shape[1]
    if vignettes < 2 * PAPER_TEST:
        return None
    drawn = np.random.default_rng(seed).random((_DRAWS, vignettes)).argpartition(PAPER_TEST, axis=1)[:, :PAPER_TEST]
    return float((gains[:, drawn].mean(axis=2) > 0).all(axis=0).mean())


def claims(measured: Measured, max_questions: int = MAX_QUESTIONS) -> list[dict[str, Any]]:
    """Returns each claim with the `paper`'s numbers, its `outcome`, this study's `numbers` in words, and `seen`."""
    judge = _Judge(measured, max_questions)
    rows: list[tuple[str, str, Found | None]] = [
        ("The fully observed model is on a par with the clinicians", "0.86 and 0.94 against 0.84 and 0.93",
         judge.on_a_par(_FULL, _HUMAN)),
        ("The fully observed model is slightly better than the clinicians", "0.86 and 0.94 against 0.84 and 0.93",
         judge.better(_FULL, (_HUMAN,), QUALITY, slightly)),
        ("The fully observed model is appropriate in 0.95 of its training vignettes", "0.95", judge.learns_training()),
        ("DyQN-OR is on a par with the clinicians", "0.85 and 0.93 against 0.84 and 0.93", judge.on_a_par(_OR, _HUMAN)),
        ("DyQN-OR is on a par with the fully observed model", "0.85 and 0.93 against 0.86 and 0.94",
         judge.on_a_par(_OR, _FULL)),
        *((f"DyQN-OR is {_MEASURES[metric]} than the partially observed agents", paper,
           judge.better(_OR, (_PO_OR, _PO_AND), (metric,)))
          for metric, paper in zip(QUALITY, ("0.85 against 0.79 and 0.79", "0.93 against 0.88 and 0.86"), strict=True)),
        ("DyQN-OR is better than the partially observed agents on training vignettes, too", "a figure",
         judge.better(_OR, (_PO_OR, _PO_AND), QUALITY, split="train")),
        *((f"DyQN-OR is {_MEASURES[metric]} than DyQN-AND", paper, judge.better(_OR, (_AND,), (metric,)))
          for metric, paper in (("appropriateness", "0.85 against 0.76"), ("safety", "0.93 against 0.86"))),
        ("DyQN-OR is better than random and than always Green", "0.39 and 0.74, 0.71 and 0.75",
         judge.better(_OR, ("random", "always_green"), QUALITY)),
        ("DyQN-OR needs less evidence than the vignettes hold", "13.3 questions", judge.less_evidence(_OR)),
        ("DyQN-OR asks fewer questions than the partially observed agents", "13.3 against 23 and 10.4",
         judge.fewer_questions(_OR, (_PO_OR, _PO_AND))),
        ("DyQN-AND stops much earlier than DyQN-OR", "1.4 against 13.3", judge.much_earlier()),
        ("The AND query costs DyQN more than it costs the partially observed agents", "-0.09 against 0.00",
         judge.cost_of_and()),
        ("The partially observed agents are equally often appropriate", "0.79 and 0.79",
         judge.on_a_par(_PO_OR, _PO_AND, ("appropriateness",))),
        ("The partially observed OR agent is slightly safer than AND", "0.88 against 0.86",
         judge.better(_PO_OR, (_PO_AND,), ("safety",), slightly)),
        ("Partially observed OR never stops before the limit on test vignettes", "23.0",
         judge.questions(_PO_OR, lambda asked: above(asked, NEVER_STOPS))),
        ("Partially observed AND stops after about 10 questions", f"{TEN}",
         judge.questions(_PO_AND, lambda asked: within(asked, TEN - NEAR, TEN + NEAR))),
        ("Partially observed OR asks more than AND on training vignettes", "6.5 against 3.7",
         judge.better(_PO_OR, (_PO_AND,), ("questions",), split="train")),
        ("The partially observed agents do not improve in training", "a figure", judge.no_progress()),
        ("DyQN-OR is better with Q_m over appropriate decisions than over all", "no figure",
         judge.better(_OR, (ALL_DECISIONS,), QUALITY)),
        (ASKS_MORE, "a figure", judge.asks_more((_OR,))),
        ("The four learning agents ask more on test vignettes", "15.6 against 4.9", judge.asks_more(_LEARNING)),
        ("DyQN-OR asks more in conditions held out of training", "no figure", judge.asks_more_unseen()),
        ("Calibration makes decisions on small evidence sets more often appropriate", "a figure",
         judge.calibration_helps()),
        ("The calibrated model improves with more evidence", "a figure", judge.rises()),
        ("Calibration makes the model more consistent over the sizes of evidence sets", "a figure",
         judge.more_consistent()),
        *((f"Cross-validation is slightly less {word} than the common split", paper, judge.folds_less_common(metric))
          for metric, word, paper in zip(QUALITY, ("often appropriate", "often safe"),
                                         ("0.81 against 0.85", "0.90 against 0.93"), strict=True)),
        ("In cross-validation, DyQN-OR is less often appropriate than the clinicians", "0.81 against 0.84",
         judge.folds_below_clinicians()),
        *((f"Ours: the preset default is at least as good as the {_LABELS[other]}", "",
           judge.not_worse(DEFAULT_PRESET, other)) for other in (_HUMAN, _FULL)),
        ("Ours: the preset default is better than DyQN-OR", "", judge.better(DEFAULT_PRESET, (_OR,), QUALITY)),
        ("Ours: the preset default needs less evidence than the vignettes hold", "",
         judge.less_evidence(DEFAULT_PRESET)),
    ]  # fmt: skip
    return [
        {
            "claim": claim,
            "paper": paper,
            "outcome": finding.outcome if finding else NOT_MEASURED,
            "numbers": finding.numbers if finding else "Not measured in this study.",
            "seen": finding.seen if finding else None,
        }
        for claim, paper, finding in rows
    ]


class _Judge:
    """Judges claims; None where a claim was not measured."""

    def __init__(self, measured: Measured, max_questions: int):
        self._measured, self._seed, self._margin = measured, measured.seed, measured.settings.margin
        self._max_questions = max_questions

    def on_a_par(self, name: str, other: str, metrics: Sequence[str] = QUALITY) -> Found | None:
        return self._compared(name, (other,), metrics, lambda each: within(each, -self._margin, self._margin))

    def not_worse(self, name: str, other: str) -> Found | None:
        return self._compared(name, (other,), QUALITY, lambda each: above(each, -self._margin))

    def better(
        self, name: str, others: Sequence[str], metrics: Sequence[str],
        judged: Callable[[Estimate], str] = above, split: str | None = None,
    ) -> Found | None:  # fmt: skip
        compared = self._compared(name, others, metrics, judged, split)
        sides = [self._values(each, split) for each in (name, *others)]
        if compared is None or not all(sides):
            return compared
        ours, *theirs = (each for each in sides if each)
        gains = np.stack([ours[metric] - each[metric] for each in theirs for metric in metrics])
        share = ordered_share(gains, self._seed)
        return (
            compared
            if share is None
            else compared._replace(
                numbers=f"{compared.numbers} This order would be seen on {share:.0%} of test sets of {PAPER_TEST}.",
                seen=share,
            )
        )

    def fewer_questions(self, name: str, others: Sequence[str]) -> Found | None:
        parts = [
            self._compared(name, others, ("questions",), lambda each: above(_negative(each)), split)
            for split in ("test", "train")
        ]
        if not all(parts):
            return None
        measured = [part for part in parts if part]
        return Found(every([part.outcome for part in measured]), " ".join(part.numbers for part in measured))

    def _compared(
        self, name: str, others: Sequence[str], metrics: Sequence[str], judged: Callable[[Estimate], str],
        split: str | None = None,
    ) -> Found | None:  # fmt: skip
        """Returns what `judged` says of every difference of an agent to others.

        Args:
            name: of the agent.
            others: their names.
            metrics: to compare.
            judged: from a difference to an outcome.
            split: whose vignettes are judged by all clinicians; by default as clinicians are.
        """
        sides = {each: values for each in (name, *others) if (values := self._values(each, split))}
        if len(sides) <= len(others) or any(not set(metrics) <= set(values) for values in sides.values()):
            return None
        ours = sides.pop(name)
        differences = {
            (other, metric): paired(ours[metric], theirs[metric], self._seed)
            for other, theirs in sides.items()
            for metric in metrics
        }
        outcome = every([judged(each) for each in differences.values()])
        vignettes = len(ours[metrics[0]])
        where = {None: "by all clinicians but one", "test": "of the test split", "train": "of the training split"}
        parts = [
            f"{metric}{f' (minus {_LABELS[other]})' if len(others) > 1 else ''} {_signed(each)}"
            for (other, metric), each in differences.items()
        ]
        return Found(outcome, f"On {vignettes:,} vignettes, {where[split]}: {', '.join(parts)}.")

    def _values(self, name: str, split: str | None) -> Values | None:
        return self._measured.by_all(name, split) if split else self._measured.as_clinicians(name)

    def learns_training(self) -> Found | None:
        values = self._measured.by_all(_FULL, "train")
        if values is None:
            return None
        share = paired(values["appropriateness"], np.zeros(len(values["appropriateness"])), self._seed)
        return Found(within(share, 0.95 - self._margin, 0.95 + self._margin), f"Appropriate: {_share(share)}.")

    def less_evidence(self, name: str) -> Found | None:
        ours, held = (self._measured.by_all(each, "test") for each in (name, _FULL))
        if ours is None or held is None:
            return None
        seen = ratio(ours["evidence_seen"], held["evidence_seen"], self._seed)
        if seen is None:
            return None
        return Found(_opposite(above(seen, LESS)), (
            f"It decides on {ours['evidence_seen'].mean():.1f} of {held['evidence_seen'].mean():.1f} pieces of "
            f"evidence, a share of {_share(seen)}, after {ours['questions'].mean():.1f} questions, including those "
            "asked after the evidence had run out."
        ))  # fmt: skip

    def much_earlier(self) -> Found | None:
        ours, theirs = (self._measured.by_all(each, "test") for each in (_AND, _OR))
        if ours is None or theirs is None:
            return None
        asked = [each["questions"].mean() for each in (ours, theirs)]
        share = ratio(ours["questions"], theirs["questions"], self._seed)
        if share is None:
            return Found(FAILS, "DyQN-OR asks nothing.")
        return Found(_opposite(above(share, MUCH_EARLIER)), (
            f"DyQN-AND asks {asked[0]:.1f} questions, DyQN-OR {asked[1]:.1f}: a share of {_share(share)}."
        ))  # fmt: skip

    def cost_of_and(self) -> Found | None:
        sides = [self._measured.as_clinicians(each) for each in (_AND, _OR, _PO_AND, _PO_OR)]
        if any(each is None for each in sides):
            return None
        and_query, or_query, known_and, known_or = (each["appropriateness"] for each in sides if each)
        more = paired(and_query - or_query, known_and - known_or, self._seed)
        return Found(above(_negative(more)), (
            f"Appropriateness changes by {_plus((and_query - or_query).mean())} in DyQN and by "
            f"{_plus((known_and - known_or).mean())} in the others: {_signed(more)}."
        ))  # fmt: skip

    def questions(self, name: str, judged: Callable[[Estimate], str]) -> Found | None:
        values = self._measured.by_all(name, "test")
        if values is None:
            return None
        asked = paired(values["questions"], np.zeros(len(values["questions"])), self._seed)
        return Found(judged(asked), f"It asks {_ends(asked, '.1f')} questions on test vignettes.")

    def no_progress(self) -> Found | None:
        parts, outcomes = [], []
        for name in (_PO_OR, _PO_AND):
            first, last = self._measured.first(name), self._measured.by_all(name, "test")
            if first is None or last is None:
                return None
            for metric in QUALITY:
                gained = paired(last[metric], first[metric], self._seed)
                outcomes.append(FAILS if above(gained) == HOLDS else _opposite(above(gained, self._margin)))
                parts.append(f"{_LABELS[name]}, {metric} {_signed(gained)}")
        return Found(every(outcomes), f"The last evaluations minus the first: {', '.join(parts)}.")

    def asks_more(self, names: Sequence[str]) -> Found | None:
        """Judges by the same rule on both splits; in the paper a training episode ends with its evidence.

        Forced episodes are told apart: an agent that is forced more often asks more without having chosen to.
        """
        sides = {split: [self._measured.by_all(name, split) for name in names] for split in ("test", "train")}
        if any(each is None for side in sides.values() for each in side):
            return None
        asked, by_itself, shown = [], [], {}
        for split, side in sides.items():
            values = {key: np.mean([each[key] for each in side if each], axis=0)
                      for key in ("questions", "forced", "evidence_seen")}  # fmt: skip
            ended = 1 - values["forced"]
            asked.append((values["questions"], np.ones(len(ended))))
            by_itself.append((values["questions"] - self._max_questions * values["forced"], ended))
            shown[split] = {key: each.mean() for key, each in values.items()}
        test, train = shown["test"], shown["train"]
        differences = [unpaired(test_sums, train_sums, self._seed) for test_sums, train_sums in (asked, by_itself)]
        outcome = every([FAILS if each is None else above(each) for each in differences])
        alone = "none on one of them" if differences[1] is None else _ends(differences[1], "+.1f")
        return Found(outcome, (
            f"Questions on test and on training vignettes: {test['questions']:.1f} and {train['questions']:.1f} in all "
            f"episodes, a difference of {_ends(differences[0], '+.1f')}; in those that no limit ended, {alone}; forced "
            f"at the limit in {test['forced']:.0%} and {train['forced']:.0%}. Counted as in the paper, whose training "
            f"episodes end with the evidence: {test['questions']:.1f} and {train['evidence_seen'] - 1:.1f}."
        ))  # fmt: skip

    def asks_more_unseen(self) -> Found | None:
        unseen = self._measured.outcomes.get("detail", {}).get("unseen")
        if not unseen:
            return None
        more = Estimate(**unseen["difference"]["questions"])
        return Found(above(more), f"Questions, minus those in known conditions: {_ends(more, '+.1f')}.")

    def calibration_helps(self) -> Found | None:
        small_sets = self._measured.outcomes.get("calibration", {}).get("small_sets")
        if not small_sets:
            return None
        changed = {metric: Estimate(**each) for metric, each in small_sets.items()}
        shown = ", ".join(f"{metric} {_signed(each)}" for metric, each in changed.items())
        return Found(above(changed["appropriateness"]), (
            f"Calibrated minus uncalibrated, on rows of D_pow's test part with 1 to {SMALL} pieces: {shown}."
        ))  # fmt: skip

    def rises(self) -> Found | None:
        rise = self._measured.outcomes.get("calibration", {}).get("rise")
        if not rise:
            return None
        slope = Estimate(**rise)
        return Found(above(slope), f"Appropriateness by piece of evidence: {_signed(slope)}.")

    def more_consistent(self) -> Found | None:
        scatter = self._measured.outcomes.get("calibration", {}).get("scatter")
        if not scatter:
            return None
        more = Estimate(**scatter)
        return Found(above(_negative(more)), (
            "Root mean square distance of appropriateness by number of pieces from its line, calibrated minus "
            f"uncalibrated: {_signed(more)}."
        ))  # fmt: skip

    def folds_less_common(self, metric: str) -> Found | None:
        folds, common = self._measured.folds(), self._measured.by_all(_OR, "test")
        if folds is None or common is None:
            return None
        tested = folds.values[metric]
        lowest, highest = _extremes(self._measured, metric)
        less = unpaired((tested, np.ones(len(tested))),
                        (common[metric], np.ones(len(common[metric]))), self._seed)  # fmt: skip
        if less is None:
            return None
        return Found(slightly(_negative(less)), (
            f"{metric.capitalize()} {tested.mean():.3f} over {folds.repetitions} repetitions of the folds (single "
            f"folds {lowest:.3f} to {highest:.3f}), minus {common[metric].mean():.3f} on the common split: "
            f"{_signed(less)}."
        ))  # fmt: skip

    def folds_below_clinicians(self) -> Found | None:
        folds = self._measured.folds()
        if folds is None or not folds.clinicians:
            return None
        ours, theirs = folds.as_clinicians["appropriateness"], folds.clinicians["appropriateness"]
        judged = ~np.isnan(theirs)
        less = paired(ours[judged], theirs[judged], self._seed)
        return Found(above(_negative(less)), (
            f"On all {judged.sum():,} vignettes with enough decisions, by all clinicians but one: {_signed(less)}."
        ))  # fmt: skip


def _extremes(measured: Measured, metric: str) -> tuple[float, float]:
    means = [
        outcome["converged"]["test"][metric] for name, outcome in measured.outcomes.items() if name.startswith("k_fold")
    ]
    return min(means), max(means)


def _opposite(outcome: str) -> str:
    return {HOLDS: FAILS, FAILS: HOLDS}.get(outcome, outcome)


def _negative(estimate: Estimate) -> Estimate:
    if estimate.ends is None:
        return estimate
    low, high = estimate.ends
    return Estimate(-estimate.mean, -high, -low)


def _share(estimate: Estimate) -> str:
    return _without_zeros(_ends(estimate, ".3f"))


def _signed(estimate: Estimate) -> str:
    return _without_zeros(_ends(estimate, "+.3f"))


def _plus(value: float) -> str:
    return _without_zeros(f"{value:+.3f}")


def _without_zeros(text: str) -> str:
    return re.sub(r"\b0\.", ".", text)


def _ends(estimate: Estimate | None, form: str) -> str:
    if estimate is None:
        return "not defined"
    ends = f" [{estimate.low:{form}}, {estimate.high:{form}}]" if estimate.low is not None else ""
    return f"{estimate.mean:{form}}{ends}"
