"""A number stands for the codes of its bands by every route."""

import html
import json
import re

import pytest

import triage_cli
from schemas.evidence import Evidence, Vocabulary
from serving.client.channel import ConnectionOptions
from serving.console.application import Console, Pages
from serving.console.case import Case
from serving.console.served_model import ServedModel
from serving.hospital.fhir_resources import read_form
from serving.messages import codes_of, state_message
from serving.service.validation import RequestLimits, check_states
from tests.builders import http_to, served
from tests.serving.conftest import write_model
from triage_client import evidence_state

VOCABULARY = Vocabulary(
    [
        Evidence("chest_pain", "symptom", "Chest pain", "Chest pain?"),
        Evidence("fever", "symptom", "Fever", "Fever?", band="temperature >=38 <45 °C"),
        Evidence("smoker", "risk_factor", "Smoker", "Do you smoke?"),
    ]
)


@pytest.fixture(scope="module")
def base(without_litert, tmp_path_factory):
    base = tmp_path_factory.mktemp("banded")
    with without_litert():
        write_model(VOCABULARY, base, 1)
    return base


@pytest.fixture(scope="module")
def server(base):
    with served(base, http_port=0, fhir="https://triage.example.org/fhir") as server:
        yield server


def q_values(answer):
    return [each.value for each in answer.q_values]


def test_grpc_answers_a_number_as_the_codes_of_its_bands(client):
    expected = q_values(client.triage(evidence_state(["smoker", "fever"])))
    for number in ("temperature=38.9", "temperature=102F"):
        state = evidence_state([number, "smoker"])
        assert q_values(client.triage(state)) == expected
        assert q_values(client.batch_triage([state])[0]) == expected
    with client.interview() as interview:
        interview.present("temperature=38.9")
        assert q_values(interview.present("smoker").response) == expected


def test_http_names_the_place_of_a_number_that_cannot_be(server):
    with http_to(server) as http:
        answers = [http.post("/v1/triage", json={"present": [code]}).json() for code in ("temperature=40", "fever")]
        assert answers[0]["q_values"] == answers[1]["q_values"]
        [error] = http.post("/v1/triage", json={"present": ["smoker", "temperature=101"]}).json()["errors"]
        [entry] = [each for each in http.get("/v1/vocabulary").json()["entries"] if each["band"]]
    assert (error["field"], error["reason"]) == ("present[1]", "FAULTY_NUMBER")
    assert re.match("'temperature=101': .*24 .*45 °C.*101F.*fever", error["description"])
    assert (entry["code"], entry["band"]) == ("fever", "temperature >=38 <45 °C")


def test_a_number_that_contradicts_a_code_is_refused_at_its_place():
    limits = RequestLimits(VOCABULARY, max_batch=1, max_evidence=9)
    with pytest.raises(Exception, match=r"state\.evidence\[0\]: 'fever' .* absent \(by temperature=38\)"):
        check_states([state_message(["temperature=38", "smoker"], ["fever"])], limits, batch=False)
    state = state_message(["temperature=38", "fever"], ["smoker"])
    check_states([state], limits, batch=False)
    assert codes_of(state) == (["fever", "fever"], ["smoker"])


def test_commands_take_numbers(server, client, base, tmp_path, capsys):
    assert triage_cli.main(["ask", "--server", server.address, "--present", "temperature=39", "--json", "-"]) == 0
    expected = client.triage(evidence_state(["fever"]))
    assert json.loads(capsys.readouterr().out)["q_values"]["Yellow"] == pytest.approx(expected.q_values[1].value)
    cases = tmp_path / "in.jsonl"
    cases.write_text('{"vignette_id": "v1", "present": ["temperature=39"], "absent": []}\n')
    score = ["score", "--model", str(base), "--input", str(cases), "--output"]
    assert triage_cli.main([*score, str(tmp_path / "out")]) == 0
    assert json.loads((tmp_path / "out" / "in.jsonl").read_text())["q_yellow"] == pytest.approx(
        expected.q_values[1].value, abs=1e-6
    )
    cases.write_text('{"vignette_id": "v1", "present": ["temperature=3900"], "absent": []}\n')
    assert triage_cli.main([*score, str(tmp_path / "other")]) == 2
    assert "line 1, 'v1': 'temperature=3900': " in capsys.readouterr().err
    cases.write_text('{"vignette_id": "v1", "present": ["temperature=36.9", "fever"]}\n')
    assert triage_cli.main([*score, str(tmp_path / "other")]) == 2
    assert "line 1, 'v1': 'fever' " in capsys.readouterr().err


def test_the_console_takes_a_number_from_the_search_and_as_an_answer(server):
    with ServedModel(ConnectionOptions(server.address, timeout=60.0)) as agent:
        console = Console(agent, Pages())
        found = console.search({"case": "", "search": "a temperature of 38,9"}).body.decode()
        assert 'value="add number temperature=38.9"' in found
        assert "add number" not in console.search({"case": "", "search": "pain for 39 days"}).body.decode()
        page = console.go_on({"case": "", "do": "add number temperature=38.9"}).body.decode()
        assert "Fever" in page
        smoker = Case().to_text()
        asked = console.go_on({"case": smoker, "do": "add present chest_pain"}).body.decode()
        assert "measurement: temperature (°C)" in asked
        answered = console.go_on({"case": smoker, "do": "answer number fever", "number": " 38,4 "}).body.decode()
        assert "Fever" in answered
        assert "Fever" in console.go_on({"case": smoker, "do": "answer number fever", "number": "102 F"}).body.decode()
        refused = console.go_on({"case": smoker, "do": "add number temperature=102"}).body.decode()
        assert re.search("Temperature 102: .*24 .*45 °C.*102F", refused)
        assert "Fever" in console.go_on({"case": smoker, "do": "add number temperature=102F"}).body.decode()


def test_a_corrected_number_replaces_the_first_in_the_console(without_litert, tmp_path):
    vocabulary = Vocabulary(
        [
            Evidence("cold", "symptom", "Cold", "Cold?", band="temperature >=20 <35 °C"),
            Evidence("fever", "symptom", "Fever", "Fever?", band="temperature >=38 <45 °C"),
            Evidence(
                "fever_over_39", "symptom", "Fever over 39", "Over 39?", parent="fever",
                band="temperature >=39 <45 °C",
            ),
        ]
    )  # fmt: skip
    with without_litert():
        write_model(vocabulary, tmp_path, 1)

    def known(page):
        case = json.loads(html.unescape(re.search('name="case" value="([^"]*)"', page.body.decode())[1]))
        return {code: status for code, status, *_ in case["said"]}, json.dumps(case)

    with served(tmp_path) as server, ServedModel(ConnectionOptions(server.address, timeout=60.0)) as agent:
        console = Console(agent, Pages())
        first, case = known(console.go_on({"case": "", "do": "add number temperature=39.2"}))
        assert first == {"cold": "absent", "fever": "present", "fever_over_39": "present"}
        for form in ({"do": "add number temperature=37.0"}, {"do": "answer number fever", "number": "37,0"}):
            # Who has no fever has none over 39: that is left to what follows, and not said.
            assert known(console.go_on({"case": case, **form}))[0] == {"cold": "absent", "fever": "absent"}


def form_with(quantity, measure, unit):
    item = {"linkId": measure, "answer": [{"valueQuantity": quantity}]}
    vocabulary = Vocabulary([Evidence("high", "symptom", "High", "High?", band=f"{measure} >=38 <45 {unit}")])
    return read_form({"resourceType": "QuestionnaireResponse", "item": [item]}, vocabulary)


@pytest.mark.parametrize(
    ("measure", "unit", "named"),
    [
        ("age", "years", {}),
        ("age", "years", {"unit": "a"}),
        ("age", "years", {"unit": "year"}),
        ("age", "years", {"unit": "years old", "code": "a", "system": "http://unitsofmeasure.org"}),
        ("age", "a", {"unit": "years"}),
        ("temperature", "°C", {"code": "Cel"}),
        ("temperature", "°F", {"code": "°F"}),
        ("heart_rate", "/min", {"unit": "bpm", "code": "/min"}),
        ("weight", "kg", {"code": "kg"}),
    ],
)
def test_an_adaptive_form_may_name_the_unit_as_ucum_does(measure, unit, named):
    assert list(form_with({"value": 39, **named}, measure, unit).present) == [f"{measure}=39"]


def test_a_form_may_have_a_temperature_in_fahrenheit_but_not_in_two_units():
    read = form_with({"value": 102, "unit": "degrees F", "code": "[degF]"}, "temperature", "°C")
    assert list(read.present) == ["temperature=102F"]
    with pytest.raises(Exception, match=r"°C, .*Cel .*\[degF\]"):
        form_with({"value": 102, "unit": "Cel", "code": "[degF]"}, "temperature", "°C")


@pytest.mark.parametrize("answer", [[], [{"valueCoding": {"code": "asked-unknown"}}]])
def test_a_measure_of_a_form_that_is_not_known_withholds_no_question(answer):
    item = {"linkId": "temperature", "answer": answer}
    form = read_form({"resourceType": "QuestionnaireResponse", "item": [item]}, VOCABULARY)
    assert (form.present, form.absent, form.not_known) == ({}, {}, [])
