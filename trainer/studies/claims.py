"""The paper's claims, and whether a study's figures support them: pure functions of results.json.

A claim holds, does not hold, or is open (None) if the study did not measure it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

PAR = 0.03
"""Agents are on a par if their shares differ by at most this, or if the 95% interval of one contains the mean of the
other. An agent is worse if it is below by more than this."""
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
_NOT_MEASURED: Verdict = (None, "Not measured in this study.")


def claims(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns each claim with `holds` and a sentence with its `numbers`.

    Args:
        results: results.json with `agents`, `by_evidence` and `k_fold`.
    """
    agents = results["agents"]
    verdicts: dict[str, Verdict] = {
        "DyQN-OR is on a par with the clinicians": _on_a_par(agents, "human", "the clinicians"),
        "DyQN-OR is on a par with the fully-observed model": _on_a_par(
            agents, "fully_observed", "the fully-observed model"
        ),
        "DyQN-OR needs less evidence than the vignettes hold": _less_evidence(agents),
        "DyQN-AND stops much earlier than DyQN-OR and is worse": _and_query(agents),
        "Partially observed OR never stops before the limit on the test split": _never_stops(agents),
        "Partially observed AND stops after about 10 questions": _near_ten(agents),
        "On average the learning agents ask more on test vignettes than on training vignettes": _asks_more(agents),
        "Calibration helps on small evidence sets": _calibration(results["by_evidence"]),
        "K-fold cross-validation is a little worse than the common split": _k_fold(agents, results["k_fold"]),
        "Goal: DyQN-OR is at or above clinicians and fully-observed model, with at most 80% of the evidence": _goal(
            agents
        ),
    }
    return [{"claim": claim, "holds": holds, "numbers": numbers} for claim, (holds, numbers) in verdicts.items()]


def _measured(agents: Mapping[str, Any], *needed: tuple[str, str]) -> bool:
    """Returns whether each (agent, metric) has a figure."""
    return all(name in agents and agents[name]["metrics"].get(metric) for name, metric in needed)


def _mean(agents: Mapping[str, Any], name: str, metric: str) -> float:
    return agents[name]["metrics"][metric]["mean"]


def _on_a_par(agents: Mapping[str, Any], other: str, label: str) -> Verdict:
    if not _measured(agents, *[(name, metric) for name in ("dyqn_or", other) for metric in _QUALITY]):
        return _NOT_MEASURED
    parts, verdicts = [], []
    for metric in _QUALITY:
        ours, theirs = agents["dyqn_or"]["metrics"][metric], _mean(agents, other, metric)
        close = abs(ours["mean"] - theirs) <= PAR
        covered = ours["low"] is not None and ours["low"] <= theirs <= ours["high"]
        verdicts.append(close or covered)
        why = f"within {_share(PAR)}" if close else "within its interval" if covered else "outside of both"
        parts.append(f"{metric} {_with_interval(ours)} against {_share(theirs)} ({why})")
    return all(verdicts), f"DyQN-OR and {label}: {'; '.join(parts)}."


def _evidence_part(agents: Mapping[str, Any]) -> tuple[float, float]:
    """Returns the mean pieces that DyQN-OR saw, and those that the same vignettes hold."""
    return _mean(agents, "dyqn_or", "evidence_seen"), _mean(agents, "fully_observed", "evidence_seen")


def _less_evidence(agents: Mapping[str, Any]) -> Verdict:
    if not _measured(agents, ("dyqn_or", "evidence_seen"), ("fully_observed", "evidence_seen")):
        return _NOT_MEASURED
    seen, held = _evidence_part(agents)
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
    holds = asked_and <= MUCH_EARLIER * asked_or and right_and < right_or - PAR
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


def _asks_more(agents: Mapping[str, Any]) -> Verdict:
    learning = [name for name in agents if agents[name]["learns"] and agents[name]["train"]]
    if not learning:
        return _NOT_MEASURED
    pairs = {name: (_mean(agents, name, "questions"), agents[name]["train"]["questions"]) for name in learning}
    listed = ", ".join(f"{agents[name]['label']} {test:.1f} and {train:.1f}" for name, (test, train) in pairs.items())
    test, train = (np.mean(column) for column in zip(*pairs.values(), strict=True))
    return bool(test > train), (
        f"Questions on the test and on the training split: {listed}; on average {test:.1f} and {train:.1f}, in the "
        "paper 15.6 and 4.9."
    )


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


def _goal(agents: Mapping[str, Any]) -> Verdict:
    others = ("human", "fully_observed")
    needed = [(name, metric) for name in ("dyqn_or", *others) for metric in _QUALITY]
    needed += [("dyqn_or", "evidence_seen"), ("fully_observed", "evidence_seen")]
    if not _measured(agents, *needed):
        return _NOT_MEASURED
    best = {metric: max(_mean(agents, name, metric) for name in others) for metric in _QUALITY}
    ours = {metric: _mean(agents, "dyqn_or", metric) for metric in _QUALITY}
    seen, held = _evidence_part(agents)
    holds = all(ours[metric] >= best[metric] for metric in _QUALITY) and seen <= LESS_EVIDENCE * held
    compared = ", ".join(f"{metric} {_share(ours[metric])} against {_share(best[metric])}" for metric in _QUALITY)
    return holds, f"DyQN-OR and the better of the two: {compared}; with {seen / held:.0%} of the evidence."


def _share(value: float) -> str:
    return f"{value:.3f}".removeprefix("0") if 0 <= value < 1 else f"{value:.3f}"


def _with_interval(figure: Mapping[str, Any]) -> str:
    if figure["low"] is None:
        return _share(figure["mean"])
    return f"{_share(figure['mean'])} [{_share(figure['low'])}, {_share(figure['high'])}]"
