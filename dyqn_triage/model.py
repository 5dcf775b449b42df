"""An exported version, which answers and interviews in this process as `triage serve` does."""

import contextlib
import numbers
import os
import pathlib
import tempfile
import weakref
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple, cast

import pandas as pd

from dyqn_triage.frames import Frame
from dyqn_triage.keywords import in_keywords
from schemas import features
from schemas.bands import EQUALS
from schemas.errors import InputError, shown
from schemas.model_directory import version_folder
from schemas.triage import DECISION_LABELS
from serving.client.channel import ConnectionOptions
from serving.console.case import ABSENT, NOT_KNOWN, PRESENT, Case, Statement
from serving.console.local_server import serving
from serving.console.served_model import NoAnswerError, ServedModel
from serving.engine.model_config import VersionPolicy
from serving.engine.saved_model import SavedModelEngine
from serving.messages import DEFERRALS, action_label, speaks
from serving.scoring.answers import Scorer
from serving.scoring.cases import FIELDS, ID, NOT_READ, batched, case_of
from serving.wires.message_json import message_figures
from triage_runtime.case import read_codes

_SECONDS = 30.0
_BATCH = 4096


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
    """An exported version. Interviews have a server of their own on this machine's loopback, from the first one on.

    Use it as a context manager, or `close` it. A pickle holds the files of the version, so it can be loaded anywhere.

    Args:
        path: the folder of a version, or of several, of which the highest counts.

    Raises:
        InputError: there is no version, or it is damaged.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self._folder = version_folder(pathlib.Path(path)).resolve()
        self._engine = SavedModelEngine(self._folder)
        self.version = self._engine.info.model_version
        self._served: ServedModel | None = None
        self._end: Any = lambda: None

    def __getstate__(self) -> tuple[str, dict[str, bytes]]:
        files = (path for path in version_folder(self._folder).rglob("*") if path.is_file())
        return self._folder.name, {path.relative_to(self._folder).as_posix(): path.read_bytes() for path in files}

    def __setstate__(self, state: tuple[str, dict[str, bytes]]) -> None:
        name, files = state
        temporary = tempfile.TemporaryDirectory()
        for file, content in files.items():
            path = pathlib.Path(temporary.name, name, file)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        Model.__init__(self, pathlib.Path(temporary.name, name))
        weakref.finalize(self, temporary.cleanup)  # its interviews read the folder

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        codes, rules = len(self._engine.vocabulary), len(self._engine.info.rules)
        return f"Model({str(self._folder)!r}): version {self.version}, {codes:,} evidence codes, {rules:,} safety rules"

    def close(self) -> None:
        """Ends the server of the interviews, which cannot go on."""
        self._end()
        self._served = None

    @property
    def vocabulary(self) -> pd.DataFrame:
        """The evidence that the model knows: `kind`, `name` and `question` by `code`."""
        rows = [(each.code, each.kind, each.name, each.question) for each in self._engine.vocabulary]
        return pd.DataFrame(rows, columns=["code", "kind", "name", "question"]).set_index("code")

    @in_keywords()
    def predict(
        self,
        frame: pd.DataFrame,
        *,
        ignore_columns: Iterable[str] = (),
        allow_unknown_codes: bool = False,
        defer_below: float = 0.0,
    ) -> pd.DataFrame:
        """Returns the answer to each row of a data frame, as `triage score` gives it, with the frame's index.

        Columns: `decision`, the best triage decision so far; `action`, which may be "ask"; of each colour, as in
        `appropriate_red`, the probabilities that it is appropriate and safe, and its Q-value; `fired_rules`; `novelty`;
        `deferred`, why a person must look, "" where none must; and more. A row of which nothing is known has none.

        Args:
            frame: as `prepare` takes it; decisions are not read.
            ignore_columns: columns that are no evidence.
            allow_unknown_codes: whether codes that the model does not know are left out and listed, not refused.
            defer_below: P(safe) of the decision below which a case is handed over, beside novel and contradictory ones.

        Raises:
            InputError: a row is faulty, an argument is, or nothing is known about any patient.
        """
        _check_probability(defer_below)
        vocabulary = self._engine.vocabulary
        rows = Frame("frame", frame, (*FIELDS, *NOT_READ), ignore_columns)
        rows.check_columns(None if allow_unknown_codes else vocabulary)
        cases, places = [], []
        for place, row in enumerate(rows.rows(vocabulary.bands.units)):
            if row.fault:
                raise InputError(f"frame: row {row.label}: {row.fault}")
            if any(row.fields.get(name) not in (None, []) for name in (PRESENT, ABSENT)):
                places.append(place)
                cases.append(case_of(f"frame: row {row.label}", row.label, row.fields))
        if not cases:
            raise InputError("frame: nothing is known about any patient: give codes in present and absent, or columns")
        scorer = Scorer(self._engine, 0, allow_unknown_codes, defer_below)
        parts = [pd.DataFrame(scorer.answer(batch.ids, scorer.encode(batch))) for batch in batched(cases, _BATCH)]
        answers = pd.concat(parts).drop(columns=ID).set_axis(places)
        answers.insert(0, "decision", answers.pop(features.BEST_TRIAGE))
        return answers.reindex(range(len(frame))).set_axis(frame.index)

    def predict_proba(self, frame: pd.DataFrame, *, ignore_columns: Iterable[str] = ()) -> pd.DataFrame:
        """Returns the probability that each triage decision is appropriate, by colour, with the frame's index.

        They do not sum to 1, as several may be appropriate. The arguments are those of `predict`.

        Raises:
            InputError: as `predict`, or the model has Q-values alone.
        """
        answers = self.predict(frame, ignore_columns=ignore_columns)
        names = {f"appropriate_{label.lower()}": label for label in DECISION_LABELS}
        if not {*names} <= {*answers.columns}:
            raise InputError(f"version {self.version} has no probabilities: train with the preset default")
        return answers[[*names]].rename(columns=names)

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
            InputError: nothing is given; a code is unknown, and the message names similar ones; or `defer_below` is no
                probability.
        """
        if self._served is None:
            if not self.version.isdecimal():
                raise InputError(f"{self._folder}: for interviews a version's folder needs a number as its name")
            with contextlib.ExitStack() as exits:
                policy = VersionPolicy(numbers=frozenset([int(self.version)]))
                address = exits.enter_context(serving(self._folder.parent, policy))
                self._served = exits.enter_context(ServedModel(ConnectionOptions(address, timeout=_SECONDS)))
                self._end = weakref.finalize(self, exits.pop_all().close)  # at the latest when the process exits
        return Interview(self, cast(ServedModel, self._served), present, absent, defer_below)


class Interview:
    """A patient's answers so far, and the model's decision on them. `Model.interview` makes it."""

    def __init__(
        self, model: Model, served: ServedModel, present: Sequence[str], absent: Sequence[str], defer_below: float
    ):
        present, absent = read_codes(present, PRESENT), read_codes(absent, ABSENT)
        if not present and not absent:
            raise InputError("nothing is known about the patient: give a code in present or absent")
        _check_probability(defer_below)
        self._model = model  # whose end is that of the server, too
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
        """Why a person must look, "" where no person must; `decision` is the least urgency until then."""
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
            InputError: the interview is over, its model was closed, or this is not an answer to its question.
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
            raise InputError(f"{said!r} is not an answer to {asked.text!r}: expected {expected} or None")
        counts = self._case.counts(asked.code, self._answer.model.vocabulary)
        self._go_on(self._case.after(*(Statement(code, status, asked=counts) for code, status in statuses.items())))

    def add(self, present: Sequence[str] = (), absent: Sequence[str] = ()) -> None:
        """Adds what the model did not ask about.

        What was said before about a code, or by another number of the same measure, no longer counts.
        """
        self._check_open()
        bands = self._served.version().vocabulary.bands
        earlier = {code for code in self._case.codes if bands.is_number(code)}
        measures = {code.partition(EQUALS)[0] for code in read_codes(present, PRESENT)}
        replaced = {code for code in earlier if code.partition(EQUALS)[0] in measures}
        self._take(self._case.without(replaced), present, absent)

    def explain(self) -> pd.DataFrame:
        """Returns the effect of each finding on the decision, by its code.

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
        vocabulary = self._served.version().vocabulary
        for codes, status in ((present, PRESENT), (absent, ABSENT)):
            for code in read_codes(codes, status):
                if not (code in vocabulary or vocabulary.bands.is_number(code)):
                    raise InputError(f"{status}: {vocabulary.unknown_message(code)}")
                case = case.after(Statement(code, status, asked=False))
        self._go_on(case)

    def _go_on(self, case: Case) -> None:
        self._check_open()
        try:
            self._answer = self._served.answer(case, self._defer_below)  # raises before anything is changed
        except NoAnswerError as error:
            raise InputError(str(error)) from error
        self._case = case

    def _check_open(self) -> None:
        if self._model._served is not self._served:
            raise InputError("the model of this interview was closed: make another with Model.interview")


def _check_probability(defer_below: float) -> None:
    if isinstance(defer_below, bool) or not isinstance(defer_below, numbers.Real) or not 0 <= defer_below <= 1:
        raise InputError(f"defer_below: expected a number from 0 to 1, found {shown(defer_below)}")
