"""The findings of a study in plain sentences made from its numbers, whether favourable or not."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from schemas.triage import MAX_QUESTIONS
from trainer.reports.numbers import (
    APPROPRIATENESS,
    EVIDENCE_SEEN,
    QUESTIONS,
    SAFETY,
    Measure,
    count,
    difference,
    estimate_at,
    interval,
    listed,
    number_at,
    several,
    shown,
    value_at,
)

FEW_VIGNETTES = 300
ASKS_MORE = "DyQN-OR asks more on test vignettes than on training vignettes"
"""The claim on which a sentence of its own rests."""
_AGENT = ("agents", "dyqn_or", "metrics")
_AS_CLINICIANS = ("agents", "dyqn_or", "as_clinicians")
_HUMAN = ("agents", "human", "metrics")


def verdict(results: Mapping[str, Any]) -> str:
    """Returns the outcome of the claims in one sentence."""
    outcomes = Counter(value_at(claim, "outcome") for claim in results.get("claims") or [])
    total = sum(outcomes.values())
    if not total:
        return "This study checked none of the paper's claims."
    parts = [
        f"{outcomes[outcome]} {words}"
        for outcome, words in (("holds", "held here"), ("fails", "failed here"), ("not shown", "not shown"),
                               ("not measured", "not measured"))
        if outcomes[outcome]
    ]  # fmt: skip
    return f"Of {several(total, 'claim')} about the agents, {listed(parts)}."


def answer(results: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns the answer as headings with sentences: how good the agent is, compared with what, when it stops."""
    if number_at(results, *_AGENT, "appropriateness", "mean") is None:
        return [("No answer yet", "The agent (DyQN, OR query) was not measured.")]
    candidates = (
        ("How good is it?", _quality(results)),
        ("Compared with clinicians", _compared_with_clinicians(results)),
        ("Dangerous errors", _dangerous(results)),
        ("Compared with a constant answer", _compared_with_constant(results)),
        ("When does it stop?", _stopping(results)),
        ("On new cases", _adapting(results)),
    )
    return [(heading, text) for heading, text in candidates if text]


def simulated(results: Mapping[str, Any]) -> str:
    """Returns whether the data are simulated."""
    known = value_at(results, "data", "simulated")
    if known:
        return (
            "The vignettes and the clinicians' decisions on them are simulated by a program. The figures show how well "
            "the method learns from such data; they say nothing about patients."
        )
    if known is None:
        return "Whether the vignettes and decisions are simulated or come from clinicians is not recorded."
    return "The vignettes and decisions are not simulated by this software."


def limits(results: Mapping[str, Any]) -> list[str]:
    """Returns the limits of the figures, first those due to the study's settings."""
    sentences = []
    if value_at(results, "settings", "mode") == "quick":
        sentences.append(
            "This is the quick mode: shorter training, fewer runs, and parts of the study left out. Its figures "
            "show that everything works; they are not the results of the study."
        )
    if value_at(results, "data", "simulated") is not False:
        sentences.append(
            "Simulated clinicians make only the errors of the simulator, and simulated cases are tidier than real ones."
            if value_at(results, "data", "simulated")
            else simulated(results)
        )
    seeds = len(value_at(results, *_AGENT, "appropriateness", "per_seed") or [])
    if seeds == 1:
        sentences.append("Only one seed was trained: the variation between training runs was not measured.")
    test = number_at(results, "data", "vignettes", "test")
    if test and test < FEW_VIGNETTES:
        sentences.append(
            f"The test split has {test:,.0f} vignettes: each changes a share by {100 / test:.1f} percentage points."
        )
    return [
        *sentences,
        "The paper's figures are for its own vignettes, which are not public. They are shown for orientation; "
        "differences can come from the data as well as from the method.",
        "The reference is the decisions of a few clinicians. A decision that they all share can be wrong, and one that "
        "none of them made can be right.",
        "A clinician is judged by the other clinicians. In the table of all agents an agent is judged by all of them, "
        "as in the paper, which is easier: compare the two in the other tables and in the claims.",
        "The agent decides when to stop asking, not what to ask: evidence comes in random order, and answers are "
        "always correct.",
        "Intervals are 95% bootstrap intervals of the mean over the test vignettes. They do not cover the choice of "
        "the test split and chance in training, for which see cross-validation and the standard deviation over seeds.",
        "No figure here comes from use with patients. Clinical use requires clinical validation before and "
        "after deployment.",
    ]


def _mean(results: Mapping[str, Any], place: tuple[str, ...], measure: Measure) -> float | None:
    return number_at(results, *place, measure.key, "mean")


def _quality(results: Mapping[str, Any]) -> str:
    parts = []
    for measure, what in ((APPROPRIATENESS, "appropriately"), (SAFETY, "safely")):
        estimate = estimate_at(results, *_AGENT, measure.key)
        ends = interval(measure, estimate, " to ")
        uncertain = f" (95% interval {ends})" if ends else ""
        parts.append(f"{what} in {shown(measure, estimate and estimate.mean)} of cases{uncertain}")
    test = value_at(results, "data", "vignettes", "test")
    where = f"On {count(test)} vignettes it had not seen before" if test else "On vignettes it had not seen before"
    return f"{where}, the agent (DyQN, OR query) triaged {parts[0]} and {parts[1]}."


def _compared_with_clinicians(results: Mapping[str, Any]) -> str:
    differences = value_at(results, "comparisons", "dyqn_or", "human")
    if not differences:
        return "The agent was not compared with the clinicians."
    parts, ends = [], []
    for measure in (APPROPRIATENESS, SAFETY):
        ours, theirs = (_mean(results, place, measure) for place in (_AS_CLINICIANS, _HUMAN))
        parts.append(f"{measure.label.lower()} {shown(measure, ours)} against {shown(measure, theirs)}")
        ends.append(f"{difference(measure, estimate_at(differences, measure.key))} percentage points")
    vignettes = count(value_at(differences, SAFETY.key, "vignettes"))
    margin = number_at(results, "comparisons", "margin") or 0.0
    return (
        f"On the {vignettes} vignettes with three or more decisions, each judged by all clinicians but one: "
        f"{listed(parts)}. The differences, vignette by vignette, are {listed(ends)} with their 95% intervals. On a "
        f"par means that both intervals lie within {100 * margin:g} points."
    )


def _dangerous(results: Mapping[str, Any]) -> str:
    under, over = (number_at(results, *_AGENT, name, "mean") for name in ("under_triage", "over_triage"))
    if under is None:
        return ""
    sentence = (
        f"In {shown(SAFETY, under)} of cases, the agent's decision was less urgent than every clinician's, which is "
        "the dangerous error"
    )
    sentence += f"; in {shown(SAFETY, over)}, it was more urgent than every clinician's." if over is not None else "."
    red = value_at(results, "agreement", "red_sensitivity")
    sensitivity, cases = number_at(red, "mean"), value_at(red, "vignettes")
    if sensitivity is None or not cases:
        return sentence
    red_cases = several(cases, "case")
    return f"{sentence} It found {shown(SAFETY, sensitivity)} of the {red_cases} that most clinicians called Red."


def _compared_with_constant(results: Mapping[str, Any]) -> str:
    agent = _mean(results, _AGENT, APPROPRIATENESS)
    constant = number_at(results, "agents", "always_green", "metrics", "appropriateness", "mean")
    if agent is None or constant is None:
        return ""
    constant_answer = f"Answering Green to every case is appropriate in {shown(APPROPRIATENESS, constant)} of cases"
    if agent <= constant:
        return f"{constant_answer}: the agent is no better."
    return f"{constant_answer}: the agent is {100 * (agent - constant):.1f} percentage points better."


def _stopping(results: Mapping[str, Any]) -> str:
    asked, seen = (_mean(results, _AGENT, measure) for measure in (QUESTIONS, EVIDENCE_SEEN))
    if asked is None:
        return "The number of questions was not measured."
    whole = number_at(results, "data", "mean_evidence")
    asking = f"It asked {asked:.1f} questions on average before deciding"
    if seen is not None:
        asking += (
            f", when it knew {seen:.1f}" + (f" of a vignette's {whole:.1f}" if whole else "") + " pieces of evidence"
        )
    if asked >= MAX_QUESTIONS - 0.5:
        return f"{asking}: it almost never stopped before the limit, so it has not learned when it knows enough."
    if asked < 1:
        return f"{asking}: it mostly decided on the first piece of evidence."
    forced = number_at(results, *_AGENT, "forced", "mean")
    ended = f", which forced the decision in {shown(SAFETY, forced)} of episodes" if forced is not None else ""
    return f"{asking}; the limit is {MAX_QUESTIONS}{ended}."


def _adapting(results: Mapping[str, Any]) -> str:
    train = number_at(results, "agents", "dyqn_or", "train", "questions")
    test = _mean(results, _AGENT, QUESTIONS)
    if train is None or test is None:
        return ""
    forced = [number_at(results, "agents", "dyqn_or", "train", "forced"), number_at(results, *_AGENT, "forced", "mean")]
    numbers = f"({test:.1f} against {train:.1f} questions"
    if None not in forced:
        numbers += f"; forced in {shown(SAFETY, forced[1])} against {shown(SAFETY, forced[0])} of episodes"
    numbers += ")"
    outcomes = {str(claim["claim"]): claim["outcome"] for claim in results.get("claims") or []}
    outcome = outcomes.get(ASKS_MORE)
    if outcome == "holds":
        return f"It asks more questions on new vignettes than on those it was trained on {numbers}."
    if outcome == "fails":
        return (
            f"It does not ask more questions on new vignettes than on those it was trained on {numbers}: no sign of "
            "the adaptation to new cases that the paper describes."
        )
    return f"That it asks more questions on new vignettes than on those it was trained on is not shown {numbers}."
