import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from theseus.config import build, configuration
from theseus.data.datasets import (
    FineWeb,
    Hub,
    PretrainingDataset,
    Sampling,
    StdLib,
    StreamingPretrainingDataset,
    Text,
    _remote,
)
from theseus.errors import UserError


def write_parquet(path: Path, texts: list[str]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": range(len(texts)), "text": texts}), path)


def write_jsonl(path: Path, texts: list[str]) -> None:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"body": text}) + "\n" for text in texts)


def texts_of(cls, values=None, start=0):
    with configuration(build(*([cls.CONFIG] if cls.CONFIG else []), values=values)):
        return list(cls().starting_at(start))


def refusal_of(cls, values):
    with pytest.raises(UserError) as caught:
        texts_of(cls, values)
    return str(caught.value)


def test_importing_the_datasets_imports_no_slow_library():
    code = (
        "import sys, theseus.data.datasets\n"
        "print([m for m in ('datasets','jax','flax','numpy','pyarrow') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


# FineWeb and Hub, from local files


def test_fineweb_reads_a_folder_of_parquet_files_in_the_order_of_their_names(tmp_path):
    write_parquet(tmp_path / "b.parquet", ["three", "four"])
    write_parquet(tmp_path / "a.parquet", ["one", "two"])
    values = {"data.fineweb.path": str(tmp_path)}
    assert texts_of(FineWeb, values) == ["one", "two", "three", "four"]
    assert texts_of(FineWeb, values, start=3) == ["four"]


def test_fineweb_takes_the_snapshot_from_a_folder_that_is_laid_out_as_the_hub(tmp_path):
    write_parquet(tmp_path / "data" / "CC-MAIN-2022-21" / "0.parquet", ["mine"])
    write_parquet(tmp_path / "data" / "CC-MAIN-2023-06" / "0.parquet", ["other"])
    values = {"data.fineweb.path": str(tmp_path)}
    assert texts_of(FineWeb, values) == ["mine"]
    values["data.fineweb.snapshot"] = "CC-MAIN-2023-06"
    assert texts_of(FineWeb, values) == ["other"]


def test_a_copy_of_a_hub_dataset_is_read_as_its_card_says(tmp_path):
    write_parquet(tmp_path / "some" / "one.parquet", ["mine"])
    write_parquet(tmp_path / "some" / "two.parquet", ["other"])
    (tmp_path / "README.md").write_text(
        "---\nconfigs:\n- config_name: a\n  data_files: some/one.parquet\n"
        "- config_name: b\n  data_files: some/two.parquet\n---\n"
    )
    values = {"data.hub.path": str(tmp_path), "data.hub.name": "a"}
    assert texts_of(Hub, values) == ["mine"]
    assert texts_of(Hub, values | {"data.hub.name": "b"}) == ["other"]


def test_hub_reads_the_column_that_is_named_from_plain_and_packed_json_lines(tmp_path):
    write_jsonl(tmp_path / "a.jsonl", ["eins", "zwei ✓"])
    write_jsonl(tmp_path / "b.jsonl.gz", ["drei"])
    values = {"data.hub.path": str(tmp_path), "data.hub.column": "body"}
    assert texts_of(Hub, values) == ["eins", "zwei ✓", "drei"]


def test_an_unknown_column_is_refused_with_the_nearest_one(tmp_path):
    write_jsonl(tmp_path / "a.jsonl", ["x"])
    message = refusal_of(Hub, {"data.hub.path": str(tmp_path), "data.hub.column": "boddy"})
    assert "no column 'boddy', did you mean 'body'?" in message


def test_a_column_that_holds_no_text_is_refused(tmp_path):
    write_parquet(tmp_path / "a.parquet", ["x"])
    message = refusal_of(Hub, {"data.hub.path": str(tmp_path), "data.hub.column": "id"})
    assert "holds int, not text" in message


def test_an_unreachable_hub_is_named_with_the_way_to_use_local_files():
    message = refusal_of(FineWeb, {})
    assert "'HuggingFaceFW/fineweb' (CC-MAIN-2022-21) cannot be reached" in message
    assert "data.fineweb.path to a folder of .parquet or .jsonl files" in message


def test_a_hub_dataset_is_asked_for_as_it_is_configured(monkeypatch):
    import datasets

    asked = []

    def load_dataset(*args, **options):
        asked.append((args, options))
        return datasets.Dataset.from_dict({"story": ["once", "upon"]}).to_iterable_dataset()

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    values = {
        "data.hub.path": "owner/stories",
        "data.hub.name": "short",
        "data.hub.split": "validation",
        "data.hub.column": "story",
        "data.hub.revision": "v2",
    }
    assert texts_of(Hub, values) == ["once", "upon"]
    assert asked == [
        (("owner/stories", "short"), {"split": "validation", "revision": "v2", "streaming": True})
    ]


def test_a_local_path_that_is_missing_or_empty_is_named(tmp_path):
    assert "no file or folder" in refusal_of(FineWeb, {"data.fineweb.path": "/nowhere/at/all"})
    assert "no data files in" in refusal_of(FineWeb, {"data.fineweb.path": str(tmp_path)})


def test_hub_without_a_path_is_refused_before_a_job_starts():
    with configuration(build(Hub.CONFIG)), pytest.raises(UserError, match=r"data\.hub\.path"):
        Hub.check()


class Flaky:
    """Rows that break off with a network error after every third one, a limited number of times."""

    def __init__(self, breaks: int) -> None:
        self.breaks = breaks
        self.opened_at: list[int] = []

    def open(self, at: int = 0):
        flaky = self

        class Rows:
            def skip(self, count: int) -> Iterator[dict[str, str]]:
                flaky.opened_at[-1] = count
                return flaky.rows(count)

            def __iter__(self) -> Iterator[dict[str, str]]:
                return flaky.rows(0)

        self.opened_at.append(0)
        return Rows()

    def rows(self, start: int) -> Iterator[dict[str, str]]:
        for index in range(start, 10):
            if self.breaks and index == start + 3:
                self.breaks -= 1
                raise ConnectionResetError("peer went away")
            yield {"text": f"document {index}"}


def flaky_texts(monkeypatch, breaks: int) -> tuple[Flaky, list[float], Iterator[str]]:
    flaky, waits = Flaky(breaks), []
    monkeypatch.setattr(_remote.Remote, "open", lambda self: flaky.open())
    monkeypatch.setattr(_remote.time, "sleep", waits.append)
    remote = _remote.Remote("data.fineweb.path", "some/where", None, "train", "text")
    return flaky, waits, remote.starting_at(0)


def test_a_network_blip_loses_and_repeats_no_document(monkeypatch):
    flaky, waits, texts = flaky_texts(monkeypatch, breaks=2)
    assert list(texts) == [f"document {index}" for index in range(10)]
    assert flaky.opened_at == [0, 3, 6]
    assert waits == [1.0, 1.0]


def test_a_network_that_stays_away_is_given_up_after_bounded_waits(monkeypatch):
    flaky, waits, texts = flaky_texts(monkeypatch, breaks=1)
    read = [next(texts) for _ in range(3)]
    monkeypatch.setattr(flaky, "rows", lambda start: (_ for _ in ()).throw(ConnectionError("gone")))
    with pytest.raises(UserError, match="'some/where' cannot be reached: gone"):
        next(texts)
    assert read[-1] == "document 2"
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0]


# StdLib


def test_stdlib_is_the_same_every_time_and_holds_real_sources():
    one, two = StdLib(), StdLib()
    assert one.source() == two.source()
    assert isinstance(one, PretrainingDataset)
    assert len(one) > 300
    texts = [one[index] for index in range(len(one))]
    assert sum(map(len, texts)) > 5_000_000
    assert any("class OrderedDict" in text for text in texts)
    assert list(two.starting_at(len(two) - 2)) == texts[-2:]


def test_stdlib_leaves_out_tests_and_what_was_installed_beside_it():
    dataset = StdLib()
    assert dataset._paths == sorted(dataset._paths)
    parts = {part for path in dataset._paths for part in path.split("/")}
    assert not parts & {"test", "tests", "idlelib", "encodings", "site-packages", "dist-packages"}
    assert not any(part.startswith("_sysconfigdata") for part in parts)


# Text


def test_text_reads_paths_and_globs_sorted_and_each_file_once(tmp_path):
    for name in ("b.txt", "a.txt", "deep/c.txt", "d.md"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"this is {name}\n", encoding="utf-8")
    files = [f"{tmp_path}/**/*.txt", f"{tmp_path}/a.txt"]
    assert texts_of(Text, {"data.text.files": files}) == [
        "this is a.txt\n",
        "this is b.txt\n",
        "this is deep/c.txt\n",
    ]


def test_text_takes_a_name_with_brackets_as_it_is(tmp_path):
    (tmp_path / "a[1].txt").write_text("x")
    assert texts_of(Text, {"data.text.files": [f"{tmp_path}/a[1].txt"]}) == ["x"]


def test_text_can_be_split_into_paragraphs_or_lines(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n\n  \n\nthree\n", encoding="utf-8")
    values = {"data.text.files": [str(path)], "data.text.documents": "paragraph"}
    assert texts_of(Text, values) == ["one\ntwo", "three"]
    assert texts_of(Text, values, start=1) == ["three"]
    values["data.text.documents"] = "line"
    assert texts_of(Text, values) == ["one", "two", "three"]


def test_a_pattern_without_files_is_named_with_the_nearest_file(tmp_path):
    (tmp_path / "shakespeare.txt").write_text("x")
    message = refusal_of(Text, {"data.text.files": [f"{tmp_path}/shakespere.txt"]})
    assert f"no file matches '{tmp_path}/shakespere.txt'" in message
    assert "did you mean 'shakespeare.txt'?" in message
    assert "is a folder; write" in refusal_of(Text, {"data.text.files": [str(tmp_path)]})
    assert "names no file" in refusal_of(Text, {})


def test_a_file_that_is_not_utf8_is_named(tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes("naïve".encode("latin-1"))
    assert f"{path} is not UTF-8" in refusal_of(Text, {"data.text.files": [str(path)]})


def test_the_source_of_text_changes_with_the_content(tmp_path):
    path = tmp_path / "a.txt"
    sources = []
    for content in ("aaaa", "aaab"):
        path.write_text(content)
        with configuration(build(Text.CONFIG, values={"data.text.files": [str(path)]})):
            sources.append(Text().source())
    assert sources[0] != sources[1]


# Sampling


class Mine(StreamingPretrainingDataset):
    def __iter__(self) -> Iterator[str]:
        yield from ("a", "b", "c")


def test_a_streaming_dataset_needs_no_more_than_an_iterator():
    assert list(Mine().starting_at(1)) == ["b", "c"]


def test_a_sampling_takes_a_class_or_a_key():
    assert Sampling(Mine, 0.5, "pmd") == Sampling(Mine, 0.5, "pmd")
    assert Sampling("stdlib", 1).dataset == "stdlib"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((Mine, 0.0, "pmd"), "above 0, got 0.0"),
        ((Mine, float("nan"), "pmd"), "above 0"),
        ((Mine, "half", "pmd"), "above 0, got 'half'"),
        ((Mine, 0.5, "paded"), "got 'paded', did you mean 'padded'"),
        ((int, 0.5, "pmd"), "dataset class or the key of one"),
        ((Mine(), 0.5, "pmd"), "dataset class or the key of one"),
    ],
)
def test_a_wrong_sampling_is_refused(args, message):
    with pytest.raises(UserError, match=message):
        Sampling(*args)
