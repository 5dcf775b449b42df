"""The language of names and questions: what a call prefers by `accept-language`, in its metadata or headers."""

import re
from collections.abc import Iterable

from schemas.evidence import OWN_LANGUAGE, Vocabulary
from serving.call import current
from triage.v1 import triage_pb2

HEADER = "accept-language"
_MOST_CHARACTERS = 200
_RANGE = re.compile(r"\s*([A-Za-z0-9-]+)\s*(?:;\s*q=([01](?:\.\d{0,3})?)\s*)?")


def in_asked_language(vocabulary: Vocabulary) -> Vocabulary:
    """Returns a vocabulary in the language that the current call prefers, as far as it is in it."""
    return vocabulary.in_language(asked_language(vocabulary)) if vocabulary.languages else vocabulary


def asked_language(vocabulary: Vocabulary) -> str:
    """Returns the language of a vocabulary that the current call prefers, "" for the vocabulary's own."""
    asked = next((value for key, value in current().metadata or () if key == HEADER and isinstance(value, str)), "")
    return preferred(asked, vocabulary.languages)


def preferred(asked: str, languages: Iterable[str]) -> str:
    """Returns the language of `languages` that a value of `accept-language` prefers, "" for the vocabulary's own.

    Args:
        asked: such as `de-CH, de;q=0.9, en;q=0.5`. What is malformed is ignored.
        languages: in which texts are, beside `OWN_LANGUAGE`.
    """
    known = {language.lower(): language for language in languages}
    matches = filter(None, map(_RANGE.fullmatch, asked[:_MOST_CHARACTERS].split(",")))
    ranges = [(float(match[2] or 1), match[1].lower()) for match in matches]
    for weight, tag in sorted(ranges, key=lambda each: -each[0]):
        for wanted in (tag, tag.partition("-")[0]):
            if weight and wanted in known:
                return known[wanted]
            if weight and wanted == OWN_LANGUAGE:
                return ""
    return ""


def translate(responses: Iterable[triage_pb2.TriageResponse], vocabulary: Vocabulary) -> None:
    """Puts the texts of the questions that responses suggest into the language that the current call prefers."""
    texts = in_asked_language(vocabulary)
    if texts is not vocabulary:
        for response in responses:
            for question in response.next_questions:
                question.question = texts[texts.index(question.code)].question
