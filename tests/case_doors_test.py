"""A case is the same at every door: HTTP, Vertex AI, `triage score`, `triage prepare`, labels and the Python client."""

import codecs
import json

import pytest

from schemas.errors import InputError
from serving.messages import codes_of
from serving.monitor.labelled import Labelled
from serving.scoring import cases
from serving.wires.json_body import reader
from serving.wires.triage_json import Instances, Patient, State, to_message
from tests.builders import symptoms
from trainer.data.source import LineReader, read_each
from trainer.data.vignette import from_fields
from triage_client import evidence_state
from triage_runtime.case import parse_object

VOCABULARY = symptoms("fever", "cough")
ID, DECIDED = {"vignette_id": 17}, {"decisions": ["Red"]}
_read_patient, _read_instances = reader(Patient), reader(Instances, "instances", State)


def _written(path, fields):
    path.write_bytes(codecs.BOM_UTF8 + json.dumps(fields).encode())
    return path


def _of_message(message):
    return *codes_of(message), message.questions_asked


def http(fields, _):
    return _of_message(to_message(_read_patient(codecs.BOM_UTF8 + json.dumps(fields).encode())))


def vertex(fields, _):
    body = codecs.BOM_UTF8 + json.dumps({"instances": [fields], "parameters": None}).encode()
    return _of_message(to_message(_read_instances(body).instances[0]))


def client(fields, _):
    return _of_message(evidence_state(**fields))


def score(fields, folder):
    [read] = cases.read(_written(folder / "cases.jsonl", ID | fields), 10)
    assert read.ids == ["17"]
    return read.present[0], read.absent[0], read.questions_asked[0]


def prepare(fields, folder):
    path = _written(folder / "vignettes.jsonl", ID | DECIDED | {"split": None, "tags": None} | _evidence(fields))
    [read] = read_each(LineReader(path), lambda line: from_fields(parse_object(line.decoded()), VOCABULARY))
    if not hasattr(read, "present"):
        raise InputError(read.reason)
    assert read.vignette_id == "17"
    return list(read.present), list(read.absent), fields.get("questions_asked") or 0


def labels(fields, folder):
    Labelled(_written(folder / "labels.jsonl", DECIDED | {"tags": None} | _evidence(fields)), {}, VOCABULARY)


def _evidence(fields):
    return {key: fields.get(key) for key in ("present", "absent")}


DOORS = (http, vertex, client, score, prepare, labels)
every_door = pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)


@every_door
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"present": ["fever"], "absent": None}, (["fever"], [], 0)),
        ({"present": None, "absent": ["cough"], "questions_asked": None}, ([], ["cough"], 0)),
        ({"present": ["fever"], "absent": [], "questions_asked": 3.0}, (["fever"], [], 3)),
    ],
)
def test_null_says_nothing_and_a_number_without_fraction_is_whole(door, fields, expected, tmp_path):
    assert door(fields, tmp_path) == (None if door is labels else expected)


@every_door
@pytest.mark.parametrize(
    "fields",
    [{"present": "fever"}, {"present": ["fever"], "absent": "cough"}, {"present": ["fever", 3]}],
)
def test_what_is_no_list_of_texts_is_refused(door, fields, tmp_path):
    with pytest.raises((InputError, TypeError)):
        door(fields, tmp_path)


@pytest.mark.parametrize("door", [http, vertex, client, score], ids=lambda door: door.__name__)
@pytest.mark.parametrize("number", [3.5, "3", [3], True])
def test_what_is_no_whole_number_is_refused(door, number, tmp_path):
    with pytest.raises((InputError, TypeError), match=r"questions_asked: .*whole number"):
        door({"present": ["fever"], "questions_asked": number}, tmp_path)
