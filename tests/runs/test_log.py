"""What is printed and logged while a job works is in the log, and still where it belongs."""

import contextlib
import io
import logging
import sys
import threading

from tests.runs.helpers import small_job, start_python


def test_prints_of_both_streams_are_copied_in_order(root, capsys):
    def body(recorder):
        print("to the output")
        print("to the errors", file=sys.stderr)
        sys.stdout.writelines(["one ", "line\n"])

    run = small_job(root, body=body)()
    shown = capsys.readouterr()
    assert shown.out == "to the output\none line\n"
    assert shown.err == "to the errors\n"
    assert "to the output\nto the errors\none line\n" in run.log_path.read_text()


def test_only_what_is_printed_during_the_job_is_copied(root, capsys):
    before = sys.stdout, sys.stderr
    print("before")
    run = small_job(root, body=lambda recorder: print("during"))()
    print("after")
    assert (sys.stdout, sys.stderr) == before
    log = run.log_path.read_text()
    assert "during" in log
    assert "before" not in log
    assert "after" not in log


def test_the_streams_are_put_back_after_a_failure(root):
    before = sys.stdout, sys.stderr, list(logging.getLogger().handlers)

    def body(recorder):
        raise ValueError

    with contextlib.suppress(ValueError):
        small_job(root, body=body)()
    assert (sys.stdout, sys.stderr, list(logging.getLogger().handlers)) == before


def test_the_stream_stands_for_the_one_behind_it(root):
    seen = {}

    def body(recorder):
        seen["encoding"] = sys.stdout.encoding
        seen["terminal"] = sys.stdout.isatty()
        sys.stdout.flush()

    behind = sys.stdout
    small_job(root, body=body)()
    assert seen == {"encoding": behind.encoding, "terminal": behind.isatty()}


def test_a_stream_that_somebody_puts_in_front_stays_and_nothing_is_copied_twice(root):
    mine = io.StringIO()

    def body(recorder):
        sys.stdout = Front(sys.stdout, mine)

    class Front:
        def __init__(self, behind, copy):
            self.behind, self.copy = behind, copy

        def write(self, text):
            self.copy.write(text)
            return self.behind.write(text)

        def __getattr__(self, name):
            return getattr(self.behind, name)

    behind = sys.stdout
    try:
        small_job(root, body=body)()
        assert isinstance(sys.stdout, Front)
        second = small_job(root, "second", body=lambda recorder: print("only once"))()
        assert second.log_path.read_text().count("only once") == 1
    finally:
        sys.stdout = behind


def test_each_thread_prints_into_the_log_of_its_own_run(root):
    both = threading.Barrier(2)
    runs = {}

    def start(name):
        def body(recorder):
            both.wait(10)
            print(f"printed by {name}")
            both.wait(10)

        runs[name] = small_job(root, name, body=body)()

    threads = [threading.Thread(target=start, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "printed by one" in runs["one"].log_path.read_text()
    assert "printed by two" not in runs["one"].log_path.read_text()
    assert "printed by two" in runs["two"].log_path.read_text()


def test_a_thread_that_a_job_starts_prints_into_the_log(root):
    def body(recorder):
        thread = threading.Thread(target=print, args=("from a worker",))
        thread.start()
        thread.join()

    assert "from a worker" in small_job(root, body=body)().log_path.read_text()


def test_log_records_are_copied(root):
    def body(recorder):
        logging.getLogger("some.library").warning("watch %s", "out")

    log = small_job(root, body=body)().log_path.read_text()
    assert "WARNING some.library: watch out" in log


LOGGING = """
import logging, sys, warnings
from pathlib import Path
from tests.runs.helpers import small_job

def body(recorder):
    logging.getLogger("some.library").warning("nobody handles this")
    logging.getLogger("some.library").info("nor this")
    warnings.warn("old way")

run = small_job(Path(sys.argv[1]), body=body)()
print(run.log_path.read_text())
"""


def test_a_record_that_nobody_handles_is_printed_as_ever_and_logged_once(root):
    process = start_python(LOGGING, root)
    output, errors = process.communicate(timeout=60)
    assert errors.count("nobody handles this") == 1
    assert output.count("nobody handles this") == 1
    assert "nor this" not in output + errors
    assert errors.count("UserWarning: old way") == 1
    assert output.count("UserWarning: old way") == 1


def test_text_that_has_no_utf8_form_does_not_end_the_job(root, monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.StringIO())  # takes everything; a terminal may not
    run = small_job(root, body=lambda recorder: print("bad \udcff name"))()
    assert "bad \\udcff name" in run.log_path.read_text()


def test_a_log_that_cannot_be_written_does_not_end_the_job(root, monkeypatch, capsys):
    import os

    def body(recorder):
        real = os.write

        def only_the_log_is_full(file, data):
            if b"printed" in data:
                raise OSError(28, "No space left on device")
            return real(file, data)

        monkeypatch.setattr(os, "write", only_the_log_is_full)
        print("printed one")
        print("printed two")
        monkeypatch.undo()

    run = small_job(root, body=body)()
    assert run.state == "finished"
    assert capsys.readouterr().out == "printed one\nprinted two\n"
    (warning,) = [event for event in run.events() if event["kind"] == "warning"]
    assert "the log ends here" in warning["message"]
    assert "No space left" in warning["message"]
