"""CDS Hooks: requests as the examples of its specification, cards, and feedback that becomes vignettes."""

import datetime
import json
import re
import stat

import pytest
from hypothesis import given, strategies

import triage_cli
from schemas.errors import InputError
from schemas.evidence import Evidence, Vocabulary
from schemas.triage import TRIAGE_DECISIONS, WIRE_NUMBERS
from serving.hospital import cds_hooks
from serving.hospital.cds_hooks import CodeMap
from serving.hospital.fhir_resources import knows_complaint
from serving.service import TriageService
from tests.builders import http_to, served
from tests.serving.conftest import write_model
from trainer.data.tfrecord import DataDirectory
from triage.v1 import triage_pb2

RECORDS = "https://ehr.example.org"
LOINC, SNOMED = "http://loinc.org", "http://snomed.info/sct"
CODES = f"""\
system,code,evidence,hours
{SNOMED},29857009,chest_pain,
{SNOMED},8392000,!smoker,
{LOINC},8310-5,temperature,12
{LOINC},8310-6,temperature,
{LOINC},8867-4,pulse,
{LOINC},72166-2,smoker,
{SNOMED},1,gout,
{SNOMED},386661006,fever,12
Patient.birthDate,,age,
Patient.gender,male,man,
"""
NOW = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.timezone.utc)
KNOWN = Vocabulary(
    [
        Evidence("chest_pain", "symptom", "Chest pain", "Chest pain?"),
        Evidence("fever", "symptom", "Fever", "Fever?", band="temperature >=38 <45 °C"),
        Evidence("smoker", "risk_factor", "Smoker", "Do you smoke?"),
        Evidence("man", "risk_factor", "Man", "Man?"),
        Evidence("old", "risk_factor", "Old", "Old?", band="age >=60 <130 years"),
        Evidence("fast", "symptom", "Fast pulse", "Fast?", band="pulse >90 <350 /min if old"),
    ]
)
SERVED = Vocabulary(list(KNOWN)[:3])
PATIENT = {"resourceType": "Patient", "gender": "male", "birthDate": "1925-12-23", "id": "1288992", "active": True}


def condition(code, **fields):
    return {"resourceType": "Condition", "code": {"coding": [{"system": SNOMED, "code": code}]}, **fields}


def observation(code, taken="2026-03-01T11:00:00Z", **value):
    coding = {"system": LOINC, "code": code}
    return {"resourceType": "Observation", "status": "final", "code": {"coding": [coding]},
            "effectiveDateTime": taken, **value}  # fmt: skip


def quantity(value, unit):
    return {"valueQuantity": {"value": value, "unit": unit}}


def celsius(value, **fields):
    return observation("8310-5", **quantity(value, "Cel"), **fields)


def concept(*codings, **fields):
    return {"coding": [dict(zip(("code", "system"), coding, strict=False)) for coding in codings], **fields}


def smoking(value, **fields):
    """An answer to whether the patient smokes."""
    return observation("72166-2", valueCodeableConcept=value, **fields)


def coded(code, **fields):
    return smoking(concept((code, SNOMED)), **fields)


def order(**fields):
    return {"resourceType": "ServiceRequest", "reasonCode": [concept(("8392000", SNOMED))], **fields}


def panel(*parts, **fields):
    return {**observation("85354-9", **fields), "component": [{**part, "status": "", "effectiveDateTime": None}
                                                              for part in parts]}  # fmt: skip


def bundle(*resources):
    entries = [{"resource": each} for each in resources]
    return {"resourceType": "Bundle", "type": "searchset", "entry": entries}


def read(code_map, prefetch):
    return code_map.read(prefetch, KNOWN, NOW, PATIENT["id"])


@pytest.fixture(scope="module")
def code_map(tmp_path_factory):
    path = tmp_path_factory.mktemp("codes") / "codes.csv"
    path.write_text(CODES)
    return CodeMap.load(path)


@pytest.mark.parametrize(
    ("resources", "present", "absent", "left_out"),
    [
        ([PATIENT], ["age=100.19", "man"], [], []),
        ([condition("29857009")], ["chest_pain"], [], []),
        ([condition("8392000")], [], ["smoker"], []),
        ([{**condition("1"), "code": [concept(("29857009", SNOMED))]}], ["chest_pain"], [], []),  # a list
        ([{**condition("1"), "code": {"coding": {"code": "29857009", "system": SNOMED}}}], ["chest_pain"], [], []),
        ([condition("1")], [], [], ["gout"]),
        ([condition("99")], [], [], []),
        ([celsius(39.1)], ["temperature=39.1"], [], []),
        ([panel(observation("8310-6", **quantity(102.4, "degF")))], ["temperature=102.4F"], [], []),
        ([celsius(36.5, taken="2026-03-01T09:00:00+00:00"), celsius(39.1)], ["temperature=39.1"], [], []),
        ([celsius(39.1, taken="2026-03-01T11:00:00.1234567Z"), celsius(36.5, taken="2026-03-01T10:00:00Z")],
         ["temperature=39.1"], [], []),
        ([bundle(condition("29857009"))], ["chest_pain"], [], []),
        ([celsius(391)], [], [], ["temperature=391"]),
        ([observation("8867-4", **quantity(99, "/min")), PATIENT], ["age=100.19", "man", "pulse=99"], [], []),
        ([observation("72166-2", valueBoolean=False)], [], ["smoker"], []),
        ([coded("8392000")], [], ["smoker"], []),
        ([coded("386661006")], ["fever"], [], []),
        ([observation("72166-2", valueBoolean=True), condition("8392000")], [], [], ["smoker"]),
        ([order(reasonCode=[concept(("8392000", SNOMED)), 3]), order(reasonCode=3)], [], ["smoker"], []),
        ([order(reasonCode=concept(("8392000", SNOMED)))], [], ["smoker"], []),  # no list
        ([condition(" 29857009"), condition("8392000 ")], ["chest_pain"], ["smoker"], []),
        ([{"resourceType": "Condition", "code": concept(("29857009", f"{SNOMED} "))}], ["chest_pain"], [], []),
        ([{"resourceType": "Condition", "code": concept(("29857009", SNOMED), ("29857009",))}], ["chest_pain"], [], []),
        ([condition("99", category=[concept(("29857009", "http://terminology.hl7.org/CodeSystem/x"))])], [], [], []),
        ([{**PATIENT, "gender": "Male"}], ["age=100.19", "man"], [], []),
        ([{"resourceType": "Patient", "gender": "unknown"}], [], [], []),
        ([observation("72166-2", "2020-01-01", valueBoolean=True), coded("8392000")], [], ["smoker"], []),  # the latest
        ([celsius(39.1), celsius(38.2)], [], [], ["temperature"]),
        ([celsius(39.1), {"resourceType": "ServiceRequest", "code": concept(("8310-5", LOINC))}],
         ["temperature=39.1"], [], ["temperature"]),
        ([{"resourceType": "Observation", "code": 3}], [], [], []),
        # An observation and the reason of an order count by their status.
        ([{**coded("8392000"), "status": "cancelled"}], [], [], []),
        ([{**coded("8392000"), "status": "unknown"}], [], [], ["smoker"]),
        ([{**coded("8392000"), "status": "endgültig"}], [], [], ["smoker"]),
        ([order(status="draft")], [], ["smoker"], []),
        ([order(status="revoked")], [], [], []),
        ([order(status="unknown")], [], [], ["smoker"]),
        # A coded yes or no is an answer in each terminology.
        ([smoking(concept(("Y", "http://terminology.hl7.org/CodeSystem/v2-0532")))], ["smoker"], [], []),
        ([smoking(concept(("373066001", SNOMED)))], ["smoker"], [], []),
        ([smoking(concept(("LA32-8", LOINC)))], [], ["smoker"], []),
        ([smoking({"text": "No"})], [], ["smoker"], []),
    ],
)  # fmt: skip
def test_resources_are_read_by_the_map(code_map, resources, present, absent, left_out):
    findings = read(code_map, {"conditions": bundle(*resources)})
    assert (findings.present, findings.absent) == (present, absent)
    assert [each.partition(": ")[0] for each in findings.left_out] == left_out


ACTIVE = "http://terminology.hl7.org/CodeSystem/condition-clinical"


@pytest.mark.parametrize(
    ("given", "present", "absent", "left_out"),
    [
        ({"verificationStatus": concept(("confirmed",), text="by the ward")}, True, False, False),
        ({"verificationStatus": concept(("refuted", "urn:x"))}, False, True, False),
        ({"verificationStatus": concept(("refuted",))}, False, True, False),
        ({"verificationStatus": {"text": "Refuted"}}, False, True, False),
        ({"verificationStatus": concept(("entered-in-error",))}, False, False, False),
        ({"verificationStatus": {"text": "Entered in error"}}, False, False, False),
        ({"verificationStatus": concept(("410516002", SNOMED), text="widerlegt")}, False, False, True),
        ({"verificationStatus": concept(("refuted",), ("confirmed",))}, False, False, True),
        ({"verificationStatus": {}}, False, False, True),
        ({"clinicalStatus": concept(("resolved",))}, False, False, False),
        ({"clinicalStatus": "resolved"}, False, False, False),
        ({"clinicalStatus": {"text": "Resolved"}}, False, False, False),
        ({"clinicalStatus": concept(("relapse", ACTIVE))}, True, False, False),
        ({"clinicalStatus": concept(("unknown", ACTIVE))}, False, False, True),
        ({"abatementDateTime": "2020-01-01"}, False, False, True),
        ({"abatementAge": {"value": 4}, "clinicalStatus": concept(("active", ACTIVE))}, False, False, True),
        ({"abatementString": "long ago", "clinicalStatus": concept(("resolved", ACTIVE))}, False, False, False),
        ({"abatementBoolean": False}, True, False, False),
        ({"modifierExtension": [{"url": "urn:not-done", "valueBoolean": True}]}, False, False, True),
    ],
)
def test_a_condition_counts_by_its_status_and_not_where_that_is_not_understood(
    code_map, given, present, absent, left_out
):
    findings = read(code_map, {"conditions": condition("29857009", **given)})
    assert (findings.present, findings.absent) == (["chest_pain"] * present, ["chest_pain"] * absent)
    assert [each.partition(": ")[0] for each in findings.left_out] == ["chest_pain"] * left_out


PAIN = concept(("29857009", SNOMED))
UNREAD = [
    ({"resourceType": "Encounter", "reasonCode": [PAIN]}, "Encounter.reasonCode"),
    ({"resourceType": "DeviceRequest", "reasonCode": [PAIN]}, "DeviceRequest.reasonCode"),
    ({"resourceType": "FamilyMemberHistory", "condition": [{"code": PAIN}]}, "FamilyMemberHistory.condition.code"),
    ({**condition("99"), "evidence": [{"code": [PAIN]}]}, "Condition.evidence.code"),
    ({"resourceType": "ServiceRequest", "reason": [{"concept": PAIN}]}, "ServiceRequest.reason.concept"),  # R5
    ({"resourceType": "ServiceRequest", "code": PAIN}, "ServiceRequest.code"),
]
WITHOUT_SYSTEM = [
    order(reasonCode=[concept(("29857009",))]),
    order(reasonCode="29857009"),
    {"resourceType": "Condition", "code": "29857009"},
    {"resourceType": "Condition", "code": {"coding": ["29857009"]}},
    {"resourceType": "FamilyMemberHistory", "condition": [{"code": {"code": "29857009"}}]},
]


@pytest.mark.parametrize(
    ("prefetch", "line", "said"),
    [
        ({"observations": {"resourceType": "OperationOutcome", "issue": [{"diagnostics": "no access"}]}},
         "observations", "no access"),
        ({"conditions": {**bundle(condition("99")), "total": 300}}, "conditions", "first page"),
        ({"conditions": {**bundle(), "link": {"relation": "next"}}}, "conditions", "first page"),
        ({"conditions": {"resourceType": "Bundle", "entry": {"0": {}}}}, "conditions", "not a resource"),
        ({"conditions": {"resourceType": "Bundle", "entry": "[]"}}, "conditions", "not a resource"),
        ({"patient": {"resourceType": "Patient", "gender": "F"}}, "Patient.gender", "female"),
        ({"patient": {"resourceType": "Patient", "gender": "male", "modifierExtension": [{}]}}, "Patient.gender",
         "modifierExtension"),
        ({"patient": {"resourceType": "Patient", "birthDate": "2026-03-03"}}, "age", "in the future"),
        ({"patient": {"resourceType": "Patient", "birthDate": "2026"}}, "age", "month"),
        ({"observations": celsius(39.1, taken="2026-12-26T12:00:00Z")}, "temperature", "in the future"),
        ({"observations": observation("8310-6", taken="2026-03-01T12:06:00Z", **quantity(39, "Cel"))}, "temperature",
         "in the future"),
        ({"observations": bundle({"resourceType": "OperationOutcome", "issue": [{"code": "timeout"}]})},
         "observations", "timeout"),
        ({"observations": {**bundle(), "link": [{"relation": "self"}, {"relation": "next", "url": "urn:p2"}]}},
         "observations", "first page"),
        ({"observations": "Bundle"}, "observations", "not a resource"),
        ({"conditions": bundle({**condition("29857009"), "resourceType": "Procedure"})}, "chest_pain", "Procedure"),
        ({"conditions": {"resourceType": "Condition", "code": concept(("29857009",))}}, "chest_pain", "no system"),
        ({"observations": {"resourceType": "Observation", "contained": [celsius(39.1)]}}, "temperature", "contained"),
        *[({"conditions": resource}, "chest_pain", place) for resource, place in UNREAD],
        *[({"conditions": resource}, "chest_pain", "no system") for resource in WITHOUT_SYSTEM],
        *[({"conditions": {"resourceType": "Condition", "code": concept(("29857009", system))}}, "chest_pain", system)
          for system in (f"{SNOMED}/", f"{SNOMED}|2026", "urn:oid:2.16.840.1.113883.6.96")],
        ({"patient": {"resourceType": "Patient", "birthDate": "around 1950"}}, "age", "date of birth"),
        ({"observations": observation("72166-2")}, "smoker", "no value"),
        ({"observations": observation("72166-2", valueString="now and then")}, "smoker", "yes or no"),
        ({"observations": observation("72166-2", valueCodeableConcept=concept(("maybe",)))}, "smoker", "yes or no"),
        ({"observations": observation("72166-2", **quantity(3, "/d"))}, "smoker", "yes or no"),
        ({"observations": observation("8310-6", valueQuantity={"value": 39.1})}, "temperature=39.1", "without a unit"),
        ({"observations": observation("8310-6", valueInteger=39)}, "temperature=39", "without a unit"),
        ({"observations": celsius(39.1, taken=None)}, "temperature", "no time"),
        ({"observations": celsius(39.1, taken="2026-03-01T11:00:00")}, "temperature", "no time"),
        ({"observations": panel(observation("8310-6", **quantity(312, "K")))}, "temperature=312", "not K"),
    ],
)  # fmt: skip
def test_what_is_delivered_and_cannot_be_read_is_left_out_with_the_reason(code_map, prefetch, line, said):
    findings = read(code_map, prefetch)
    assert (findings.present, findings.absent) == ([], [])
    [left_out] = findings.left_out
    assert left_out.startswith(f"{line}: left out, because ")
    assert said in left_out


@pytest.mark.parametrize(
    ("observations", "name"),
    [
        (None, "observations"),
        (celsius(39.1, taken="2026-02-20"), "temperature"),
        (coded("386661006", taken="2019-05-01"), "fever"),
        (observation("72166-2", valueCodeableConcept=concept(("asked-declined",))), "smoker"),
    ],
)
def test_what_is_not_there_or_too_old_is_missing(code_map, observations, name):
    findings = code_map.read(
        {"patient": PATIENT, "conditions": bundle(), "observations": observations}, KNOWN, NOW, "1288992"
    )
    assert findings.left_out == []
    assert not {"temperature", "fever", "smoker"} & {*findings.present, *findings.absent}
    assert [each.partition(": ")[0] for each in findings.missing] == [name]


def without_limit(number, taken):
    return observation("8310-6", taken, **quantity(number, "Cel"))


EARLIER = celsius(36.8, taken="2026-03-01T07:00:00Z")


@pytest.mark.parametrize(
    ("older", "other", "line"),
    [
        (EARLIER, celsius(39.9, taken="2026-03-01T17:00:00"), "temperature"),
        (EARLIER, celsius(39.9, taken="2026-03-01"), "temperature"),
        (EARLIER, observation("8310-6", valueQuantity={"value": 312.1, "code": "K"}), "temperature=312.1"),
        (EARLIER, celsius(391), "temperature=391"),
        (EARLIER, observation("8310-5", valueQuantity={"value": 39, "unit": "Cel", "comparator": ">="}),
         "temperature=39"),
        (EARLIER, observation("8310-6", valueString="39.1 Cel"), "temperature"),
        (without_limit(36.8, "2026-03-01T07:00:00Z"), without_limit(39.9, None), "temperature"),
        (without_limit(36.8, "2026-02-27T07:00:00Z"), without_limit(39.9, "2026-02"), "temperature"),
        (without_limit(36.8, None), without_limit(39.9, None), "temperature"),
        (celsius(36.8), celsius(39.9, taken="2026-12-26T12:00:00Z"), "temperature"),
        (coded("8392000"), observation("72166-2", None, valueBoolean=True), "smoker"),
        (coded("8392000"), coded("373066001", status="unknown", taken="2026-03-01T11:30:00Z"), "smoker"),
    ],
)  # fmt: skip
def test_no_other_reading_stands_in_for_one_that_may_be_the_latest(code_map, older, other, line):
    for readings in ((older, other), (other, older)):
        findings = read(code_map, {"observations": bundle(*readings)})
        assert (findings.present, findings.absent) == ([], [])
        assert [each.partition(": ")[0] for each in findings.left_out] == [line]


def tobacco(code, **fields):
    """An answer to a question that is not in the map, unlike some of its answers."""
    return observation("39240-7", valueCodeableConcept=concept((code, SNOMED)), **fields)


def about(resource, **whose):
    return {**resource, "subject": {"reference": "Patient/1288992"}, **whose}


@pytest.mark.parametrize(
    "entries",
    [
        [celsius(39.1), celsius(36.5), PATIENT],
        [condition("8392000"), observation("72166-2", valueBoolean=True), order(status="unknown")],
        [condition("29857009"), condition("29857009", verificationStatus="refuted")],
        [tobacco("386661006"), tobacco("8392000", taken="2026-03-01"), tobacco("99")],
        [observation("8867-4", **quantity(99, "/min")), PATIENT, celsius(391), condition("1")],
        [celsius(39.1), about(condition("29857009"), subject={}), about(order(), focus=["fetus"])],
    ],
)
@given(data=strategies.data())
def test_the_order_of_the_record_does_not_matter(code_map, entries, data):
    given_order = read(code_map, {"conditions": bundle(*entries)})
    other = data.draw(strategies.permutations(entries))
    assert read(code_map, {"conditions": bundle(*other)}) == given_order


@pytest.mark.parametrize(
    ("latest", "absent", "left_out"),
    [
        (tobacco("99"), [], ["smoker"]),  # a value that the map does not name
        (tobacco("386661006"), [], ["smoker"]),  # another one that it names
        (tobacco("99", status="entered-in-error"), ["smoker"], []),
        ({**tobacco("99"), "code": concept(("85354-9", LOINC))}, ["smoker"], []),  # another question
    ],
)
def test_an_older_answer_to_a_question_does_not_stand_in_for_the_latest(code_map, latest, absent, left_out):
    yesterday = tobacco("8392000", taken="2026-02-28T11:00:00Z")
    findings = read(code_map, {"observations": bundle(latest, yesterday)})
    assert findings.absent == absent
    assert [each.partition(": ")[0] for each in findings.left_out] == left_out


@pytest.mark.parametrize(
    ("resource", "counts"),
    [
        (about(celsius(39.1)), True),
        (about(celsius(39.1), subject={"reference": "https://r.example/Patient/1288992/_history/2"}), True),
        (about(celsius(39.1), subject={"reference": "Patient/21288992"}), False),
        (about(celsius(39.1), subject={"reference": "Group/1288992"}), False),
        (about(celsius(39.1), subject={"display": "Somebody"}), False),
        (about(celsius(39.1), focus=[{"display": "fetus"}]), False),
        (about(celsius(39.1), focus=[{"reference": "Patient/1288992"}]), True),
        (about(condition("29857009"), subject={"reference": "Patient/2"}), False),
        (about(order(), subject={"reference": "Patient/2"}), False),
        ({**PATIENT, "id": "2"}, False),
    ],
)
def test_what_is_about_somebody_else_is_left_out(code_map, resource, counts):
    findings = read(code_map, {"observations": bundle(resource)})
    assert (bool(findings.present), findings.absent) == (counts, [])
    assert [each.partition(": ")[0] for each in findings.left_out] == ["observations"] * (not counts)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("code,evidence\n", "line 1: "),
        ("system,code,evidence\ns,c,\n", "line 2: "),
        ("system,code,evidence\ns,c,e\ns,c,f\n", "line 3: "),
        ("system,code,evidence,hours\ns,c,e,soon\n", "line 2: hours 'soon'"),
    ],
)
def test_a_faulty_map_is_refused(text, place, tmp_path):
    (tmp_path / "codes.csv").write_text(text)
    with pytest.raises(InputError, match=place):
        CodeMap.load(tmp_path / "codes.csv")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("urn:x,1,temprature", "mean temperature"),
        ("urn:x,1,!smokr", "mean smoker"),
        ("urn:x,1,!temperature", "measure"),
        ("http://loinc .org,8310-5,temperature", "white space"),
        ("urn:x,,temperature", "expected a code"),
        ("Patient.birthdate,,age", "Patient.birthDate"),
        ("Patient.birthDate,,old", "measure"),
        ("Patient.gender,m,man", "male"),
    ],
)
def test_a_row_that_never_says_anything_to_the_model_is_refused(row, said, tmp_path):
    (tmp_path / "codes.csv").write_text(f"system,code,evidence\nPatient.gender,male,man\n{row}\n")
    codes = CodeMap.load(tmp_path / "codes.csv")
    with pytest.raises(InputError, match=rf"line 3: .*{said}"):
        codes.check(KNOWN)


@pytest.fixture(scope="module")
def feedback(tmp_path_factory):
    return tmp_path_factory.mktemp("cds") / "feedback"


@pytest.fixture(scope="module")
def client(feedback, without_litert, tmp_path_factory):
    base = tmp_path_factory.mktemp("models")
    with without_litert():
        write_model(SERVED, base, 3)
    codes = base / "codes.csv"
    codes.write_text("".join(line for line in CODES.splitlines(True) if not re.search("gout|pulse|Patient", line)))
    settings = {"cds_feedback": str(feedback), "cors_origins": RECORDS}
    with served(base, http_port=0, cds_codes=str(codes), **settings) as server, http_to(server) as client:
        yield client


def request(*resources, **change):
    """As in the specification's section "Calling a CDS Service"."""
    return {
        "hookInstance": "d1577c69-dfbe-44ad-ba6d-3e05e953b2ea",
        "fhirServer": "http://hooks.smarthealthit.org:9080",
        "hook": "patient-view",
        "fhirAuthorization": {"access_token": "some-opaque-fhir-access-token", "token_type": "Bearer",
                              "expires_in": 300, "scope": "user/Patient.read", "subject": "cds-service4"},
        "context": {"userId": "Practitioner/example", "patientId": "1288992", "encounterId": "89284"},
        "prefetch": {"patient": PATIENT, "conditions": bundle(*resources), "observations": None},
        **change,
    }  # fmt: skip


def card(client, *resources):
    response = client.post("/cds-services/triage", json=request(*resources))
    assert response.status_code == 200, response.text
    [card] = response.json()["cards"]
    return card


@pytest.mark.parametrize(("origin", "allowed"), [(RECORDS, RECORDS), ("https://elsewhere.example.org", None)])
def test_a_browser_of_the_records_may_call_after_a_preflight(client, origin, allowed):
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,content-type"}
    for path in ("/cds-services/triage", "/cds-services/triage/feedback"):
        preflight = client.options(path, headers={"origin": origin, **asked})
        assert preflight.headers.get("access-control-allow-origin") == allowed
        assert (preflight.status_code == 200) == bool(allowed)


def test_discovery_names_the_hook_and_what_to_prefetch(client):
    services = client.get("/cds-services").json()["services"]
    assert [(service["hook"], service["id"]) for service in services] == [
        ("patient-view", "triage"), ("order-select", "triage-order")
    ]  # fmt: skip
    service = services[1]
    assert service["prefetch"]["patient"] == "Patient/{{context.patientId}}"
    assert service["description"]


def test_a_case_that_is_handed_over_warns_and_has_no_decision_to_agree_with():
    decided = ({"best_triage": WIRE_NUMBERS[decision]} for decision in TRIAGE_DECISIONS)
    answers = [triage_pb2.TriageResponse(**each, deferred=triage_pb2.DEFERRAL_REASON_NOVEL) for each in decided]
    cards = [cds_hooks.card_of(answer, triage_pb2.EvidenceState(), (), KNOWN) for answer in answers]
    assert {card["summary"].partition(":")[0] for card in cards} == {"A person must look"}
    assert [card["indicator"] for card in cards] == ["critical", "warning", "warning", "warning"]
    assert not any({"suggestions", "selectionBehavior"} & card.keys() for card in cards)
    for card in cards:
        assert [reason["code"] for reason in card["overrideReasons"]] == ["Red", "Yellow", "Green", "Blue"]


def test_the_record_of_a_card_that_hands_over_has_no_decision(client, feedback, monkeypatch):
    async def hand_over(*_, **__):
        return triage_pb2.TriageResponse(best_triage=1, deferred=triage_pb2.DEFERRAL_REASON_UNSURE)

    monkeypatch.setattr(TriageService, "triage", hand_over)
    shown = card(client, condition("29857009"))
    [file] = feedback.iterdir()
    kept = {line["card"]: line["decision"] for line in map(json.loads, file.read_text().splitlines())}
    assert kept[shown["uuid"]] is None


def test_a_card_has_the_decision_what_it_is_based_on_and_the_ways_to_answer(client):
    kelvin = observation("8310-6", valueQuantity={"value": 312, "code": "K"})
    shown = card(client, condition("29857009"), condition("8392000"), kelvin)
    assert shown["summary"].startswith("Red: ")
    assert len(shown["summary"]) < 140
    assert (shown["indicator"], shown["source"]["label"]) == ("critical", "dyqn-triage, model version 3")
    left_out = ("temperature=312: left out, because ", "observations: left out, because ")
    for part in ("Chest pain, no Smoker.", *(f"\n- {line}" for line in left_out), "Research only"):
        assert part in shown["detail"]
    assert [suggestion["label"] for suggestion in shown["suggestions"]] == ["Agree: Red"]
    assert [reason["code"] for reason in shown["overrideReasons"]] == ["Yellow", "Green", "Blue"]
    assert all(reason["display"] for reason in shown["overrideReasons"])


@pytest.mark.parametrize(
    "resource",
    [
        PATIENT,
        observation("72166-2", valueBoolean=True),  # a smoker
        condition("29857009", verificationStatus="refuted"),
        condition("29857009", clinicalStatus="resolved"),
    ],
)
def test_a_record_without_a_complaint_gets_no_card(client, resource):
    assert client.post("/cds-services/triage", json=request(resource)).json() == {"cards": []}


@pytest.mark.parametrize(("complaint", "known"), [([], False), (["temperature=39"], True), (["chest_pain"], True)])
def test_age_and_sex_are_no_complaint(complaint, known):
    assert knows_complaint(["man", "age=66", *complaint], KNOWN) == known


def test_a_record_whose_complaint_cannot_be_read_gets_a_card_without_a_decision(client):
    shown = card(client, condition("29857009", verificationStatus=concept(text="widerlegt")))
    assert (shown["summary"].partition(":")[0], shown["indicator"]) == ("No decision", "info")
    assert "\n- chest_pain: left out, because " in shown["detail"]
    assert "suggestions" not in shown


OVERRIDDEN = {"card": "c", "outcome": "overridden", "outcomeTimestamp": "2026-01-01T09:00:00Z"}


@pytest.mark.parametrize(
    ("path", "body", "status", "field"),
    [
        ("/cds-services/triage", request(hook="order-select"), 400, "hook"),
        ("/cds-services/triage", request(hookInstance=None), 400, "hookInstance"),
        ("/cds-services/triage", request(context={}), 400, "context.patientId"),
        ("/cds-services/triage", request(prefetch=[]), 400, "prefetch"),
        *[("/cds-services/triage", request(prefetch=nothing), 412, None)
          for nothing in (None, {}, {"patient": None, "conditions": {"resourceType": "OperationOutcome"}})],
        ("/cds-services/other", request(), 404, None),
        ("/cds-services/triage", [1], 400, None),
        ("/cds-services/triage/feedback", {"feedback": [{"card": "c", "outcome": "ignored"}]}, 400,
         "feedback[0].outcome"),
        *[("/cds-services/triage/feedback",
           {"feedback": [{"card": "c", "outcome": "accepted", "outcomeTimestamp": time}]}, 400,
           "feedback[0].outcomeTimestamp")
          for time in (None, "yesterday", "2026-01-01T09:00:00")],
        *[("/cds-services/triage/feedback", {"feedback": [{**OVERRIDDEN, "overrideReason": why}]}, 400,
           f"feedback[0].overrideReason{field}")
          for why, field in (
              ("Red", ""), ({"code": "Red"}, ""), ({"userComment": 3}, ".userComment"), ({"reason": "Red"}, ".reason"),
              ({"reason": {"code": "Purple"}}, ".reason"), ({"reason": {"coding": [{"code": "Red"}]}}, ".reason"),
          )],
        ("/cds-services/triage/feedback",
         {"feedback": [{**OVERRIDDEN, "outcome": "accepted", "overrideReason": {"reason": {"code": "Red"}}}]}, 400,
         "feedback[0].overrideReason.reason"),
        ("/cds-services/triage/feedback", {}, 400, "feedback"),
    ],
)  # fmt: skip
def test_a_faulty_request_is_refused_with_its_field(client, path, body, status, field):
    response = client.post(path, json=body)
    assert response.status_code == status
    assert [error["field"] for error in response.json().get("errors", [])] == ([field] if field else [])


def test_what_clinicians_made_of_cards_becomes_vignettes(client, feedback, tmp_path, capsys):
    accepted, overridden, dismissed, silent = (card(client, condition("29857009"), celsius(38)) for _ in range(4))
    said = [
        {"card": accepted["uuid"], "outcome": "accepted", "outcomeTimestamp": "2021-12-11T10:05:31Z",
         "acceptedSuggestions": [{"id": accepted["suggestions"][0]["uuid"]}]},
        {"card": overridden["uuid"], "outcome": "overridden", "outcomeTimestamp": "2020-12-12T00:00:00Z",
         "overrideReason": {"reason": {**overridden["overrideReasons"][1], "code": "green"}, "userComment": "Seen."}},
        {"card": overridden["uuid"], "outcome": "overridden", "outcomeTimestamp": "2020-12-11T00:00:00Z",
         "overrideReason": {"reason": overridden["overrideReasons"][2]}},
        {"card": dismissed["uuid"], "outcome": "overridden", "outcomeTimestamp": "2020-12-11T00:00:00Z"},
    ]  # fmt: skip
    assert client.post("/cds-services/triage/feedback", json={"feedback": said}).status_code == 200
    [file] = feedback.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "1288992" not in file.read_text()
    vocabulary = tmp_path / "vocabulary.csv"
    SERVED.save(vocabulary)
    (tmp_path / "own.jsonl").write_text(
        '{"vignette_id": "own", "present": ["smoker"], "absent": [], "decisions": ["Blue"]}\n'
    )
    prepare = ["prepare", "--format", "feedback", "--feedback", feedback, "--vignettes", tmp_path / "own.jsonl",
               "--vocabulary", vocabulary, "--out", tmp_path / "data", "--test-fraction", "0"]  # fmt: skip
    code, said = triage_cli.main([str(each) for each in prepare]), capsys.readouterr().err
    assert code == 0, said
    assert "without a decision: 1 left out" in said
    train = DataDirectory.open(tmp_path / "data").read("train")
    decided = dict(zip(train.vignette_ids, train.decision_counts.tolist(), strict=True))
    # The latest outcome of a card counts; what was dismissed without a decision, or not answered, says nothing.
    assert decided == {"own": [0, 0, 0, 1], accepted["uuid"]: [1, 0, 0, 0], overridden["uuid"]: [0, 0, 1, 0]}
    assert silent["uuid"] not in decided
