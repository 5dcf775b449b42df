"""The whole way from vignettes to served decisions and an interview, each step an ordinary `triage` command.

A demo that was stopped goes on where it was; a finished one begins anew.
"""

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table

from serving.messages import action_label
from triage_client import NextQuestion, NextStep, TriageClient, TriageResponse, evidence_state

ROOT = pathlib.Path(__file__).resolve().parents[1]
DEMO = pathlib.Path("demo")
FINISHED = DEMO / "finished"
VIGNETTES, TEST_FRACTION = 6_240, 0.2
CONSOLE = Console(highlight=False)
PATIENTS = {
    "sudden weak side, drooping face": (
        ["facial_droop", "one_sided_weakness", "slurred_speech", "sudden_onset"],
        [],
    ),
    "chest pain on exertion, no fever": (
        ["chest_pain", "chest_pain_on_exertion"],
        ["fever"],
    ),
    "runny nose, sore throat, cough": (
        ["runny_nose", "sore_throat", "cough", "age_30_to_44"],
        ["fever", "shortness_of_breath"],
    ),
}
COMPLAINT = "jaw_pain"
HAS = {"sweating", "nausea", "pale_clammy_skin", "lasting_under_one_day", "smoker", "age_60_to_74", "sex_male"}
"""What the patient of the interview has: a heart attack that begins in the jaw."""


def triage(*arguments: str | pathlib.Path) -> Sequence[str]:
    """Returns the command line of a `triage` subcommand, after printing it as a user would type it."""
    words = [str(argument) for argument in arguments]
    CONSOLE.print(f"\n[bold]$ triage {' '.join(words)}[/bold]", soft_wrap=True)
    return [sys.executable, "-m", "triage_cli", *words]


def main() -> None:
    """Runs the demo in `demo/`."""
    began = time.monotonic()
    os.chdir(ROOT)
    if FINISHED.exists():
        shutil.rmtree(DEMO)
    data, job, models = DEMO / "data", DEMO / "job", DEMO / "models"
    step("1 of 4: simulated patients, and the decisions of simulated clinicians")
    if not data.exists():
        run("simulate", "--vignettes", str(VIGNETTES), "--test-fraction", str(TEST_FRACTION), "--out", data)
    step("2 of 4: an agent learns from them; about a minute")
    run("train", "--data", data, "--job-dir", job)
    step("3 of 4: the agent becomes a SavedModel, with its safety rules")
    if not (models / "1").exists():
        run("export", "--job-dir", job, "--model-base-path", models, "--data", data)
    step("4 of 4: a server answers")
    with server(models) as address, TriageClient(address) as client:
        show({name: client.triage(evidence_state(*evidence)) for name, evidence in PATIENTS.items()})
        interview(client)
    FINISHED.touch()
    CONSOLE.print(f"\nDone in {time.monotonic() - began:.0f} s. All files are in {DEMO}/. Next, in .venv/bin:\n")
    CONSOLE.print(f"  triage console --model-base-path {models}", soft_wrap=True)
    CONSOLE.print(f"  triage evaluate --job-dir {job} --data {data} --html {DEMO}/report.html", soft_wrap=True)


def step(title: str) -> None:
    """Prints the title of a step."""
    CONSOLE.rule(title, align="left")


def run(*arguments: str | pathlib.Path) -> None:
    """Runs a `triage` subcommand.

    Raises:
        SystemExit: it failed, and has said why.
    """
    if code := subprocess.run(triage(*arguments), check=False).returncode:  # noqa: S603
        sys.exit(code)


@contextlib.contextmanager
def server(models: pathlib.Path) -> Iterator[str]:
    """Runs `triage serve` on a free port, yields its address, and stops it."""
    command = triage("serve", "--model-base-path", models, "--port", "0")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        try:
            if not (line := process.stdout.readline() if process.stdout else ""):
                sys.exit(f"triage serve ended with exit code {process.wait()}")
            yield line.split()[2].rstrip(",")
        finally:
            process.terminate()


def show(answers: dict[str, TriageResponse]) -> None:
    """Prints a row for each answer."""
    table = Table(title="Three patients", caption="P: the probability that clinicians find it appropriate")
    for title in ("patient", "decision", "why", "P"):
        table.add_column(title)
    for patient, answer in answers.items():
        rules = [f"rule {rule.rule_id}" for rule in answer.fired_rules]
        [likely] = [each for each in answer.probabilities if each.decision == answer.best_triage]
        table.add_row(
            patient,
            action_label(answer.best_triage),
            ", ".join(rules) or "learned",
            f"{likely.appropriate:.2f}",
        )
    CONSOLE.print()
    CONSOLE.print(table)


def interview(client: TriageClient) -> None:
    """Prints an interview of a patient who has `HAS`, and denies the rest."""
    names = {entry.code: entry.name for entry in client.vocabulary().entries}
    CONSOLE.print(f"\n[bold]An interview[/bold]\n\nPatient: {names[COMPLAINT]}.")
    with client.interview(questions=1) as asking:
        answer = asking.present(COMPLAINT)
        while answer.response.next == NextStep.NEXT_STEP_ASK:
            question = answer.response.next_questions[0]
            codes = asked(question)
            present = [code for code in codes if code in HAS]
            several = f" {', '.join(names[code] for code in codes)}." if question.any_of else ""
            reply = ", ".join(names[code] for code in present) or ("None of these" if several else "No")
            CONSOLE.print(f"Agent:   {question.question}{several}", soft_wrap=True)
            CONSOLE.print(f"Patient: {'Yes' if codes == present else reply}.", soft_wrap=True)
            answer = asking.answer(present, [] if question.one_of else [code for code in codes if code not in HAS])
    reasons = " ".join(rule.reason for rule in answer.response.fired_rules)
    CONSOLE.print(f"Agent:   [bold]{action_label(answer.response.best_triage)}[/bold]. {reasons}", soft_wrap=True)
    CONSOLE.print("\nResearch software, not a medical device. Patients and clinicians are simulated.")


def asked(question: NextQuestion) -> list[str]:
    """Returns the codes that a question is about: a choice, several signs, or one piece of evidence."""
    return [*question.one_of] or [*question.any_of] or [question.code]


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nStopped. make demo goes on from here.")
