"""Words with their places: the same words as Python's own reader of shell lines gives."""

import shlex

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from theseus._words import Word, quoted, split

LINES = st.text(st.sampled_from(list("ab ='\"\\\t$é{}")), max_size=20)


@given(LINES)
@example('a "b\\"c" d\\ e')
@example("'")
@example("\\")
@example('"\\')
def test_words_are_those_of_shlex(line):
    words = split(line)
    try:
        expected = shlex.split(line)
    except ValueError:
        assert words[-1].open_quote
        assert words[-1].end == len(line)
        return
    assert [word.text for word in words] == expected
    assert not any(word.open_quote for word in words)
    for word in words:
        assert shlex.split(line[word.start : word.end]) == [word.text]


def test_places_and_open_quotes():
    assert split(" a  'b c") == [Word("a", 1, 2), Word("b c", 4, 8, "'")]
    assert split("a\\") == [Word("a", 0, 2, "\\")]


@given(st.text(max_size=8), st.sampled_from(["", "'", '"']))
def test_a_quoted_word_is_read_as_it_was(text, quote):
    assert shlex.split(quoted(text, quote)) == [text]


@pytest.mark.parametrize(("quote", "expected"), [("", "'a b'"), ("'", "'a b'"), ('"', '"a b"')])
def test_the_opened_quote_is_kept(quote, expected):
    assert quoted("a b", quote) == expected
