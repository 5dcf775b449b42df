"""The pages, as a browser without script sees them."""

import html
import json
import re

import pytest
from starlette.testclient import TestClient

from schemas.questions import GROUPS
from serving.client.channel import ConnectionOptions
from serving.console.application import Console, Pages, application
from serving.console.served_model import ServedModel

ADDRESS = "http://127.0.0.1:8510"


def _case(page):
    """The hidden field that the next form sends."""
    return html.unescape(re.search('name="case" value="([^"]*)"', page)[1])


def _decision(page):
    """The decision, and whether the model would ask on."""
    title, decision = re.search(
        r'(Decision so far|Decision)</p>\s*<h2 id="decision".*?>(\w+)</span>', page, re.S
    ).groups()
    return decision, title == "Decision so far"


def test_a_case_goes_from_complaint_to_decision_by_forms_alone(browser, send):
    page = browser.get("/").text
    assert "What is the presenting complaint?" in page
    page = send(case=_case(page), do="search", search="fevre")
    assert 'value="add present fever"' in page
    page = send(case=_case(page), do="add present fever", search="fevre")
    assert _decision(page) == ("Yellow", True)  # asks, as its Q of .9 for asking says
    assert "chest_pain, as a question?" in page
    page = send(case=_case(page), do="answer present chest_pain")
    # Q: Red 3/4, Yellow 3/4, ask 9/10; of equals the more urgent.
    assert _decision(page) == ("Red", True)
    assert "smoker, as a question?" in page
    page = send(case=_case(page), do="answer not_known smoker")
    assert _decision(page) == ("Red", False)  # nothing is left to ask about
    page = send(case=_case(page), do="undo")
    assert _decision(page) == ("Red", True)
    page = send(case=_case(page), do="undo")
    assert _decision(page) == ("Yellow", True)
    page = send(case=_case(page), do="end")
    assert _decision(page) == ("Yellow", False)
    page = send(case=_case(page), do="undo")  # of the end, which comes before that of the last answer
    assert _decision(page) == ("Yellow", True)


def test_back_and_reload_show_a_page_without_sending_its_form_again(browser):
    first = browser.post("/", data={"do": "add present fever"}, follow_redirects=False)
    assert first.status_code == 303
    second = browser.post("/", data={"do": "add present smoker"})
    assert [response.status_code for response in second.history] == [303]
    for _ in range(2):
        assert "fever, by name" in browser.get(first.headers["location"]).text
    assert first.headers["location"] != second.url.path


def test_only_the_latest_pages_are_kept_and_others_are_gone_with_the_console(served_model, browser):
    address = browser.post("/", data={"do": "add present fever"}).url.path
    again = TestClient(application(Console(served_model, Pages())), base_url="http://localhost")
    assert again.get(address).status_code == 404
    assert "no longer" in again.get(address).text


@pytest.mark.parametrize("said", [("present adult", "present male"), ("not_known", "not_known")])
def test_age_and_sex_are_chosen_by_name_and_are_one_question_which_undo_takes_back_in_two(opening_model, said):
    console = TestClient(application(Console(opening_model, Pages())), base_url=ADDRESS)
    pages = [console.post("/", data={"do": "add present fever"}).text]
    age, sex = GROUPS.values()
    asked, groups = [], {age: ["Child", "Adult", UNKNOWN], sex: ["Female", "Male", UNKNOWN]}
    for _ in range(2):
        [heading] = re.findall('<h2 id="question"[^>]*>([^<]+)<', pages[-1])
        buttons = re.findall('<button[^>]* value="answer ([a-z_]+ [a-z_]+)">([^<]+)<', pages[-1])
        assert [name for _, name in buttons] == groups[heading]
        assert "Question 1<" in pages[-1]
        asked.append(heading)
        do = said[heading == sex] if said[0].startswith("present") else buttons[-1][0]
        assert do in dict(buttons)
        pages.append(console.post("/", data={"do": f"answer {do}", "case": _case(pages[-1])}).text)
    assert sorted(asked) == sorted(groups)
    copied = json.loads(html.unescape(re.search('<textarea id="json"[^>]*>([^<]+)<', pages[-1])[1]))
    assert copied["case"]["questions_asked"] == 1
    for before in (pages[1], pages[0]):
        pages.append(console.post("/", data={"do": "undo", "case": _case(pages[-1])}).text)
        assert _case(pages[-1]) == _case(before)


FLAGS = {"stiff_neck", "fever", "rash"}
CONTINUE, NONE, UNKNOWN = "Continue", "None of these", "Don\N{RIGHT SINGLE QUOTATION MARK}t know"


@pytest.mark.parametrize(
    ("do", "said", "present", "absent", "not_known"),
    [
        (CONTINUE, {"rash": 0, "fever": 1, "stiff_neck": 2}, {"rash"}, {"fever"}, {"stiff_neck"}),
        (NONE, {}, set(), FLAGS, set()),
        (NONE, {"rash": 0, "fever": 2}, {"rash"}, {"stiff_neck"}, {"fever"}),
        (UNKNOWN, {}, set(), set(), FLAGS),
        (UNKNOWN, {"rash": 1}, set(), {"rash"}, {"fever", "stiff_neck"}),
    ],
)
def test_each_of_several_red_flags_has_its_own_answer_and_undo_takes_them_back_at_once(
    grouping_model, do, said, present, absent, not_known
):
    console = TestClient(application(Console(grouping_model, Pages())), base_url=ADDRESS)
    first = console.post("/", data={"do": "add present headache"}).text
    assert re.findall('<h2 id="question"[^>]*>([^<]+)<', first) == ["Do you have any of these?"]
    answers = re.findall('<input type="radio" name="says ([^"]+)" value="([^"]+)"> ([^<]+)</label>', first)
    assert {code for code, _, _ in answers} == FLAGS
    assert [text for code, _, text in answers if code == "rash"] == ["Yes", "No", UNKNOWN]
    values = [value for code, value, _ in answers if code == "rash"]
    buttons = {text: value for value, text in re.findall('<button[^>]* value="(answer [^"]+)">([^<]+)<', first)}
    assert list(buttons) == [CONTINUE, NONE, UNKNOWN]  # Enter presses the first
    fields = {f"says {code}": values[place] for code, place in said.items()}
    page = console.post("/", data={"case": _case(first), "do": buttons[do], **fields}).text
    case = json.loads(html.unescape(re.search('<textarea id="json"[^>]*>([^<]+)<', page)[1]))["case"]
    assert (set(case["present"]), set(case["absent"])) == ({"headache"} | present, absent)
    assert (set(case["not_to_ask"]), case["questions_asked"]) == (not_known, 1)
    assert _case(console.post("/", data={"do": "undo", "case": _case(page)}).text) == _case(first)


def _refused(page):
    """Why a page says that a form changed nothing."""
    return html.unescape(re.search('role="alert" id="fault"[^>]*>([^<]+)<', page)[1])


@pytest.mark.parametrize("said", [{}, {"rash": "present", "fever": "not_known"}])
def test_who_goes_on_without_an_answer_for_each_red_flag_is_asked_for_the_others(grouping_model, said):
    console = TestClient(application(Console(grouping_model, Pages())), base_url=ADDRESS)
    first = console.post("/", data={"do": "add present headache"}).text
    fields = {f"says {code}": status for code, status in said.items()}
    again = console.post("/", data={"case": _case(first), "do": "answer each stiff_neck fever rash", **fields})
    assert (again.status_code, _case(again.text)) == (422, _case(first))
    names = {name for name in ("Stiff neck", "Fever", "Rash") if name in _refused(again.text)}
    assert names == {name for name in ("Stiff neck", "Fever", "Rash") if name.lower().replace(" ", "_") not in said}
    checked = re.findall('name="says ([^"]+)" value="([^"]+)" checked>', again.text)
    assert dict(checked) == said


def test_what_the_server_refuses_leaves_the_case_as_it_is_too(browser, send):
    before = send(do="add present fever")
    again = browser.post("/", data={"case": _case(before), "do": "add present gout"})
    assert (again.status_code, _case(again.text)) == (422, _case(before))
    assert "'gout'" in _refused(again.text)


def test_a_search_keeps_its_results_until_a_question_is_answered(send):
    page = send(do="add present fever", search="fever or chest pain")
    results = page.split('id="results"')[1]
    assert 'class="said present">present<' in results
    assert 'value="add present chest_pain"' in results
    assert "autofocus" in re.search('<h2 id="question"[^>]*>', page)[0]
    page = send(case=_case(page), do="add absent chest_pain", search="fever or chest pain")
    assert 'class="said absent">absent<' in page.split('id="results"')[1]
    page = send(case=_case(page), do="answer absent smoker")
    assert "add present" not in page


def test_each_step_has_a_title_that_names_no_finding(browser, send):
    asked = send(do="add present fever")
    answered = send(case=_case(asked), do="answer absent chest_pain")
    pages = [browser.get("/").text, asked, answered, send(case=_case(asked), do="end")]
    pages.append(browser.post("/", data={"case": _case(asked), "do": "add present gout"}).text)
    titles = [re.search("<title>(.*) \N{EN DASH} Triage console</title>", page)[1] for page in pages]
    assert titles == ["New case", "Question 1", "Question 2", "Decision", "Error: Question 1"]


def test_results_alone_are_what_the_script_shows(browser):
    response = browser.post("/search", data={"search": "chest"})
    assert "chest_pain, by name" in response.text
    assert "<html" not in response.text


def test_who_finds_nothing_is_told_what_to_do_in_an_emergency(browser):
    page = browser.post("/search", data={"search": "ayúdame"}).text
    assert "emergency number" in page
    assert "emergency" not in browser.post("/search", data={"search": "chest"}).text


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"case": "{"}, "hold a case"),
        ({"do": "add maybe fever"}, "no such button"),
        ({"do": "add present "}, "no such button"),
        ({"do": "add present fever  rash"}, "no such button"),
        ({"do": "add present \x00"}, "no such button"),
        ({"do": "remove present fever"}, "no such button"),
        ({"do": "answer each fever", "says fever": "maybe"}, "no such button"),
        ({"search": "x" * (1 << 20)}, "1048576 bytes"),
        (b"\xff\xfe=%ff", "not a form"),
    ],
)
def test_forms_that_the_console_did_not_make_are_refused_in_one_line(browser, fields, message):
    response = browser.post("/", **{"content" if isinstance(fields, bytes) else "data": fields})
    assert response.status_code == 400
    assert message in response.text


def test_there_is_nothing_else(browser):
    assert browser.get("/secret").status_code == 404
    assert browser.get("/search").status_code == 405


def test_every_page_says_that_it_is_research(browser, send):
    for page in (browser.get("/").text, send(do="add present fever"), browser.get("/model").text):
        assert "not for care" in page


def test_addresses_and_cookies_hold_no_evidence(browser, send):
    page = send(do="add present fever")
    targets = re.findall('(?:href|src|action)="([^"]*)"', page)
    assert set(targets) == {"#main", "#decision", "/", "/model", "/console.css", "/console.js"}
    assert not re.search('method=(?!"post")', page)
    assert not browser.cookies


def test_the_model_card_is_read_where_the_versions_are(served_model, browser, tmp_path):
    assert "model_card.md" in browser.get("/model").text  # says where it is
    (tmp_path / "3").mkdir()
    sections = "## Hyper-parameters\n\nx\n\n## Limits\n\n- few\n\n## How to reproduce\n\n    triage train --data\n"
    card = f"# ModelVersion card: <triage>\n\n{sections}"
    (tmp_path / "3" / "model_card.md").write_text(card, encoding="utf-8")
    console = TestClient(application(Console(served_model, Pages(), tmp_path)), base_url="http://localhost")
    shown = console.get("/model").text
    assert "<h1>ModelVersion card: &lt;triage&gt;</h1>" in shown
    assert re.findall("<h2>(.*?)</h2>", shown) == ["Limits"]
    for page in (shown, browser.get("/model").text):
        assert "--" not in page  # no option, which is nothing for clinicians


def test_a_server_that_is_gone_is_named_on_the_page():
    with ServedModel(ConnectionOptions("127.0.0.1:1", timeout=0.5)) as served_model:
        browser = TestClient(application(Console(served_model, Pages())), base_url="http://localhost")
        response = browser.get("/")
    assert response.status_code == 502
    assert "no server at 127.0.0.1:1" in response.text
