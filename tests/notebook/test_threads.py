"""Threads that know which cell they work for."""

import contextvars
import threading

import pytest

from theseus.notebook import threads

CELL: contextvars.ContextVar[str] = contextvars.ContextVar("cell")


def test_a_thread_works_for_the_cell_that_started_it():
    seen = []
    token = CELL.set("A")
    started = threads.start(lambda *given: seen.append((CELL.get(), given)), 1, 2, name="work")
    CELL.reset(token)
    started.join()
    assert seen == [("A", (1, 2))]
    assert started.daemon
    assert started.name == "work"


def test_what_is_shown_from_a_thread_of_the_users_comes_under_the_newest_cell():
    seen = []
    token = CELL.set("newest")
    threads.remember_cell()
    CELL.reset(token)

    def show(text, *, mark):
        seen.append((CELL.get(), text, mark))

    plain = threading.Thread(target=threads.under_a_cell, args=(show, "text"), kwargs={"mark": "!"})
    plain.start()
    plain.join()
    assert seen == [("newest", "text", "!")]


def test_other_errors_pass_as_they_are():
    calls = []

    def show():
        calls.append(1)
        raise KeyError("a mistake of its own")

    threads.remember_cell()
    with pytest.raises(KeyError):
        threads.under_a_cell(show)
    assert calls == [1]
