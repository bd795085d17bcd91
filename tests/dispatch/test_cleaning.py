"""Deleting what earlier runs have left on a host, and nothing that a run needs."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.dispatch.sending import Sending
from theseus.cli.call import execute
from theseus.dispatch import bundle, cleaning
from theseus.dispatch.inventory import Host, load_inventory
from theseus.dispatch.providers.programs import Report, Section
from theseus.dispatch.reaching import reach

pytestmark = pytest.mark.slow


@pytest.fixture
def sending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sending:
    # The Python there has theseus already: what is sent is the project alone.
    monkeypatch.setattr(bundle, "own_files", list)
    return Sending(tmp_path, monkeypatch)


def host_of(sending: Sending) -> Host:
    return load_inventory(sending.inventory).host("me")


def survey(sending: Sending) -> cleaning.Survey:
    host = host_of(sending)
    return cleaning.survey(host, reach(host))


def clean(sending: Sending, found: cleaning.Survey) -> list[str]:
    host = host_of(sending)
    return [item.name for item in cleaning.clean(host, reach(host), found)]


def bundles(sending: Sending) -> list[str]:
    return sorted(path.name for path in (sending.work / "theseus/bundles").iterdir())


def test_what_no_run_needs_is_shown_with_its_size_and_deleted_when_that_is_wanted(
    sending: Sending, capsys: pytest.CaptureFixture[str]
) -> None:
    (sending.project / "large.bin").write_bytes(os.urandom(300_000))
    done = sending.submit(sending.spec("done"))
    assert done.wait(180) == "finished"
    old = bundles(sending)
    (sending.project / "more.py").write_text("")
    running = sending.submit(sending.spec("running", steps=400, pause=0.2))
    (new,) = set(bundles(sending)) - set(old)
    words = ["hosts", "clean", "me", "-d", str(sending.inventory)]

    assert execute([*words, "--dry-run"]) == 0
    told = capsys.readouterr()
    assert "1 (" in told.out
    assert "could be deleted on me; 1 that runs need stay" in told.out
    assert old[0][:20] in told.err
    assert " kB  last used " in told.err
    assert new[:20] not in told.err
    assert execute(words) == 2  # nobody can be asked here
    capsys.readouterr()
    assert bundles(sending) == sorted([*old, new])

    assert execute([*words, "--yes", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["deleted"] == [f"bundles/{old[0]}"]
    assert record["needed"][0]["by"] == [running.id]
    assert record["unused"][0]["size"] > 300_000
    assert bundles(sending) == [new]
    assert not list((sending.work / "theseus").glob(".gone-*"))
    # The runs themselves are whole, and the one at work goes on.
    assert (sending.folder(done) / "results/sum.txt").read_text() == "3"
    assert running.cancel() == "cancelled"
    assert execute([*words, "--yes"]) == 0
    assert "deleted 1" in capsys.readouterr().out
    assert bundles(sending) == []


def test_what_a_submission_has_found_stays_until_its_run_has_ended(sending: Sending) -> None:
    """The survey was made before; the submission came in between."""
    first = sending.submit(sending.spec("first"))
    assert first.wait(180) == "finished"
    found = survey(sending)
    assert len(found.unused) == 1
    second = sending.submit(sending.spec("second", steps=400, pause=0.2))
    assert clean(sending, found) == []
    assert len(bundles(sending)) == 1
    assert survey(sending).items[0].needed_by == (second.id,)
    assert second.cancel() == "cancelled"
    # The next attempt of a run whose first has ended, too.
    found = survey(sending)
    again = sending.submit(sending.spec("second", steps=400, pause=0.2))
    assert again.id == second.id
    assert clean(sending, found) == []
    assert again.cancel() == "cancelled"


def test_an_environment_that_is_being_prepared_stays(sending: Sending) -> None:
    base = sending.work / "theseus"
    place = base / "environments" / "abc-x86_64"
    place.mkdir(parents=True)
    base.chmod(0o700)
    with subprocess.Popen(
        ["flock", f"{place}.lock", "sh", "-c", "echo locked; cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout
        assert holder.stdin
        holder.stdout.readline()
        assert clean(sending, survey(sending)) == []
        assert place.is_dir()
        holder.stdin.close()
    assert clean(sending, survey(sending)) == ["environments/abc-x86_64"]
    assert list((base / "environments").iterdir()) == []


def test_cleaning_and_submitting_at_once_never_takes_a_runs_code(sending: Sending) -> None:
    first = sending.submit(sending.spec("first"))
    assert first.wait(180) == "finished"
    stop = threading.Event()
    failures: list[BaseException] = []

    def keep_cleaning() -> None:
        while not stop.is_set():
            try:
                clean(sending, survey(sending))
            except BaseException as error:  # noqa: BLE001 - shown by the test
                failures.append(error)
                return

    thread = threading.Thread(target=keep_cleaning)
    thread.start()
    runs = [sending.submit(sending.spec(f"run {i}", pause=0.05)) for i in range(2)]
    assert [run.wait(180) for run in runs] == ["finished"] * 2
    stop.set()
    thread.join()
    assert failures == []


def test_a_place_where_nothing_lies_is_told(
    sending: Sending, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(["hosts", "clean", "me", "-d", str(sending.inventory)]) == 0
    assert capsys.readouterr().out == "nothing on me can be deleted\n"


def note(name: str, when: float, needs: str, folder: str = "", state: str = "") -> Section:
    status = json.dumps({"state": state, "reason": '"state": "finished"'}) if state else ""
    lines = [f"name={name}", f"when={when:.0f}", *([f"folder={folder}"] if folder else [])]
    return Section("note", "\n".join([*lines, f"bundle={needs}", "environment=", status]), 0)


def item(name: str, when: float = 0) -> Section:
    return Section("item", f"{name} 10 {when:.0f}", 0)


@pytest.mark.parametrize(
    ("state", "lost", "needed"),
    [
        ("queued", (), True),
        ("preparing", (), True),
        ("running", (), True),
        ("finished", (), False),
        ("failed", (), False),
        ("cancelled", (), False),
        ("", (), False),  # its folder is gone
        ("running", ("0abc12",), False),
    ],
)
def test_a_run_needs_its_code_until_it_has_ended(
    state: str, lost: tuple[str, ...], needed: bool
) -> None:
    now = time.time()
    sections = (
        item("bundles/aa"), note("count-0abc12.submit-1", now, "aa", "/r/count-0abc12", state),
        Section("now", f"{now:.0f}", 0),
    )  # fmt: skip
    found = cleaning.read_survey(Report(sections, ""), lost)
    assert found.items[0].needed_by == (("0abc12",) if needed else ())
    assert found.items[0].size == 10 * 1024
    assert found.ended == (() if needed else ("count-0abc12.submit-1",))


def test_submissions_and_cut_uploads_have_their_time(sending: Sending) -> None:
    now = 1_000_000.0
    sections = (
        item("bundles/aa"), item("bundles/bb"),
        item("incoming/x.partial-1", now - 3600), item("incoming/y.partial-2", now - 90_000),
        note("submit-1", now - 3600, "aa"), note("submit-2", now - 30_000, "bb"),
        Section("now", f"{now:.0f}", 0),
    )  # fmt: skip
    found = cleaning.read_survey(Report(sections, ""), ())
    assert {one.name for one in found.unused} == {"bundles/bb", "incoming/y.partial-2"}
    assert found.ended == ("submit-2",)
