"""Every CSV file that a user hands in is read by the same rules, whoever reads it."""

import datetime

import pytest

from schemas.errors import InputError
from schemas.evidence import Vocabulary
from schemas.text_file import read_text
from schemas.triage import Action
from serving.hospital.cds_hooks import CodeMap
from serving.scoring import cases
from tests.builders import symptoms
from trainer.data.csv_files import LongTables, WideTable
from trainer.data.ddxplus import Diagnosis, PatientOptions, Release, demographics, read_patients
from trainer.data.source import LineReader
from trainer.simulation.knowledge_base import Catalogue, read_column

KNOWN = symptoms("fever")
RELEASE = Release(Vocabulary(demographics()), {"Cold": Diagnosis(Action.BLUE, ())}, {})
NOW = datetime.datetime(2026, 3, 1, tzinfo=datetime.timezone.utc)
CONDITION = {"resourceType": "Condition", "code": {"coding": [{"system": "urn:x", "code": "1"}]}}


def code_map(path):
    return CodeMap.load(path).read({"condition": CONDITION}, KNOWN, NOW, "1").present


def score(path):
    [read] = cases.read(path, 10)
    return read.ids, read.present


def phrases(path):
    return read_column(path, "synonyms")


def catalogue(path):
    return Catalogue.parse(read_text(path), str(path)).vocabulary


def prepare_wide(path):
    return [each.vignette for each in WideTable(LineReader(path)).read(KNOWN)]


def prepare_long(path):
    """Reads the file with the decisions as well."""
    evidence = path.with_name("evidence.csv")
    evidence.write_text("vignette_id,evidence,presence\nv1,fever,1\n")
    tables = LongTables(LineReader(evidence), LineReader(path))
    assert len(list(tables.load(collect=False))) == 2
    return [each.vignette for each in tables.read(KNOWN, KNOWN.unknown_message)]


def ddxplus(path):
    return [each.vignette.present for each in read_patients(LineReader(path), RELEASE, PatientOptions())]


FILES = {
    code_map: "system,code,evidence\nurn:x,1,fever\n",
    score: "vignette_id,present\nv1,fever cough\n",
    Vocabulary.load: "code,kind,name,question\nfever,symptom,Fever,Hot?\n",
    phrases: "code,synonyms\nfever,hot\n",
    catalogue: "code,kind,name,question,system,parent,exclusive,only_if,background\n"
    "old,risk_factor,O,O?,demographic,,age,,0.5\nyoung,risk_factor,Y,Y?,demographic,,age,,0.5\n"
    "man,risk_factor,M,M?,demographic,,sex,,0.5\nwoman,risk_factor,W,W?,demographic,,sex,,0.5\n",
    prepare_wide: "vignette_id,fever,decisions\nv1,1,Red\n",
    prepare_long: "vignette_id,decision\nv1,Red\n",
    ddxplus: "AGE,DIFFERENTIAL_DIAGNOSIS,SEX,PATHOLOGY,EVIDENCES\n5,,M,Cold,[]\n",
}
every_door = pytest.mark.parametrize("read", FILES, ids=lambda read: read.__name__)


def _written(tmp_path, text):
    path = tmp_path / "people.csv"
    path.write_text(text, encoding="utf-8", newline="")
    return path


@every_door
@pytest.mark.parametrize(
    "change",
    [
        lambda text: "\ufeff" + text.replace("\n", "\r\n"),
        lambda text: text.replace(",", ";"),
        lambda text: text.replace(",", "\t"),
        lambda text: "sep=;\n" + text.replace(",", ";"),
        lambda text: text.replace("\n", ",,\n"),
        lambda text: text.replace(",", " , "),
    ],
    ids=["byte order mark", "semicolons", "tabs", "sep=", "empty last columns", "spaces"],
)
def test_a_file_is_read_as_spreadsheets_write_it(read, change, tmp_path):
    plain = read(_written(tmp_path, FILES[read]))
    assert plain
    assert read(_written(tmp_path, change(FILES[read]))) == plain


@every_door
def test_a_heading_that_comes_twice_is_refused(read, tmp_path):
    header, *rows = FILES[read].splitlines()
    twice = [f"{header},{header.rpartition(',')[2]}", *(f"{row},x" for row in rows)]
    with pytest.raises(InputError, match=r"line 1: column \d+: '\w+' .*column \d"):
        read(_written(tmp_path, "\n".join(twice)))
