"""What do 500 overrides bring? The loop from an agent to cards, what clinicians made of them, and the next training.

    python benchmarks/overrides.py --results overrides.jsonl

Each seed is a panel of simulated clinicians. An agent learns from 1,248 vignettes of theirs, is exported, and is served
with CDS Hooks. Then fresh patients come, each with a record that says what stands on a card, and one of the clinicians
who judged that card looks at the decision: whoever thinks otherwise overrides it. After 500 of them the agent
is trained again, with the feedback. Both are measured on 1,000 vignettes that neither has seen, by the whole panel;
differences are paired. A seed is a line of the results, and is not repeated.
"""

import argparse
import contextlib
import json
import pathlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import httpx
import numpy as np
import scipy.stats

import dyqn_triage
from serving.config.settings import ServeConfig
from serving.engine.model_config import Wanted
from serving.engine.served_models import LocalModels
from serving.engine.versions import Versions
from serving.engine.watcher import Watcher
from serving.hospital.cds_hooks import SERVICES
from serving.server.triage_server import TriageServer
from trainer.dyqn.rollout import order_seeds
from trainer.evaluation import metrics
from trainer.evaluation.measurement import play
from trainer.simulation.config import SimulationConfig
from trainer.simulation.knowledge_base import KnowledgeBase
from trainer.simulation.simulator import Simulator
from trainer.training.job import load_network
from trainer.vignettes.vignette import Vignette

SEEDS = (1000, 1001, 1002)
VIGNETTES, OVERRIDES, TEST = 1248, 500, 1000
FIGURES = ("appropriateness", "safety", "questions")
ORDERS = 3
SYSTEM = "urn:example:evidence"
REFUTED = {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/condition-ver-status", "code": "refuted"}]}
WHEN = "2026-01-01T00:00:00Z"
BLOCK_OF_PATIENTS = 100


def main() -> None:
    """Adds the lines of seeds that are missing, and prints all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=pathlib.Path, required=True, help="JSON Lines; what stands there is kept")
    given = parser.parse_args()
    lines = given.results.read_text().splitlines() if given.results.exists() else []
    runs = {run["seed"]: run for run in map(json.loads, lines)}
    for seed in SEEDS:
        if seed not in runs:
            with tempfile.TemporaryDirectory() as folder:
                runs[seed] = {"seed": seed, **run(pathlib.Path(folder), seed)}
            with given.results.open("a") as file:
                file.write(json.dumps(runs[seed]) + "\n")
    print("\n".join(table([runs[seed] for seed in SEEDS])))


def run(folder: pathlib.Path, seed: int) -> dict[str, Any]:
    """Returns what one panel's overrides bring."""
    knowledge = KnowledgeBase.load(None)
    vignettes = stream(Simulator(knowledge, SimulationConfig(), seed))
    knowledge.catalogue.vocabulary.save(folder / "vocabulary.csv")
    own = [fields(next(vignettes), "test") for _ in range(TEST)]
    own += [fields(next(vignettes), "train") for _ in range(VIGNETTES)]
    (folder / "own.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in own))
    before = trained(folder / "before", folder, seed)
    before.export(folder / "models").close()
    accepted = give_feedback(folder, vignettes, OVERRIDES, np.random.default_rng(seed))
    after = trained(folder / "after", folder, seed, format="feedback", feedback=folder / "feedback")
    data = dyqn_triage.open_data(folder / "before")
    found = {name: measured(agent, data, seed) for name, agent in (("before", before), ("after", after))}
    return {
        "accepted": accepted,
        "overridden": OVERRIDES,
        **{name: {figure: float(values.mean()) for figure, values in each.items()} for name, each in found.items()},
        "difference": {
            name: metrics.estimate(found["after"][name] - found["before"][name], seed)._asdict() for name in FIGURES
        },
    }


def stream(simulator: Simulator) -> Iterator[Vignette]:
    """Yields the vignettes of a panel without end."""
    number = 0
    while True:
        yield from simulator.block(number)
        number += 1


def fields(vignette: Vignette, split: str) -> dict[str, Any]:
    """Returns a vignette as a line of a vignette file."""
    evidence = {"present": vignette.present, "absent": vignette.absent}
    decisions = [decision.label for decision in vignette.decisions]
    return {"vignette_id": vignette.vignette_id, **evidence, "decisions": decisions, "split": split}


def trained(data: pathlib.Path, folder: pathlib.Path, seed: int, **options: Any) -> dyqn_triage.Agent:
    """Returns an agent of the panel's own vignettes, and of what the options add."""
    made = dyqn_triage.prepare(folder / "own.jsonl", data, folder / "vocabulary.csv", test_fraction=0, **options)
    return dyqn_triage.fit(made, folder / f"{data.name}-job", seed=seed, evaluation_interval=0)


def give_feedback(
    folder: pathlib.Path, vignettes: Iterator[Vignette], overrides: int, generator: np.random.Generator
) -> int:
    """Shows cards of patients to clinicians until so many are overridden, and returns how many were accepted."""
    accepted = overridden = 0
    with hospital(folder) as client:
        while overridden < overrides:
            said = []
            for vignette in [next(vignettes) for _ in range(BLOCK_OF_PATIENTS)]:
                response = client.post("/cds-services/triage", json=record(vignette)).raise_for_status()
                [card] = response.json()["cards"]
                own = vignette.decisions[generator.integers(len(vignette.decisions))].label
                reason = next((each for each in card["overrideReasons"] if each["code"] == own), None)
                if overridden + (reason is not None) > overrides:
                    break
                outcome: dict[str, Any] = {"card": card["uuid"], "outcomeTimestamp": WHEN, "outcome": "accepted"}
                if reason is None:
                    accepted += 1
                else:
                    outcome |= {"outcome": "overridden", "overrideReason": {"reason": reason}}
                    overridden += 1
                said.append(outcome)
            client.post("/cds-services/triage/feedback", json={"feedback": said}).raise_for_status()
    return accepted


@contextlib.contextmanager
def hospital(folder: pathlib.Path) -> Iterator[httpx.Client]:
    """Yields a client of a server of CDS Hooks, for which each code is its own."""
    codes = [entry.code for entry in KnowledgeBase.load(None).catalogue.vocabulary]
    (folder / "codes.csv").write_text("system,code,evidence\n" + "".join(f"{SYSTEM},{c},{c}\n" for c in codes))
    config = ServeConfig(
        port=0, http_port=0, cds_codes=str(folder / "codes.csv"), cds_feedback=str(folder / "feedback")
    )
    server, watcher = TriageServer(config), Watcher(Versions("triage"), LocalModels(), Wanted(folder / "models"))
    watcher.look()
    server.start(watcher)
    try:
        with httpx.Client(base_url=server.http.url, trust_env=False, timeout=60) as client:
            yield client
    finally:
        server.stop()


def record(vignette: Vignette) -> dict[str, Any]:
    """Returns the request of a hospital's system when the record of a patient is opened."""
    conditions = [
        {"resourceType": "Condition", "code": {"coding": [{"system": SYSTEM, "code": code}]}, **status}
        for codes, status in ((vignette.present, {}), (vignette.absent, {"verificationStatus": REFUTED}))
        for code in codes
    ]
    bundle = {"resourceType": "Bundle", "type": "searchset", "entry": [{"resource": each} for each in conditions]}
    return {
        "hook": SERVICES["triage"],
        "hookInstance": vignette.vignette_id,
        "context": {},
        "prefetch": {"conditions": bundle},
    }


def measured(agent: dyqn_triage.Agent, data: dyqn_triage.DataDirectory, seed: int) -> Mapping[str, np.ndarray]:
    """Returns the figures of each test vignette."""
    network, test = load_network(agent.job_dir), data.read("test")
    played = play(network.model, test, order_seeds(seed, ORDERS), network.max_questions, point=network.operating_point)
    quality = metrics.triage_quality(played.decisions, test.decision_counts)
    return {**quality, "questions": played.questions.mean(axis=0)}


def table(runs: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    """Yields a row for each figure: before, after, the mean difference with its t interval over panels, and each."""
    accepted = np.mean([each["accepted"] for each in runs])
    yield f"{len(runs)} panels, {runs[0]['overridden']} overrides and {accepted:.0f} accepted cards each\n"
    yield "| | before | after | difference | by panel |\n| --- | --- | --- | --- | --- |"
    for name in FIGURES:
        before, after = (np.mean([each[when][name] for each in runs]) for when in ("before", "after"))
        gains = [each["difference"][name] for each in runs]
        means = [each["mean"] for each in gains]
        half = scipy.stats.t.ppf(0.975, len(runs) - 1) * scipy.stats.sem(means) if len(runs) > 1 else float("nan")
        by_panel = ", ".join(f"{each['mean']:+.3f} [{each['low']:+.3f}, {each['high']:+.3f}]" for each in gains)
        yield f"| {name} | {before:.3f} | {after:.3f} | {np.mean(means):+.3f} ± {half:.3f} | {by_panel} |"


if __name__ == "__main__":
    main()
