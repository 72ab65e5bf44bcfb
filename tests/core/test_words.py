"""From text to terms, the same for what is indexed and for what is asked."""

from __future__ import annotations

import itertools
import re

import apsw
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from threadline.core import ranking
from threadline.core.questions import Unit, question
from threadline.core.snippets import snippet
from threadline.core.stems import stem
from threadline.core.words import STOPWORDS, Wanted, clipped, taken_apart, terms

WORDS = """
running migrations migrate migrated hopping hoping relational conditional generalizations oscillators falling
happy sky agreed feed plastered motoring sized tanned controlling rate probate rational formality yes saying
was thing beds caresses ponies ties caress cats bled sing conflated troubled hissing fizzed failing filing
happily electricity electrical hopefulness goodness revival allowance inference airliner gyroscopic adjustable
defensible irritant replacement adjustment dependent adoption homologous communism activate angularity
effective bowdlerize cease controller roll analogously digitizer conformably radically differently vilely
vietnamization predication operator feudalism decisiveness callousness sensitivity sensibility triplicate
formative formalize queued queue database databases testing tests tested configuration
"""


def test_the_stemmer_is_porters() -> None:
    """SQLite has one of its own: they agree."""
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE VIRTUAL TABLE f USING fts5 (x, tokenize = 'porter ascii')")
    connection.execute("CREATE VIRTUAL TABLE v USING fts5vocab (f, 'row')")
    for word in WORDS.split():
        connection.execute("DELETE FROM f")
        connection.execute("INSERT INTO f VALUES (?)", (word,))
        ((theirs,),) = connection.execute("SELECT term FROM v").fetchall()

        assert stem(word) == theirs


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The quick brown foxes", ["the", "quick", "brown", "fox"]),
        ("parse_config", ["pars", "config"]),
        ("ParseConfig", ["pars", "config", "parseconfig"]),
        ("HTTPServer2", ["http", "server2", "httpserver2"]),
        ("src/app/config.py:12", ["src", "app", "config", "py", "12"]),
        ("E1234 0x80070005 v2.3", ["e1234", "0x80070005", "v2", "3"]),
        ("café naïve Ünïcödé", ["cafe", "naiv", "unicod"]),
        ("東京都", ["東京", "京都", "都"]),
        ("猫", ["猫"]),
        ("abc日本", ["abc", "日本", "本"]),
        ("ＡＢＣ", ["abc"]),
        ("\0 \ud83d _ \U0001f600 -- ", []),
    ],
)
def test_terms(text: str, found: list[str]) -> None:
    assert terms(text) == found


@given(st.text(max_size=300))
@example("İstanbul ﬁne ǅ \u0e33 \u0345")
def test_a_term_holds_nothing_that_an_engine_could_take_for_syntax(text: str) -> None:
    for term in terms(text):
        assert term
        assert not re.search(r"[\s\"'_*^:()\-+&|!<>\\\0]", term), term
        assert term.encode()  # no lone surrogates


@given(st.text(max_size=200))
def test_the_terms_of_a_text_are_wanted_where_they_stand(text: str) -> None:
    parts, wholes = taken_apart(text)
    spots, length = Wanted([*parts, *wholes]).spots(f"{text} \u00e9")

    assert length == len(parts) + 1
    assert {term for term, at in spots.items() for _ in at} == {*parts, *wholes}
    for at, term in enumerate(parts):
        assert at in spots[term]


MIXED = ("parse", "parseConfig", "HTTPServer", "a_b", "foxes", "Fox", "happily", "E12", "x", "y2", "the")


@given(st.lists(st.sampled_from(MIXED)), st.data())
def test_a_quick_look_finds_the_same_words(words: list[str], data: st.DataObject) -> None:
    text = " ".join(words)
    asked = data.draw(st.lists(st.sampled_from(terms(text) or ["fox"]), max_size=4))

    quick, _ = Wanted(asked).spots(text)
    slow, _ = Wanted(asked).spots(f"{text} \u00e9")  # where not all is ASCII, every word is looked at

    assert {term: len(at) for term, at in quick.items()} == {term: len(at) for term, at in slow.items()}
    for pair in itertools.permutations(asked, 2):
        assert len(occurrences(pair, quick)) == len(occurrences(pair, slow))


def occurrences(pair: tuple[str, ...], spots: dict[str, list[int]]) -> list[int]:
    return [at for at in spots.get(pair[1], []) if at - 1 in spots.get(pair[0], [])]


@given(st.text(max_size=300))
def test_any_text_is_a_question(text: str) -> None:
    asked = question(text)

    assert all(unit.terms and weight > 0 for unit, weight in asked.weights.items())
    assert {*asked.required} <= {*asked.units}
    assert (
        bool(asked.units) == bool(terms(text.replace('"', " ")) or asked.required) or "'s" in text or "\u2019s" in text
    )


def test_common_words_are_not_asked_for_unless_there_are_no_others() -> None:
    assert question("what is the name of the dog").units == (Unit(("name",)), Unit(("dog",)))
    assert question("who are you").units == (Unit(("who",)), Unit(("ar",)), Unit(("you",)))
    assert {"the", "wa", "thei"} <= STOPWORDS


def test_of_a_very_long_text_the_beginning_and_the_end_are_kept() -> None:
    text = "first " + "word " * 100_000 + "last"

    assert "first" in clipped(text)
    assert clipped(text).endswith("last")
    assert len(clipped(text)) < 210_000


@given(st.text(max_size=400), st.text(max_size=40))
def test_a_snippet_is_one_line_of_the_text_with_marks(text: str, query: str) -> None:
    asked = question(query)

    found = snippet(text, ranking.wanted(asked), {}, ("\x02", "\x03"))

    assert "\n" not in found
    assert (
        found.count("\x02") - text.count("\x02") == found.count("\x03") - text.count("\x03") or "\x02" in text + query
    )
    assert len(found) <= 700


def test_the_stretch_around_a_document_and_its_neighbours_count() -> None:
    asked = question("boat harbour")
    boat, harbour = asked.units
    lists = ranking.Lists(1_000, 5.0, {boat: [64, 640], harbour: [65]}, {boat: 2, harbour: 1})
    spots = {document: ({"boat": [0]}, 5) for document in (64, 640)}

    final = ranking.closer(asked, lists, spots, ranking.first(asked, lists))

    assert final[64] > final[640]
