"""The model card of an exported version, after Mitchell et al., "Model Cards for Model Reporting" (2019).

It is written as JSON and as a page in Markdown, in which data is escaped. Every figure was computed or is read from a
file; a figure that is not known is left out.
"""

import functools
import importlib.metadata
import platform
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup

from schemas import VERSION
from schemas.evidence import KINDS, Vocabulary
from schemas.promise import RISKS, percent, statements
from schemas.triage import DECISION_LABELS
from trainer.data.tfrecord import is_simulated
from trainer.evaluation.estimates import AgentFigures, Baselines, Estimate, bracketed
from trainer.export.gate import GateVerdict
from triage_runtime.command_line.json_output import plain

FORMAT = 1
"""`format_version` of model_card.json, raised when older readers would misread it."""

_PACKAGES = ("tensorflow", "keras", "tf-agents", "numpy", "scipy")  # beside others, these affect a model's answers
_LICENCE = (
    "The software that made and runs this model is under the Apache License 2.0. Passing the model on is also subject "
    "to the terms of the vignettes that it learned from."
)
_INTENDED_USE = {
    "uses": [
        "research on learning triage from clinicians' decisions",
        "decision support under study, where a clinician sees the evidence and decides",
        "teaching, software tests and integration tests",
    ],
    "users": ["researchers", "clinical data scientists", "software engineers who work with them"],
    "out_of_scope": [
        "It is not a medical device, and it is not validated for care.",
        "It must not decide about a patient without a clinician, nor delay or replace emergency care.",
        "It gives no diagnosis and no treatment.",
        "It must not be used on populations, languages or evidence that its vignettes do not cover.",
    ],
}
_ETHICS = [
    "Under-triage can harm a patient who needs care sooner; over-triage costs time, money and worry.",
    "Safety alone is not an aim: always deciding Red is perfectly safe. Read it beside over-triage.",
    "No figure here measures fairness between groups of people, such as by age, sex, ethnicity or income.",
    "The model repeats the habits of the clinicians whose decisions it learned from, mistakes included.",
]
_Q_VALUES_ALONE = "Q-values are not calibrated probabilities: do not read 0.9 as 90%."
_PROBABILITIES = (
    "Q-values are not probabilities. P(appropriate) and P(safe) are, for patients like those of the training "
    "vignettes; for others they may be wrong."
)
_NOT_CALIBRATED = (
    "P(appropriate) and P(safe) are not calibrated, because training had not ended or held out no vignettes: "
    "they may be far off."
)
_NO_QUESTIONS = ["The version decides whether to ask, not what to ask: the caller chooses the questions."]
_QUESTION_LIMITS = [
    "It learned what to ask from the same vignettes: it estimates how often a finding is recorded, not "
    "how often it is present.",
    "A finding that nobody asked about is unknown, not absent.",
    "No clinician reviewed its questions. The policy is not validated for care.",
    "The evaluation does not measure this, because it reveals the evidence in random order.",
]
_LIMITS = [
    "The evaluation reveals the evidence of a vignette in random order. Real questions build on each other, so real "
    "interviews may need more or fewer questions, and may end in other decisions.",
    "The figures measure agreement with the clinicians who read the same vignette, not the outcome of patients. The "
    "more clinicians judged a vignette, the wider the range of decisions that count as appropriate and safe.",
    "Evidence outside the vocabulary is ignored, and the model learned nothing about a state without evidence.",
]

# Characters with a meaning in Markdown inside a line, and those that begin a bare link.
_MARKUP = re.compile(r"[\\`*_{}\[\]<>#|~!&$@^]|(?<=www)\.|:(?=/)", re.IGNORECASE)
# These change the direction of text, so that one id could look like another.
_DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")


class VersionFigures(NamedTuple):
    """The figures of a version on a split, for its model card."""

    data_fingerprint: str
    simulated: bool | None  # None where it is not recorded
    split: str
    seed: int  # of the evidence orders and of the bootstrap
    vignettes: int
    orders: int  # random evidence orders of each vignette
    baselines: Baselines
    played: AgentFigures

    def described(self) -> dict[str, Any]:
        """Returns the figures as JSON holds them, side by side."""
        own = {name: getattr(self, name) for name in self._fields[:-2]}
        return plain(own | self.baselines._asdict() | self.played._asdict())


def training_facts(data_fingerprint: str, stats: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns what is known about the training vignettes with this fingerprint.

    With the stats.json of the same data these are `format`, `simulated`, `seed`, `test_fraction`, `sources`, `fold` and
    `splits`, None where the file does not state them.
    """
    if stats is None or stats["data_fingerprint"] != data_fingerprint:
        return {"data_fingerprint": data_fingerprint, "known": False}
    return {
        "data_fingerprint": data_fingerprint,
        "known": True,
        "format": stats.get("format"),
        "simulated": is_simulated(stats),
        "seed": stats.get("seed"),
        "test_fraction": stats.get("test_fraction"),
        "sources": [source["file"] for source in stats.get("sources", [])],
        "fold": stats.get("fold"),
        "splits": {
            name: {
                "vignettes": split["vignettes"],
                "decisions": {label: split.get("decisions", {}).get(label) for label in DECISION_LABELS},
            }
            for name, split in stats["splits"].items()
        },
    }


def model_card(
    manifest: dict[str, Any],
    vocabulary: Vocabulary,
    training_data: dict[str, Any],
    evaluation: VersionFigures | None,
    gate: GateVerdict | None,
) -> dict[str, Any]:
    """Returns the card of a version, as model_card.json holds it; `training_data` is what `training_facts` returns.

    The verdict of the gate, if there was one, stands in it without ids.
    """
    kinds = [entry.kind for entry in vocabulary]
    return {
        "format_version": FORMAT,
        "model_details": {
            "model_version": manifest["model_version"],
            "created": manifest["created"],
            "package_version": manifest["package_version"],
            "algorithm": "Dynamic Q-Network (DyQN): deep Q-learning from clinicians' decisions on vignettes, with a "
            "counterfactual reward for every triage decision and a dynamic target for asking",
            "signatures": manifest["signatures"],
            "max_questions": manifest["max_questions"],
            "training": manifest["training"],
            "start_from": manifest.get("start_from"),
            "licence": _LICENCE,
        },
        "intended_use": _INTENDED_USE,
        "training_data": training_data,
        "vocabulary": {
            "fingerprint": vocabulary.fingerprint,
            "evidence": len(vocabulary),
            **{f"{kind}s": kinds.count(kind) for kind in KINDS},
        },
        "decision": manifest["decision"],
        "promise": manifest["promise"],
        "safety_rules": manifest["safety_rules"],
        "novelty": manifest["novelty"],
        "questions": _questions(manifest),
        "hyper_parameters": manifest["config"],
        "evaluation": evaluation and evaluation.described(),
        "gate": gate and gate.described(ids=False),
        "ethical_considerations": _ETHICS,
        "limits": [
            *_limits(training_data, evaluation),
            _probabilities(manifest["decision"]),
            *_LIMITS,
        ],
        "reproduce": {
            "versions": {
                "python": platform.python_version(),
                "dyqn-triage": VERSION,
                **{name: importlib.metadata.version(name) for name in _PACKAGES},
            }
        },
    }


def _questions(manifest: dict[str, Any]) -> dict[str, Any]:
    """Returns how the version asks questions, and the limits of that."""
    if manifest["questions"] is None:
        return {"most": 0, "notes": _NO_QUESTIONS}
    most, complaints = manifest["questions"]["most"], manifest["danger_signs"]["complaints"]
    does = f"It suggests up to {most} questions; the first is the one whose answer should say most about the decision."
    signs = f"It asks first about danger signs, those of its safety rules and those in its table of {complaints:,} "
    ends = "complaints: an interview that it leads does not end below Red while one is open."
    return {"most": most, "notes": [does, signs + ends, *_QUESTION_LIMITS]}


def _probabilities(decision: dict[str, Any]) -> str:
    if not decision["probabilities"]:
        return _Q_VALUES_ALONE
    return _PROBABILITIES if decision["held_out"] else _NOT_CALIBRATED


def _limits(training_data: dict[str, Any], evaluation: VersionFigures | None) -> list[str]:
    if evaluation is None:
        return ["This version was not evaluated when it was exported."]
    limits = []
    if evaluation.simulated:
        limits.append("The vignettes of the evaluation are simulated: no figure here says anything about patients.")
    safety = evaluation.played.agent["safety"]
    if safety.ends is None:
        limits.append("The test split has a single vignette: there are no intervals, and nothing can be concluded.")
    else:
        low, high = safety.ends
        limits.append(
            f"The test split has {evaluation.vignettes:,} vignettes, and the 95% interval of safety is "
            f"{high - low:.3f} wide: smaller differences may be chance."
        )
    limits.append(
        "Intervals cover the choice of vignettes, not the randomness of training or of the evidence orders. Those of "
        "the slices are not corrected for multiple comparisons."
    )
    if evaluation.data_fingerprint == training_data["data_fingerprint"]:
        limits.append(
            "Training reports its progress on the same test split: if that was used to choose a setting or a "
            "checkpoint, these figures are too good."
        )
    else:
        limits.append(
            "The evaluation and the training used different data, which may share vignettes: this was not checked."
        )
    return limits


def escape(text: Any) -> str:
    """Returns `text` escaped, so that Markdown shows it unchanged in a line or a cell of a table."""
    plain = "".join(" " if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") else c for c in str(text))
    plain = _DIRECTION.sub("\N{REPLACEMENT CHARACTER}", plain)
    return _MARKUP.sub(r"\\\g<0>", plain)


def page(card: Mapping[str, Any]) -> str:
    """Returns the card as Markdown, in which texts are shown as they are, and never read as Markdown or HTML."""
    decisions = [f"{label} decisions" for label in DECISION_LABELS]
    text = _template().render(card, risks=RISKS, statements=statements, decisions=decisions)
    return re.sub(r"\n{3,}", "\n\n", text)


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("trainer.export", package_path=""),
        autoescape=True,
        finalize=lambda value: value if isinstance(value, Markup) else Markup(escape(value)),  # noqa: S704
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "number": lambda value: "-" if value is None else f"{value:,}",
        "words": lambda name: name.replace("_", " "),
        "percent": percent,
        "intervals": _intervals,
        "errors": _errors,
    }
    return environment.get_template("model_card.md.jinja")


def _intervals(figures: Mapping[str, Any] | None, names: Iterable[str]) -> list[Markup]:
    """Returns the named estimates, as JSON holds them, with their intervals."""
    estimates = (figures[name] if figures and name in figures else None for name in names)
    return [Markup(bracketed(each and Estimate(**each))) for each in estimates]  # noqa: S704


def _errors(count: Mapping[str, int]) -> str:
    share = count["errors"] / count["patients"] if count["patients"] else None
    return "-" if share is None else f"{count['errors']:,} ({100 * share:.3g}%)"
