"""The lines of feedback files, which `triage serve --cds-feedback` writes and `triage prepare --format feedback` reads.

A line of a card has `card`, its id, with `present` and `absent` codes, the model's `decision` and its `model_version`.
A line of an outcome has the `card`, the `outcome`, the clinician's `decision` (null where none was given), a `comment`
(likewise) and the `time`, as the caller gave it.
"""

CARD = "card"
OUTCOME = "outcome"
DECISION = "decision"
TIME = "time"
ACCEPTED, OVERRIDDEN = OUTCOMES = ("accepted", "overridden")
