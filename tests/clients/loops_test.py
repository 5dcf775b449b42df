"""Each loop that a page or an example shows leads a whole interview: the server's questions, up to the server's end."""

import builtins
import contextlib
import io
import pathlib
import re
import runpy
import subprocess
import sys

import numpy as np
import pytest

import triage_cli
from schemas import safety_rules
from schemas.danger_signs import DangerSigns
from schemas.evidence import Evidence, Vocabulary
from tests.builders import random_network, served, trained_agent, write_version
from tests.mobile import programs
from trainer.graph.decide import OperatingPoint
from trainer.graph.mixture import Mixture
from trainer.graph.novelty import Novelty
from triage_client import DeferralReason, NextStep, TriageAction, TriageClient

ROOT = pathlib.Path(__file__).resolve().parents[2]
PHONE = ROOT / "examples" / "mobile" / "interview.py"
SCRIPT = ROOT / "examples" / "interview.sh"


def program(page, language):
    """The block of a page in which an interview is led."""
    blocks = re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    [loop] = [block for block in blocks if re.search("while .*(NEXT_STEP_ASK|next == .ask)", block)]
    return loop


COUNT, AGES, SEXES, MEASURED, FLAGS, COMPLAINTS, FEVER = 16, range(3), range(3, 5), 5, range(5, 12), range(12, 16), 13
BANDS = {0: "age >=0 <18 years", 1: "age >=18 <65 years", 2: "age >=65 years", FEVER: "temperature >=38 <45 °C"}
VOCABULARY = Vocabulary(
    Evidence(
        f"e{cell}", "symptom", f"Sign {cell}", f"Have you got {cell}?", band=BANDS.get(cell, ""),
        exclusive="age" if cell in AGES else "sex" if cell in SEXES else "",
        instrument="stethoscope" if cell == MEASURED else "", red_flag="yes" if cell in FLAGS else "",
    )
    for cell in range(COUNT)
)  # fmt: skip
RULES = '[both]\nreason = "Can be measles."\nurgency = "Yellow"\nall.present = ["e6", "e8"]\n'


@pytest.fixture(scope="module")
def version(without_litert, tmp_path_factory):
    """An agent that asks for age, sex and danger signs, its versions and its file for phones."""
    generator = np.random.default_rng(5)
    present, truths = (generator.uniform(0.05, 0.45, [4, size]).astype(np.float32) for size in (COUNT, 8))
    network = random_network(COUNT, (8,), spread=1.0, seed=5, inputs="two", outputs="probabilities")
    # less urgent decisions, too, and questions
    network.get_layer("q_values").bias.assign([6.0, 3.0, 0.0, 6.0, 3.0, 0.0, 3.0])
    trained = trained_agent(
        network,
        VOCABULARY,
        9,
        questions=Mixture(np.log(np.full(4, 0.25, np.float32)), present, truths, present),
        novelty=Novelty(
            np.zeros(1, np.float32),
            generator.normal(size=[2 * COUNT, 4]).astype(np.float32),
            np.sort(generator.normal(-2, size=[4, 50])).astype(np.float32),
            200,
        ),
        operating_point=OperatingPoint(hand_over_from=0.005),
        signs=DangerSigns({f"e{cell}": (tuple(f"e{flag}" for flag in FLAGS),) for cell in COMPLAINTS}),
        rules=safety_rules.parse(RULES, "rules.toml", VOCABULARY),
    )
    folder = tmp_path_factory.mktemp("loops")
    with without_litert():
        write_version(folder / "models", trained)
    file = folder / "triage.tflite"
    assert triage_cli.main(["tflite", "--model", str(folder / "models"), "--out", str(file), "--states", "50"]) == 0
    return folder / "models", file


@pytest.fixture(scope="module")
def addresses(version):
    with served(version[0], http_port=0) as server:
        yield {"127.0.0.1:8500": server.address, "127.0.0.1:8501": server.http.url.removeprefix("http://")}


def some_patient(seed):
    """What each code is to a patient of one age and one sex: present, absent, or None if the patient cannot tell."""
    generator = np.random.default_rng(seed)
    answers = dict(enumerate(generator.choice([True, False, None], COUNT, p=[0.35, 0.5, 0.15]).tolist()))
    for group in (AGES, SEXES):
        answers |= dict.fromkeys(group, False) | {int(generator.choice(group)): True}
        if not generator.integers(4):
            answers |= dict.fromkeys(group)
    return {f"e{cell}": answer for cell, answer in answers.items()}


def led(client, complaint, patient, numbers, can_measure):
    """An interview by what the server says is next: the lines that a patient types, and those that are shown."""
    typed, shown = [" ".join(complaint)], []
    with client.interview(questions=1, can_measure=can_measure, defer_below=0.0) as interview:
        answer = interview.present(*complaint)
        while answer.response.next == NextStep.NEXT_STEP_ASK:
            question = answer.response.next_questions[0]
            codes = [*question.one_of] or [*question.any_of] or [question.code]
            said = {status: [code for code in codes if patient[code] is status] for status in (True, False, None)}
            shown.append(question.question)
            for place, code in enumerate(codes, start=1):
                shown.append(f"  {f'{place} ' if question.one_of else ''}{VOCABULARY[VOCABULARY.index(code)].name}")
                number = {"e0": "age=7", "e1": "age=34.5", "e2": "age=80"}.get(code) if numbers else None
                if question.one_of and patient[code]:
                    typed.append(number or str(place))
                elif not question.one_of and numbers and code == f"e{FEVER}" and patient[code] is not None:
                    typed.append("temperature=38.5" if patient[code] else "temperature=36.9")
                elif not question.one_of:
                    typed.append({True: "y", False: "n", None: ""}[patient[code]])
            if question.one_of and not said[True]:
                typed.append("")
            if question.one_of:
                answer = interview.answer(said[True], not_known=[] if said[True] else [question.code])
            else:
                answer = interview.answer(said[True], said[False], said[None])
    response = answer.response
    if response.next == NextStep.NEXT_STEP_HAND_OVER:
        shown.append(f"A person must look: {DeferralReason.Name(response.deferred)}. Until then:")
    shown.append(TriageAction.Name(response.best_triage))
    for each in response.probabilities:
        chances = f"appropriate {each.appropriate:.0%}, safe {each.safe:.0%}"
        shown.append(f"  {TriageAction.Name(each.decision)}: {chances}")
    shown += [f"Rule {rule.rule_id}: {rule.reason}" for rule in response.fired_rules]
    return typed, shown


def in_python(code, typed, addresses):
    """What a Python program prints but for its prompts."""
    code = re.sub(r'"(127[.:\d]+)"', lambda match: f'"{addresses[match[1]]}", timeout_seconds=30', code)
    printed, lines = io.StringIO(), iter(typed)
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "program", "exec"), {"input": lambda prompt: next(lines)})  # noqa: S102
    assert not [*lines], "lines that nobody read"
    return printed.getvalue()


def in_bash(code, typed, addresses):
    """What a bash program prints; it shows prompts to terminals alone."""
    code = re.sub(r"127[.:\d]+", lambda match: addresses[match[0]], code)
    ran = subprocess.run(
        ["bash", "-c", code], input="".join(f"{line}\n" for line in typed), capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def in_node(code, typed, addresses, package):
    """What a program in Node prints but for its prompts."""
    module = package / "interview.mjs"
    module.write_text(re.sub(r'"(127[.:\d]+)"', lambda match: f'"{addresses[match[1]]}", {{ timeoutMs: 60000 }}', code))
    lines = "".join(f"{line}\n" for line in typed)
    ran = subprocess.run(["node", module], input=lines, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return re.sub("^.*> ", "", ran.stdout, flags=re.MULTILINE)


def on_the_phone(file, typed, *options):
    """What the example for phones prints but for its prompts, and the two lines on the file."""
    lines, printed = iter(typed), io.StringIO()
    with pytest.MonkeyPatch.context() as patched, contextlib.redirect_stdout(printed):
        patched.setattr(sys, "argv", ["interview.py", str(file), *options])
        patched.setattr(builtins, "input", lambda prompt: next(lines))
        with contextlib.suppress(SystemExit):
            runpy.run_path(str(PHONE), run_name="__main__")
    assert not [*lines], "lines that nobody read"
    return printed.getvalue().split("\n", 2)[2]


def as_lines(shown):
    """The lines that are shown, in the names of one route."""
    plain = re.sub(r"(DEFERRAL_REASON|TRIAGE_ACTION)_", "", shown).lower().rstrip("\n")
    return plain.split("\n")


CASES = [([f"e{COMPLAINTS[seed % 4]}"], some_patient(seed)) for seed in range(16)]
CASES.append((["e0", "e1", "e12"], some_patient(0)))  # two ages: a person must look at once
PYTHON = program("clients/python/README.md", "python")


def test_the_short_loop_of_the_page_ends_where_the_server_does(addresses):
    names = {"put": lambda question: ([], [], [*question.any_of] or [question.code])}  # nothing is known
    code = program("docs/clients.md", "python").replace("chest_pain", f"e{COMPLAINTS[0]}")
    exec(re.sub(r'"(127[.:\d]+)"', lambda match: f'"{addresses[match[1]]}", timeout_seconds=30', code), names)  # noqa: S102
    assert names["answer"].ended


@pytest.mark.parametrize(
    "route",
    [
        *("python", "phone", "phone, measuring"),
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("bash", "node", "kotlin", "swift")),
    ],
)
def test_a_program_puts_the_servers_questions_and_ends_where_it_does(version, addresses, route, request, made_once):
    can_measure, asked, ends = "measuring" in route, set(), set()
    with TriageClient(addresses["127.0.0.1:8500"], timeout_seconds=60) as client:
        for complaint, patient in CASES[:6] + CASES[-1:] if route == "bash" else CASES:
            patient = patient | dict.fromkeys(complaint, True)
            numbers = route in ("python", "bash", "node")
            typed, shown = led(client, complaint, patient, numbers, can_measure)
            if route == "python":
                printed = in_python(PYTHON, typed, addresses)
            elif route == "bash":
                printed = in_bash(SCRIPT.read_text(encoding="utf-8"), typed, addresses)
            elif route == "node":
                package = request.getfixturevalue("node_package")
                printed = in_node(program("clients/node/README.md", "js"), typed, addresses, package)
            elif route in ("kotlin", "swift"):
                printed = programs.interview(route, made_once, version[1], typed)
            else:
                printed = on_the_phone(version[1], typed, *(["--can-measure"] if can_measure else []))
            assert as_lines(printed) == as_lines("\n".join(shown))
            asked |= {*shown}
            ends |= {*re.findall("DEFERRAL_REASON_([A-Z]+)", " ".join(shown))} or {"decided"}
    assert asked >= {"How old is the patient?", "What sex is the patient?", "Do you have any of these?"}
    assert "CONTRADICTORY" in ends
    assert len(ends) > 1
