"""Safety rules: red flags that raise the urgency of a decision regardless of the model.

A file is TOML with one table per rule, in the order in which the rules apply (docs/rules.md):

    [sepsis]
    reason = "Fever with low blood pressure can be sepsis."
    urgency = "Red"
    all.present = ["fever", "low_blood_pressure"]
    any.present = ["rigors", "confusion"]
    none.present = ["heat_intolerance"]
"""

import dataclasses
import hashlib
import importlib.resources
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from schemas.errors import InputError
from schemas.evidence import Vocabulary
from schemas.text_file import parse_toml, read_text
from schemas.triage import DECISION_LABELS, Action

DEFAULT = "default"
"""The name of the package's rules for `--rules`."""
NONE = "none"
MAX_RULES = 1000
MAX_TEXT = 500

_DEFAULT_FILE = "rules/red_flags.toml"
_QUANTIFIERS = ("all", "any", "none")
_STATUSES = ("present", "absent")
_NEEDED = ("reason", "urgency")
_KEYS = (*_NEEDED, "stop_asking", *_QUANTIFIERS)

Condition = tuple[str, bool]
"""A code, and whether it is known to be present (True) or known to be absent (False)."""


@dataclasses.dataclass(frozen=True)
class SafetyRule:
    """A minimum urgency for evidence that meets its conditions. Unknown evidence meets no condition."""

    rule_id: str
    reason: str
    urgency: Action
    stop_asking: bool
    """Whether the rule ends the questions with a triage decision. Otherwise it only raises `best_triage` while the
    agent keeps asking. By default, rules for Red do and others do not."""
    all_of: tuple[Condition, ...] = ()
    any_of: tuple[Condition, ...] = ()
    none_of: tuple[Condition, ...] = ()


@dataclasses.dataclass(frozen=True)
class RuleSet:
    """The rules of one file, in their order. An empty set has no `fingerprint`."""

    rules: tuple[SafetyRule, ...] = ()
    source: str = NONE
    """Name of the file, "default" for the package's."""
    fingerprint: str = ""
    """`sha256:` and 64 hexadecimal digits over the file."""
    text: str = ""
    """The file."""

    def __iter__(self) -> Iterator[SafetyRule]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    def described(self) -> dict[str, Any]:
        """Returns the rules for a manifest: `source`, `fingerprint`, and the parts of each rule that answers name."""
        return {
            "source": self.source,
            "fingerprint": self.fingerprint,
            "rules": [
                {
                    "rule_id": rule.rule_id,
                    "urgency": rule.urgency.label,
                    "stop_asking": rule.stop_asking,
                    "reason": rule.reason,
                }
                for rule in self.rules
            ],
        }


NO_RULES = RuleSet()


def parse(text: str, source: str, vocabulary: Vocabulary) -> RuleSet:
    """Reads the text of a file of rules; `source` is its name in errors and in the set.

    Raises:
        InputError: it has faults; the message has one line per fault, with `source` and the rule's id.
    """
    tables = parse_toml(text, source)
    rules: list[SafetyRule] = []
    faults: list[str] = []
    if not tables:
        faults.append(f"{source}: no rules: expected tables such as [chest_pain_with_sweating]; --rules none for none")
    if len(tables) > MAX_RULES:
        faults.append(f"{source}: {len(tables)} rules: expected at most {MAX_RULES}")
    for rule_id, table in tables.items():
        rule_faults = [f"{source}: rule {rule_id!r}: {fault}" for fault in _faults(rule_id, table, vocabulary)]
        faults += rule_faults
        if not rule_faults:
            rules.append(_rule(rule_id, table))
    if faults:
        raise InputError("\n".join(faults))
    digest = hashlib.sha256(text.encode()).hexdigest()
    return RuleSet(tuple(rules), source, f"sha256:{digest}", text)


def choose(name: str | None, vocabulary: Vocabulary) -> tuple[RuleSet, str]:
    """Returns the rules that `--rules` names, and a remark for the user, "" if there is none.

    Args:
        name: a file, "default", "none", or None if the option was not given: then the default set if the vocabulary
            has all of its codes, and no rules otherwise. Half a set of red flags would promise too much.
        vocabulary: whose codes the rules must name.

    Raises:
        InputError: the rules cannot be read, or do not fit the vocabulary.
    """
    if name == NONE:
        return NO_RULES, ""
    if name is not None and name != DEFAULT:
        path = pathlib.Path(name)
        return parse(read_text(path), str(path), vocabulary), ""
    text = importlib.resources.files("schemas").joinpath(_DEFAULT_FILE).read_text(encoding="utf-8")
    try:
        return parse(text, DEFAULT, vocabulary), ""
    except InputError as error:
        if name == DEFAULT:
            raise
        lacking = len(str(error).splitlines())
        return NO_RULES, (
            f"no safety rules: the default ones are for the vocabulary of triage simulate, and {lacking} of their "
            "conditions name codes that this one lacks: write your own (docs/rules.md) and give them with --rules FILE"
        )


class Step(NamedTuple):
    """What one rule that fires makes of a decision, which never becomes less urgent."""

    rule: SafetyRule
    before: Action
    after: Action


def steps(fired: Sequence[SafetyRule], action: Action, best_triage: Action) -> list[Step]:
    """Returns what rules that fire make of a decision, one after the other, for messages.

    An exported model says which rules fire, and the decision after the last; the steps between follow from the rules.
    """
    taken: list[Step] = []
    for rule in fired:
        best_triage = min(best_triage, rule.urgency)
        after = Action.ASK if action == Action.ASK and not rule.stop_asking else best_triage
        taken.append(Step(rule, action, after))
        action = after
    return taken


def _rule(rule_id: str, table: dict[str, Any]) -> SafetyRule:
    urgency = Action(DECISION_LABELS.index(table["urgency"]))
    all_of, any_of, none_of = (
        tuple((code, status == "present") for status in _STATUSES for code in table.get(quantifier, {}).get(status, ()))
        for quantifier in _QUANTIFIERS
    )
    stop_asking = table.get("stop_asking", urgency == Action.RED)
    return SafetyRule(rule_id, table["reason"], urgency, stop_asking, all_of, any_of, none_of)


def _faults(rule_id: str, table: Any, vocabulary: Vocabulary) -> Iterator[str]:
    """Yields the faults of a rule's table, a sentence each."""
    if not isinstance(table, dict):
        yield f"expected a table, such as [{rule_id}]"
        return
    if not rule_id.strip() or len(rule_id) > MAX_TEXT or not rule_id.isprintable():
        yield f"expected an id of one line, at most {MAX_TEXT} characters"
    for key in table:
        if key not in _KEYS:
            yield f"unknown key {key!r}: expected {', '.join(_KEYS)}"
    for key in _NEEDED:
        if key not in table:
            yield f"the key {key!r} is missing"
    reason = table.get("reason", "given below")
    if not isinstance(reason, str) or not reason.strip() or not reason.isprintable() or len(reason) > MAX_TEXT:
        yield f"reason: expected one line of text for clinicians, at most {MAX_TEXT} characters"
    urgency = table.get("urgency", DECISION_LABELS[0])
    if urgency not in DECISION_LABELS:
        yield f"urgency {urgency!r}: expected one of {', '.join(DECISION_LABELS)}"
    if not isinstance(table.get("stop_asking", True), bool):
        yield f"stop_asking {table['stop_asking']!r}: expected true or false"
    yield from _condition_faults(table, vocabulary)


def _condition_faults(table: dict[str, Any], vocabulary: Vocabulary) -> Iterator[str]:
    named: dict[str, set[Condition]] = {quantifier: set() for quantifier in _QUANTIFIERS}
    for quantifier in _QUANTIFIERS:
        groups = table.get(quantifier, {})
        if not isinstance(groups, dict) or set(groups) - set(_STATUSES):
            yield f'{quantifier}: expected {quantifier}.present = ["code"] or {quantifier}.absent = ["code"]'
            continue
        for status, codes in groups.items():
            if not isinstance(codes, list) or not codes or not all(isinstance(code, str) for code in codes):
                yield f"{quantifier}.{status}: expected a list of evidence codes, at least one"
                continue
            for code in codes:
                condition = (code, status == "present")
                if code not in vocabulary:
                    yield f"{quantifier}.{status}: {vocabulary.unknown_message(code)}"
                elif condition in named[quantifier]:
                    yield f"{quantifier}.{status}: {code!r} is listed twice"
                named[quantifier].add(condition)
    if not named["all"] and not named["any"]:
        yield "expected a code in all or any: a rule with none alone would fire whenever little is known"
    yield from _contradictions(named)


def _contradictions(named: dict[str, set[Condition]]) -> Iterator[str]:
    """Yields why a rule could never fire."""
    never = "it can never fire"
    for code, status in sorted(named["all"]):
        if status and (code, False) in named["all"]:
            yield f"{never}: {code!r} would have to be present and absent"
        if (code, status) in named["none"]:
            yield f"{never}: {code!r} is in all and in none"
    if named["any"] and named["any"] <= named["none"]:
        yield f"{never}: all conditions of any are in none"
