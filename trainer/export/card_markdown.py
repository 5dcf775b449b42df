"""Renders a model card of `trainer.export.model_card` as Markdown; data in it is escaped."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from schemas.promise import RISKS, percent, statements
from schemas.triage import DECISION_LABELS
from trainer.evaluation.estimates import Calibration, SliceFigures, bracketed
from trainer.export.gate import Verdict
from trainer.export.model_card import VersionFigures

_QUALITY = ("appropriateness", "safety", "over_triage", "under_triage")
_EFFORT = ("questions", "evidence_seen", "forced")
# Characters with a meaning in Markdown inside a line, and those that begin a bare link.
_MARKUP = re.compile(r"[\\`*_{}\[\]<>()#|~!&$@^]|(?<=www)\.|:(?=/)", re.IGNORECASE)
# These change the direction of text, so that one id could look like another.
_DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")


def escape(text: Any) -> str:
    """Returns `text` escaped, so that Markdown shows it unchanged in a line or a cell of a table."""
    plain = "".join(" " if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") else c for c in str(text))
    plain = _DIRECTION.sub("\N{REPLACEMENT CHARACTER}", plain)
    return _MARKUP.sub(r"\\\g<0>", plain)


def page(card: dict[str, Any], evaluation: VersionFigures | None, gate: Verdict | None) -> str:
    """Returns the card as Markdown; it was made of `evaluation` and `gate`, see `trainer.export.model_card`."""
    details = card["model_details"]
    sections = [
        f"# Model card: triage agent, version {escape(details['model_version'])}",
        "Research software for decision support. **It is not a medical device, and it is not validated for care.**",
        *_details(card),
        *_use(card["intended_use"]),
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
        _facts((name, escape(value)) for name, value in rows),
    ]


def _use(use: dict[str, Any]) -> list[str]:
    return [
        "## Intended use",
        _bullets(use["uses"]),
        f"Intended users: {', '.join(use['users'])}.",
        "## What it is not for",
        _bullets(use["out_of_scope"]),
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
        return [title, "There was no version to compare with: this is the first one.", _facts(facts)]
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
        _facts(facts),
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
        _facts(facts),
        *_calibration(evaluation and evaluation.played.probabilities),
    ]


def _chosen(decision: dict[str, Any]) -> str:
    if decision["chosen"] == "default":
        by_training = "in training, by the held-out vignettes"
        return (
            by_training if decision["held_out"] else "not, as training had not ended at this step or held nothing out"
        )
    return {"given": "as options of the export", "promise": "by the promise below"}[decision["chosen"]]


_SETTINGS = {"interview": "interviews that it leads", "all_evidence": "all evidence at once"}


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


def _facts(rows: Iterable[tuple[str, str]]) -> str:
    return table(("", ""), rows)


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
