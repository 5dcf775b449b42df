"""Brings a trained agent into a model base path: stages it, evaluates it as exported, describes it, publishes it.

Nothing that a server sees changes before the last step, which is one rename.
"""

import functools
import json
import pathlib
import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from schemas import directories
from schemas.errors import InputError
from schemas.evidence import Vocabulary
from schemas.model_directory import read_manifest
from trainer.data.arrays import VignetteArrays
from trainer.data.textbook_case import TextbookCase
from trainer.data.tfrecord import DataDirectory, is_simulated
from trainer.dyqn.rollout import Outcomes, order_seeds
from trainer.evaluation.case_play import play_cases
from trainer.evaluation.cases import CaseDecisions
from trainer.evaluation.measurement import agent_figures, baseline_figures
from trainer.export import gate, model_card, signing
from trainer.export.gate import GateVerdict
from trainer.export.model_card import VersionFigures
from trainer.export.policy import LoadedVersion, ServablePolicy, in_codes_of, load_version, version_outcomes
from trainer.export.saved_model import StagedVersion, newest_version, next_version, staged
from trainer.training import promises
from trainer.training.job import TrainedNetwork
from triage_runtime.command_line.json_output import plain
from triage_runtime.command_line.progress import followed

if TYPE_CHECKING:  # an extra
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SPLIT = "test"
MINIMUM_HUMAN_DECISIONS = 3
"""Vignettes with fewer decisions are left out of the clinicians' own figures, as in the paper's table."""


class Target(NamedTuple):
    """Where a version goes."""

    base: pathlib.Path
    version: int | None  # None is the next free number of both base paths
    model_name: str
    margin: float | None = None  # of the gate; None if there is no gate
    against: pathlib.Path | None = None  # base path of the serving version, if it is not `base`
    minimum_vignettes: int = 0  # test vignettes without which nothing passes the gate
    key: "Ed25519PrivateKey | None" = None  # signs a version that is published

    @property
    def serving_base(self) -> pathlib.Path:
        """The base path of the version to compare with, whose version numbers are continued."""
        return self.against or self.base


class Exported(NamedTuple):
    """The result of an export."""

    folder: pathlib.Path | None  # None if the version was deleted
    model_version: str
    published: bool
    metrics: dict[str, Any]  # as in the manifest
    evaluation: VersionFigures | None
    gate: GateVerdict | None


class VersionTest:
    """The test split of a data directory, and optional textbook cases, on which versions are evaluated.

    The `seed` is that of the evidence orders and of the bootstrap.

    Raises:
        InputError: `path` is not a data directory or is damaged, or its test split is empty.
    """

    def __init__(self, path: pathlib.Path, orders: int, seed: int, cases: Sequence[TextbookCase] = ()):
        self.data = DataDirectory.open(path)
        self.seed = seed
        self.seeds = order_seeds(seed, orders)
        self.cases = tuple(cases)
        self.vignettes: VignetteArrays = self.data.read(SPLIT, needed=True)
        if np.diff(self.vignettes.offsets).min() < 1:
            raise InputError(
                f"{path}: the {SPLIT} split has vignettes without evidence, which cannot be played: give a data "
                "directory of whole vignettes"
            )

    def require_known(self, vocabulary: Vocabulary, source: pathlib.Path, advice: str) -> None:
        """Raises InputError if a vignette or case has evidence that is not in `vocabulary`, that of `source`."""
        try:
            in_codes_of(vocabulary, self.vignettes, self.data.vocabulary)
        except InputError as error:
            raise InputError(f"{self.data.path}: {error} ({source}): {advice}") from None
        for case in self.cases:
            unknown = next((code for code in case.codes if code not in vocabulary), None)
            if unknown is not None:
                raise InputError(
                    f"--cases: the case {case.vignette_id!r} has evidence that {source} does not know, {unknown}: give "
                    "cases whose evidence both versions know"
                )

    def outcomes(self, version: LoadedVersion, name: str) -> Outcomes:
        """Returns the outcomes of `version`; shows the progress under `name` on a terminal."""
        shown = functools.partial(followed, description=f"play {name}", unit="orders")
        return version_outcomes(version, self.vignettes, self.data.vocabulary, self.seeds, shown)

    def play_cases(self, version: LoadedVersion) -> CaseDecisions:
        """Returns the decisions of `version` on the textbook cases, of which there is at least one."""
        return play_cases(ServablePolicy(version), self.cases, version.vocabulary, version.max_questions)

    def report(self, outcomes: Outcomes) -> VersionFigures:
        """Returns the figures of a version that played."""
        counts = self.vignettes.decision_counts
        return VersionFigures(
            data_fingerprint=self.data.data_fingerprint,
            simulated=is_simulated(self.data.stats),
            split=SPLIT,
            seed=self.seed,
            vignettes=len(counts),
            orders=len(outcomes.decisions),
            baselines=baseline_figures(counts, MINIMUM_HUMAN_DECISIONS, self.seed),
            played=agent_figures(outcomes, self.vignettes, self.seed),
        )


def export(trained: TrainedNetwork, job_dir: pathlib.Path, target: Target, evaluation: VersionTest | None) -> Exported:
    """Exports `trained` to `target`; with a margin it is published only if it passes the gate.

    Raises:
        InputError: it cannot be written, evaluated or compared; then nothing is published.
    """
    serving = None
    if evaluation is not None:
        known = job_dir / directories.VOCABULARY
        evaluation.require_known(trained.vocabulary, job_dir, f"prepare the data with --vocabulary {known}")
        if target.margin is not None:
            serving = _serving(target, evaluation)
    number = target.version
    if number is None:  # above those that are served, and above candidates that wait to be pushed
        number = max(next_version(target.base), next_version(target.serving_base))
    with staged(target.base, trained, number, target.model_name) as stage:
        name = str(stage.number)
        report, verdict = None, None
        entries: dict[str, Any] = {}
        if evaluation is not None:
            version = load_version(stage.folder)
            outcomes = evaluation.outcomes(version, f"version {name}")
            report = evaluation.report(outcomes)
            if trained.promise is not None:
                vignettes = in_codes_of(trained.vocabulary, evaluation.vignettes, evaluation.data.vocabulary)
                newer = promises.on_newer(trained, trained.promise, vignettes, evaluation.data.whole_patients)
                entries["promise"] = trained.promise | {"newer": newer}
            entries["metrics"] = _manifest_metrics(trained, report)
            if target.margin is not None:
                verdict = _verdict(gate.Played(name, outcomes), version, serving, evaluation, target.margin)
                count = len(evaluation.vignettes.decision_counts)
                if count < target.minimum_vignettes:
                    verdict = verdict._replace(passed=False, too_few=gate.TooFew(count, target.minimum_vignettes))
                verdict = gate.require_promise(verdict, entries.get("promise"))
                entries["gate"] = verdict.described(ids=False)
        stage.describe(**entries)
        _write_card(stage, trained, evaluation, report, verdict)
        passed, folder = verdict is None or verdict.passed, None
        if passed:
            folder = _publish(stage, target, serving, verdict is not None)
        elif target.against is not None:  # nothing is served from the base path
            (stage.folder / gate.NOT_BLESSED).touch()
            folder = stage.publish()
    return Exported(folder, name, passed, entries.get("metrics", trained.metrics), report, verdict)


def _serving(target: Target, evaluation: VersionTest) -> LoadedVersion | None:
    """Returns the version that a server would load now, None if there is none."""
    folder = newest_version(target.serving_base)
    if folder is None:
        return None
    if target.version is not None and target.version <= int(folder.name):
        raise InputError(
            f"--version {target.version}: no server would load it, because {folder} is higher: choose a higher number, "
            "or leave it out"
        )
    if len(evaluation.vignettes.decision_counts) < 2:
        raise InputError("the test split has only one vignette, too few to compare two versions: use more data")
    serving = load_version(folder)
    advice = "give --data whose evidence both versions know, or export with --model-base-path, without a comparison"
    evaluation.require_known(serving.vocabulary, folder, advice)
    return serving


def _verdict(
    new: gate.Played, version: LoadedVersion, serving: LoadedVersion | None, evaluation: VersionTest, margin: float
) -> GateVerdict:
    if serving is None:
        return GateVerdict(True, margin, new.name, None)
    name = serving.folder.name
    old = gate.Played(name, evaluation.outcomes(serving, f"version {name}"))
    verdict = gate.compare(new, old, evaluation.vignettes, margin, evaluation.seed)
    if not evaluation.cases:
        return verdict
    cases = gate.compare_cases(evaluation.cases, evaluation.play_cases(version), evaluation.play_cases(serving))
    return verdict._replace(passed=verdict.passed and cases.passed, textbook_cases=cases)


def _manifest_metrics(trained: TrainedNetwork, report: VersionFigures) -> dict[str, Any]:
    """Returns the evaluation in the form of those that training writes."""
    return {
        "step": trained.training["steps"],
        "episode": trained.training["episodes"],
        **{key: getattr(report, key) for key in ("split", "data_fingerprint", "vignettes", "orders", "seed")},
        "metrics": plain(report.played.agent),
    }


def _write_card(
    stage: StagedVersion,
    trained: TrainedNetwork,
    evaluation: VersionTest | None,
    report: VersionFigures | None,
    verdict: GateVerdict | None,
) -> None:
    manifest = read_manifest(stage.folder)
    facts = model_card.training_facts(trained.data_fingerprint, evaluation.data.stats if evaluation else None)
    card = model_card.model_card(manifest, trained.vocabulary, facts, report, verdict)
    text = json.dumps(card, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    # Ids and tags from other programs may contain half a surrogate pair, which is not UTF-8.
    (stage.folder / directories.MODEL_CARD_JSON).write_text(text, encoding="utf-8", errors="backslashreplace")
    (stage.folder / directories.MODEL_CARD).write_text(model_card.page(card), encoding="utf-8")


def _publish(stage: StagedVersion, target: Target, serving: LoadedVersion | None, blessed: bool) -> pathlib.Path:
    if blessed:
        if newest_version(target.serving_base) != (serving.folder if serving else None):
            raise InputError(
                f"{target.serving_base}: another version was published while this one was evaluated: export again, to "
                "compare with that one"
            )
        (stage.folder / gate.BLESSED).touch()
    if target.key is not None:
        signing.sign(stage.folder, target.key)
    return stage.publish()


def push(version: pathlib.Path, base: pathlib.Path) -> pathlib.Path:
    """Copies a blessed version into `base`, where it appears whole; returns its folder there.

    Raises:
        InputError: it is not a version, was not blessed, or was compared with another version than the one that is
            served from `base` now; or `base` cannot be written.
    """
    if directories.version_number(version.name) is None or not (version / directories.MANIFEST).is_file():
        raise InputError(f"{version}: not a version: expected a folder that triage export wrote, such as out/3")
    if not (version / gate.BLESSED).exists():
        raise InputError(f"{version}: was not blessed: triage export --compare-with {base} compares it first")
    manifest = read_manifest(version)
    serving = newest_version(base)
    compared, there = manifest["gate"]["serving_version"], serving.name if serving else None
    if compared != there:
        raise InputError(
            f"{version}: was compared with {_named(compared)}, and {base} now serves {_named(there)}: compare it again"
        )
    stage = StagedVersion(base, int(version.name))
    try:
        shutil.copytree(version, stage.folder, dirs_exist_ok=True)
        return stage.publish()
    except OSError as error:
        raise InputError(f"{base}: cannot write a model version: {error.strerror or error}") from error
    finally:
        shutil.rmtree(stage.folder, ignore_errors=True)


def _named(version: str | None) -> str:
    return "no version" if version is None else f"version {version}"
