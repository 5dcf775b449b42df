"""The lines of feedback files, which `triage serve --cds-feedback` writes and `triage prepare --format feedback` reads.

A line of a card has `card`, its id, with `present` and `absent` codes, the model's `decision`, null where it handed
over to a person, and its `model_version`.
A line of an outcome has the `card`, the `outcome`, the clinician's `decision` (null where none was given), a `comment`
(likewise) and the `time`, as the caller gave it, with an offset from UTC.
"""

import contextlib
import datetime
import re

CARD = "card"
OUTCOME = "outcome"
DECISION = "decision"
TIME = "time"
ACCEPTED, OVERRIDDEN = OUTCOMES = ("accepted", "overridden")
A_TIME = "a date and a time with its offset from UTC, such as 2026-01-01T09:00:00Z or 2026-01-01T10:00:00+01:00"


def read_time(text: str) -> datetime.datetime | None:
    """Returns a time of ISO 8601 with its offset; None for anything else."""
    # Python 3.10 reads neither Z nor fractions of a second with other than three or six digits.
    whole = re.sub(r"\.(\d+)", lambda found: f".{found[1][:6]:0<6}", text.replace("Z", "+00:00"))
    with contextlib.suppress(ValueError):
        time = datetime.datetime.fromisoformat(whole)
        return None if time.tzinfo is None else time
    return None
