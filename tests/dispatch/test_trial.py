"""`hosts test`: the steps, in order, and a remedy for each that fails."""

import itertools
from typing import get_args

import pytest

from theseus.dispatch.inventory import Cluster, Host
from theseus.dispatch.transport import TransportError
from theseus.dispatch.trial import Name, remedy, rows, steps, try_out, verdict
from theseus.errors import UserError

LAB = Cluster("lab", "/r", "/w")
HOSTS = {
    "plain": Host("box", "plain", LAB, ssh="box.example.org", uv_groups=("all", "cuda13")),
    "slurm": Host("box", "slurm", LAB, ssh="login"),
    "volcano": Host("box", "volcano", LAB),
    "local": Host("box", "local", LAB),
}


def passing(**changes):
    return {name: changes.get(name, lambda: "fine") for name in get_args(Name)}


def failing(message):
    def action():
        raise UserError(message)

    return action


def tried(host, actions):
    ticks = itertools.count()
    return list(try_out(host, actions, clock=lambda: float(next(ticks))))


@pytest.mark.parametrize("kind", HOSTS)
def test_the_whole_way_passes(kind):
    outcomes = tried(HOSTS[kind], passing())
    assert [outcome.result for outcome in outcomes] == ["passed"] * 10
    assert verdict(HOSTS[kind], outcomes) == "box is ready: a run can go there"


def test_after_a_failure_the_rest_is_skipped_and_what_began_is_cleaned_up():
    cleaned = []
    actions = passing(
        prepare=failing("uv is not installed"), clean=lambda: cleaned.append(1) or "clean"
    )
    outcomes = tried(HOSTS["plain"], actions)
    assert [(outcome.step.name, outcome.result) for outcome in outcomes[3:]] == [
        ("send", "passed"),
        ("prepare", "failed"),
        ("launch", "skipped"),
        ("run", "skipped"),
        ("log", "skipped"),
        ("fetch", "skipped"),
        ("clean", "passed"),
    ]
    assert cleaned == [1]
    assert (
        verdict(HOSTS["plain"], outcomes)
        == "box is not ready: it failed at 'the environment is made'"
    )


def test_the_rows_say_what_failed_and_how_to_mend_it():
    outcomes = tried(HOSTS["plain"], {"reach": lambda: "ada on box", "send": failing("no room")})
    assert rows(outcomes) == [
        ("✓", "the host answers", "ada on box (1.0 s)"),
        ("✗", "the project arrives", "no room (1.0 s)"),
        ("", "", f"→ {outcomes[1].remedy}"),
    ]
    assert "room in the cluster's `work` folder ('lab')" in outcomes[1].remedy


@pytest.mark.parametrize(
    "kind", ["unreachable", "host_key", "authentication", "timeout", "lost", "protocol"]
)
def test_a_connection_that_fails_has_its_own_remedy(kind):
    found = remedy("send", HOSTS["plain"], TransportError("box", kind, "went wrong"))
    assert found != remedy("send", HOSTS["plain"])
    assert "{" not in found


@pytest.mark.parametrize("kind", HOSTS)
@pytest.mark.parametrize("name", get_args(Name))
def test_every_step_has_a_title_and_a_remedy(kind, name):
    assert name in [step.name for step in steps(HOSTS[kind])]
    assert len(remedy(name, HOSTS[kind])) > 20
    assert "{" not in remedy(name, HOSTS[kind])


def test_a_prepared_python_is_tried_itself():
    host = Host("box", "plain", LAB, ssh="box", python="/opt/env/bin/python")
    assert "/opt/env/bin/python can run it" in [step.title for step in steps(host)]
    assert "/opt/env/bin/python -c" in remedy("prepare", host)


def test_what_is_no_users_mistake_is_not_hidden():
    def action():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        tried(HOSTS["plain"], {"reach": action})
