"""The words of a text, and what they stand for: without case, accents and endings; words.toml lists them."""

import importlib.resources
import itertools
import re
import unicodedata
from collections.abc import Iterable

from schemas.text_file import parse_toml

_FILE = importlib.resources.files("serving.client") / "words.toml"
LISTS = parse_toml(_FILE.read_text(encoding="utf-8"), "words.toml")
SILENT, SMALL = (frozenset(LISTS[name].split()) for name in ("silent", "small"))
_NOT, _CANNOT = (frozenset(LISTS[name].split()) for name in ("not", "cannot"))
_STANDS_FOR: dict[str, str] = LISTS["stands_for"]
_ABBREVIATION = re.compile(rf"(?<![\w&/+])(?:{'|'.join(map(re.escape, _STANDS_FOR))})(?![\w&/+])", re.IGNORECASE)
MOST_CHARACTERS, _MOST_WORDS = 200, 24
_SHORTEST_STEM = 3
_WORD = re.compile(r"[^\W_]+")
_IDIOM = re.compile(r"\b(?:(?:is |are )?killing me|fa(?:nno)? male)\b")  # of pain, not of killing or of a man
_UNSTOPPABLE = re.compile(r"\b(?:can.?t|cannot|couldn.?t|unable to) stop\b")
"""Of too much, which is the opposite of what somebody cannot do."""
_ELISION = re.compile("\\b(?:[cdjlmnst]|qu|un|all|dall|dell|nell)['\N{RIGHT SINGLE QUOTATION MARK}](?=\\w)")
_APOSTROPHES = str.maketrans("", "", "'\N{RIGHT SINGLE QUOTATION MARK}")


def spelled_out(text: str) -> tuple[str, str]:
    """Returns the beginning of a text with what abbreviations stand for in their place, and without abbreviations."""
    begin = text[:MOST_CHARACTERS]

    def words(found: re.Match[str]) -> str:
        alone = found[0] == text.strip()
        return _STANDS_FOR.get(found[0].upper() if alone else found[0]) or _STANDS_FOR.get(found[0].lower(), found[0])

    def others(found: re.Match[str]) -> str:
        return found[0] if words(found) == found[0] else ""

    return _ABBREVIATION.sub(words, begin), _ABBREVIATION.sub(others, begin)


def words_of(text: str) -> list[str]:
    """Returns the words of a text, without case, accents and elided articles; "can't" and its like are one word."""
    plain = unicodedata.normalize("NFKD", _ELISION.sub("", text.casefold()).translate(_APOSTROPHES))
    return _WORD.findall("".join(character for character in plain if not unicodedata.combining(character)))


def telling_words(text: str) -> dict[str, str]:
    """Returns the words of a text that count: the form of each by its stem, in their order."""
    words = words_of(_UNSTOPPABLE.sub(" nonstop", _IDIOM.sub(" hurts", text[:MOST_CHARACTERS].casefold())))
    forms: dict[str, str] = {}
    for word in [word for word in words if word not in SILENT] or words:
        forms.setdefault(stem(word), _form(word))
    return dict(itertools.islice(forms.items(), _MOST_WORDS))


def _form(word: str) -> str:
    """Returns a word as it is compared: in the singular."""
    if word in _NOT:
        return "not"
    if word in _CANNOT:
        return "cannot"
    is_plural = word.endswith("s") and not word.endswith("ss") and len(word) > _SHORTEST_STEM
    return word[:-1] if is_plural else word


def stem(word: str) -> str:
    """Returns a word without the endings of English grammar; the same for a typed word and a known one."""
    word = _form(word)
    for ending in ("ing", "ed", "ness"):
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            word = word.removesuffix(ending)
            break
    if len(word) > _SHORTEST_STEM and word[-1] == word[-2]:
        return word[:-1]
    return word.removesuffix("e") if len(word) > _SHORTEST_STEM + 1 else word


OTHERS = {stem(word): frozenset(map(stem, words.split())) for words in LISTS["same"] for word in words.split()}
"""Words for the same, all by their stems."""
_SITE_OF = {stem(word): site for site, words in enumerate(LISTS["sites"]) for word in words.split()}


def sites_of(stems: Iterable[str]) -> set[int]:
    """Returns the parts of the body that are named, as places in `sites` of words.toml."""
    return {_SITE_OF[word] for word in stems if word in _SITE_OF}
