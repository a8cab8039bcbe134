"""Where does a sentence end? A paragraph parted by rules, and put together again with its own spacing.

A sentence ends behind ``. ! ? …`` and whatever closes quotes or brackets, if a space follows and then something that
can begin a sentence: a capital, a digit, an opening quote, a script without capitals. A full stop does not end one
after an abbreviation of the language, an initial, or a number where the language writes ordinals so. Chinese and
Japanese sentences end at ``。！？`` without a space.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain

from regard.errors import InputError, nearest

_ABBREVIATIONS = {
    "en": "mr mrs ms dr prof st mt jr sr rev gen col capt lt sgt gov sen rep hon pres vs viz cf e.g i.e vol pp "
    "fig figs eq eqs ch ed eds al approx dept est jan feb mar apr jun jul aug sep sept oct nov dec",
    "de": "hr fr frl dr prof dipl ing st str nr abb tab bd bde bzw bspw z.b z b d.h d h u.a u a o.ä v.a i.d.r "
    "ca vgl s evtl ggf inkl exkl max min mind sog geb gest jh jan feb mär apr jun jul aug sep sept okt "
    "nov dez ev usf vs",
    "fr": "m mm mme mmes mlle dr pr prof st ste av bd boul chap cf env ex fig p.ex no vol pp janv févr avr juil "
    "oct nov déc éd tél",
    "es": "sr sra sres srta d dña dr dra prof profa lic ing st sto sta av avda núm nº pág págs p.ej vol cap fig "
    "cf ee.uu aprox tel ene feb abr jun jul ago sep sept oct nov dic ud uds vd vds",
    "it": "sig sigg sig.ra sig.na dott dott.ssa prof prof.ssa ing avv arch on s sant p.es ad es n nr pag pagg "
    "vol cap fig cfr ca tel gen feb mar apr giu lug ago set ott nov dic",
    "pt": "sr sra srs sras srta d dr dra drs prof profa eng st sto sta av r nº núm pág págs p.ex vol cap fig cf "
    "aprox tel jan fev abr jun jul ago set out nov dez exmo exma",
    "nl": "dhr mevr mw dr drs ir ing mr prof st nr blz bijv bv d.w.z m.a.w o.a t.a.v t.o.v i.p.v z.g ca vgl fig "
    "hfst jan feb mrt apr jun jul aug sep sept okt nov dec jl",
    "sv": "hr fr dr prof st nr bl.a t.ex d.v.s dvs m.fl o.s.v resp s.k p.g.a fr.o.m t.o.m ca kap fig jfr kl tel "
    "jan feb mar apr jun jul aug sep sept okt nov dec",
    "pl": "p pp dr hab prof mgr inż św ul al os pl nr tj tzn tzw np m.in ok ww wg zob por rys tab tel godz ks gen płk",
    "cs": "p pí sl dr ing mgr bc prof doc mudr judr phdr sv ul nám č čj např tzv tzn tj resp popř event kap obr "
    "tab str srov tel hod",
    "ru": "г гг гр ул пл пр просп проф доц акад др т.е т.д т.п т.к т.н см ср напр рис табл стр с тыс млн млрд "
    "руб коп тел св н.э",
}
"""Words after which a full stop does not end a sentence; those that often stand at its end (``etc.``) are left out."""

_BEFORE_NUMBERS = {"no", "nos", "art", "sec", "kap", "p", "s"}
"""Words that are abbreviations before a number, and words of their own otherwise."""

_NO_ABBREVIATIONS = ("any", "ar", "fa", "hi", "ja", "ko", "th", "tr", "uk", "ur", "vi", "zh")
"""Further words for a language: of these none are known, or none are written; ``any`` is for all others."""

_ORDINALS = {"de", "cs", "pl", "sv"}
"""Languages that write an ordinal as a number and a full stop."""

# Marks in a row are taken whole, from the first of them and without a second try: else a long row costs its square.
_END = re.compile(
    r"""(?<![.!?…؟۔।])[.!?…؟۔।]++["'”’»›)\]}]*+(?:\s»)?(?=\s|$)|(?<![。！？｡])[。！？｡]++[」』”’）】》]*+"""
)
_START = re.compile(r"""["'“‘„‚«‹(\[{¿¡「『（【《–—-]*+""")
_SPACE = re.compile(r"\s*+")


@dataclass(frozen=True)
class Paragraph:
    """A text as sentences and what stands around them.

    Attributes:
        sentences: at least one, without space at either end; that of a blank text is empty.
        gaps: the space before the first, between them, and behind the last: one more than there are sentences.
    """

    sentences: tuple[str, ...]
    gaps: tuple[str, ...]

    def joined(self, translations: Sequence[str]) -> str:
        """Return the translations with the spacing of the paragraph.

        Where it has none, as between Chinese sentences, a translation that ends like one of a spaced script gets one.
        """
        gaps = [
            gap or (" " if translation[-1:].strip().isascii() and translation else "")
            for translation, gap in zip(translations, self.gaps[1:-1], strict=False)
        ]
        return self.gaps[0] + "".join(chain.from_iterable(zip(translations, [*gaps, self.gaps[-1]], strict=True)))


def split_paragraph(text: str, language: str) -> Paragraph:
    """Part a text into sentences, in time that grows with its length alone.

    Args:
        text: one line or several.
        language: whose abbreviations count, such as ``de``; ``any`` for one of which none are known.

    Raises:
        InputError: the language is not known.
    """
    check_language(language)
    stop = len(text.rstrip())
    start = stop - len(text[:stop].lstrip())
    sentences, gaps = [], [text[:start]]
    for end in _END.finditer(text, start, stop):
        following = _after(_SPACE, text, end.end())
        if following < stop and _ends(text, end, start, following, language):
            sentences.append(text[start : end.end()])
            gaps.append(text[end.end() : following])
            start = following
    return Paragraph((*sentences, text[start:stop]), (*gaps, text[stop:]))


def check_language(language: str) -> None:
    """Refuse a language that is not known.

    Raises:
        InputError: with the nearest one.
    """
    known = (*_ABBREVIATIONS, *_NO_ABBREVIATIONS)
    if language not in known:
        raise InputError(f"the rules for sentences know no language {language!r}{nearest(language, known)}")


@cache
def _abbreviations(language: str) -> frozenset[str]:
    return frozenset(_ABBREVIATIONS.get(language, "").split())


def _ends(text: str, end: re.Match[str], start: int, following: int, language: str) -> bool:
    """Return whether a sentence that began at ``start`` ends with this mark, behind which text goes on."""
    if end[0][0] in "。！？｡":
        return True
    opened = _after(_START, text, following)
    first = text[opened : opened + 1]
    if first.islower():
        return False
    if end[0] != ".":
        return True
    word = _last_word(text, start, end.start()).lstrip("\"'“‘„«([")
    initial = (len(word) == 1 and word.isupper() and word != "I") or re.fullmatch(r"(?:\w\.)+\w", word) is not None
    ordinal = language in _ORDINALS and word.isdigit() and len(word) <= 2
    counted = first.isdigit() and word.lower() in _BEFORE_NUMBERS
    return not (initial or ordinal or counted or word.lower() in _abbreviations(language))


def _after(pattern: re.Pattern[str], text: str, place: int) -> int:
    """Return where ``pattern``, which may be nothing, ends when it begins at ``place``."""
    found = pattern.match(text, place)
    return found.end() if found else place


def _last_word(text: str, start: int, end: int) -> str:
    """Return what stands before ``end``, back to the first space or to ``start``."""
    begin = end
    while begin > start and not text[begin - 1].isspace():
        begin -= 1
    return text[begin:end]
