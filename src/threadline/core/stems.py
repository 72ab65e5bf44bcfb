"""English words without their endings: Porter's algorithm (1980), so that `migrations` is found by `migrate`.

Other languages pass through it as they are: it only ever looks at the letters a to z."""

from __future__ import annotations

import re

_C = "[^aeiou](?:[^aeiouy])*"  # a run of consonants
_V = "[aeiouy](?:[aeiou])*"  # a run of vowels
_ABOVE_0 = re.compile(f"^(?:{_C})?{_V}{_C}")  # the stem has a vowel and a consonant after it
_ONCE = re.compile(f"^(?:{_C})?{_V}{_C}(?:{_V})?$")
_ABOVE_1 = re.compile(f"^(?:{_C})?{_V}{_C}{_V}{_C}")
_VOWEL = re.compile(f"^(?:{_C})?[aeiouy]")
_DOUBLE = re.compile(r"([^aeiouylsz])\1$")
_SHORT = re.compile(f"^{_C}[aeiouy][^aeiouwxy]$")  # a stem that had an e: `hop(e)`

_PLURALS = (("sses", "ss"), ("ies", "i"), ("ss", "ss"), ("s", ""))
_STEP_2 = {
    "ational": "ate",
    "tional": "tion",
    "enci": "ence",
    "anci": "ance",
    "izer": "ize",
    "bli": "ble",
    "alli": "al",
    "entli": "ent",
    "eli": "e",
    "ousli": "ous",
    "ization": "ize",
    "ation": "ate",
    "ator": "ate",
    "alism": "al",
    "iveness": "ive",
    "fulness": "ful",
    "ousness": "ous",
    "aliti": "al",
    "iviti": "ive",
    "biliti": "ble",
    "logi": "log",
}
_STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP_4 = (
    *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent"),
    *("ou", "ism", "ate", "iti", "ous", "ive", "ize"),
)
_LONGEST_4 = sorted(_STEP_4, key=len, reverse=True)


def stem(word: str) -> str:
    """The stem of a lower-case word; one of fewer than three letters, or with anything but letters, is its own."""
    if len(word) < 3 or not (word.isascii() and word.isalpha()):
        return word
    first_y = word[0] == "y"
    word = "Y" + word[1:] if first_y else word
    word = _last(_step_4(_replaced(_replaced(_y(_past(_plural(word))), _STEP_2), _STEP_3)))
    return "y" + word[1:] if first_y else word


def _plural(word: str) -> str:
    for ending, by in _PLURALS:
        if word.endswith(ending):
            return word.removesuffix(ending) + by
    return word


def _past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _ABOVE_0.match(word[:-3]) else word
    for ending in ("ed", "ing"):
        left = word.removesuffix(ending)
        if left != word and _VOWEL.match(left):
            if left.endswith(("at", "bl", "iz")):
                return left + "e"
            if _DOUBLE.search(left):
                return left[:-1]
            return left + "e" if _ONCE.match(left) and _SHORT.match(left) else left
    return word


def _y(word: str) -> str:
    return word[:-1] + "i" if word.endswith("y") and _VOWEL.match(word[:-1]) else word


def _replaced(word: str, endings: dict[str, str]) -> str:
    for size in range(min(7, len(word) - 1), 2, -1):
        if (by := endings.get(word[-size:])) is not None:
            return word[:-size] + by if _ABOVE_0.match(word[:-size]) else word
    return word


def _step_4(word: str) -> str:
    for ending in _LONGEST_4:
        if word.endswith(ending):
            return word.removesuffix(ending) if _ABOVE_1.match(word.removesuffix(ending)) else word
    if word.endswith(("sion", "tion")) and _ABOVE_1.match(word[:-3]):
        return word[:-3]
    return word


def _last(word: str) -> str:
    if word.endswith("e"):
        left = word[:-1]
        if _ABOVE_1.match(left) or (_ONCE.match(left) and not _SHORT.match(left)):
            word = left
    return word[:-1] if word.endswith("ll") and _ABOVE_1.match(word) else word
