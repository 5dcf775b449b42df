"""An exported version, which answers and interviews in this process as `triage serve` does."""

import contextlib
import os
import pathlib
import weakref
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import pandas as pd

from schemas.errors import InputError
from serving.client.channel import Connection
from serving.console.case import ABSENT, NOT_KNOWN, PRESENT, Case, Statement
from serving.console.local_server import serving
from serving.console.served_model import ServedModel
from serving.messages import DEFERRALS, action_label, speaks
from serving.wires.message_json import message_figures
from triage_runtime.case import read_codes

_SECONDS = 30.0


class Question(NamedTuple):
    """A question that the model puts."""

    code: str
    text: str
    why: str
    """Why it is put, "" where the model cannot say."""
    one_of: tuple[str, ...] = ()
    """The codes to choose from, such as age bands, where the patient has exactly one; () for other questions."""
    any_of: tuple[str, ...] = ()
    """Red flags that are asked together, any number of which the patient has; () for other questions."""


class Model:
    """The highest version in a folder of versions, behind a server of its own on this machine's loopback.

    Use it as a context manager, or `close` it.

    Args:
        models: the model base path.

    Raises:
        InputError: there is no version, or it is damaged.
    """

    def __init__(self, models: str | os.PathLike[str]):
        self._exits = contextlib.ExitStack()
        with contextlib.ExitStack() as exits:
            address = exits.enter_context(serving(pathlib.Path(models)))
            self._served = exits.enter_context(ServedModel(Connection(address, timeout=_SECONDS)))
            self.version = self._served.version().info.model_version
            self._exits = exits.pop_all()
        weakref.finalize(self, self._exits.close)  # at the latest before modules are torn down

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Model version {self.version}, {len(self._served.version().vocabulary)} pieces of evidence"

    def close(self) -> None:
        """Ends the server; the model answers no more."""
        self._exits.close()

    @property
    def vocabulary(self) -> pd.DataFrame:
        """The evidence that the model knows: `kind`, `name` and `question` by `code`."""
        rows = [(each.code, each.kind, each.name, each.question) for each in self._served.version().vocabulary]
        return pd.DataFrame(rows, columns=["code", "kind", "name", "question"]).set_index("code")

    def interview(
        self, present: Sequence[str] = (), absent: Sequence[str] = (), defer_below: float = 0.0
    ) -> "Interview":
        """Returns an interview that begins with the presenting complaint, at least one code.

        Args:
            present: codes that are present.
            absent: codes that are absent.
            defer_below: P(safe) of the decision below which a case is handed over to a person, as novel and
                contradictory ones always are.

        Raises:
            InputError: nothing is given.
            serving.console.served_model.NoAnswerError: a code is unknown, and the message names similar ones; or
                `defer_below` is no probability.
        """
        return Interview(self._served, present, absent, defer_below)


class Interview:
    """A patient's answers so far, and what the model makes of them. `Model.interview` makes it."""

    def __init__(self, served: ServedModel, present: Sequence[str], absent: Sequence[str], defer_below: float):
        present, absent = read_codes(present, PRESENT), read_codes(absent, ABSENT)
        if not present and not absent:
            raise InputError("nothing is known of the patient: give a code in present or absent")
        self._served, self._defer_below = served, defer_below
        self._take(Case(), present, absent)

    def __repr__(self) -> str:
        if self.deferred:
            return f"hand over to a person: {self.deferred}"
        asked = self.question
        return f"{self.decision} so far; asks {asked.text!r}" if asked else f"{self.decision}, decided"

    @property
    def question(self) -> Question | None:
        """The next question, None when the model has decided."""
        answer = self._answer
        if not answer.asks:
            return None
        entry, chosen = answer.model.evidence[answer.question], answer.chosen
        if chosen is None:
            return Question(entry.code, entry.question, "")
        return Question(entry.code, chosen.question, chosen.rationale, tuple(chosen.one_of), tuple(chosen.any_of))

    @property
    def decision(self) -> str:
        """The best triage decision so far, such as "Red"; safety rules are obeyed."""
        return action_label(self._answer.response.best_triage)

    @property
    def deferred(self) -> str:
        """Why a person must look, "" where none must; `decision` is the least urgency until then."""
        response = self._answer.response
        return DEFERRALS[response.deferred] if response.HasField("deferred") else ""

    @property
    def figures(self) -> dict[str, Any]:
        """The whole answer of the model, as `triage ask --json` prints it."""
        return message_figures(self._answer.response)

    def answer(self, said: bool | str | Collection[str] | None) -> None:
        """Answers the question.

        Args:
            said: True for yes and False for no; of a question with `one_of`, the code that is present; of one with
                `any_of`, all codes that are, none in an empty list, so that the others are absent; None where the
                patient cannot tell.

        Raises:
            InputError: the interview is over, or this is no answer to its question.
        """
        asked = self.question
        if asked is None:
            raise InputError("the interview is over: the model has decided")
        codes = asked.any_of or (asked.code,)
        if said is None:
            statuses = dict.fromkeys(codes, NOT_KNOWN)
        elif asked.any_of and not isinstance(said, bool | str) and {*said} <= {*asked.any_of}:
            statuses = {code: PRESENT if code in said else ABSENT for code in codes}
        elif isinstance(said, str) and said in asked.one_of:
            statuses = {said: PRESENT}
        elif isinstance(said, bool) and not asked.one_of and not asked.any_of:
            statuses = {asked.code: PRESENT if said else ABSENT}
        else:
            several = f"a list of any of {', '.join(asked.any_of)}" if asked.any_of else ""
            expected = several or ", ".join(asked.one_of) or "True, False"
            raise InputError(f"{said!r} is no answer to {asked.text!r}: expected {expected} or None")
        counts = self._case.counts(asked.code, self._answer.model.vocabulary)
        self._go_on(self._case.after(*(Statement(code, status, asked=counts) for code, status in statuses.items())))

    def add(self, present: Sequence[str] = (), absent: Sequence[str] = ()) -> None:
        """Adds what the model did not ask about; what was said before about a code no longer counts."""
        self._take(self._case, present, absent)

    def explain(self) -> pd.DataFrame:
        """Returns what each finding does to the decision, by its code.

        Columns: `name`; `status`; `speaks`, "for" the decision, "against" it, "unclear", or ""; `support`, by how much
        the finding raises the probability that the decision is appropriate; and `best_triage_without` it.
        """
        response, evidence = self._answer.response, self._answer.model.evidence
        effects = zip(response.explanation.effects, self.figures["explanation"]["effects"], strict=True)
        rows = [
            {**figures, "name": evidence[figures["code"]].name, "speaks": speaks(effect, response.best_triage)}
            for effect, figures in effects
        ]
        columns = ["name", "status", "speaks", "support", "best_triage_without"]
        return pd.DataFrame(rows, columns=["code", *columns]).set_index("code")

    def _take(self, case: Case, present: Sequence[str], absent: Sequence[str]) -> None:
        for codes, status in ((present, PRESENT), (absent, ABSENT)):
            for code in read_codes(codes, status):
                case = case.after(Statement(code, status, asked=False))
        self._go_on(case)

    def _go_on(self, case: Case) -> None:
        self._answer = self._served.answer(case, self._defer_below)  # raises before anything is changed
        self._case = case
