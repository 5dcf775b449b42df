"""The model card of an exported version, after Mitchell et al., "Model Cards for Model Reporting" (2019).

It is written as JSON and as a page in Markdown, in which data is escaped. Every figure was computed or is read from a
file; a figure that is not known is left out.
"""

import importlib.metadata
import math
import platform
import re
import shlex
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from schemas import VERSION, directories
from schemas.evidence import KINDS, Vocabulary
from schemas.promise import RISKS, percent, statements
from schemas.triage import DECISION_LABELS
from trainer.evaluation.estimates import AgentFigures, Baselines, Calibration, SliceFigures, bracketed
from trainer.export.gate import Verdict
from trainer.simulation.knowledge_base import KnowledgeBase
from trainer.vignettes.tfrecord import is_simulated
from triage_runtime.command_line.json_output import plain

FORMAT = 1
"""`format_version` of model_card.json, raised when older readers would misread it."""

_PACKAGES = ("tensorflow", "keras", "tf-agents", "numpy", "scipy")
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
    "P(appropriate) and P(safe) are not calibrated, since training had not ended at this step or held nothing out: "
    "they may be far off."
)
_NO_QUESTIONS = ["The version says whether to ask, not what: the caller chooses the questions."]
_QUESTION_LIMITS = [
    "It learned what to ask from the same vignettes, simulated or written by somebody: it knows what they list, not "
    "what patients have.",
    "A question that was not asked is not a finding excluded: what nobody asked about is unknown.",
    "No clinician reviewed its questions. The policy is not validated for care.",
    "The evaluation does not measure it: there the evidence of a vignette comes in random order.",
]
_LIMITS = [
    "In the evaluation the evidence of a vignette comes in random order. Real questions build on each other, so real "
    "interviews may need more or fewer questions, and may end in other decisions.",
    "The figures measure agreement with the clinicians who read the same vignette, not the outcome of patients. The "
    "more clinicians judged a vignette, the wider the range of decisions that count as appropriate and safe.",
    "Evidence outside the vocabulary is ignored, and nothing was learned about a state without evidence.",
]

_QUALITY = ("appropriateness", "safety", "over_triage", "under_triage")
_EFFORT = ("questions", "evidence_seen", "forced")
# Characters with a meaning in Markdown inside a line, and those that begin a bare link.
_MARKUP = re.compile(r"[\\`*_{}\[\]<>()#|~!&$@^]|(?<=www)\.|:(?=/)", re.IGNORECASE)
# These change the direction of text, so that one id could look like another.
_DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")

_SETTINGS = {"interview": "interviews that it leads", "all_evidence": "all evidence at once"}


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


def training_facts(data_fingerprint: str, stats: dict[str, Any] | None) -> dict[str, Any]:
    """Returns what is known of the vignettes that an agent learned from.

    Args:
        data_fingerprint: of those vignettes.
        stats: the stats.json of a data directory; None if none was given.

    Returns:
        `data_fingerprint`; and if `stats` are of the same data, `format`, `simulated`, `seed`, `test_fraction`,
        `sources`, `simulation`, `fold` and `splits`, None if the file does not state them.
    """
    if stats is None or stats["data_fingerprint"] != data_fingerprint:
        return {"data_fingerprint": data_fingerprint, "known": False}
    origin = stats.get("format")
    return {
        "data_fingerprint": data_fingerprint,
        "known": True,
        "format": origin if isinstance(origin, str) else None,
        "simulated": is_simulated(stats),
        "seed": _number(stats.get("seed")),
        "test_fraction": _number(stats.get("test_fraction")),
        "sources": [str(_dict(source)["file"]) for source in _list(stats.get("sources")) if "file" in _dict(source)],
        "simulation": _simulation(stats) if origin == "simulate" else None,
        "fold": _dict(stats.get("fold")) or None,
        "splits": {
            name: {
                "vignettes": stats["splits"][name]["vignettes"],
                "decisions": _counts(stats["splits"][name].get("decisions")),
            }
            for name in directories.SPLITS
        },
    }


def model_card(
    manifest: dict[str, Any],
    vocabulary: Vocabulary,
    training_data: dict[str, Any],
    evaluation: VersionFigures | None,
    gate: Verdict | None,
) -> dict[str, Any]:
    """Returns the card, as model_card.json holds it.

    Args:
        manifest: of the version.
        vocabulary: of the version.
        training_data: see `training_facts`.
        evaluation: of the version; None if it was not evaluated.
        gate: the verdict on the version, which the card holds without ids; None if there was no gate.
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
        "questions": _questions(manifest["questions"]),
        "hyper_parameters": manifest["config"],
        "evaluation": evaluation and evaluation.described(),
        "gate": gate and gate.described(ids=False),
        "ethical_considerations": _ETHICS,
        "limits": [
            *_limits(training_data, evaluation),
            _probabilities(manifest["decision"]),
            *_LIMITS,
        ],
        "reproduce": {"commands": _commands(manifest, training_data, evaluation), "versions": package_versions()},
    }


def package_versions() -> dict[str, str]:
    """Returns the versions of Python and of the packages that affect a model's answers."""
    versions = {"python": platform.python_version(), "dyqn-triage": VERSION}
    return versions | {name: importlib.metadata.version(name) for name in _PACKAGES}


def _questions(questions: dict[str, Any] | None) -> dict[str, Any]:
    """Returns what the version does about questions, and how far to trust that."""
    if questions is None:
        return {"most": 0, "notes": _NO_QUESTIONS}
    most = questions["most"]
    does = f"It suggests up to {most} questions, the one first whose answer is expected to say most about the decision."
    ends = "An interview that it leads goes on while a red flag is open."
    return {"most": most, "notes": [does, ends, *_QUESTION_LIMITS]}


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
            "Training reports its progress on the same test split: if a setting or a checkpoint was chosen by it, "
            "these figures are too good."
        )
    else:
        limits.append(
            "The evaluation used other data than the training: it was not checked whether a vignette is in both."
        )
    return limits


def _commands(manifest: dict[str, Any], training_data: dict[str, Any], evaluation: VersionFigures | None) -> list[str]:
    """Returns commands with DATA, JOB, MODELS and START for the folders; config.json is the manifest's `config`."""
    steps = manifest["training"]["steps"]
    make_config = "import json; json.dump(json.load(open('manifest.json'))['config'], open('config.json', 'w'))"
    how = "" if evaluation is None else f" --orders {evaluation.orders} --seed {evaluation.seed}"
    ruled = f" --rules {directories.RULES}" if manifest["safety_rules"]["rules"] else ""
    point = _point(manifest["decision"])
    start = " --start-from START" if manifest.get("start_from") else ""
    promised = _promised(manifest["promise"]) or point
    return [
        *_simulate(training_data),
        f'python -c "{make_config}"',
        f"triage train --data DATA --job-dir JOB --config config.json --steps {steps}{start}",
        f"triage export --job-dir JOB --step {steps} --model-base-path MODELS --data DATA{how}"
        f"{ruled or ' --rules none'}{promised}",
        f"triage evaluate --job-dir JOB --step {steps} --data DATA{how}{ruled}{point}",
    ]


def _point(decision: dict[str, Any]) -> str:
    """Returns the options that set the version's operating point, "" if training chose it."""
    if not decision["probabilities"] or decision["chosen"] == "default":
        return ""
    threshold = "" if decision["sure_enough"] is None else f" --sure-enough {decision['sure_enough']:g}"
    return f" --safety-weight {decision['safety_weight']:g} --question-price {decision['price']:g}{threshold}"


def _promised(promise: dict[str, Any] | None) -> str:
    """Returns the options that ask for the version's promise, "" without one."""
    if promise is None:
        return ""
    levels, asked = ",".join(f"{name}={level:g}" for name, level in promise["levels"].items()), promise["asked"]
    given = _point({"probabilities": True, "chosen": "given", **asked["given"]}) if asked["given"] else ""
    return f" --promise {levels} --confidence {asked['confidence']:g} --question-limit {asked['question_limit']}{given}"


def _simulate(training_data: dict[str, Any]) -> list[str]:
    """Returns the command that makes the same vignettes; none if no command with this knowledge base does."""
    simulation = training_data.get("simulation")
    if not simulation or training_data["fold"]:
        return []
    if simulation["knowledge_fingerprint"] != KnowledgeBase.load().fingerprint:
        return []
    total = sum(split["vignettes"] for split in training_data["splits"].values())
    parts = ["triage", "simulate", "--out", "DATA", "--vignettes", str(total)]
    for option in ("seed", "test_fraction"):
        if training_data[option] is not None:
            parts += [f"--{option.replace('_', '-')}", str(training_data[option])]
    if simulation["whole_patient"]:
        parts.append("--whole-patient")
    if simulation["caution"] not in (None, 1):
        parts += ["--caution", str(simulation["caution"])]
    unseen = simulation["unseen_conditions"]
    return [shlex.join([*parts, "--unseen-conditions", *unseen] if unseen else parts)]


def _simulation(stats: dict[str, Any]) -> dict[str, Any]:
    options = _dict(stats.get("options"))
    fingerprint = options.get("knowledge_fingerprint")
    panel = _dict(_dict(options.get("simulation")).get("panel"))
    return {
        "knowledge_fingerprint": fingerprint if isinstance(fingerprint, str) else None,
        "unseen_conditions": [str(code) for code in _list(options.get("unseen_conditions"))],
        "whole_patient": options.get(directories.WHOLE_PATIENT) is True,
        "caution": _number(panel.get("caution")),
    }


def _counts(value: Any) -> dict[str, float | None]:
    return {label: _number(_dict(value).get(label)) for label in DECISION_LABELS}


def _dict(value: Any) -> dict[Any, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: Any) -> float | None:
    """Returns a number that JSON can hold, None for anything else: stats.json may come from another program."""
    return value if isinstance(value, int | float) and math.isfinite(value) else None


def escape(text: Any) -> str:
    """Returns `text` escaped, so that Markdown shows it unchanged in a line or a cell of a table."""
    plain = "".join(" " if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") else c for c in str(text))
    plain = _DIRECTION.sub("\N{REPLACEMENT CHARACTER}", plain)
    return _MARKUP.sub(r"\\\g<0>", plain)


def page(card: dict[str, Any], evaluation: VersionFigures | None, gate: Verdict | None) -> str:
    """Returns the card as Markdown; it was made of `evaluation` and `gate`, see `model_card`."""
    details, use = card["model_details"], card["intended_use"]
    sections = [
        f"# Model card: triage agent, version {escape(details['model_version'])}",
        "Research software for decision support. **It is not a medical device, and it is not validated for care.**",
        *_details(card),
        "## Intended use",
        _bullets(use["uses"]),
        f"Intended users: {', '.join(use['users'])}.",
        "## What it is not for",
        _bullets(use["out_of_scope"]),
        *_training_data(card["training_data"]),
        "## Evaluation",
        *_evaluation(evaluation),
        *_gate(gate),
        "## Ethical considerations",
        _bullets(card["ethical_considerations"]),
        *_decision(card["decision"], evaluation),
        *_promise(card["promise"]),
        *_rules(card["safety_rules"]),
        *_novelty(card["novelty"]),
        "## Questions",
        _bullets(card["questions"]["notes"]),
        "## Limits",
        _bullets(card["limits"]),
        "## Hyper-parameters",
        table(
            ("section", "name", "value"),
            (
                (escape(section), escape(name), escape(value))
                for section, values in card["hyper_parameters"].items()
                for name, value in values.items()
            ),
        ),
        *_reproduce(card["reproduce"], details["start_from"]),
        "## Licence",
        details["licence"],
    ]
    return "\n\n".join(sections) + "\n"


def _details(card: dict[str, Any]) -> list[str]:
    details, vocabulary = card["model_details"], card["vocabulary"]
    rows = [
        ("version", details["model_version"]),
        ("exported", details["created"]),
        ("dyqn-triage", details["package_version"]),
        ("trained for", ", ".join(f"{value:,} {name}" for name, value in details["training"].items())),
        *([("started from the agent of", details["start_from"])] if details["start_from"] else []),
        ("forced to triage after", f"{details['max_questions']} questions"),
        (
            "vocabulary",
            f"{vocabulary['evidence']:,} pieces of evidence: {vocabulary['symptoms']:,} symptoms, "
            f"{vocabulary['risk_factors']:,} risk factors",
        ),
        ("vocabulary fingerprint", vocabulary["fingerprint"]),
        ("signatures", ", ".join(details["signatures"])),
    ]
    return [
        "## Model details",
        f"{details['algorithm']}.",
        table(("", ""), ((name, escape(value)) for name, value in rows)),
    ]


def _training_data(data: dict[str, Any]) -> list[str]:
    lines = ["## Training data", f"Fingerprint: {escape(data['data_fingerprint'])}"]
    if not data["known"]:
        return [*lines, "Nothing more is known: the version was exported without the data directory."]
    origin = f"Format: {escape(data['format'] or 'unknown')}."
    if data["simulated"]:
        origin += " **The vignettes and the decisions on them are simulated.**"
    else:
        origin += " It is not recorded whether a clinician or a program wrote the vignettes, or who decided on them."
    if data["sources"]:
        origin += f" Files: {', '.join(map(escape, data['sources']))}."
    rows = (
        (name, f"{split['vignettes']:,}", *("-" if n is None else f"{n:,}" for n in split["decisions"].values()))
        for name, split in data["splits"].items()
    )
    return [*lines, origin, table(("split", "vignettes", *(f"{label} decisions" for label in DECISION_LABELS)), rows)]


def _evaluation(evaluation: VersionFigures | None) -> list[str]:
    if evaluation is None:
        return [
            "**This version was not evaluated when it was exported**, as no data were named for it. It has no figures.",
        ]
    name = "simulated vignettes" if evaluation.simulated else "vignettes"
    baselines, agent = evaluation.baselines, evaluation.played.agent
    policies = {
        "**this version**": agent,
        f"clinicians ({baselines.human_minimum_decisions} decisions or more)": baselines.human or {},
        **baselines.constants,
    }
    quality = ((who, *(bracketed(row.get(metric)) for metric in _QUALITY)) for who, row in policies.items())
    effort = ((_words(metric), bracketed(agent[metric])) for metric in _EFFORT)
    return [
        f"{evaluation.vignettes:,} {name} of the {escape(evaluation.split)} split, each in "
        f"{evaluation.orders:,} random evidence orders (seed {evaluation.seed}); data fingerprint "
        f"{escape(evaluation.data_fingerprint)}. The exported SavedModel itself decided.",
        "A decision is appropriate if it lies between the most and the least urgent one that the vignette's clinicians "
        "gave, and safe if it is at least as urgent as the least urgent one. Mean [95% bootstrap interval over "
        "vignettes]. Each clinician is judged by the others.",
        table(("policy", *map(_words, _QUALITY)), quality),
        table(("this version, per vignette", "mean"), effort),
        *_slices(evaluation.played.slices),
    ]


def _slices(slices: Sequence[SliceFigures]) -> list[str]:
    """Returns a table for each way to slice the vignettes, see `trainer.evaluation.slices`."""
    columns = ("appropriateness", "safety", "over_triage", "under_triage", "questions")
    parts = []
    for by in dict.fromkeys(row.by for row in slices):
        rows = [
            (escape(row.value), f"{row.vignettes:,}", *(bracketed(row.metrics[metric]) for metric in columns))
            for row in slices
            if row.by == by
        ]
        parts += [f"### By {escape(by)}", table(("", "vignettes", *map(_words, columns)), rows)]
    return parts


def _gate(gate: Verdict | None) -> list[str]:
    if gate is None:
        return []
    title, compared, textbook = "## Comparison with the serving version", gate.compared, gate.textbook_cases
    facts = [("passed the gate", "yes" if gate.passed else "**no**")]
    if (few := gate.too_few) is not None:
        facts.append(("not blessed", f"{few.vignettes:,} test vignettes are fewer than {few.minimum_vignettes:,}"))
    if gate.promise_broken is not None:
        facts.append(("not blessed", "its promise does not hold on the test vignettes"))
    if textbook is not None:
        facts.append(("textbook emergencies sent later", f"{textbook.sent_later:,} of {textbook.emergencies:,}"))
    if compared is None:
        return [title, "There was no version to compare with: this is the first one.", table(("", ""), facts)]
    facts += [
        ("vignettes", f"{compared.vignettes:,}"),
        ("lower bound of the difference in safety", f"{compared.lower_bound:+.4f}"),
        ("lowest that passes", f"{-gate.margin:g}"),
    ]
    rows = (
        (_words(metric), f"{row.new:.3f}", f"{row.serving:.3f}", bracketed(row.difference))
        for metric, row in compared.metrics.items()
    )
    return [
        title,
        table(("", ""), facts),
        "The bound is the 5th percentile of a paired bootstrap over vignettes (one-sided 95%).",
        table(("", "this version", f"version {escape(compared.serving_version)}", "difference [95% interval]"), rows),
    ]


def _decision(decision: dict[str, Any], evaluation: VersionFigures | None) -> list[str]:
    """Returns how the version decides, and how well its probabilities are calibrated."""
    title = "## How it decides"
    if not decision["probabilities"]:
        return [
            title,
            "By its Q-values: the triage decision with the highest one, and asking where that is higher still.",
        ]
    threshold, held_out = decision["sure_enough"], decision["held_out"]
    facts = [
        ("safety weight w", f"{decision['safety_weight']:g}"),
        ("price of a question", f"{decision['price']:g}"),
        ("stopping threshold", "none" if threshold is None else f"{threshold:g}"),
        ("chosen", _chosen(decision)),
        ("probabilities", "calibrated on held-out vignettes" if held_out else "not calibrated"),
    ]
    if held_out:
        of_red = held_out["under_triage_of_red"]
        facts += [
            ("held-out vignettes", f"{held_out['vignettes']:,}"),
            ("under-triage on them, without safety rules", f"{held_out['under_triage']:.3f}"),
            ("over-triage on them", f"{held_out['over_triage']:.3f}"),
            ("decided below Red, of those whom clinicians call Red", "-" if of_red is None else f"{of_red:.3f}"),
        ]
    return [
        title,
        "For each triage decision the network gives P(appropriate), the probability that it lies between the most and "
        "the least urgent one that clinicians give, and P(safe), the probability that it is at least as urgent as the "
        "least urgent one. It takes the decision with the highest utility, (P(appropriate) + w P(safe)) / (1 + w), and "
        "asks while Q(ask) at the price of a question is more than that, or the utility is below the threshold.",
        table(("", ""), facts),
        *_calibration(evaluation and evaluation.played.probabilities),
    ]


def _chosen(decision: dict[str, Any]) -> str:
    if decision["chosen"] == "default":
        by_training = "in training, by the held-out vignettes"
        return (
            by_training if decision["held_out"] else "not, as training had not ended at this step or held nothing out"
        )
    return {"given": "as options of the export", "promise": "by the promise below"}[decision["chosen"]]


def _promise(promise: dict[str, Any] | None) -> list[str]:
    """Returns what is promised, for which patients, by how many, and what is not covered."""
    title = "## Promise"
    if promise is None:
        return [title, "No promise was asked for: all figures here are estimates."]
    asked, found = promise["asked"], promise["found"]
    rules = "with its safety rules" if asked["rules"] else "without safety rules"
    answers = "" if promise["whole_patients"] else (
        " What the vignettes leave open, patients answered as the version's own model of patients would."
    )  # fmt: skip
    rows = (
        (
            f"{RISKS[name].patients} who {RISKS[name].error}",
            percent(promise["levels"][name]) if name in promise["levels"] else "nothing promised",
            f"{counts[name]['patients']:,}",
            *(_errors(each[name]) for each in found.values()),
        )
        for counts in [next(iter(found.values()))]
        for name in RISKS
        if name != "handed_over" or name in promise["levels"]
    )
    return [
        title,
        f"With {percent(asked['confidence'])} confidence, all of this holds for new patients like those of the "
        "vignettes that were set apart:",
        _bullets(statements(promise["levels"])),
        *_handing_over(promise["operating_point"].get("hand_over_from")),
        f"It holds for interviews that the version leads, of at most {asked['question_limit']} questions, and for all "
        f"evidence at once, both {rules}. Nothing was learned from the patients set apart, and nothing else was chosen "
        f"by them; the confidence is over their choice.{answers} Clinicians call a patient what most of them decided, "
        "of equally frequent decisions the most urgent one.",
        table(("", "promised", "patients set apart", *(_SETTINGS[name] for name in found)), rows),
        *_newer(promise.get("newer")),
        "Not covered:",
        _bullets(promise["not_covered"]),
    ]


def _handing_over(red: float | None) -> list[str]:
    if red is None:
        return []
    return [
        "**It holds only for callers who ask for handing over** (defer_below of 0), and let a person decide where the "
        "answer says deferred. Whoever does not interview but sends all evidence at once sets no_more_evidence. A "
        f"decision below Red is handed over where Red is appropriate with a probability of {red:g} or more; what is "
        "handed over for other reasons, such as novel cases, comes in addition, and is not counted."
    ]


def _newer(newer: dict[str, Any] | None) -> list[str]:
    if newer is None:
        return []
    if newer["holds"]:
        return ["The vignettes of the evaluation do not contradict it."]
    broken = ", ".join(
        f"{name} in {_SETTINGS[setting]}" for setting, names in newer["broken"].items() for name in names
    )
    return [
        f"**The vignettes of the evaluation show, with {_percent(newer['confidence'])} confidence, that it does not "
        f"hold for them: {broken}.**"
    ]


def _errors(count: dict[str, int]) -> str:
    return f"{count['errors']:,} ({_percent(count['errors'] / count['patients'])})" if count["patients"] else "-"


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"


def _calibration(probabilities: Mapping[str, Mapping[str, Calibration]] | None) -> list[str]:
    if probabilities is None:
        return []
    rows = (
        (f"P({name}) {text}", *map(bracketed, (each.predicted, each.observed, each.expected_calibration_error)))
        for part, text in (("own_decision", "of its decision"), ("every_decision", "of all four decisions"))
        for name, each in probabilities[part].items()
    )
    return [
        "On the vignettes of the evaluation, when the agent decided:",
        table(("", "mean probability", "observed share", "expected calibration error"), rows),
    ]


def _rules(rules: dict[str, Any]) -> list[str]:
    if not rules["rules"]:
        return ["## Safety rules", "This version has no safety rules."]
    rows = (
        (escape(rule["rule_id"]), rule["urgency"], "yes" if rule["stop_asking"] else "no", escape(rule["reason"]))
        for rule in rules["rules"]
    )
    origin = f"{escape(rules['source'])}, fingerprint {escape(rules['fingerprint'])}"
    return [
        "## Safety rules",
        "If a rule applies, the decision is at least as urgent as it says, whatever the network decides. Source: "
        f"{origin}; the file is assets.extra/rules.toml in the folder of this version. All figures of this version are "
        "with the rules.",
        table(("rule", "at least", "ends the questions", "reason"), rows),
    ]


def _novelty(novelty: dict[str, Any] | None) -> list[str]:
    if novelty is None:
        return ["## Novelty", "This version does not estimate how novel evidence is."]
    return [
        "## Novelty",
        f"Evidence is called novel above a novelty of {novelty['threshold']:g}, by {novelty['reference_moments']:,} "
        "moments of interviews about training vignettes. It detects gross nonsense, but no implausible combinations of "
        "plausible pieces, and changes no decision.",
    ]


def _reproduce(reproduce: dict[str, Any], start_from: str | None) -> list[str]:
    versions = ((escape(name), escape(version)) for name, version in reproduce["versions"].items())
    start = ", and START for the job directory of the agent that it started from" if start_from else ""
    return [
        "## How to reproduce",
        f"In the folder of this version, with DATA, JOB and MODELS for the folders of your choice{start}:",
        _code(reproduce["commands"]),
        table(("package", "version"), versions),
    ]


def _words(metric: str) -> str:
    return metric.replace("_", " ")


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _code(lines: Iterable[str]) -> str:
    """Returns an indented block: unlike a fence, no line in it can end it."""
    return "\n".join("    " + " ".join(line.splitlines()) for line in lines)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table in Markdown; its cells have to be escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
