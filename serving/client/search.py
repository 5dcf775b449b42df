"""Finds evidence by the words that people use: in names, synonyms, questions and codes, with typing errors forgiven.

Every text of an entry is compared with what was typed: how much of the one is in the other, and the reverse; and so are
all texts of the entry together, as each tells it in other words. Words that the vocabulary does not know count against
a match, so that a sentence about something else finds nothing. So does what a text says of another part of the body, a
word in another form, and a short phrase that is a piece of a longer one.

A measured number, such as "BP 120/80" or "67 year old", finds the entries in whose range it lies, and nothing else that
is about its measure. The ranges are the bands of the vocabulary, and synonyms that are written as those are.
"""

import contextlib
import itertools
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rapidfuzz import process
from rapidfuzz.distance import OSA

from schemas.bands import Band, bands_of
from schemas.errors import InputError
from schemas.evidence import CRISIS, Evidence

MOST = 40
"""Results, at most."""
_WORD = re.compile(r"[^\W_]+")
_IDIOM = re.compile(r"\b(?:(?:is |are )?killing me|fa(?:nno)? male)\b")  # of pain, not of killing or of a man
_UNSTOPPABLE = re.compile(r"\b(?:can.?t|cannot|couldn.?t|unable to) stop\b")
"""Of too much, which is the opposite of what somebody cannot do."""
_ELISION = re.compile("\\b(?:[cdjlmnst]|qu|un|all|dall|dell|nell)['\N{RIGHT SINGLE QUOTATION MARK}](?=\\w)")
_APOSTROPHES = str.maketrans("", "", "'\N{RIGHT SINGLE QUOTATION MARK}")
_MOST_CHARACTERS, _MOST_WORDS = 200, 24
_SHORTEST_MISTYPED, _SHORT = 4, 5
"""Letters of a word in which a typing error is forgiven: shorter words resemble too many others. In one that is still
short, another letter in place of one makes another word."""
_SHORTEST_STEM = 3
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

_FIGURES = r"(?<![\w.,/])\d+(?:[.,]\d+)?(?![\d,.]*\d)(?! ?(?:day|week|month|hour|tag|woche|monat|stunde))"
_FILLER = r"\W*(?:(?:is|was|are|of|at|reading|ist|von)\W+){0,2}"
_AGE = re.compile(
    rf"\b(?:aged?|alter)\W*(?P<years>{_FIGURES})(?!/)(?:\W*(?:years?|jahren?)\b)?|"
    rf"^\W*(?P<after>{_FIGURES}) ?(?:years?|jahre)\W*$|"
    r"(?<![\d.,/])(?P<number>\d+(?:[.,]\d+)?)[ -]?"
    r"(?P<unit>years?|yrs?|y|months?|mths?|mo|weeks?|wk|jahre?|monate?|wochen?)"
    r"[ /-]*(?:old|of age|alt|o)\b(?: (?:baby|infant|toddler|child|kid))?"
)
_AGE_IN = {"m": 12, "w": 52}
"""How many of a unit are a year, by its first letter; other units are years."""
_MEASURES = {
    "temperature": ("temp|temperatur|fever|fieber", "degrees|grad|celsius|c"),
    "heart_rate": ("hr|pulse|puls", "bpm"),
    "blood_pressure": ("bp|blutdruck|systolic", "mmhg"),
    "oxygen_saturation": ("sats?|spo2|saturation|oxygen(?: level)?|sauerstoff", "sats?"),
    "blood_sugar": ("sugars?|glucose|bm|bsl|blutzucker|zucker", "mmol(?:/l)?|mg/dl"),
}
"""Other words for measures, which stand before a number, and units, which stand after it."""
_BARE_READING = re.compile(r"(?<![\w.,/])(?=(?:[6-9]\d|\d{3})/\d{2,3}(?![\w/]))")
"""Before a blood pressure without a name, such as 120/80; 10/10 is how bad a pain is."""
_DIASTOLIC = "diastolic"
"""The measure of the second number of two, such as 120/80."""

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
    "pee peeing urine urinate urinating wee weeing",
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
    "tingle tingling tingly",
    "sleep slept asleep",
    "eat eating eaten ate",
    "see saw seen seeing",
    "forget forgot forgotten forgetful",
    "speak speech talk spoke",
    "pulse pulsing pulsating throb throbbing",
    "breast boob tit",
    "pill tablet medicine medication",
    "vision sight eyesight",
    "scared afraid frightened terrified fear",
    "worse worsening",
    "smell smelly stink stinky",
    "blocked stuffed bunged clogged",
    "spin spun",
    "freeze froze frozen freezing",
)

_SITES = (
    "head headache scalp",
    "face cheek jaw chin mouth lip tongue tooth teeth toothache gum",
    "eye eyelid eyebrow pupil",
    "ear earache",
    "nose nostril nosebleed",
    "throat windpipe tonsil neck",
    "chest ribs breastbone",
    "breast boob nipple",
    "arm hand finger thumb wrist elbow shoulder",
    "abdomen belly tummy stomach navel groin bellyache",
    "penis vagina testicle genital",
    "bottom bum anus",
    "leg knee calf ankle foot feet toe heel hip thigh",
)
"""Parts of the body, those that are one for somebody who says where it is in one line."""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_NEGATIONS = _set(
    "not no never without wont isnt doesnt dont didnt hasnt havent arent wasnt nicht kein keine keinen ne pas non"
)
_UNABLE = _set("cannot cant couldnt")
_SILENT = _set(
    "i im ive id me mine my you your he she his her him they them their we our it its a an the am is are was were be "
    "been being to of in at for with from by and or but so very really just do does did can will would should may "
    "je tu il elle nous vous ils elles mon ma mes le la les un une et est suis ai jai de du au yo el los las del y es "
    "soy io lui lei gli una di e sono ho "
    "ich mein meine meinen meiner mich ist bin sind war der das den dem des ein eine einen einem und oder im mit von "
    "zu zum beim es er sie wir sehr"
)
"""Words that count for nothing, unless nothing else was typed."""
_SMALL = _set(
    "not cannot up down out off on over one all went keep come came like back more side left right make made take took "
    "new child kid kind son daughter have has had got get feel felt think too much bit lot some any this that there "
    "here when where what who how if as than then since about anything please help thing day last hab hat auf seit "
    "nach am tochter sohn mum dad husband wife partner boyfriend girlfriend little plus mas piu"
)
"""Stems that say little by themselves."""


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


def words_of(text: str) -> list[str]:
    """Returns the words of a text, without case, accents and elided articles; "can't" and its like are one word."""
    plain = unicodedata.normalize("NFKD", _ELISION.sub("", text.casefold()).translate(_APOSTROPHES))
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
        words: dict[int, set[str]] = defaultdict(set)  # of each entry
        for number, phrase in enumerate(self._phrases):
            words[phrase.entry].update(phrase.words)
            for word in phrase.words:
                self._with[word].append(number)
        self._frequency = Counter(itertools.chain.from_iterable(words.values()))  # number of entries with a word
        self._rarest = math.log1p(len(entries))
        banded = {band.measure: band.unit for entry in entries for band in bands_of(entry.band)}
        self._counted = banded.keys()
        self._patterns = {
            measure: _AGE if (measure, unit) == ("age", "years") else _number_of(measure, unit)
            for measure, unit in (dict.fromkeys(_MEASURES, "") | banded).items()
        }
        self._about: dict[str, dict[int, list[Band]]] = defaultdict(dict)  # the ranges of entries about a measure
        for place, entry in enumerate(entries):
            for measure in self._patterns:
                if {*measure.split("_")} <= {*words_of(entry.name)}:
                    self._about[measure][place] = []
            for band in (*bands_of(entry.band), *(band for synonym in entry.synonyms for band in _ranges(synonym))):
                self._about[band.measure].setdefault(place, []).append(band)

    def numbers(self, text: str) -> list[str]:
        """Returns the measured numbers that somebody typed, such as `temperature=38.9` for "temp 38,9".

        They are those of measures for which the vocabulary has bands.
        """
        return [f"{measure}={number}" for measure, number in self._read(text)[0].items() if measure in self._counted]

    def _read(self, text: str) -> tuple[dict[str, str], str]:
        """Returns the number of each measure that was typed, and the text without them."""
        numbers: dict[str, str] = {}
        rest = _BARE_READING.sub("bp ", text[:_MOST_CHARACTERS].casefold())
        for measure, pattern in self._patterns.items():
            if match := pattern.search(rest):
                found = {name: number.replace(",", ".") for name, number in match.groupdict().items() if number}
                number = found.get("number") or found.get("after") or found["years"]
                per_year = _AGE_IN.get(found.get("unit", "")[:1], 1)
                numbers[measure] = number if per_year == 1 else f"{float(number) / per_year:.3g}"
                numbers |= {_DIASTOLIC: found["second"]} if "second" in found else {}
                if self._is_plausible(measure, float(numbers[measure])):
                    rest = f"{rest[: match.start()]} {rest[match.end() :]}"
        return numbers, rest

    def _measured(self, numbers: Mapping[str, str]) -> tuple[list[int], set[int]]:
        """Returns the entries in whose ranges numbers lie, and all that are about the same measures."""
        in_range: list[int] = []
        about: set[int] = set()
        for measure, number in numbers.items():
            if self._is_plausible(measure, float(number)):
                about |= self._about[measure].keys()
                in_range += [entry for entry, bands in self._about[measure].items() if _has(bands, float(number))]
        return in_range, about

    def _is_plausible(self, measure: str, number: float) -> bool:
        """Returns whether a patient can have a number, as far as the ranges of its measure have an end."""
        ranges = [band for bands in self._about[measure].values() for band in bands]
        low, high = (min(band.low for band in ranges), max(band.high for band in ranges)) if ranges else (0, math.inf)
        return math.isinf(low) or math.isinf(high) or low <= number <= high

    def find(self, text: str) -> list[Evidence]:
        """Returns at most `MOST` entries that match what somebody typed: those of a crisis, then the best ones.

        Where nothing else matches, it is pain in the part of the body that was named, if any.
        """
        numbers, rest = self._read(text)
        in_range, about = self._measured(numbers)
        said = {} if numbers and _SILENT.issuperset(words_of(rest)) else _typed(rest)
        weights = {word: self._weight(word) for word in said}
        total = sum(weights.values())
        sites = _sites(said)
        matches: dict[int, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
        for word, form in said.items():
            for known, similarity in self._similar(word, form if word == [*said][-1] else "", len(said) == 1).items():
                for number in self._with[known]:
                    other_form = known == word and self._phrases[number].words[known] != form
                    matches[number][known][word] = _OTHER_FORM if other_form else similarity
        there = {number: _is_there(self._phrases[number], matched, said) for number, matched in matches.items()}
        longer = [self._phrases[number] for number, whole in there.items() if whole]
        texts: dict[int, list[dict[str, float]]] = defaultdict(list)  # what each entry's texts have of what was typed
        for number, matched in matches.items():
            texts[self._phrases[number].entry].extend(matched.values())
        together = {entry: _best(typed) for entry, typed in texts.items()}
        fits: dict[int, Fit] = {}
        pains: list[int] = []
        for number, matched in matches.items():
            phrase = self._phrases[number]
            elsewhere = sites and (own := _sites(phrase.words)) and not own & sites
            if elsewhere or _is_piece(phrase, matched, longer):
                continue
            if len(phrase.words) == 2 and matched.keys() & _SITE_OF.keys() and phrase.words.keys() & _PAIN:
                pains.append(phrase.entry)
            fit = self._fit(phrase, matched, weights, total, there[number])
            recall = sum(weights[word] * similarity for word, similarity in together[phrase.entry].items()) / total
            fit = fit._replace(score=(1 - _TOGETHER) * fit.score + _TOGETHER * recall)
            before = fits.get(phrase.entry, fit)
            fits[phrase.entry] = Fit(
                before.crisis or fit.crisis, max(before.score, fit.score), before.everything or fit.everything
            )
        best = max((fit.score for fit in fits.values()), default=0.0)

        def is_enough(entry: int, fit: Fit) -> bool:
            least = _LEAST_OF_TWO if len(together[entry].keys() - _SMALL) > 1 else _LEAST
            return fit.crisis or fit.everything or fit.score >= max(least, _BESIDE_BEST * best)

        ranked = sorted(
            (not fit.crisis, -fit.score, len(self._entries[entry].name), self._entries[entry].name, entry)
            for entry, fit in fits.items()
            if is_enough(entry, fit) and entry not in about
        )
        crises = [entry for no_crisis, *_, entry in ranked if not no_crisis]
        best_first = dict.fromkeys([*crises, *in_range, *(entry for *_, entry in ranked)]) or dict.fromkeys(pains)
        return [self._entries[entry] for entry in [*best_first][:MOST]]

    def _fit(
        self,
        phrase: Phrase,
        matched: Mapping[str, Mapping[str, float]],
        weights: Mapping[str, float],
        total: float,
        there: bool,
    ) -> Fit:
        """Returns how well a phrase fits.

        Args:
            phrase: the phrase.
            matched: its words that were typed, with the similarity of each typed word.
            weights: of all typed words.
            total: their sum.
            there: whether it was typed as it is.
        """
        matched_weight = sum(self._weight(known) * max(typed.values()) for known, typed in matched.items())
        precision = matched_weight / sum(map(self._weight, phrase.words))
        recall = sum(weights[word] * similarity for word, similarity in _best(matched.values()).items()) / total
        score = 2 * precision * recall / (precision + recall)
        if there and phrase.counts > _IN_QUESTION:
            score = max(score, _WHOLE + (1 - _WHOLE) * recall)
        # A crisis may be told in another order, and in several words also in other forms of them.
        whole = len(matched) == len(phrase.words) and all(known in typed for known, typed in matched.items())
        everything = phrase.counts == 1 and recall >= _ALL and not _SMALL.issuperset(matched)
        return Fit(phrase.crisis and whole and (there or len(matched) > 1), score * phrase.counts, everything)

    def _similar(self, typed: str, unfinished: str, alone: bool) -> dict[str, float]:
        """Returns the known words that resemble a typed one, with their similarity in (0, 1].

        Args:
            typed: the word.
            unfinished: the same as it was typed, if somebody may still be typing it, or "".
            alone: whether it is the only one.
        """
        similar = dict.fromkeys(_OTHERS.get(typed, frozenset()) & self._frequency.keys(), _OTHER_WORD)
        if typed in self._frequency or typed in _SMALL:
            return similar | ({typed: 1.0} if typed in self._frequency else {})
        if similar:
            return similar
        if len(typed) >= _SHORTEST_MISTYPED:
            matches = process.extract(
                typed, self._frequency.keys(), scorer=OSA.normalized_similarity, score_cutoff=_ALIKE, limit=None
            )
            similar |= {word: score * _BEGINNING for word, score, _ in matches if _is_mistyped(typed, word)}
        if len(unfinished) >= (2 if alone else _SHORTEST_MISTYPED):
            longest = _MOST_CHARACTERS if alone else _LONGEST_REST * len(typed)
            known = (word for word in self._frequency if len(word) <= longest)
            similar |= {word: _BEGINNING for word in known if word.startswith(unfinished)}
        return similar

    def _weight(self, word: str) -> float:
        """Returns what a word counts: its inverse document frequency."""
        if word in _SMALL:
            return _SMALL_WORD * self._rarest
        frequency = self._frequency[word]
        return math.log1p(len(self._entries) / frequency) if frequency else _UNKNOWN_WORD * self._rarest


def _phrases(place: int, entry: Evidence) -> Iterable[Phrase]:
    yield Phrase(place, _typed(entry.code.replace("_", " ")), 1.0, crisis=False)
    yield Phrase(place, _typed(entry.name), 1.0, crisis=False)
    yield Phrase(place, _typed(entry.question), _IN_QUESTION, crisis=False)
    for synonym in itertools.filterfalse(_ranges, entry.synonyms):
        yield Phrase(place, _typed(synonym), _IN_SYNONYM, crisis=synonym.startswith(CRISIS))


def _ranges(synonym: str) -> list[Band]:
    """Returns the ranges in a synonym that is written as a band is, such as "blood_pressure <90"; [] for others."""
    with contextlib.suppress(InputError):
        return bands_of(synonym)
    return []


def _has(bands: Sequence[Band], number: float) -> bool:
    """Returns whether a number lies in one of the bands; where all depend on others, in that of most patients."""
    if bands and all(band.given for band in bands):
        bands = [max(bands, key=lambda band: len(band.given))]
    return any(band.begins_before(number) and band.ends_after(number) for band in bands)


def _number_of(measure: str, unit: str) -> re.Pattern[str]:
    """Returns the pattern of a number with its measure or its unit: of `number` or `after`, and perhaps `second`."""
    words, units = _MEASURES.get(measure, ("", ""))
    named = "|".join(filter(None, (measure.replace("_", "[ _]"), words)))
    after = "|".join(filter(None, (re.escape(unit.casefold()), units)))
    number = rf"\b(?:{named})\b{_FILLER}(?P<number>{_FIGURES})(?:/(?P<second>\d+))?"
    return re.compile(
        rf"{number}(?:\W*(?:{after})(?!\w))?|(?P<after>{_FIGURES}) ?(?:{after})(?!\w)" if after else number
    )


def _best(similarities: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Returns the largest similarity of each word."""
    best: dict[str, float] = {}
    for each in similarities:
        for word, similarity in each.items():
            best[word] = max(similarity, best.get(word, 0.0))
    return best


def _is_there(phrase: Phrase, matched: Mapping[str, Mapping[str, float]], said: Mapping[str, str]) -> bool:
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
    return phrase.counts == _IN_SYNONYM and len(phrase.words) > 1 and len(phrase.words.keys() - _SMALL) <= 1


def _sites(words: Iterable[str]) -> set[int]:
    """Returns the parts of the body that are named, as places in `_SITES`."""
    return {_SITE_OF[word] for word in words if word in _SITE_OF}


def _is_mistyped(typed: str, known: str) -> bool:
    """Returns whether a word that resembles a known one may be meant for it."""
    another = len(typed) == len(known) <= _SHORT and sorted(typed) != sorted(known)
    opposite = known.startswith("hyp") and typed.startswith("hypo") != known.startswith("hypo")
    return typed[0] == known[0] and len(known) >= _SHORT and not another and not opposite


def _typed(text: str) -> dict[str, str]:
    """Returns the words of a text that count: the form of each by its stem, in their order."""
    words = words_of(_UNSTOPPABLE.sub(" nonstop", _IDIOM.sub(" hurts", text[:_MOST_CHARACTERS].casefold())))
    telling = [word for word in words if word not in _SILENT] or words
    forms: dict[str, str] = {}
    for word in telling:
        forms.setdefault(_stem(word), _form(word))
    return dict(itertools.islice(forms.items(), _MOST_WORDS))


def _form(word: str) -> str:
    """Returns a word as it is compared: in the singular."""
    if word in _NEGATIONS:
        return "not"
    if word in _UNABLE:
        return "cannot"
    is_plural = word.endswith("s") and not word.endswith("ss") and len(word) > _SHORTEST_STEM
    return word[:-1] if is_plural else word


def _stem(word: str) -> str:
    """Returns a word without the endings of English grammar; the same for a typed word and a known one."""
    word = _form(word)
    for ending in ("ing", "ed", "ness"):
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            word = word.removesuffix(ending)
            break
    if len(word) > _SHORTEST_STEM and word[-1] == word[-2]:
        return word[:-1]
    return word.removesuffix("e") if len(word) > _SHORTEST_STEM + 1 else word


_OTHERS: dict[str, frozenset[str]] = {
    stem: frozenset(map(_stem, words.split())) for words in _SAME for stem in map(_stem, words.split())
}
_PAIN = _OTHERS[_stem("pain")]
_SITE_OF = {_stem(word): site for site, words in enumerate(_SITES) for word in words.split()}
