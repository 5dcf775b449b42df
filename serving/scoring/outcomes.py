"""What workers leave for each input beside its answers, and the record that is made of it."""

import concurrent.futures
import io
import json
import posixpath
from collections.abc import Collection, Mapping
from typing import Any

from serving.scoring.record import RECORD, Record
from serving.scoring.shards import Shard
from triage_runtime.storage import files

Outcome = Mapping[str, Any]
"""`input`, the state of the file, and either `best_triage`, its cases by best decision, or `fault`, a line of text."""
_READERS = 16  # of small files, which a bucket gives slowly
_ENDING = ".json"


def outcome_location(shard: Shard, scratch: str) -> str:
    """Returns the file for the outcome of a shard."""
    return posixpath.join(scratch, f"{shard.name}{_ENDING}")


def write_outcome(outcome: Outcome, shard: Shard, scratch: str) -> None:
    """Writes the outcome of a shard."""
    files.replace(outcome_location(shard, scratch), io.BytesIO(json.dumps(outcome).encode()), scratch)


def outcomes_in(scratch: str) -> dict[str, Outcome]:
    """Returns the outcomes by the names of the files of answers, in their order."""
    places = [entry.location for entry in files.entries(f"{scratch}/*{_ENDING}")]
    with concurrent.futures.ThreadPoolExecutor(_READERS) as threads:
        contents = threads.map(files.read, places)
        return {
            posixpath.basename(place).removesuffix(_ENDING): json.loads(content or b"{}")
            for place, content in zip(places, contents, strict=True)
        }


def add_outcomes(record: Record, outcomes: Mapping[str, Outcome]) -> list[str]:
    """Adds to the record what is done, and returns the faults."""
    for name, outcome in outcomes.items():
        if "best_triage" in outcome:
            record.add(name, outcome["input"], outcome["best_triage"])
    return [outcome["fault"] for outcome in outcomes.values() if "fault" in outcome]


def read_record(output: str) -> Record | None:
    """Returns the record in a directory of answers, None if there is none."""
    location = posixpath.join(output, RECORD)
    content = files.read(location)
    return None if content is None else Record.read(content, location)


def save_record(record: Record, output: str, scratch: str) -> None:
    """Writes the record into the directory of answers."""
    files.replace(posixpath.join(output, RECORD), io.BytesIO(record.text.encode()), scratch)


def in_words(faults: Collection[str]) -> str:
    """Returns the first fault, and how many there are."""
    others = f" (and {len(faults) - 1:,} more)" if len(faults) > 1 else ""
    return f"{next(iter(faults))}{others}"
