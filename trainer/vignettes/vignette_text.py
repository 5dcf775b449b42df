"""Vignettes as text for clinicians."""

from schemas.evidence import Vocabulary
from trainer.vignettes.vignette import Vignette


def vignette_text(vignette: Vignette, vocabulary: Vocabulary) -> str:
    """Returns a few lines of plain text: the patient, present and absent evidence, and the clinicians' decisions.

    Evidence has its names in the vocabulary and the order of the vignette; the most urgent decisions come first.

    Raises:
        InputError: a code is not in the vocabulary.
    """
    decisions = ", ".join(decision.label for decision in sorted(vignette.decisions))
    clinicians = f"{len(vignette.decisions)} clinician{'' if len(vignette.decisions) == 1 else 's'}"
    return f"{evidence_text(vignette, vocabulary)}\n{clinicians}: {decisions} (vignette {vignette.vignette_id})"


def evidence_text(vignette: Vignette, vocabulary: Vocabulary) -> str:
    """Returns the first of these lines, without the decisions.

    Names stand as the vocabulary has them, in lists: inside a sentence they would need the grammar of their language.

    Raises:
        InputError: a code is not in the vocabulary.
    """
    stated = [[vocabulary[vocabulary.index(code)] for code in codes] for codes in (vignette.present, vignette.absent)]
    titles = {"risk_factor": ("Patient", "Patient without"), "symptom": ("Present", "Absent")}
    lines = []
    for kind, pair in titles.items():
        for title, entries in zip(pair, stated, strict=True):
            names = [entry.name for entry in entries if entry.kind == kind]
            # A name with a comma would look like two names.
            separator = "; " if any("," in name for name in names) else ", "
            lines += [f"{title}: {separator.join(names)}"] if names else []
    return "\n".join(lines)
