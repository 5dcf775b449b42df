"""The paper's claims, and whether a study's figures support them: pure functions of results.json.

A claim holds, does not hold, or is open (None) if the study did not measure it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from schemas.triage import MAX_QUESTIONS

WORSE_BY = 0.03
"""DyQN-AND is worse than DyQN-OR if its appropriateness is below by more than this."""
MUCH_EARLIER = 0.5
"""DyQN-AND stops much earlier if it asks at most this share of DyQN-OR's questions (in the paper, a tenth: 1.4 and
13.3)."""
NEVER_STOPS = 22.5
"""Mean number of questions from which an agent counts as never stopping before the limit of 23."""
NEAR = 3.0
"""Distance from the paper's 10.35 questions that counts as near."""
LESS = 0.95
"""Share of the evidence up to which an agent needs less; any agent that ever stops early sees slightly less."""
LESS_EVIDENCE = 0.8
"""Share of the evidence that the goal allows."""
SMALL = 3
"""Maximum number of pieces in a small evidence set."""
WORSE = 0.1
"""A difference up to this is small."""

Verdict = tuple[bool | None, str]
_QUALITY = ("appropriateness", "safety")
_COMPARED = {"dyqn_or": "DyQN-OR", "default_preset": "The preset default"}
_OTHERS = {"human": "the clinicians", "fully_observed": "the fully-observed model"}
_NOT_MEASURED: Verdict = (None, "Not measured in this study.")


def claims(results: Mapping[str, Any], max_questions: int = MAX_QUESTIONS) -> list[dict[str, Any]]:
    """Returns each claim with `holds` and a sentence with its `numbers`.

    Args:
        results: results.json with `agents`, `comparisons`, `by_evidence` and `k_fold`.
        max_questions: the question limit.
    """
    agents, comparisons = results["agents"], results["comparisons"]
    verdicts: dict[str, Verdict] = {
        **{
            f"{label} is on a par with {other_label}": _on_a_par(comparisons, name, other)
            for name, label in _COMPARED.items()
            for other, other_label in _OTHERS.items()
        },
        "DyQN-OR needs less evidence than the vignettes hold": _less_evidence(agents),
        "DyQN-AND stops much earlier than DyQN-OR and is worse": _and_query(agents),
        "Partially observed OR never stops before the limit on the test split": _never_stops(agents),
        "Partially observed AND stops after about 10 questions": _near_ten(agents),
        "DyQN-OR asks more on test vignettes than on training vignettes": _asks_more(agents, max_questions),
        "Calibration helps on small evidence sets": _calibration(results["by_evidence"]),
        "K-fold cross-validation is a little worse than the common split": _k_fold(agents, results["k_fold"]),
        **{
            f"Goal: {label} is at or above clinicians and fully-observed model, with at most 80% of the evidence":
            _goal(agents, name, label)
            for name, label in _COMPARED.items()
        },
    }  # fmt: skip
    return [{"claim": claim, "holds": holds, "numbers": numbers} for claim, (holds, numbers) in verdicts.items()]


def _measured(agents: Mapping[str, Any], *needed: tuple[str, str]) -> bool:
    """Returns whether each (agent, metric) has a figure."""
    return all(name in agents and agents[name]["metrics"].get(metric) for name, metric in needed)


def _mean(agents: Mapping[str, Any], name: str, metric: str) -> float:
    return agents[name]["metrics"][metric]["mean"]


def _on_a_par(comparisons: Mapping[str, Any], name: str, other: str) -> Verdict:
    differences = comparisons.get(name, {}).get(other)
    if not differences:
        return _NOT_MEASURED
    margin = comparisons["margin"]
    verdicts = {metric: equivalent(differences[metric], margin) for metric in _QUALITY}
    vignettes = differences["safety"]["vignettes"]
    parts = (
        f"{metric} {_signed(differences[metric])} ({_placed(differences[metric], verdicts[metric], margin)})"
        for metric in _QUALITY
    )
    return all(verdicts.values()), (
        f"Difference on the same {vignettes:,} vignettes, with its 95% interval and a margin of {_share(margin)}: "
        f"{'; '.join(parts)}."
    )


def equivalent(difference: Mapping[str, Any], margin: float) -> bool:
    """Returns whether two shares are equivalent: whether the 95% interval of their difference lies within the margin.

    That is two one-sided tests, each at 2.5% (Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15(6),
    1987). Few vignettes make a wide interval, which shows no equivalence.
    """
    low, high = difference["low"], difference["high"]
    return low is not None and -margin <= low and high <= margin


def _placed(difference: Mapping[str, Any], within: bool, margin: float) -> str:
    """Returns where the interval of a difference lies."""
    if within:
        return "within the margin"
    low, high = difference["low"], difference["high"]
    if low is None:
        return "without an interval"
    if high < 0:
        return "below"
    return "above" if low > 0 else f"not known to within {_share(margin)}"


def _evidence_part(agents: Mapping[str, Any], name: str) -> tuple[float, float]:
    """Returns the mean pieces that an agent saw, and those that the same vignettes hold."""
    return _mean(agents, name, "evidence_seen"), _mean(agents, "fully_observed", "evidence_seen")


def _less_evidence(agents: Mapping[str, Any]) -> Verdict:
    if not _measured(agents, ("dyqn_or", "evidence_seen"), ("fully_observed", "evidence_seen")):
        return _NOT_MEASURED
    seen, held = _evidence_part(agents, "dyqn_or")
    asked = _mean(agents, "dyqn_or", "questions")
    return seen <= LESS * held, (
        f"It decides on {seen:.1f} of {held:.1f} pieces of evidence ({seen / held:.0%}), after {asked:.1f} questions, "
        "including those asked after the evidence had run out."
    )


def _and_query(agents: Mapping[str, Any]) -> Verdict:
    needed = [(name, metric) for name in ("dyqn_or", "dyqn_and") for metric in ("appropriateness", "questions")]
    if not _measured(agents, *needed):
        return _NOT_MEASURED
    (asked_or, asked_and), (right_or, right_and) = (
        [_mean(agents, name, metric) for name in ("dyqn_or", "dyqn_and")] for metric in ("questions", "appropriateness")
    )
    holds = asked_and <= MUCH_EARLIER * asked_or and right_and < right_or - WORSE_BY
    return holds, (
        f"DyQN-AND asks {asked_and:.1f} questions, DyQN-OR {asked_or:.1f}; appropriateness {_share(right_and)} against "
        f"{_share(right_or)}."
    )


def _never_stops(agents: Mapping[str, Any]) -> Verdict:
    if not _measured(agents, ("partially_observed_or", "questions")):
        return _NOT_MEASURED
    asked = _mean(agents, "partially_observed_or", "questions")
    return asked >= NEVER_STOPS, f"It asks {asked:.1f} questions on the test split; the limit and the paper say 23."


def _near_ten(agents: Mapping[str, Any]) -> Verdict:
    if not _measured(agents, ("partially_observed_and", "questions")):
        return _NOT_MEASURED
    asked = _mean(agents, "partially_observed_and", "questions")
    return abs(asked - 10.35) <= NEAR, f"It asks {asked:.1f} questions on the test split; the paper says 10.35."


def _asks_more(agents: Mapping[str, Any], max_questions: int) -> Verdict:
    """Judges DyQN-OR by the same rule on both splits; in the paper a training episode ends with its evidence.

    Forced episodes are told apart: an agent that is forced more often asks more without having chosen to.
    """
    needed = ("questions", "forced", "evidence_seen")
    if not _measured(agents, *(("dyqn_or", metric) for metric in needed)) or not agents["dyqn_or"]["train"]:
        return _NOT_MEASURED
    train = {metric: agents["dyqn_or"]["train"][metric] for metric in needed}
    test = {metric: _mean(agents, "dyqn_or", metric) for metric in needed}
    ended = [_ended_by_itself(split, max_questions) for split in (test, train)]
    by_itself = "on one of them none that it ended by itself" if None in ended else (
        f"{ended[0]:.1f} and {ended[1]:.1f} in those that it ended by itself"
    )  # fmt: skip
    more = test["questions"] > train["questions"] and None not in ended and ended[0] > ended[1]  # type: ignore[operator]
    return more, (
        f"Questions on test and on training vignettes: {test['questions']:.1f} and {train['questions']:.1f} in all "
        f"episodes, {by_itself}; forced at the limit in {test['forced']:.0%} and {train['forced']:.0%}. Counted as "
        f"in the paper, whose training episodes end with the evidence: {test['questions']:.1f} and "
        f"{train['evidence_seen'] - 1:.1f}; the paper's four agents 15.6 and 4.9."
    )


def _ended_by_itself(split: Mapping[str, float], max_questions: int) -> float | None:
    """Returns the mean number of questions in episodes that were not forced, each of which asks the most questions."""
    if split["forced"] >= 1:
        return None
    return (split["questions"] - max_questions * split["forced"]) / (1 - split["forced"])


def _calibration(by_evidence: Mapping[str, Sequence[Mapping[str, Any]]]) -> Verdict:
    points = [[p for p in by_evidence[name] if p["pieces"] <= SMALL] for name in ("calibrated", "uncalibrated")]
    if not all(points):
        return _NOT_MEASURED

    def mean(part: Sequence[Mapping[str, Any]], value: Callable[[Mapping[str, Any]], float]) -> float:
        return float(np.average([value(p) for p in part], weights=[p["vignettes"] for p in part]))

    right = [mean(part, lambda p: p["appropriateness"]) for part in points]
    safe = [mean(part, lambda p: p["safety"]) for part in points]
    return right[0] > right[1], (
        f"With 1 to {SMALL} pieces of evidence: appropriateness {_share(right[0])} calibrated and {_share(right[1])} "
        f"not, safety {_share(safe[0])} and {_share(safe[1])}."
    )


def _k_fold(agents: Mapping[str, Any], k_fold: Mapping[str, Any] | None) -> Verdict:
    if k_fold is None or not _measured(agents, ("dyqn_or", "appropriateness")):
        return _NOT_MEASURED
    runs = [run["appropriateness"] for run in k_fold["runs"]]
    common, mean = _mean(agents, "dyqn_or", "appropriateness"), float(np.mean(runs))
    return 0 < common - mean <= WORSE, (
        f"Appropriateness {_share(mean)} over {len(runs)} folds ({_share(min(runs))} to {_share(max(runs))}) against "
        f"{_share(common)} on the common split."
    )


def _goal(agents: Mapping[str, Any], ours: str, label: str) -> Verdict:
    others = ("human", "fully_observed")
    needed = [(name, metric) for name in (ours, *others) for metric in _QUALITY]
    needed += [(ours, "evidence_seen"), ("fully_observed", "evidence_seen")]
    if not _measured(agents, *needed):
        return _NOT_MEASURED
    best = {metric: max(_mean(agents, name, metric) for name in others) for metric in _QUALITY}
    reached = {metric: _mean(agents, ours, metric) for metric in _QUALITY}
    seen, held = _evidence_part(agents, ours)
    holds = all(reached[metric] >= best[metric] for metric in _QUALITY) and seen <= LESS_EVIDENCE * held
    compared = ", ".join(f"{metric} {_share(reached[metric])} against {_share(best[metric])}" for metric in _QUALITY)
    return holds, f"{label} and the better of the two: {compared}; with {seen / held:.0%} of the evidence."


def _share(value: float) -> str:
    return f"{value:.3f}".removeprefix("0") if 0 <= value < 1 else f"{value:.3f}"


def _signed(difference: Mapping[str, Any]) -> str:
    def text(value: float) -> str:
        return f"{value:+.3f}".replace("0.", ".", 1)

    if difference["low"] is None:
        return text(difference["mean"])
    return f"{text(difference['mean'])} [{text(difference['low'])}, {text(difference['high'])}]"
