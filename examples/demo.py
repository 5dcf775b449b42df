"""The whole way from vignettes to three served triage decisions, each step an ordinary `triage` command."""

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

from schemas.triage import TRIAGE_DECISIONS, Action
from serving.messages import action_label
from triage_client import TriageClient, TriageResponse, evidence_state

ROOT = pathlib.Path(__file__).resolve().parents[1]
DEMO = pathlib.Path("demo")
VIGNETTES, TEST_FRACTION = 12_480, 0.2
CONSOLE = Console()
PATIENTS = {
    "stroke": (["facial_droop", "one_sided_weakness", "slurred_speech", "sudden_onset"], ["headache"]),
    "chest pain": (
        ["chest_pain", "pain_radiating_to_left_arm", "sweating", "shortness_of_breath"],
        ["fever"],
    ),
    "common cold": (["runny_nose", "sore_throat", "cough"], ["fever", "shortness_of_breath"]),
}


def triage(*arguments: str | pathlib.Path) -> Sequence[str]:
    """Returns the command line of a `triage` subcommand, after printing it as a user would type it."""
    words = [str(argument) for argument in arguments]
    CONSOLE.print(f"\n[bold]$ triage {' '.join(words)}[/bold]", highlight=False, soft_wrap=True)
    return [sys.executable, "-m", "triage_cli", *words]


def main() -> None:
    """Runs the demo in `demo/`, which is deleted first."""
    began = time.monotonic()
    os.chdir(ROOT)
    shutil.rmtree(DEMO, ignore_errors=True)
    data, job, models = DEMO / "data", DEMO / "job", DEMO / "models"
    run = lambda *arguments: subprocess.run(triage(*arguments), check=True)  # noqa: E731, S603
    run("simulate", "--vignettes", str(VIGNETTES), "--test-fraction", str(TEST_FRACTION), "--out", data)
    run("stats", data)
    run("train", "--data", data, "--job-dir", job)
    run("evaluate", "--data", data, "--job-dir", job)
    run("evaluate", "--cases", "default", "--job-dir", job)
    run("export", "--job-dir", job, "--model-base-path", models, "--data", data)
    with server(models) as address, TriageClient(address) as client:
        answers = {name: client.triage(evidence_state(*evidence)) for name, evidence in PATIENTS.items()}
    show(answers)
    CONSOLE.print(f"\nDone in {time.monotonic() - began:.0f} s; all files are in {DEMO}/.")


@contextlib.contextmanager
def server(models: pathlib.Path) -> Iterator[str]:
    """Runs `triage serve` on a free port, yields its address, and stops it."""
    port_file = DEMO / "port"
    command = triage("serve", "--model-base-path", models, "--port", "0", "--port-file", port_file)
    process = subprocess.Popen(command)  # noqa: S603
    try:
        while not port_file.exists():
            if process.poll() is not None:
                sys.exit(f"triage serve ended with exit code {process.returncode}")
            time.sleep(0.1)
        yield f"127.0.0.1:{port_file.read_text().strip()}"
    finally:
        process.terminate()
        process.wait()


def show(answers: dict[str, TriageResponse]) -> None:
    """Prints the answers side by side."""
    table = Table(title="Three patients, one server", caption="Research software, not a medical device.")
    table.add_column("")
    for name in answers:
        table.add_column(name, overflow="fold")
    rows = {
        "present": [", ".join(PATIENTS[name][0]) for name in answers],
        "absent": [", ".join(PATIENTS[name][1]) for name in answers],
        "action": [action_label(answer.action) for answer in answers.values()],
        "best triage": [action_label(answer.best_triage) for answer in answers.values()],
        "safety rules": [", ".join(rule.rule_id for rule in answer.fired_rules) or "-" for answer in answers.values()],
    }
    for action in Action:
        rows[f"Q({action.label})"] = [f"{answer.q_values[action].value:.3f}" for answer in answers.values()]
    for decision in TRIAGE_DECISIONS:
        likely = [chance for answer in answers.values() for chance in answer.probabilities[decision : decision + 1]]
        if likely:
            rows[f"P(appropriate), P(safe) of {decision.label}"] = [
                f"{chance.appropriate:.2f}, {chance.safe:.2f}" for chance in likely
            ]
    for name, cells in rows.items():
        table.add_row(name, *cells)
    CONSOLE.print()
    CONSOLE.print(table)


if __name__ == "__main__":
    main()
