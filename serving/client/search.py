"""Finds evidence by the words that people use: in names, synonyms, questions and codes, with typing errors forgiven.

Every text of an entry is compared with what was typed: how much of the one is in the other, and the reverse; and so are
all texts of the entry together, as each tells it in other words. Words that the vocabulary does not know count against
a match, so that a sentence about something else finds nothing. So does what a text says of another part of the body, a
word in another form, and a short phrase that is a piece of a longer one.

A measured number, such as "BP 120/80" or "67 year old", finds the entries in whose range it lies, and nothing else that
is about its measure.
"""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rapidfuzz import process
from rapidfuzz.distance import OSA

from schemas.bands import is_numeric
from schemas.evidence import CRISIS, Evidence
from serving.client.readings import Readings, ranges_of
from serving.client.words import OTHERS, SILENT, SMALL, sites_of, spelled_out, stem, telling_words, words_of

MOST = 40
"""Results, at most."""
_PAIN = OTHERS[stem("pain")]
_SHORTEST_MISTYPED, _SHORT = 4, 5
"""Letters of a word in which a typing error is forgiven: shorter words resemble too many others. In one that is still
short, another letter in place of one makes another word."""
_ALIKE = 0.79
"""Least similarity of a mistyped word: one error in five letters, two in ten."""
_BEGINNING = 0.85
"""What a word counts that begins with the typed one, which somebody may still be typing, or resembles it."""
_LONGEST_REST = 2
"""How many times as long as the typed beginning a word may be, where other words were typed before."""
_OTHER_FORM = 0.85
"""What another form of a word counts, such as "boiling" for "boil", which may mean something else."""
_OTHER_WORD = 0.9
"""What another word for the same counts."""
_IN_SYNONYM, _IN_QUESTION = 0.97, 0.8
"""What other texts than the name count, which says more precisely what a finding is."""
_UNKNOWN_WORD = 0.8
"""What a word that the vocabulary does not know counts, as a share of the rarest one that it does."""
_SMALL_WORD = 0.3
"""The same of a word that says little by itself, such as "out"."""
_ABBREVIATED = 0.5
"""What each word counts for which an abbreviation was typed: there are often several, and it may mean another thing."""
_TOGETHER = 0.2
"""Share in an entry's score of what all its texts have together of what was typed. With more, short
phrases find what is absurd."""
_WHOLE = 0.6
"""Least score of a text all of which was typed, whatever else was typed."""
_BETWEEN = 1
"""Other words that may stand between those of an idiom."""
_LEAST, _LEAST_OF_TWO = 0.55, 0.45
"""Least score of a result, in [0, 1], and of one with two of the telling words that were typed: one alone may be said
of anything."""
_BESIDE_BEST = 0.8
"""The same as a share of the best score. A name with all the typed words need not reach either."""
_ALL = 0.85
"""Least share of what was typed that counts as all of it."""


class Phrase(NamedTuple):
    """A text by which an entry is found."""

    entry: int
    words: dict[str, str]
    """The form of each word by its stem, in the order of the text."""
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
    least: float
    """The score that it needs, if it has neither."""


class Search:
    """An index over the entries of a vocabulary."""

    def __init__(self, entries: Sequence[Evidence]):
        self._entries = entries
        self._phrases = [phrase for place, entry in enumerate(entries) for phrase in _phrases(place, entry)]
        self._with: dict[str, list[int]] = defaultdict(list)  # the phrases of a word
        words: dict[int, set[str]] = defaultdict(set)  # of each entry
        for number, phrase in enumerate(self._phrases):
            words[phrase.entry].update(phrase.words)
            for word in phrase.words:
                self._with[word].append(number)
        self._frequency = Counter(itertools.chain.from_iterable(words.values()))  # number of entries with a word
        self._rarest = math.log1p(len(entries))
        self._readings = Readings(entries)

    def numbers(self, text: str) -> list[str]:
        """Returns the measured numbers that somebody typed, such as `temperature=38.9` for "temp 38,9".

        They are those of measures for which the vocabulary has bands.
        """
        return self._readings.counted(text)

    def number(self, measure: str, typed: str) -> str:
        """Returns the number that somebody typed for a measure, such as `age=1.5` for "18 months", "" for none."""
        if is_numeric(typed):
            return f"{measure}={typed}"
        # "old" tells an age in months from a span of time.
        numbers = self.numbers(f"{measure.replace('_', ' ')} {typed} old")
        return next((number for number in numbers if number.startswith(f"{measure}=")), "")

    def find(self, text: str) -> list[Evidence]:
        """Returns at most `MOST` entries that match what somebody typed: those of a crisis, then the best ones.

        Where nothing else matches, it is pain in the part of the body that was named, if any.
        """
        spelled, others = spelled_out(text)
        numbers, rest = self._readings.read(spelled)
        in_range, about = self._readings.evidence_of(numbers)
        said = {} if numbers and SILENT.issuperset(words_of(rest)) else telling_words(rest)
        weights = {word: self._weight(word) for word in said}
        weights |= {word: _ABBREVIATED * weights[word] for word in said.keys() - telling_words(others).keys()}
        fits, pains = self._fits(weights, self._matches(said))
        best = max((fit.score for fit in fits.values()), default=0.0)
        ranked = sorted(
            (not fit.crisis, -fit.score, len(self._entries[entry].name), self._entries[entry].name, entry)
            for entry, fit in fits.items()
            if entry not in about and (fit.crisis or fit.everything or fit.score >= max(fit.least, _BESIDE_BEST * best))
        )
        crises = [entry for no_crisis, *_, entry in ranked if not no_crisis]
        best_first = dict.fromkeys([*crises, *in_range, *(entry for *_, entry in ranked)]) or dict.fromkeys(pains)
        return [self._entries[entry] for entry in [*best_first][:MOST]]

    def _matches(self, said: Mapping[str, str]) -> dict[int, dict[str, dict[str, float]]]:
        """Returns, by phrase, its words that were typed, each with the similarity of what was typed for it."""
        matches: dict[int, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
        for word, form in said.items():
            for known, similarity in self._similar(word, form if word == [*said][-1] else "", len(said) == 1).items():
                for number in self._with[known]:
                    other_form = known == word and self._phrases[number].words[known] != form
                    matches[number][known][word] = _OTHER_FORM if other_form else similarity
        return matches

    def _fits(
        self, said: Mapping[str, float], matches: Mapping[int, Mapping[str, Mapping[str, float]]]
    ) -> tuple[dict[int, Fit], list[int]]:
        """Returns how well each entry fits, and those that are pain in a part of the body that was named.

        Args:
            said: how much each typed word counts.
            matches: by phrase, see `_matches`.
        """
        total = sum(said.values())
        weights = {word: weight / total for word, weight in said.items()}
        sites = sites_of(said)
        there = {number: _is_there(self._phrases[number], matched, said) for number, matched in matches.items()}
        longer = [self._phrases[number] for number, whole in there.items() if whole]
        texts: dict[int, list[Mapping[str, float]]] = defaultdict(list)  # of the texts of each entry
        for number, matched in matches.items():
            texts[self._phrases[number].entry].extend(matched.values())
        together = {entry: _best(typed) for entry, typed in texts.items()}
        fits: dict[int, Fit] = {}
        pains: list[int] = []
        for number, matched in matches.items():
            phrase = self._phrases[number]
            elsewhere = sites and (own := sites_of(phrase.words)) and not own & sites
            if elsewhere or _is_piece(phrase, matched, longer):
                continue
            if len(phrase.words) == 2 and sites_of(matched) and phrase.words.keys() & _PAIN:
                pains.append(phrase.entry)
            fit = self._fit(phrase, matched, weights, there[number], together[phrase.entry])
            fits[phrase.entry] = Fit._make(map(max, fits.get(phrase.entry, fit), fit))
        return fits, pains

    def _fit(
        self,
        phrase: Phrase,
        matched: Mapping[str, Mapping[str, float]],
        weights: Mapping[str, float],
        there: bool,
        together: Mapping[str, float],
    ) -> Fit:
        """Returns how well a phrase fits.

        Args:
            phrase: the phrase.
            matched: its words that were typed, with the similarity of each typed word.
            weights: how much each typed word counts; they sum to 1.
            there: whether it was typed as it is.
            together: similarity of each typed word that is in any text of the entry.
        """

        def recall_of(similarities: Mapping[str, float]) -> float:
            return sum(weights[word] * similarity for word, similarity in similarities.items())

        matched_weight = sum(self._weight(known) * max(typed.values()) for known, typed in matched.items())
        precision = matched_weight / sum(map(self._weight, phrase.words))
        recall = recall_of(_best(matched.values()))
        score = 2 * precision * recall / (precision + recall)
        if there and phrase.counts > _IN_QUESTION:
            score = max(score, _WHOLE + (1 - _WHOLE) * recall)
        # A crisis may be told in another order, and in several words also in other forms of them.
        whole = len(matched) == len(phrase.words) and all(known in typed for known, typed in matched.items())
        return Fit(
            phrase.crisis and whole and (there or len(matched) > 1),
            (1 - _TOGETHER) * score * phrase.counts + _TOGETHER * recall_of(together),
            phrase.counts == 1 and recall >= _ALL and not SMALL.issuperset(matched),
            _LEAST_OF_TWO if len(together.keys() - SMALL) > 1 else _LEAST,
        )

    def _similar(self, typed: str, unfinished: str, alone: bool) -> dict[str, float]:
        """Returns the known words that resemble a typed one, with their similarity in (0, 1].

        Args:
            typed: the word, in the form in which words are indexed.
            unfinished: the same as it was typed, if somebody may still be typing it, or "".
            alone: whether it is the only one.
        """
        similar = dict.fromkeys(OTHERS.get(typed, frozenset()) & self._frequency.keys(), _OTHER_WORD)
        if typed in self._frequency or typed in SMALL:
            return similar | ({typed: 1.0} if typed in self._frequency else {})
        if similar:
            return similar
        if len(typed) >= _SHORTEST_MISTYPED:
            matches = process.extract(
                typed, self._frequency.keys(), scorer=OSA.normalized_similarity, score_cutoff=_ALIKE, limit=None
            )
            similar |= {word: score * _BEGINNING for word, score, _ in matches if _is_mistyped(typed, word)}
        if len(unfinished) >= (2 if alone else _SHORTEST_MISTYPED):
            longest = math.inf if alone else _LONGEST_REST * len(typed)
            known = (word for word in self._frequency if len(word) <= longest)
            similar |= {word: _BEGINNING for word in known if word.startswith(unfinished)}
        return similar

    def _weight(self, word: str) -> float:
        """Returns what a word counts: its inverse document frequency."""
        if word in SMALL:
            return _SMALL_WORD * self._rarest
        frequency = self._frequency[word]
        return math.log1p(len(self._entries) / frequency) if frequency else _UNKNOWN_WORD * self._rarest


def _phrases(place: int, entry: Evidence) -> Iterable[Phrase]:
    yield Phrase(place, telling_words(entry.code.replace("_", " ")), 1.0, crisis=False)
    yield Phrase(place, telling_words(entry.name), 1.0, crisis=False)
    yield Phrase(place, telling_words(entry.question), _IN_QUESTION, crisis=False)
    for synonym in itertools.filterfalse(ranges_of, entry.synonyms):
        yield Phrase(place, telling_words(synonym), _IN_SYNONYM, crisis=synonym.startswith(CRISIS))


def _best(similarities: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Returns the largest similarity of each word."""
    best: dict[str, float] = {}
    for each in similarities:
        for word, similarity in each.items():
            best[word] = max(similarity, best.get(word, 0.0))
    return best


def _is_there(phrase: Phrase, matched: Mapping[str, Mapping[str, float]], said: Iterable[str]) -> bool:
    """Returns whether a phrase was typed as it is: all its words, or others for them; an idiom also in its order."""
    if len(matched) < len(phrase.words) or any(max(typed.values()) < _OTHER_WORD for typed in matched.values()):
        return False
    if not _is_idiom(phrase):
        return True
    order = {word: place for place, word in enumerate(said)}
    places = [order[max(matched[word], key=matched[word].__getitem__)] for word in phrase.words]
    return places == sorted(places) and places[-1] - places[0] < len(places) + _BETWEEN


def _is_piece(phrase: Phrase, matched: Mapping[str, object], longer: Iterable[Phrase]) -> bool:
    """Returns whether what was typed is only a piece of another phrase, or has only a piece of this synonym.

    A synonym of one word is a piece of a longer phrase that was typed: "stroke" of "heat stroke". An idiom, such as
    "out of the blue", means nothing without all of its words.
    """
    if phrase.counts != _IN_SYNONYM:
        return False
    if len(phrase.words) == 1:
        return any(
            other.entry != phrase.entry and len(other.words) > 1 and phrase.words.keys() <= other.words.keys()
            for other in longer
        )
    return _is_idiom(phrase) and len(matched) < len(phrase.words)


def _is_idiom(phrase: Phrase) -> bool:
    """Returns whether it is a synonym of which at most one word says anything without the others."""
    return phrase.counts == _IN_SYNONYM and len(phrase.words) > 1 and len(phrase.words.keys() - SMALL) <= 1


def _is_mistyped(typed: str, known: str) -> bool:
    """Returns whether a word that resembles a known one may be meant for it."""
    another = len(typed) == len(known) <= _SHORT and sorted(typed) != sorted(known)
    opposite = known.startswith("hyp") and typed.startswith("hypo") != known.startswith("hypo")
    return typed[0] == known[0] and len(known) >= _SHORT and not another and not opposite
