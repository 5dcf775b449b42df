"""Finds evidence by the words that people use: in names, synonyms, questions and codes, with typing errors forgiven.

Every text of an entry is compared with what was typed: how much of the one is in the other, and the reverse. Words that
the vocabulary does not know count against a match, so that a sentence about something else finds nothing.
"""

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rapidfuzz import process
from rapidfuzz.distance import OSA

from schemas.evidence import Evidence
from schemas.synonyms import CRISIS

MOST = 40
"""Results, at most."""
_WORD = re.compile(r"[^\W_]+")
_APOSTROPHES = str.maketrans("", "", "'\N{RIGHT SINGLE QUOTATION MARK}")
_MOST_CHARACTERS, _MOST_WORDS = 200, 24
_SHORTEST_MISTYPED = 4
"""Letters of a word in which a typing error is forgiven: shorter words resemble too many others."""
_SHORTEST_STEM = 3
_ALIKE = 0.79
"""Least similarity of a mistyped word: one error in five letters, two in ten."""
_BEGINNING = 0.9
"""What a word counts that begins with the typed one, which somebody may still be typing."""
_OTHER_WORD = 0.9
"""What another word for the same counts."""
_IN_SYNONYM, _IN_QUESTION = 0.97, 0.8
"""What other texts than the name count, which says more precisely what a finding is."""
_UNKNOWN_WORD = 0.8
"""What a word that the vocabulary does not know counts, as a share of the rarest one that it does."""
_SMALL_WORD = 0.3
"""The same of a word that says little by itself, such as "out"."""
_WHOLE = 0.6
"""Least score of a text all of which was typed, whatever else was typed."""
_LEAST = 0.55
"""Least score of a result, in [0, 1]."""
_BESIDE_BEST = 0.8
"""The same as a share of the best score. A name with all the typed words need not reach either."""
_ALL = 0.85
"""Least share of what was typed that counts as all of it."""

# What people say of their own bodies, beside what vocabularies say.
_SAME = (
    "pain pains painful hurt hurts hurting ache aches aching sore soreness",
    "abdomen abdominal belly tummy stomach gut",
    "vomit vomiting vomited puke puking puked barf",
    "breathless breathlessness breath breathing breathe",
    "temperature fever feverish",
    "tired tiredness fatigue exhausted exhaustion",
    "dizzy dizziness giddy lightheaded",
    "poo poop pooped pooping stool stools faeces",
    "pee peeing urine urinate urinating wee",
    "smoke smokes smoker smoking",
    "faint fainted fainting collapse collapsed",
    "itch itchy itching itches",
    "woman women female girl",
    "man men male boy",
    "swell swelling swollen swells puffy",
    "bleed bleeding bleeds bled blood bloody",
    "lose losing lost loss",
    "break broke broken",
    "bite bites bitten bit",
    "sting stings stung",
    "burn burns burnt burned burning",
    "fall falls fell fallen",
    "drink drinks drank drunk",
    "stick sticks stuck",
    "weak weakness",
    "numb numbness",
    "stiff stiffness",
    "red redness",
    "lump lumps bump",
    "bottom bum anus",
    "sudden suddenly",
    "cannot unable difficulty trouble",
)


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_NEGATIONS = _set("not no never without wont isnt doesnt dont didnt hasnt havent arent wasnt nicht kein keine keinen")
_UNABLE = _set("cannot cant couldnt")
_SILENT = _set(
    "i im ive id me mine my you your he she his her him they them their we our it its a an the am is are was were be "
    "been being to of in at for with from by and or but so very really just do does did can will would should may "
    "ich mein meine meinen meiner mich ist bin sind war der das den dem des ein eine einen einem und oder im mit von "
    "zu zum beim es er sie wir sehr"
)
"""Words that count for nothing, unless nothing else was typed."""
_SMALL = _set(
    "not cannot up down out off on over one all went keep come came like back more side left right make made take took "
    "new child kid kind son daughter have has had got get feel felt think too much bit lot some any this that there "
    "here when where what who how if as than then since about anything please help thing day last hab hat auf seit "
    "nach am"
)
"""Stems that say little by themselves."""


class Phrase(NamedTuple):
    """A text by which an entry is found."""

    entry: int
    words: frozenset[str]
    counts: float
    """Factor of its score, in (0, 1]."""
    crisis: bool


class Fit(NamedTuple):
    """How well a phrase, or an entry, fits what was typed."""

    crisis: bool
    """Whether all of a phrase of a crisis was typed, word by word."""
    score: float  # in [0, 1]
    everything: bool
    """Whether it is a name that has all that was typed."""


def words_of(text: str) -> list[str]:
    """Returns the words of a text, without case and accents; "can't" and its like are one word."""
    plain = unicodedata.normalize("NFKD", text.casefold().translate(_APOSTROPHES))
    return _WORD.findall("".join(character for character in plain if not unicodedata.combining(character)))


class Search:
    """An index over a vocabulary.

    Args:
        entries: the vocabulary.
    """

    def __init__(self, entries: Sequence[Evidence]):
        self._entries = entries
        self._phrases = [phrase for place, entry in enumerate(entries) for phrase in _phrases(place, entry)]
        self._with: dict[str, list[int]] = defaultdict(list)  # the phrases of a word
        for number, phrase in enumerate(self._phrases):
            for word in phrase.words:
                self._with[word].append(number)
        self._frequency = Counter(  # number of entries
            word for words in _words_by_entry(self._phrases, len(entries)) for word in words
        )

        self._rarest = math.log1p(len(entries))

    def find(self, text: str) -> list[Evidence]:
        """Returns at most `MOST` entries that match what somebody typed: those of a crisis, then the best ones."""
        said = _typed(text)
        weights = {word: self._weight(word) for word in said}
        total = sum(weights.values())
        matches: dict[int, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
        for word in said:
            for known, similarity in self._similar(word, unfinished=word == said[-1]).items():
                for number in self._with[known]:
                    matches[number][known][word] = similarity
        fits: dict[int, Fit] = {}
        for number, matched in matches.items():
            phrase = self._phrases[number]
            fit = self._fit(phrase, matched, weights, total)
            before = fits.get(phrase.entry, fit)
            fits[phrase.entry] = Fit(
                before.crisis or fit.crisis, max(before.score, fit.score), before.everything or fit.everything
            )
        least = max(_LEAST, _BESIDE_BEST * max((fit.score for fit in fits.values()), default=0.0))
        ranked = sorted(
            (not fit.crisis, -fit.score, len(self._entries[entry].name), self._entries[entry].name, entry)
            for entry, fit in fits.items()
            if fit.crisis or fit.score >= least or fit.everything
        )
        return [self._entries[entry] for *_, entry in ranked[:MOST]]

    def _fit(
        self, phrase: Phrase, matched: Mapping[str, Mapping[str, float]], weights: Mapping[str, float], total: float
    ) -> Fit:
        """Returns how well a phrase fits.

        Args:
            phrase: the phrase.
            matched: its words that were typed, with the similarity of each typed word.
            weights: of all typed words.
            total: their sum.
        """
        said: dict[str, float] = defaultdict(float)
        matched_weight = 0.0
        for known, typed in matched.items():
            matched_weight += self._weight(known) * max(typed.values())
            for word, similarity in typed.items():
                said[word] = max(said[word], similarity)
        precision = matched_weight / sum(map(self._weight, phrase.words))
        recall = sum(weights[word] * similarity for word, similarity in said.items()) / total
        score = 2 * precision * recall / (precision + recall)
        whole = len(matched) == len(phrase.words) and phrase.counts > _IN_QUESTION
        if whole:
            score = max(score, _WHOLE + (1 - _WHOLE) * recall)
        exactly = all(max(typed.values()) == 1 for typed in matched.values())
        everything = phrase.counts == 1 and recall >= _ALL and not _SMALL.issuperset(matched)
        return Fit(phrase.crisis and whole and exactly, score * phrase.counts, everything)

    def _similar(self, typed: str, unfinished: bool) -> dict[str, float]:
        """Returns the known words that resemble a typed one, with their similarity in (0, 1].

        Args:
            typed: the word.
            unfinished: whether somebody may still be typing it.
        """
        similar = dict.fromkeys(_OTHERS.get(typed, frozenset()) & self._frequency.keys(), _OTHER_WORD)
        if typed in self._frequency or typed in _SMALL:
            return similar | ({typed: 1.0} if typed in self._frequency else {})
        if len(typed) >= _SHORTEST_MISTYPED and not similar:
            matches = process.extract(
                typed, self._frequency.keys(), scorer=OSA.normalized_similarity, score_cutoff=_ALIKE, limit=None
            )
            similar |= {word: score * _BEGINNING for word, score, _ in matches if word[0] == typed[0]}
        if len(typed) >= (2 if unfinished else _SHORTEST_MISTYPED):
            similar |= {word: _BEGINNING for word in self._frequency if word.startswith(typed)}
        return similar

    def _weight(self, word: str) -> float:
        """Returns what a word counts: its inverse document frequency."""
        if word in _SMALL:
            return _SMALL_WORD * self._rarest
        frequency = self._frequency[word]
        return math.log1p(len(self._entries) / frequency) if frequency else _UNKNOWN_WORD * self._rarest


def _phrases(place: int, entry: Evidence) -> Iterable[Phrase]:
    yield Phrase(place, _said(f"{entry.code.replace('_', ' ')}"), 1.0, crisis=False)
    yield Phrase(place, _said(entry.name), 1.0, crisis=False)
    yield Phrase(place, _said(entry.question), _IN_QUESTION, crisis=False)
    for synonym in entry.synonyms:
        yield Phrase(place, _said(synonym), _IN_SYNONYM, crisis=synonym.startswith(CRISIS))


def _words_by_entry(phrases: Iterable[Phrase], entries: int) -> list[set[str]]:
    words: list[set[str]] = [set() for _ in range(entries)]
    for phrase in phrases:
        words[phrase.entry] |= phrase.words
    return words


def _said(text: str) -> frozenset[str]:
    return frozenset(_typed(text))


def _typed(text: str) -> list[str]:
    """Returns the words of a text that count, as their stems, each once."""
    words = words_of(text[:_MOST_CHARACTERS])
    telling = [word for word in words if word not in _SILENT] or words
    return list(dict.fromkeys(map(_stem, telling)))[:_MOST_WORDS]


def _stem(word: str) -> str:
    """Returns a word without the endings of English grammar; the same for a typed word and a known one."""
    if word in _NEGATIONS:
        return "not"
    if word in _UNABLE:
        return "cannot"
    for ending in ("ing", "ed", "ness", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            word = word.removesuffix(ending)
            break
    if len(word) > _SHORTEST_STEM and word[-1] == word[-2]:
        return word[:-1]
    return word.removesuffix("e") if len(word) > _SHORTEST_STEM + 1 else word


_OTHERS: dict[str, frozenset[str]] = {
    stem: frozenset(map(_stem, words.split())) for words in _SAME for stem in map(_stem, words.split())
}
_OTHERS[_stem("killing")] = _OTHERS[_stem("pain")]  # "my back is killing me"; but "pain" says nothing of killing
