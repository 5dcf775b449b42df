"""The actions of the agent: four triage decisions in urgency order, and `ask` last."""

import enum
from typing import Any, NamedTuple

from schemas.errors import InputError, shown


class Action(enum.IntEnum):
    """An action of the agent; the integer is its column in every `[B, A]` tensor.

    Urgency falls as the integer of a triage decision grows (paper, section "Clinical vignettes").
    """

    RED = 0
    YELLOW = 1
    GREEN = 2
    BLUE = 3
    ASK = 4

    @property
    def label(self) -> str:
        """The name in data files, tensors and on the command line, such as "Red" or "ask"."""
        return ACTION_LABELS[self]


TRIAGE_DECISIONS = (Action.RED, Action.YELLOW, Action.GREEN, Action.BLUE)
"""The four triage decisions, most urgent first."""

DECISION_LABELS = tuple(decision.name.capitalize() for decision in TRIAGE_DECISIONS)
ACTION_LABELS = (*DECISION_LABELS, "ask")
NUM_DECISIONS = len(TRIAGE_DECISIONS)
NUM_ACTIONS = len(Action)

WIRE_NUMBERS: dict[Action, Any] = {Action.RED: 1, Action.YELLOW: 2, Action.GREEN: 3, Action.BLUE: 4, Action.ASK: 5}
"""The number of each action in `triage.v1.TriageAction`, in the order of the actions.

Any, as messages have a type of their own for it. A number never changes: a fifth level of urgency would stand before
`ask` here, and have the number 6.
"""
_ACTIONS_BY_WIRE_NUMBER = {number: action for action, number in WIRE_NUMBERS.items()}


def action_on_wire(number: int) -> Action:
    """Returns the action that has a number in `triage.v1.TriageAction`.

    Raises:
        ValueError: there is none, such as for 0, "unspecified".
    """
    try:
        return _ACTIONS_BY_WIRE_NUMBER[number]
    except KeyError:
        raise ValueError(f"{number} is not the number of an action") from None


MAX_QUESTIONS = 23
"""The number of questions after which the agent must triage (paper, section "Metrics")."""

NO_QUESTIONS_LEFT = 2**31 - 1
"""The `questions_asked` of a signature that stands for "no more evidence to ask for": it reaches every limit."""


def is_forced(questions_asked: Any, max_questions: Any, exhausted: Any = False) -> Any:
    """Returns whether the agent must triage now: it may not ask, as the limit is reached or nothing is left to ask for.

    The one rule for numbers, NumPy arrays and tensors alike.

    Args:
        questions_asked: `ask` actions so far, also those that revealed nothing; int or integers `[B]`.
        max_questions: the limit, at least 1.
        exhausted: bool, or booleans `[B]`: no evidence is left.
    """
    return (questions_asked >= max_questions) | exhausted


def asks_next(
    action: Any, best_triage: Any, forced: Any, worth_asking: Any = True, must_ask: Any = False, any_left: Any = True
) -> Any:
    """Returns whether the next step of an interview is to ask: the one rule by which every interview continues or ends.

    It continues while the agent asks and a question is worth asking, or where a question must be asked and the decision
    is not Red yet: the agent may be certain of a less urgent decision before anybody asked. Takes Python values, NumPy
    arrays and tensors. Where the questions are not known, the defaults follow the action.

    Args:
        action: of the agent; int, or integers `[B]`.
        best_triage: the best triage decision; int, or integers `[B]`.
        forced: see `is_forced`; bool, or booleans `[B]`, as are the others.
        worth_asking: whether a question is worth more than it costs.
        must_ask: whether a question is about age, sex or a red flag.
        any_left: whether any question is left.
    """
    agent_asks = (action == int(Action.ASK)) & worth_asking
    return (agent_asks | (must_ask & (best_triage != int(Action.RED)))) & any_left & (forced ^ True)


class NextStep(NamedTuple):
    """What comes next: a question, a person who takes over, or else the decision; bool or booleans `[B]`."""

    ask: Any
    hand_over: Any
    reasons: tuple[Any, Any, Any]
    """Why a person takes over: the evidence is contradictory, it is novel, or the decision is unsure, in the order of
    `triage.v1.DeferralReason` from its number 1. At most one holds, and none where nothing is known and nobody can say
    more."""


def next_step(
    action: Any,
    best_triage: Any,
    forced: Any,
    contradictory: Any = False,
    is_novel: Any = False,
    unsure: Any = False,
    nothing_known: Any = False,
    worth_asking: Any = True,
    must_ask: Any = False,
) -> NextStep:
    """Returns what comes next after an answer: the one rule for the graph, the server and `triage score`.

    What is contradictory gets no better by more answers. What is novel or unsure is handed over in place of a decision,
    so not while the next step is to ask. Takes Python values, NumPy arrays and tensors.

    Args:
        action: of the agent, after the safety rules; int, or integers `[B]`.
        best_triage: the best triage decision; int, or integers `[B]`.
        forced: see `is_forced`; bool, or booleans `[B]`, as are the others.
        contradictory: whether the evidence is, for callers who want such cases handed over.
        is_novel: whether the evidence is, for these callers.
        unsure: whether the decision is, see `is_unsure`, for these callers.
        nothing_known: whether nothing is, where the questions are known.
        worth_asking: see `asks_next`.
        must_ask: see `asks_next`.
    """
    undecided = (action == int(Action.ASK)) & (forced | nothing_known)
    asks = undecided | asks_next(action, best_triage, forced, worth_asking, must_ask)
    decided = (contradictory | asks) ^ True
    reasons = contradictory, decided & is_novel, decided & unsure & (is_novel ^ True)
    hand_over = reasons[0] | reasons[1] | reasons[2] | (undecided & forced)
    return NextStep(asks & (hand_over ^ True), hand_over, reasons)


def is_unsure(best_triage: Any, safe: Any, red: Any, defer_below: float, hand_over_from: float | None) -> Any:
    """Returns whether a decision is not safe enough, or is below Red though Red is too likely.

    Takes Python values and NumPy arrays. The decision is unsafe if its P(safe), `safe`, is below `defer_below`; for
    `red` and `hand_over_from` see `may_be_red`; the latter is None if the model hands over nothing for that.
    """
    unsafe = safe < defer_below
    return unsafe if hand_over_from is None else unsafe | may_be_red(best_triage, red, hand_over_from)


def may_be_red(decisions: Any, red: Any, hand_over_from: float) -> Any:
    """Returns whether a decision is below Red though Red is too likely: a promise leaves it to a person.

    The one rule for numbers, NumPy arrays and tensors alike.

    Args:
        decisions: columns of triage decisions; int, or integers `[B]`.
        red: the probability that Red is appropriate; float, or floats `[B]`.
        hand_over_from: the probability from which it is too likely, see `schemas.model_directory.ModelInfo`.
    """
    return (decisions > int(Action.RED)) & (red >= hand_over_from)


_DECISIONS_BY_LABEL = {decision.label: decision for decision in TRIAGE_DECISIONS}


def parse_decision(label: str) -> Action:
    """Returns the triage decision that `label` names.

    Raises:
        InputError: `label` is not exactly "Red", "Yellow", "Green" or "Blue".
    """
    decision = _DECISIONS_BY_LABEL.get(label) if isinstance(label, str) else None
    if decision is None:
        raise InputError(f"triage decision {shown(label)} is not one of {', '.join(DECISION_LABELS)}")
    return decision
