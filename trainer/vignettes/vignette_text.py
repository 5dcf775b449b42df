"""Vignettes as text for clinicians."""

from collections.abc import Sequence

from schemas.evidence import Evidence, Vocabulary
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

    Raises:
        InputError: a code is not in the vocabulary.
    """
    patient = _sentences(vignette, vocabulary, "risk_factor")
    symptoms = _sentences(vignette, vocabulary, "symptom")
    return "\n".join([f"Patient: {' '.join(patient) or 'no risk factors stated.'}", *symptoms])


def _sentences(vignette: Vignette, vocabulary: Vocabulary, kind: str) -> list[str]:
    """Returns sentences on the evidence of a kind, first what is present, then what is absent."""
    sentences = []
    for codes, negated in ((vignette.present, False), (vignette.absent, True)):
        entries = [vocabulary[vocabulary.index(code)] for code in codes]
        entries = [entry for entry in entries if entry.kind == kind]
        names = [entry.name for entry in entries if not _is_question(entry)]
        if names:
            sentences.append(_sentence(names, negated))
        answer = "No" if negated else "Yes"
        sentences += [f"{entry.name}? {answer}." for entry in entries if _is_question(entry)]
    return sentences


def _is_question(entry: Evidence) -> bool:
    """Returns whether the name only repeats the question, as in DDXPlus."""
    name, question = ("".join(filter(str.isalnum, text)) for text in (entry.name, entry.question))
    return name == question


def _sentence(names: Sequence[str], negated: bool) -> str:
    # A name with a comma would look like two names.
    separator = "; " if any("," in name for name in names) else ", "
    if negated:
        return "No " + f"{separator}no ".join(map(_inside_sentence, names)) + "."
    return separator.join([names[0], *map(_inside_sentence, names[1:])]) + "."


def _inside_sentence(name: str) -> str:
    """Returns the name in lower case, unless its first word is an abbreviation such as HIV or X-ray."""
    word = name.split(maxsplit=1)[0].split("-")[0].rstrip(",;")
    return name[0].lower() + name[1:] if word.isalpha() and word[1:].islower() else name
