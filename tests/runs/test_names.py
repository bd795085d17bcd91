import re

from hypothesis import given
from hypothesis import strategies as st

from theseus.runs.names import MAX_PART, path_part, run_digest, run_id

IDENTITY = {"job": "a/b", "code": "", "name": "n", "project": "p", "group": "g"}


def test_free_text_stays_readable():
    assert path_part("dont matter what's here now") == "dont-matter-whats-here-now"
    assert path_part("lr=3e-4 / run #2") == "lr=3e-4-run-2"
    assert path_part("Ünïcödé") == "Unicode"


def test_nothing_left_gives_the_word_for_nothing():
    for text in ("", "   ", "..", "./..", "日本語", "---", "\0\n"):
        assert path_part(text) == "unnamed"
    assert path_part("", empty="general") == "general"


def test_a_name_cannot_leave_its_folder_or_hide():
    assert path_part("../../etc/passwd") == "etc-passwd"
    assert path_part(".hidden") == "hidden"
    assert path_part("-rf /") == "rf"
    assert path_part("a..b") == "a.b"


@given(st.text())
def test_any_text_becomes_one_safe_part(text):
    part = path_part(text)
    assert re.fullmatch(r"[A-Za-z0-9_+=][A-Za-z0-9._+=-]*", part)
    assert ".." not in part
    assert len(part) <= MAX_PART
    assert not part.endswith((".", "-"))


@given(st.text())
def test_a_safe_part_stays_as_it_is(text):
    assert path_part(path_part(text)) == path_part(text)


@given(st.text(), st.text())
def test_different_names_give_different_folders(one, other):
    def folder(name):
        return f"{path_part(name)}-{run_id(run_digest({**IDENTITY, 'name': name}, {}))}"

    assert (folder(one) == folder(other)) == (one == other)


@given(st.text(), st.text())
def test_a_text_does_not_move_from_one_part_of_the_identity_to_another(name, project):
    one = run_digest({**IDENTITY, "name": name, "project": project}, {})
    other = run_digest({**IDENTITY, "name": project, "project": name}, {})
    assert (one == other) == (name == project)


def test_the_digest_is_of_the_facts_and_not_of_their_order():
    one = run_digest(IDENTITY, {"a": {"x": 1, "y": 2}})
    assert one == run_digest(dict(reversed(IDENTITY.items())), {"a": {"y": 2, "x": 1}})
    assert one != run_digest(IDENTITY, {"a": {"x": 1, "y": 3}})
    assert one != run_digest({**IDENTITY, "code": "1"}, {"a": {"x": 1, "y": 2}})
    assert one != run_digest(IDENTITY, {"a": {"x": 1, "y": 2}}, fresh=1)


def test_the_id_is_short_hex():
    assert re.fullmatch(r"[0-9a-f]{8}", run_id(run_digest(IDENTITY, {})))
