"""Finds evidence by the words that people use: in codes, names and questions, with typing errors forgiven."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

from rapidfuzz import process
from rapidfuzz.distance import OSA

from schemas.evidence import Evidence

_WORD = re.compile(r"[^\W_]+")
_MOST_CHARACTERS, _MOST_WORDS = 200, 12
_SHORTEST_MISTYPED = 4
"""Letters of a word in which a typing error is forgiven: shorter words resemble too many others."""
_ALIKE = 0.72
"""Least similarity of a mistyped word: one error in four letters, two in eight."""
_BEGINNING = 0.9
"""What a word counts that begins with the typed one, which somebody may still be typing."""
_OTHER_WORD = 0.85
"""What another word for the same counts."""
_IN_QUESTION = 0.8
"""What a word of the question counts, as the name says more precisely what a finding is."""
_LEAST = 0.35
"""Least share of what was typed, by the weight of its words, that a result must have."""

# What people say of their own bodies, beside what vocabularies say.
_SAME = (
    "pain pains painful hurt hurts hurting ache aches aching sore soreness",
    "abdomen abdominal belly tummy stomach",
    "vomit vomiting vomited throw throwing threw puke puking puked sick",
    "breathless breathlessness breath breathing breathe",
    "temperature fever feverish",
    "tired tiredness fatigue exhausted exhaustion",
    "dizzy dizziness giddy lightheaded",
    "poo stool stools faeces",
    "pee peeing urine urinating",
    "rash spots",
    "smoke smokes smoker smoking",
    "faint fainted fainting collapse collapsed",
    "itch itchy itching",
    "woman women female girl",
    "man men male boy",
)

_OTHERS = {word: frozenset(words.split()) for words in _SAME for word in words.split()}


def words_of(text: str) -> list[str]:
    """Returns the words of a text, without case and accents."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    return _WORD.findall("".join(character for character in plain if not unicodedata.combining(character)))


class Search:
    """An index over a vocabulary.

    Args:
        entries: the vocabulary.
    """

    def __init__(self, entries: Sequence[Evidence]):
        self._entries = entries
        self._words: list[dict[str, float]] = []  # of each entry: what a match with each of its words counts
        for entry in entries:
            words = dict.fromkeys(words_of(entry.question), _IN_QUESTION)
            self._words.append(words | dict.fromkeys(words_of(f"{entry.code.replace('_', ' ')} {entry.name}"), 1.0))
        self._frequency = Counter(word for words in self._words for word in words)
        self._known = list(self._frequency)

    def find(self, text: str, most: int = 8) -> list[Evidence]:
        """Returns the entries that match what somebody typed, the best first, at most `most`.

        A typed word counts as much as it tells entries apart (inverse document frequency), so "do you have" counts
        little. Words that resemble none of the vocabulary do not count.
        """
        said = _typed(text)
        matches = [self._similar(word, unfinished=word == said[-1]) for word in said]
        typed = [(similar, self._weight(similar)) for similar in matches if similar]
        total = sum(weight for _, weight in typed)
        if not total:
            return []
        scored = []
        for entry, words in zip(self._entries, self._words, strict=True):
            score = sum(
                weight * max((similar[word] * counts for word, counts in words.items() if word in similar), default=0.0)
                for similar, weight in typed
            )
            if score >= _LEAST * total:
                scored.append((-score, len(entry.name), entry.name, entry))
        return [entry for *_, entry in sorted(scored, key=lambda each: each[:3])[:most]]

    def _similar(self, typed: str, unfinished: bool) -> dict[str, float]:
        """Returns the known words that resemble a typed one, with their similarity in (0, 1].

        Args:
            typed: the word.
            unfinished: whether somebody may still be typing it.
        """
        similar: dict[str, float] = {}
        if len(typed) >= _SHORTEST_MISTYPED:
            matches = process.extract(
                typed, self._known, scorer=OSA.normalized_similarity, score_cutoff=_ALIKE, limit=None
            )
            similar |= {word: score * _BEGINNING for word, score, _ in matches}
        similar |= dict.fromkeys(_OTHERS.get(typed, frozenset()) & self._frequency.keys(), _OTHER_WORD)
        if len(typed) >= (2 if unfinished else _SHORTEST_MISTYPED):
            similar |= {word: _BEGINNING for word in self._known if word.startswith(typed)}
        if typed in self._frequency:
            similar[typed] = 1.0
        return similar

    def _weight(self, similar: dict[str, float]) -> float:
        """Returns the inverse document frequency of the most similar word."""
        nearest = max(similar, key=lambda word: (similar[word], self._frequency[word]))
        return math.log1p(len(self._entries) / self._frequency[nearest])


def _typed(text: str) -> list[str]:
    return list(dict.fromkeys(words_of(text[:_MOST_CHARACTERS])))[:_MOST_WORDS]
