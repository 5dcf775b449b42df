"""The report of a study, read as a browser reads it. All figures here are made up."""

import copy
import html.parser
import re
import struct

import pytest

from schemas.errors import InputError
from trainer.reports import report
from trainer.reports.page import clean
from trainer.reports.report import write_report

VOID = frozenset({"meta", "img", "br", "hr", "input", "link"})

HOSTILE = (
    '<script>alert(1)</script> "><img src=x onerror=alert(1)> $\\frac{ $ {{ 7*7 }} %s & \u202eevil\x00 \udc80 #0067a5'
)
AGENTS = {  # label, learns, split, appropriateness, safety, questions, the paper's three
    "dyqn_or": ("DyQN, OR query", True, "test", 0.842, 0.926, 11.2, (0.85, 0.93, 13.34)),
    "dyqn_and": ("DyQN, AND query", True, "test", 0.771, 0.861, 2.1, (0.76, 0.86, 1.40)),
    "partially_observed_or": ("Partially observed, OR query", True, "test", 0.795, 0.884, 22.9, (0.79, 0.88, 23.0)),
    "partially_observed_and": ("Partially observed, AND query", True, "test", 0.79, 0.87, 9.8, (0.79, 0.86, 10.35)),
    "random": ("Random", False, "test", 0.41, 0.75, 0.25, (0.39, 0.74, 0.25)),
    "always_green": ("Always Green", False, "test", 0.712, 0.758, 0.0, (0.71, 0.75, 0.0)),
    "human": ("Clinicians", False, "test", 0.838, 0.931, None, (0.84, 0.93, None)),
    "fully_observed": ("Fully observed, supervised", False, "test", 0.861, 0.94, None, (0.86, 0.94, None)),
}
METRICS = ("appropriateness", "safety", "over_triage", "under_triage", "questions", "evidence_seen")
SYSTEMS = (
    "cardiovascular",
    "respiratory",
    "gastrointestinal",
    "neurological",
    "dermatological",
    "ear, nose and throat",
)


def estimate(mean, half=0.06, seeds=3):
    per_seed = [mean - 0.01, mean, mean + 0.01][:seeds]
    return {"mean": mean, "sd_over_seeds": 0.012, "low": mean - half, "high": mean + half, "per_seed": per_seed}


def agent(key):
    label, learns, split, appropriateness, safety, questions, paper = AGENTS[key]
    metrics = {
        "appropriateness": estimate(appropriateness),
        "safety": estimate(safety, 0.04),
        "over_triage": estimate(safety - appropriateness, 0.02),
        "under_triage": estimate(1 - safety, 0.04),
        "questions": None if questions is None else estimate(questions, 0.8),
        "evidence_seen": None if questions is None else estimate(min(6.9, 1 + questions / 2), 0.4),
    }
    train = {"appropriateness": 0.9, "safety": 0.95, "questions": round(questions / 2, 3)} if learns else None
    return {
        "label": label,
        "learns": learns,
        "split": split,
        "metrics": metrics,
        "train": train,
        "as_clinicians": {name: metrics[name] for name in ("appropriateness", "safety")},
        "paper": dict(zip(("appropriateness", "safety", "questions"), paper, strict=True)),
    }


def curve(seed, level, questions):
    steps = list(range(1000, 31000, 1000))
    wiggle = [((step // 1000 * 7 + seed * 5) % 11 - 5) / 200 for step in steps]
    grown = [1 - 2.7 ** (-step / 6000) for step in steps]

    def split(lift, asked):
        return {
            "appropriateness": [0.4 + (level + lift - 0.4) * g + w for g, w in zip(grown, wiggle, strict=True)],
            "safety": [0.7 + (level + lift - 0.65) * g + w for g, w in zip(grown, wiggle, strict=True)],
            "questions": [asked * g + 20 * w + 1 for g, w in zip(grown, wiggle, strict=True)],
        }

    return {"seed": seed, "steps": steps, "test": split(0, questions), "train": split(0.05, questions / 2)}


def error(number):
    steps = [
        ("Chest pain", "present", (0.52, 0.61, 0.48, 0.2, 0.75), "ask"),
        ("Pain that spreads to the left arm", None, (0.52, 0.61, 0.48, 0.2, 0.7), "ask"),
        ("Shortness of breath", "absent", (0.41, 0.55, 0.63, 0.3, 0.6), "Green"),
    ]
    return {
        "vignette_id": f"v{number}",
        "text": "Patient: Man, adult, smoker.\nChest pain, sweating, pain that spreads to the left arm.\n"
        "No shortness of breath, no fever.",
        "decisions": ["Red", "Red", "Yellow"],
        "decision": "Green" if number else "Blue",
        "steps": [
            {
                "evidence": evidence,
                "presence": presence,
                "values": dict(zip(("Red", "Yellow", "Green", "Blue", "ask"), q, strict=True)),
                "action": action,
            }
            for evidence, presence, q, action in steps
        ],
        "effects": [
            {"evidence": "Shortness of breath", "presence": "absent", "effect": 0.11},
            {"evidence": "Chest pain", "presence": "present", "effect": 0.0724},
        ],
    }


def by_evidence(slope, confidence):
    return [
        {
            "pieces": n,
            "vignettes": max(2, 126 - 8 * n),
            "states": 1000 - 60 * n,
            "appropriateness": 0.6 + slope * n,
            "safety": 0.75 + slope * n / 2,
            "confidence": confidence + slope * n,
        }
        for n in range(1, 15)
    ]


def slice_of(place, system):
    return {
        "slice": f"system={system}",
        "vignettes": 12 + 9 * place,
        "appropriateness": estimate(0.78 + 0.02 * place, 0.15 - 0.02 * place),
        "safety": estimate(0.86 + 0.02 * place, 0.1 - 0.015 * place),
        "questions": estimate(9.0 + place, 1.5),
    }


def full_results():
    """A study in which everything ran."""
    levels = {
        "dyqn_or": (0.84, 10),
        "dyqn_and": (0.77, 1),
        "partially_observed_or": (0.79, 21),
        "partially_observed_and": (0.79, 9),
    }
    fold = [
        {
            "seed": seed,
            "fold": n,
            "appropriateness": 0.72 + 0.02 * n,
            "safety": 0.84 + 0.012 * n,
            "questions": 9 + 0.7 * n + seed,
        }
        for seed in range(3)
        for n in range(10)
    ]
    measured = {name: estimate(0.8 if name in METRICS[:4] else 8.0, 0.05) for name in METRICS}
    return {
        "format": 4,
        "provenance": {
            "dyqn_triage": "0.1.0",
            "python": "3.11.7",
            "tensorflow": "2.21.0",
            "scikit_learn": "1.9.0",
            "platform": "Linux-6.1-x86_64",
            "cores": 2,
            "command": "triage reproduce --data vignettes --out study --seeds 3",
            "seconds": 4523.4,
            "finished": "2026-01-02T03:04:05+00:00",
        },
        "settings": {"mode": "full", "steps": 30000, "seeds": [0, 1, 2], "powerset": {"cap": 10}, "held_out": None},
        "data": {
            "path": "vignettes",
            "data_fingerprint": "sha256:" + "0123456789abcdef" * 4,
            "vocabulary_fingerprint": "sha256:" + "fedcba9876543210" * 4,
            "simulated": True,
            "vignettes": {"train": 1248, "test": 126},
            "evidence_codes": 597,
            "mean_evidence": 7.3,
        },
        "agents": {key: agent(key) for key in AGENTS},
        "comparisons": {
            "margin": 0.05,
            "dyqn_or": {
                "human": {
                    "appropriateness": {"mean": 0.004, "low": -0.03, "high": 0.04, "vignettes": 100},
                    "safety": {"mean": -0.06, "low": -0.09, "high": -0.03, "vignettes": 100},
                }
            },
        },
        "beside_clinicians": [
            {"label": label, "metrics": {"red_sensitivity": estimate(red), "forced": forced}}
            for label, red, forced in (
                ("DyQN, OR query", 0.21, estimate(0.3)),
                ("DyQN, OR query, with safety rules", 0.73, estimate(0.25)),
                ("Clinicians", 0.64, None),
            )
        ],
        "curves": {name: [curve(seed, *level) for seed in range(3)] for name, level in levels.items()},
        "by_evidence": {
            "calibrated": by_evidence(0.018, 0.6),
            "uncalibrated": by_evidence(0.008, 0.75),
            "dyqn_or": by_evidence(0.017, 0.6),
        },
        "k_fold": {"runs": fold, "paper": {"appropriateness": 0.81, "safety": 0.90, "questions": 13.14}},
        "agreement": {
            "labels": ["Red", "Yellow", "Green", "Blue"],
            "confusion": [
                [0.09, 0.02, 0.01, 0.0],
                [0.03, 0.2, 0.05, 0.01],
                [0.0, 0.06, 0.38, 0.03],
                [0.0, 0.01, 0.05, 0.06],
            ],
            "red_sensitivity": {"mean": 0.88, "low": 0.7, "high": 0.97, "vignettes": 21},
            "kappa": {"mean": 0.71, "low": 0.62, "high": 0.79},
        },
        "reliability": {
            "bins": [
                {
                    "low": n / 10,
                    "high": n / 10 + 0.1,
                    "count": 5 + n * 12,
                    "mean_q": n / 10 + 0.05,
                    "observed": 0.02 + 0.095 * n,
                }
                for n in range(1, 10)
            ]
            + [{"low": 0.0, "high": 0.1, "count": 0, "mean_q": None, "observed": None}],
            "ece": 0.034,
            "brier": 0.121,
        },
        "slices": [slice_of(place, system) for place, system in enumerate(SYSTEMS)],
        "unseen": {
            "conditions": ["Heart attack", "Sepsis"],
            "seen": measured,
            "unseen": measured,
            "difference": {"questions": {"mean": 1.25, "low": 0.5, "high": 2.0}},
        },
        "coverage": {
            "visited": 4100,
            "by_pieces": [{"pieces": 1, "states": 300, "visited": 0.9}],
            "by_distance": [
                {
                    "distance": n,
                    "states": 50,
                    "appropriateness": 0.8,
                    "safety": 0.9,
                    "intervals": {"appropriateness": [0.7, 0.9], "safety": [None, None]},
                }
                for n in (0, 4)
            ],
        },
        "errors": [error(number) for number in range(4)],
        "ablations": [
            {
                "name": name,
                "metrics": {
                    metric: {"mean": value, "sd_over_seeds": 0.01}
                    for metric, value in zip(METRICS[:2] + METRICS[4:], values, strict=True)
                },
            }
            for name, values in (
                ("the default", (0.842, 0.926, 11.2, 6.6)),
                ("ask successor: taken only", (0.83, 0.91, 9.1, 5.9)),
                ("no prioritised memory", (0.82, 0.92, 12.4, 6.8)),
            )
        ],
        "claims": [
            {
                "claim": "DyQN-OR is on a par with the clinicians",
                "paper": "85%",
                "outcome": "holds",
                "numbers": "84.2% against 83.8% appropriate.",
            },
            {
                "claim": "The agents ask more questions on new vignettes than in training",
                "outcome": "holds",
                "numbers": "11.2 against 5.6.",
            },
            {
                "claim": "The AND query stops too early",
                "outcome": "fails",
                "numbers": "2.1 questions, and 77.1% appropriate.",
            },
            {
                "claim": "Cross-validation is slightly worse than the single split",
                "outcome": "not shown",
                "numbers": "Not run.",
            },
        ],
    }


def empty_results():
    """A study that ran next to nothing."""
    results = dict.fromkeys(full_results())
    return {
        **results,
        "format": 4,
        "curves": {},
        "by_evidence": {},
        "agents": {},
        "slices": [],
        "errors": [],
        "ablations": [],
        "claims": [],
    }


class Element:
    def __init__(self, tag, attributes):
        self.tag, self.attributes, self.children = tag, attributes, []

    def all(self, *tags):
        for child in self.children:
            if isinstance(child, Element):
                if child.tag in tags or not tags:
                    yield child
                yield from child.all(*tags)

    @property
    def text(self):
        parts = (child.text if isinstance(child, Element) else child for child in self.children)
        return " ".join(" ".join(parts).split())

    def with_id(self, name):
        (match,) = (element for element in self.all() if element.attributes.get("id") == name)
        return match


class Reader(html.parser.HTMLParser):
    """Builds the tree, and fails on tags that are not closed in order."""

    def __init__(self):
        super().__init__()
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag, attributes):
        element = Element(tag, dict(attributes))
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attributes):
        self.open[-1].children.append(Element(tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop().tag == tag

    def handle_data(self, data):
        self.open[-1].children.append(data)


def read(directory):
    text = (directory / "report.html").read_text(encoding="utf-8")
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert len(reader.open) == 1
    return reader.root, text


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    directory = tmp_path_factory.mktemp("full") / "study"
    write_report(full_results(), directory)
    return directory


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    directory = tmp_path_factory.mktemp("empty")
    write_report(empty_results(), directory)
    return directory


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    directory = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "save_png", lambda drawing, path: None)  # the page has the same panels
        write_report(poisoned(full_results()), directory)
    return directory


def poisoned(tree):
    """Returns `tree` with every text that is free to choose, and settings' names, replaced by a hostile one."""
    if isinstance(tree, str):
        return tree if tree in ("Red", "Yellow", "Green", "Blue", "ask", "present", "absent") else HOSTILE
    if isinstance(tree, dict):
        names = {"steps": HOSTILE} if "mode" in tree else {}
        return {names.get(key, key): poisoned(value) for key, value in tree.items()}
    return [poisoned(value) for value in tree] if isinstance(tree, list) else tree


def test_every_figure_has_an_alternative_text_and_a_numbered_caption(full):
    root, _ = read(full)
    figures = list(root.all("figure"))
    assert len(figures) == 8
    for number, figure in enumerate(figures, start=1):
        (image,) = (element for element in figure.all("div") if element.attributes.get("role") == "img")
        assert len(image.attributes["aria-label"]) > 40
        assert list(image.all("svg"))
        (caption,) = figure.all("figcaption")
        assert caption.text.startswith(f"Figure {number}. ")
        assert len(caption.text) > 100


def test_figures_are_png_files_of_a_sensible_size(full):
    files = sorted((full / "figures").iterdir())
    assert [file.name for file in files] == [
        "agents.png",
        "by_evidence.png",
        "confusion.png",
        "k_fold.png",
        "learning_curves.png",
        "questions.png",
        "reliability.png",
        "slices.png",
    ]
    for file in files:
        content = file.read_bytes()
        assert content.startswith(b"\x89PNG\r\n\x1a\n")
        width, height = struct.unpack(">II", content[16:24])
        assert 700 <= width <= 3000
        assert 300 <= height <= 3000
        assert len(content) > 10_000  # not a blank page


def test_the_results_table_has_a_row_an_agent_with_its_numbers(full):
    root, _ = read(full)
    (table,) = (element for element in root.all("table") if element.attributes.get("class") == "results")
    rows = [[cell.text for cell in row.all("th", "td")] for row in table.all("tr")][1:]
    assert [row[0] for row in rows] == [f"{label} test split" for label, *_ in AGENTS.values()]
    # mean, SD over seeds (0.012 of a share is 1.2 points), interval; then the paper's figure
    assert rows[0][1:5] == ["84.2% SD 1.2 78.2\u201390.2%", "85.0%", "92.6% SD 1.2 88.6\u201396.6%", "93.0%"]
    assert rows[0][5:] == [
        "8.4% SD 1.2 6.4\u201310.4%",
        "7.4% SD 1.2 3.4\u201311.4%",
        "11.20 SD 0.01 10.40\u201312.00",
        "13.34",
        "6.60 SD 0.01 6.20\u20137.00",
        "\u2013",
    ]
    assert rows[6][7:] == ["all", "all", "all", "\u2013"]  # the clinicians saw the whole vignette


def test_tables_are_captioned_have_scopes_and_scroll_in_their_own_box(full):
    root, _ = read(full)
    tables = list(root.all("table"))
    assert len(tables) >= 14
    for table in tables:
        (caption,) = table.all("caption")
        assert caption.text
        assert all(cell.attributes.get("scope") in ("col", "row") and cell.text for cell in table.all("th"))
        widths = {len(list(row.all("th", "td"))) for row in table.all("tr")}
        assert len(widths) == 1
    boxes = [element for element in root.all("div") if element.attributes.get("class") == "scroll"]
    assert sum(len(list(box.all("table"))) for box in boxes) == len(tables)
    for box in boxes:
        assert box.attributes["tabindex"] == "0"
        assert root.with_id(box.attributes["aria-labelledby"]).tag == "caption"


def test_sections_stand_in_order_and_the_contents_lead_to_them(full, empty):
    expected = ["answer", "data", "results", "claims", "learning", "novelty", "evidence", "folds", "confidence"]
    expected += ["agreement", "slices", "ablations", "errors", "limits", "reproduce"]
    for directory in (full, empty):
        root, text = read(directory)
        assert [section.attributes["id"] for section in root.all("section")] == expected
        (contents,) = root.all("nav")
        assert [link.attributes["href"] for link in contents.all("a")] == [f"#{name}" for name in expected]
        assert "not a medical device" in root.text
        assert text.startswith("<!doctype html>")
        ids = [element.attributes["id"] for element in root.all() if "id" in element.attributes]
        assert len(ids) == len(set(ids))


def test_the_answer_comes_first_in_plain_words_with_red_cases_beside_the_clinicians(full):
    root, _ = read(full)
    answer = root.with_id("answer")
    first, *_ = (p.text for p in answer.all("p") if p.attributes.get("class") == "lead")
    assert first == (
        "The paper's agent (DyQN, OR query): no, it is less safe than the clinicians; it found about one in five "
        "emergencies (with safety rules about three in four; the clinicians about two in three)."
    )
    (table,) = answer.all("table")
    rows = [[cell.text for cell in row.all("th", "td")] for row in table.all("tr")]
    assert rows[0][:2] == ["Who", "Red sensitivity"]
    assert [row[:2] for row in rows[1:]] == [
        ["DyQN, OR query", "21.0% (15.0\u201327.0%)"],
        ["DyQN, OR query, with safety rules", "73.0% (67.0\u201379.0%)"],
        ["Clinicians", "64.0% (58.0\u201370.0%)"],
    ]
    assert answer.text.index("a dynamic Q-network") < answer.text.index("the agent (DyQN, OR query) triaged")


def test_states_that_training_never_visited_are_in_two_tables(full):
    root, _ = read(full)
    *_, first, second = root.with_id("evidence").all("table")
    rows = [[[cell.text for cell in row.all("th", "td")] for row in table.all("tr")][1:] for table in (first, second)]
    assert rows[0] == [["1", "300", "90.0%"]]
    assert rows[1] == [[distance, "50", "80.0% (70.0\u201390.0%)", "90.0%"] for distance in ("0", "4 or more")]


def test_claims_are_answered_in_words(full):
    root, _ = read(full)
    rows = [[cell.text for cell in row.all("th", "td")] for row in root.with_id("claims").all("tr")][1:]
    assert [row[1:3] for row in rows] == [
        ["85%", "holds"],
        ["\u2013", "holds"],
        ["\u2013", "fails"],
        ["\u2013", "not shown"],
    ]
    assert "Of 4 claims about the agents, 2 held here, 1 failed here and 1 not shown." in root.with_id("answer").text


def test_errors_are_cards_that_open_to_the_agents_values(full):
    root, _ = read(full)
    cards = list(root.with_id("errors").all("article"))
    assert len(cards) == 4
    assert cards[0].text.startswith("Case 1: 2 levels too low Patient: Man, adult, smoker.")  # Blue, against Yellow
    (details,) = cards[0].all("details")
    rows = [[cell.text for cell in row.all("th", "td")] for row in details.all("tr")]
    assert rows[0] == ["Evidence", "Answer", "Red", "Yellow", "Green", "Blue", "ask", "Then"]
    assert rows[1] == ["Chest pain", "yes", "0.52", "0.61", "0.48", "0.20", "0.75", "ask"]
    assert rows[2][1] == "not known (no evidence left)"
    assert rows[3][1:] == ["no", "0.41", "0.55", "0.63", "0.30", "0.60", "Green"]
    assert "where a piece is left out. Shortness of breath (no) 0.110; Chest pain (yes) 0.072." in details.text


def test_what_was_not_measured_is_said_where_it_would_stand(empty):
    root, _ = read(empty)
    for section in root.all("section"):
        if section.attributes["id"] not in ("answer", "limits"):
            notes = [p.text for p in section.all("p") if p.attributes.get("class") == "empty"]
            assert notes, section.attributes["id"]
    assert not list(root.all("figure"))
    assert list((empty / "figures").iterdir()) == []
    assert "None" not in root.text
    assert "No answer yet" in root.text


def test_the_page_loads_nothing_and_runs_nothing(full, hostile):
    for directory in (full, hostile):
        root, text = read(directory)
        tags = {element.tag for element in root.all()}
        assert not tags & {
            "script",
            "link",
            "img",
            "iframe",
            "object",
            "embed",
            "base",
            "form",
            "image",
            "foreignobject",
        }
        for element in root.all():
            for name, value in element.attributes.items():
                assert not name.startswith("on")
                assert name not in ("src", "srcset", "action")
                assert name not in ("href", "xlink:href") or value.startswith("#")
        (style,) = root.all("style")
        assert not re.search(r"@import|url\(|https?:", style.text)
        assert "http:" not in text
        assert "https:" not in text
        (policy,) = (meta for meta in root.all("meta") if "http-equiv" in meta.attributes)
        assert policy.attributes["content"].startswith("default-src 'none';")


def test_hostile_texts_show_as_they_are(hostile):
    root, text = read(hostile)
    shown = " ".join(clean(HOSTILE).split())
    assert shown in next(root.all("article")).text
    for section in ("results", "claims", "slices", "ablations", "errors", "reproduce"):
        assert "<script>alert(1)</script>" in root.with_id(section).text, section
    assert "49" not in root.with_id("claims").text  # {{ 7*7 }} is no template
    assert "\u202e" not in text
    assert "\x00" not in text


def test_colours_have_a_light_and_a_dark_value_and_print_is_light(full):
    _, text = read(full)
    assert re.search(r":root \{ --page: #ffffff;", text)
    dark = re.search(r"@media screen and \(prefers-color-scheme: dark\) \{\s*:root \{ --page: (#[0-9a-f]{6});", text)
    assert dark
    assert dark[1] != "#ffffff"


def test_a_later_report_leaves_no_figure_of_an_earlier_one(tmp_path):
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "slices.png").write_bytes(b"old")
    (tmp_path / "figures" / "mine.png").write_bytes(b"kept")
    write_report(empty_results(), tmp_path)
    assert [file.name for file in (tmp_path / "figures").iterdir()] == ["mine.png"]


def test_the_results_are_not_changed(tmp_path):
    results = empty_results()
    before = copy.deepcopy(results)
    write_report(results, tmp_path)
    assert results == before


def test_a_place_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(InputError, match=r"--out .*out: cannot write the report: "):
        write_report(empty_results(), tmp_path / "out")
