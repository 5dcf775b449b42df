"""Preparing as an Apache Beam pipeline: units of the input become blocks, and blocks a data directory.

Names, counts and vignette ids pass between workers. An id that comes twice makes its later vignettes rejects: their
units are read again, as a block is written before it is known what the others hold.
"""

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam

from schemas.errors import InputError
from trainer.importing.input_formats import Parts
from trainer.importing.units import InputFile, Unit, UnitReader, units_of
from trainer.vignettes.assembly import Plan, assemble
from trainer.vignettes.blocks import Block, write_block
from trainer.vignettes.passes import first_pass
from trainer.vignettes.rejects import RejectLog
from trainer.vignettes.spool import Spool

_GROUPS = 256
"""Into which ids are divided. The ids of a group are in the memory of one worker, with their places."""


def build(pipeline: beam.Pipeline, inputs: Iterable[InputFile], source: Parts, plan: Plan) -> None:
    """Adds the steps to a pipeline."""
    blocks = (
        pipeline
        | "files" >> beam.Create(list(inputs))
        | "spread input files" >> beam.Reshuffle()
        | "cut" >> beam.FlatMap(units_of)
        | "spread units" >> beam.Reshuffle()
        | "read" >> beam.FlatMap(read_unit, source, plan).with_outputs("ids", main="blocks")
    )
    repeated = blocks.ids | "by group" >> beam.GroupByKey() | "find repeated ids" >> beam.FlatMap(repeated_ids)
    settled = (
        {"blocks": blocks.blocks, "repeated": repeated}
        | "by unit" >> beam.CoGroupByKey()
        | "reject repeated ids" >> beam.Map(settled_block, source, plan)
    )
    assemble(settled, plan)


def read_unit(unit: Unit, source: Parts, plan: Plan) -> Iterator[Any]:
    """Writes the block of a unit; yields both by the unit's name, and its ids by their group.

    Raises:
        OSError: a file cannot be read or written.
    """
    claims = _Claims({})
    yield unit.name, (unit, _block(unit, unit.name, claims, source, plan))
    groups: dict[int, list[tuple[str, int]]] = {}
    for vignette_id, line in claims.lines:
        groups.setdefault(zlib.crc32(vignette_id.encode()) % _GROUPS, []).append((vignette_id, line))
    for group, ids in groups.items():
        yield beam.pvalue.TaggedOutput("ids", (group, (unit.name, unit.file.name, json.dumps(ids))))


def repeated_ids(group: tuple[int, Iterable[tuple[str, str, str]]]) -> Iterator[tuple[str, dict[int, str]]]:
    """Yields the name of each unit that repeats ids: the place of their first use, by line."""
    first: dict[str, str] = {}
    for name, file, ids in sorted(group[1]):
        places = {}
        for vignette_id, line in json.loads(ids):
            place = first.setdefault(vignette_id, here := f"{file}:{line}")
            if place is not here:
                places[line] = place
        if places:
            yield name, places


def settled_block(grouped: tuple[str, Mapping[str, Iterable[Any]]], source: Parts, plan: Plan) -> Block:
    """Returns the block of a unit without the vignettes whose ids were used before.

    Raises:
        OSError: a file cannot be read or written.
    """
    name, values = grouped
    [(unit, block)] = values["blocks"]
    places = {line: place for part in values["repeated"] for line, place in part.items()}
    return _block(unit, f"{name}-unique", _Claims(places), source, plan) if places else block


def _block(unit: Unit, name: str, claims: "_Claims", source: Parts, plan: Plan) -> Block:
    reader = UnitReader(unit, source.headed)

    def fill(spool: Spool, log: RejectLog) -> int:
        return first_pass(source.read[unit.file.place](reader), spool, claims, log)

    try:
        return write_block(name, plan.scratch, source.vocabulary, fill, (str(unit.file.place), unit.sha256))
    except InputError as error:  # another attempt would find the same
        return Block(name, fault=str(error).replace(str(reader.path), unit.file.name))


class _Claims:
    """The ids of a unit with their lines, and those that were used before."""

    def __init__(self, places: Mapping[int, str]):
        self.lines: list[tuple[str, int]] = []
        self._places = places

    def claim(self, vignette_id: str, place: str) -> str | None:
        """See `trainer.vignettes.passes.Claims`."""
        line = int(place.rpartition(":")[2])
        self.lines.append((vignette_id, line))
        return self._places.get(line)
