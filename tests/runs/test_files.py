import json
import math
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theseus.runs.files import (
    Lines,
    RecordError,
    decode,
    encode,
    read_json,
    read_lines,
    write_json,
)

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
records = st.dictionaries(st.text().filter(lambda name: name != "v"), values)


def same(one, other):
    """Equal, with the infinities as they are written."""
    if isinstance(one, float) and math.isinf(one):
        return other == ("Infinity" if one > 0 else "-Infinity")
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


@settings(max_examples=50)
@given(records)
def test_a_record_comes_back_as_it_was(record):
    text = encode(record)
    assert "\n" not in text
    json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert same(record, decode(text.encode("utf-8", "backslashreplace"), "here"))


def test_a_value_that_is_not_finite_is_written_so_that_every_reader_takes_it():
    written = json.loads(encode({"loss": math.nan, "in": [math.inf, {"x": -math.inf}]}))
    assert written == {"v": 1, "loss": "NaN", "in": ["Infinity", {"x": "-Infinity"}]}
    assert math.isnan(float(written["loss"]))


def test_a_newer_form_is_refused_and_an_unknown_key_is_not(tmp_path):
    path = tmp_path / "status.json"
    path.write_text('{"v": 2, "state": "running"}')
    with pytest.raises(RecordError, match=r"status.json.*form 2.*upgrade"):
        read_json(path)
    path.write_text('{"state": "running"}')
    with pytest.raises(RecordError, match="form None"):
        read_json(path)
    path.write_text('{"v": 1, "state": "running", "mood": "good"}')
    assert read_json(path) == {"state": "running", "mood": "good"}


def test_a_file_that_is_no_record_says_which(tmp_path):
    for text in ("", "[]", '{"v": 1', "\0\0"):
        (tmp_path / "run.json").write_text(text)
        with pytest.raises(RecordError, match=r"run\.json"):
            read_json(tmp_path / "run.json")
    with pytest.raises(RecordError, match="not the folder of a run"):
        read_json(tmp_path / "elsewhere" / "run.json")


def test_writing_replaces_the_whole_file_and_leaves_nothing_beside_it(tmp_path):
    path = tmp_path / "status.json"
    write_json(path, {"state": "running", "long": "x" * 10_000})
    write_json(path, {"state": "finished"})
    assert read_json(path) == {"state": "finished"}
    assert [path.name for path in tmp_path.iterdir()] == ["status.json"]


def test_a_write_that_fails_leaves_the_old_record_and_names_the_folder(tmp_path, monkeypatch):
    path = tmp_path / "status.json"
    write_json(path, {"state": "running"})

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RecordError, match=r"No space left on device") as caught:
        write_json(path, {"state": "finished"})
    assert str(tmp_path) in str(caught.value)
    assert read_json(path) == {"state": "running"}
    assert [path.name for path in tmp_path.iterdir()] == ["status.json"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a full device")
def test_a_full_disk_is_told_where_it_is_noticed(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.symlink_to("/dev/full")
    lines = Lines(path)
    with pytest.raises(RecordError, match="No space left on device"):
        lines.append({"step": 1})
    lines.close()


@settings(max_examples=30)
@given(
    st.lists(st.fixed_dictionaries({"text": st.text()}), max_size=3),
    st.binary(min_size=1, max_size=30),
)
def test_a_torn_last_line_is_skipped_by_readers_and_cut_off_by_the_next_writer(
    tmp_path_factory, written, torn
):
    torn = b'{"v": 1, "torn' + torn.replace(b"\n", b"")
    path = tmp_path_factory.getbasetemp() / "torn.jsonl"
    path.unlink(missing_ok=True)
    lines = Lines(path)
    for record in written:
        lines.append(record)
    lines.close()
    whole = read_lines(path)
    with path.open("ab") as file:
        file.write(torn)
    assert read_lines(path) == whole
    lines = Lines(path)
    lines.append({"after": 1})
    lines.close()
    assert read_lines(path) == [*whole, {"after": 1}]


def test_a_last_line_that_only_lacks_its_end_is_kept(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"v": 1, "step": 1}\n{"v": 1, "step": 2}')
    lines = Lines(path)
    lines.append({"step": 3})
    lines.close()
    assert [record["step"] for record in read_lines(path)] == [1, 2, 3]


def test_a_torn_line_longer_than_what_is_read_at_once_is_cut_off(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"v": 1, "step": 1}\n{"v": 1, "x": "' + "y" * 200_000)
    Lines(path).close()
    assert path.read_text() == '{"v": 1, "step": 1}\n'


def test_a_line_broken_in_the_middle_is_named(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"v": 1, "step": 1}\nrubbish\n{"v": 1, "step": 3}\n')
    with pytest.raises(RecordError, match="line 2 of"):
        read_lines(path)


def test_no_file_means_no_lines(tmp_path):
    assert read_lines(tmp_path / "metrics.jsonl") == []
