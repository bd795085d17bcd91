"""Deciding between hosts: by priority among those that fit now, with a reason for every one."""

import socket
import threading
import time
from dataclasses import dataclass, field

import pytest

from theseus.dispatch import solve as solving
from theseus.dispatch import transport
from theseus.dispatch.inventory import Cluster, Host, Inventory
from theseus.dispatch.providers.base import Placement, Verdict
from theseus.dispatch.solve import solve
from theseus.dispatch.transport import TransportError
from theseus.hardware.resources import Resources

ANY = Resources()


@dataclass
class Fake:
    """Hosts that answer as they are told; a number is the seconds that it takes."""

    answers: dict
    seconds: dict = field(default_factory=dict)
    reached: set = field(default_factory=set)
    asked: list = field(default_factory=list)
    release: threading.Event = field(default_factory=threading.Event)

    def connect(self, host):
        return type("Line", (), {"connected": host.name in self.reached})()

    def probe(self, host, transport, wanted, inventory):
        self.asked.append(host.name)
        answer = self.answers[host.name]
        seconds = self.seconds.get(host.name, 0)
        if seconds is None:
            self.release.wait(60)  # dead: the test is over before it answers
        else:
            time.sleep(seconds)
        if isinstance(answer, Exception):
            raise answer
        placement = Placement(host.name, "h100", 1, 1) if answer in {"now", "queue"} else None
        return Verdict(host.name, answer, f"says {answer}", placement)


@pytest.fixture
def ask(monkeypatch):
    fakes = []

    def asking(answers, wanted=ANY, hosts=None, clusters=(), timeout=20.0, **more):
        fake = Fake(answers, **more)
        fakes.append(fake)
        monkeypatch.setattr(solving, "PROVIDERS", {"plain": fake})
        names = dict(clusters)
        known = {
            name: Host(name, "plain", Cluster(names.get(name, "lab"), "/r", "/w"), ssh=name)
            for name in answers
        }
        inventory = Inventory(known, {}, tuple(answers))
        return fake, solve(inventory, wanted, hosts=hosts, timeout=timeout, connect=fake.connect)

    yield asking
    for fake in fakes:
        fake.release.set()


def test_the_first_in_priority_that_fits_now_wins(ask):
    _, solution = ask({"full": "queue", "slow": "now", "fast": "now"}, seconds={"slow": 0.2})
    assert solution.chosen.host == "slow"
    assert [verdict.host for verdict in solution.verdicts] == ["full", "slow", "fast"]


def test_without_one_that_fits_now_the_first_that_can_queue_wins(ask):
    _, solution = ask({"a": "no", "b": "queue", "c": "queue"})
    assert solution.chosen.host == "b"


def test_nobody_is_chosen_where_nothing_fits(ask):
    _, solution = ask({"a": "no", "b": "unknown"})
    assert solution.chosen is None


def test_hosts_are_asked_at_once(ask):
    together = threading.Barrier(5)

    class Together(Fake):
        def probe(self, host, *rest):
            together.wait(20)
            return super().probe(host, *rest)

    fake = Together(dict.fromkeys("abcde", "now"))
    hosts = {name: Host(name, "plain", Cluster("lab", "/r", "/w"), ssh=name) for name in "abcde"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solving, "PROVIDERS", {"plain": fake})
        solution = solve(Inventory(hosts, {}, tuple("abcde")), ANY, connect=fake.connect)
    assert [verdict.fit for verdict in solution.verdicts] == ["now"] * 5


def test_one_bad_host_is_told_and_does_no_harm(ask):
    lost = TransportError("a", "unreachable", "no route to host")
    _, solution = ask({"a": lost, "b": KeyError("gone"), "c": "now"})
    assert solution.chosen.host == "c"
    assert [verdict.reason for verdict in solution.verdicts] == [
        "no route to host", "KeyError: 'gone'", "says now"
    ]  # fmt: skip
    assert [verdict.fit for verdict in solution.verdicts] == ["unknown", "unknown", "now"]


def test_dead_hosts_do_not_hold_up_the_others(ask):
    live = {f"live-{i}": "now" for i in range(10)}
    answers = {"dead-1": "now", **live, "dead-2": "now"}
    seconds = dict.fromkeys(live, 0.1) | {"dead-1": None, "dead-2": None}
    fake, solution = ask(answers, seconds=seconds, reached=set(live), timeout=60)
    assert not fake.release.is_set()
    assert solution.chosen.host == "live-0"
    dead = [verdict for verdict in solution.verdicts if verdict.fit == "unknown"]
    assert [verdict.host for verdict in dead] == ["dead-1", "dead-2"]
    assert dead[0].reason.startswith("did not answer within ")


def test_a_host_that_was_reached_is_waited_for_however_quick_the_others_are(ask):
    answers = {"slow": "now", "a": "now", "b": "now", "c": "now"}
    _, solution = ask(answers, seconds={"slow": 1.5}, reached=set(answers))
    assert solution.chosen.host == "slow"


def test_a_host_that_is_far_away_is_not_passed_over_for_a_single_answer(ask):
    _, solution = ask({"far": "now", "near": "now"}, seconds={"far": 1.5})
    assert solution.chosen.host == "far"


def test_while_nothing_fits_there_is_more_time(ask):
    answers = {"far": "now", "a": "no", "b": "queue", "c": "no", "d": "no"}
    _, solution = ask(answers, seconds={"far": 1.5})
    assert solution.chosen.host == "far"


def test_a_host_that_was_reached_and_is_silent_has_its_own_limit(ask):
    answers = {"stuck": "now", "a": "now"}
    _, solution = ask(answers, seconds={"stuck": None}, reached={"stuck", "a"}, timeout=0.5)
    assert [verdict.fit for verdict in solution.verdicts] == ["unknown", "now"]


@pytest.mark.parametrize("fit", ["now", "queue"])
def test_a_dead_host_is_given_up_within_three_seconds_of_the_slowest_living(ask, fit):
    answers = {"dead": "now", "slow": fit, "quick": "no"}
    began = time.monotonic()
    fake, solution = ask(
        answers, seconds={"dead": None, "slow": 1.2}, reached={"slow", "quick"}, timeout=60
    )
    assert time.monotonic() - began < 1.2 + 3
    assert not fake.release.is_set()
    assert solution.chosen.host == "slow"


def test_a_real_host_that_says_nothing_is_given_up_within_three_seconds(ssh):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        ssh.write(f"Host silent\n  HostName 127.0.0.1\n  Port {silent.getsockname()[1]}\n")
        names = {"silent": "silent", "box": "box", "me": None}
        hosts = {
            name: Host(name, "plain", Cluster("lab", "/r", "/w"), ssh=ssh_name)
            for name, ssh_name in names.items()
        }
        solution = solve(Inventory(hosts, {}, tuple(hosts)), ANY, connect=transport.connect)
        ended = time.time()
        transport.close_all()
    assert [verdict.fit for verdict in solution.verdicts] == ["unknown", "now", "now"]
    assert solution.chosen.host == "box"
    assert ended - max(verdict.probed for verdict in solution.verdicts[1:]) < 3


def test_all_dead_ends_at_the_limit(ask):
    _, solution = ask({"a": "now"}, seconds={"a": None}, timeout=0.3)
    assert (solution.chosen, solution.verdicts[0].fit) == (None, "unknown")


def test_clusters_that_are_not_wanted_are_not_asked(ask):
    clusters = {"a": "one", "b": "two", "c": "three"}
    answers = dict.fromkeys("abc", "now")
    fake, solution = ask(answers, Resources(clusters=("two",)), clusters=clusters)
    assert (fake.asked, solution.chosen.host) == (["b"], "b")
    assert solution.verdicts[0].reason == "is in cluster 'one', not in two"
    fake, solution = ask(answers, Resources(avoid=("one",)), clusters=clusters)
    assert (sorted(fake.asked), solution.chosen.host) == (["b", "c"], "b")
    assert solution.verdicts[0].reason == "is in cluster 'one', which is to be avoided"


def test_only_the_hosts_that_are_named_are_asked(ask):
    fake, solution = ask(dict.fromkeys("abc", "now"), hosts=["c", "b"])
    assert (sorted(fake.asked), solution.chosen.host) == (["b", "c"], "b")
    assert len(solution.verdicts) == 2


def test_it_prints_as_a_table(ask):
    _, solution = ask({"box": "no", "big-one": "now", "odd\nname": "unknown"})
    assert str(solution).splitlines() == [
        "   box        no         says no",
        "→  big-one    fits now   says now",
        "   odd\\nname  no answer  says unknown",
    ]


def test_a_start_that_is_known_is_told():
    verdict = Verdict("a", "queue", "8 × h100 busy", starts=1796090520.0)
    (row,) = solving.Solution(None, (verdict,)).table()
    assert row[3].startswith("8 × h100 busy, starts about 2026-12-01 ")
