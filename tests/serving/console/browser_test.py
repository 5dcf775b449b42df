"""The console in a browser: with mouse, keyboard alone, without script, and what it leaves behind."""

import contextlib
import json
import pathlib
import re
import shutil
import socket
import subprocess
import tarfile
import threading

import pytest
import uvicorn

import triage_cli
from serving.client.channel import ConnectionOptions
from serving.console.application import Console, Pages, application
from serving.console.served_model import ServedModel

pytestmark = pytest.mark.slow
playwright = pytest.importorskip("playwright.sync_api", reason="make test-all installs it")
AXE = "axe-core@4.14.1"
BUILD = pathlib.Path(__file__).parents[3] / "build"
SECONDS = 60


@pytest.fixture(scope="module")
def chromium():
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("needs the program chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program)
        yield browser
        browser.close()


@contextlib.contextmanager
def _address_of(served_model):
    """Serves the console of a model, and yields its address."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen()
        app = application(Console(served_model, Pages()))
        server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_config=None, access_log=False))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join(SECONDS)


@pytest.fixture(scope="module")
def url(asking_server):
    """The console of `asking_server`."""
    with ServedModel(ConnectionOptions(asking_server, timeout=30.0)) as served_model, _address_of(served_model) as url:
        yield url


@pytest.fixture
def tab(chromium, url):
    """A page in a fresh profile. `tab.seen` are the addresses that it asked for."""
    context = chromium.new_context()
    page = context.new_page()
    page.seen = []
    page.on("request", lambda request: page.seen.append(request.url))
    page.goto(url)
    yield page
    context.close()


@pytest.fixture(scope="module")
def axe():
    """The source of axe, which npm fetches once into `build/`."""
    archive = BUILD / "axe" / "axe-core-4.14.1.tgz"
    if not archive.exists():
        archive.parent.mkdir(parents=True, exist_ok=True)
        if shutil.which("npm") is None:
            pytest.skip("needs the program npm")
        packed = subprocess.run(["npm", "pack", AXE], cwd=archive.parent, capture_output=True, text=True, timeout=120)
        if packed.returncode != 0:
            pytest.skip(f"npm cannot get {AXE}: {packed.stderr.strip()[-200:]}")
    with tarfile.open(archive) as files:
        return files.extractfile("package/axe.min.js").read().decode()


def _complain(tab, name):
    tab.fill("#search", name)
    tab.click("text=Search >> nth=-1")
    tab.click(f'[aria-label="Present: {name}"]')


def _copied(tab):
    return json.loads(tab.input_value("#json"))


CASES = (
    "Chest pain", "Crushing chest pain", "Sweating", "Headache", "Stiff neck", "Fever", "Cough", "Nausea", "Rash",
    "Pregnant",
)  # fmt: skip


@pytest.mark.parametrize(("number", "complaint"), enumerate(CASES))
def test_a_case_ends_where_triage_ask_does(tab, asking_server, number, complaint, capsys):
    _complain(tab, complaint)
    for question in range(4):
        if tab.query_selector("#question") is None:
            break
        tab.click(f"button:text-is('{['No', 'Yes'][number >> question & 1]}')")
    copied = _copied(tab)
    case, answer = copied["case"], copied["answer"]
    options = ["--questions-asked", str(case["questions_asked"]), "--questions", "1", "--explain"]
    for status in ("present", "absent"):
        options += [f"--{status}", *case[status]] if case[status] else []
    assert triage_cli.main(["ask", "--server", asking_server, "--timeout", "30", "--json", "-", *options]) == 0
    asked = json.loads(capsys.readouterr().out)
    assert answer.pop("q_values") == pytest.approx(asked.pop("q_values"), abs=1e-6)
    for explained in (answer, asked):  # the last digits depend on the batch
        for each in (*explained["explanation"]["effects"], *explained["next_questions"]):
            each.update({name: round(value, 5) for name, value in each.items() if isinstance(value, float)})
    assert answer == asked
    assert asked["best_triage"] in tab.inner_text("#decision")
    assert len(case["present"]) + len(case["absent"]) == 1 + case["questions_asked"]


def test_the_keyboard_alone_is_enough(tab):
    tab.keyboard.type("chst pain")  # the search has the focus
    tab.wait_for_selector(".results li")
    for _ in range(2):  # the button "Search", then "Present"
        tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Present"
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#question")
    tab.keyboard.press("Tab")  # from the question to its first answer
    assert tab.evaluate("document.activeElement.textContent") == "Yes"
    tab.keyboard.press("Tab")
    tab.keyboard.press("Space")
    tab.wait_for_selector(".findings li >> nth=1")
    assert len(_copied(tab)["case"]["absent"]) == 1


def test_back_shows_the_case_before_and_forward_the_one_after(tab):
    _complain(tab, "Headache")
    before = tab.inner_text("#question")
    tab.click("button:text-is('No')")
    after = tab.inner_text("#question")
    tab.go_back()
    assert tab.inner_text("#question") == before
    assert len(_copied(tab)["case"]["absent"]) == 0
    tab.go_forward()
    assert tab.inner_text("#question") == after
    tab.reload()
    assert tab.inner_text("#question") == after


def test_it_works_without_script(chromium, url):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(url)
    page.fill("#search", "headach")
    page.press("#search", "Enter")
    page.click('[aria-label="Absent: Headache"]')
    assert page.locator("#decision").is_visible()
    assert page.locator("[data-copy]").is_hidden()
    context.close()


def test_nothing_stays_in_addresses_storage_or_cookies_and_nothing_comes_from_outside(tab, url):
    _complain(tab, "Headache")
    tab.click("button:text-is('Yes')")
    pages = [address.removeprefix(f"{url}page/") for address in tab.seen if address.startswith(f"{url}page/")]
    assert all(re.fullmatch("[\\w-]{22}", page) for page in pages)
    assert tab.url == f"{url}page/{pages[-1]}"
    others = {address.removeprefix(url) for address in tab.seen} - {f"page/{page}" for page in pages}
    assert others <= {"", "search", "console.css", "console.js"}
    assert tab.evaluate("localStorage.length + sessionStorage.length") == 0
    assert tab.context.cookies() == []
    assert tab.evaluate("performance.getEntries().every(entry => !/headache/i.test(entry.name))")


@pytest.mark.parametrize("width", [360, 768, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_and_axe_finds_nothing(chromium, url, axe, width, scheme):
    page = chromium.new_page(viewport={"width": width, "height": 740}, color_scheme=scheme)

    def look():
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.get_by_text("Research, not for care.").is_visible()
        page.evaluate(axe)
        violations = page.evaluate("axe.run()")["violations"]
        assert [(each["id"], each["help"], each["nodes"][0]["html"]) for each in violations] == []

    page.goto(url)
    look()
    page.fill("#search", "chest pain")
    page.wait_for_selector(".results li")
    look()
    page.click('[aria-label="Present: Crushing chest pain"]')
    _complain(page, "Sweating")
    page.click("summary")
    look()
    page.goto(f"{url}model")
    look()
    page.goto(f"{url}nowhere")
    look()
    page.close()


@pytest.mark.parametrize("width", [390, 1440])
def test_the_answers_to_each_of_several_signs_stand_beside_their_boxes(chromium, grouping_model, axe, width):
    page = chromium.new_page(viewport={"width": width, "height": 844})
    with _address_of(grouping_model) as url:
        page.goto(url)
        _complain(page, "Headache")
        page.click("text=Continue")  # with nothing said
        page.wait_for_selector("#fault:focus")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.evaluate(axe)
        assert page.evaluate("axe.run()")["violations"] == []
        labels = page.query_selector_all(".says label")
        assert len(labels) == 9  # yes, no and don't know of three signs
        for label in labels:
            box, around = label.query_selector("input").bounding_box(), label.bounding_box()
            assert around["height"] < 2 * 1.5 * 17 + 1  # less than two lines
            assert abs(box["y"] + box["height"] / 2 - around["y"] - around["height"] / 2) < 2
            assert around["x"] + around["width"] <= width
    page.close()


def test_the_case_is_copied(chromium, url):
    context = chromium.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(url)
    _complain(page, "Fever")
    page.click("summary")
    page.click("text=Copy")
    page.wait_for_selector("text=Copied")
    assert json.loads(page.evaluate("navigator.clipboard.readText()"))["case"]["present"] == ["fever"]
    context.close()
