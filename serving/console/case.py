"""A case as a page carries it: everything that was said, in its order, so that the last thing can be taken back.

The server keeps no case. A page holds it in a hidden field, and each form sends it back.
"""

import dataclasses
import json
from collections.abc import Set
from typing import Any, NamedTuple

from schemas.errors import InputError
from schemas.evidence import Vocabulary, code_fault

PRESENT, ABSENT, NOT_KNOWN = "present", "absent", "not_known"
STATUSES = (PRESENT, ABSENT, NOT_KNOWN)
_MOST = 2_000
"""More than any vocabulary of ours has."""


class Statement(NamedTuple):
    """One finding, or that it is not known."""

    code: str
    status: str  # one of STATUSES
    asked: bool  # whether it answers a question; otherwise it was added from the search
    turn: int = 0  # the same for all that was said together, which is one answer


@dataclasses.dataclass(frozen=True)
class Case:
    """What is known of a patient. Cases are values: each change returns another one."""

    statements: tuple[Statement, ...] = ()
    ended: bool = False
    """Whether no more questions can be answered."""

    @property
    def present(self) -> list[str]:
        """Codes that are present."""
        return self._codes(PRESENT)

    @property
    def absent(self) -> list[str]:
        """Codes that are absent."""
        return self._codes(ABSENT)

    @property
    def not_known(self) -> list[str]:
        """Codes that the patient does not know."""
        return list(dict.fromkeys(self._codes(NOT_KNOWN)))

    @property
    def questions_asked(self) -> int:
        """Number of questions so far, 0 or more."""
        return len({each.turn for each in self.statements if each.asked})

    def counts(self, code: str, vocabulary: Vocabulary) -> bool:
        """Returns whether a question about a code counts as another one: age and sex, the opening, count as one."""
        opening = {vocabulary.codes[cell] for cells in vocabulary.openings.values() for cell in cells}
        return code not in opening or not any(each.asked and each.code in opening for each in self.statements)

    @property
    def codes(self) -> frozenset[str]:
        """All codes that were mentioned."""
        return frozenset(each.code for each in self.statements)

    def status_of(self, code: str) -> str:
        """Returns the status of a code, "" if nobody mentioned it."""
        return next((each.status for each in self.statements if each.code == code), "")

    def after(self, *together: Statement) -> "Case":
        """Returns the case with findings that are said together; what was said before about their codes is forgotten.

        A finding that was added by hand reopens an interview that had ended: there is something new to go on from.
        """
        others = self.without({each.code for each in together}).statements
        turn = max((each.turn for each in self.statements), default=0) + 1
        return Case((*others, *(each._replace(turn=turn) for each in together)))

    def without(self, codes: Set[str]) -> "Case":
        """Returns the case in which nothing was said about some codes."""
        return dataclasses.replace(self, statements=tuple(each for each in self.statements if each.code not in codes))

    def without_last(self) -> "Case":
        """Returns the case before the last answer, or before the questions were ended."""
        if self.ended or not self.statements:
            return Case(self.statements)
        return Case(tuple(each for each in self.statements if each.turn != self.statements[-1].turn))

    def ending(self) -> "Case":
        """Returns the case after which no question can be answered."""
        return Case(self.statements, ended=True)

    def to_text(self) -> str:
        """Returns what `parse` reads."""
        return json.dumps({"said": self.statements, "ended": self.ended}, ensure_ascii=False)

    @classmethod
    def parse(cls, text: str) -> "Case":
        """Returns the case in a hidden field; "" is the empty case.

        Raises:
            InputError: it is none, as when somebody changed the field.
        """
        if not text:
            return cls()
        try:
            fields = json.loads(text)
            statements = tuple(_statement(*each) for each in fields["said"])
            ended = fields["ended"]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise InputError("this page does not hold a case: start over") from None
        if (
            len(statements) > _MOST
            or len({each.code for each in statements}) < len(statements)
            or not isinstance(ended, bool)
        ):
            raise InputError("this page does not hold a case: start over")
        return cls(statements, ended)

    def request(self) -> dict[str, Any]:
        """Returns the case as a request to `POST /v1/triage`."""
        return {
            "present": self.present,
            "absent": self.absent,
            "not_to_ask": self.not_known,
            "questions_asked": self.questions_asked,
            "no_more_evidence": self.ended,
        }

    def _codes(self, status: str) -> list[str]:
        return [each.code for each in self.statements if each.status == status]


def _statement(code: Any, status: Any, asked: Any, turn: Any) -> Statement:
    if code_fault(code) or status not in STATUSES or not isinstance(asked, bool) or type(turn) is not int:
        raise ValueError
    return Statement(code, status, asked, turn)
