import subprocess

from hypothesis import given
from hypothesis import strategies as st

from theseus.runs.provenance import environment, git_state, without_secrets


def git(folder, *arguments):
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True)


def test_the_commit_and_whether_it_is_what_runs(tmp_path):
    assert git_state(tmp_path) == (None, None)
    git(tmp_path, "init")
    assert git_state(tmp_path) == (None, None)  # no commit yet
    (tmp_path / "a.py").write_text("1")
    git(tmp_path, "add", "a.py")
    git(tmp_path, "commit", "-m", "one")
    commit, dirty = git_state(tmp_path)
    assert len(commit) == 40
    assert dirty is False
    (tmp_path / "untracked").write_text("2")
    assert git_state(tmp_path) == (commit, False)
    (tmp_path / "a.py").write_text("2")
    assert git_state(tmp_path) == (commit, True)


def test_without_git_there_is_no_commit(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_state(tmp_path) == (None, None)


def test_versions_are_read_without_importing(tmp_path):
    facts = environment(dict)
    assert facts["packages"]["jax"]
    assert facts["class"] == "builtins:dict"


def test_a_secret_is_written_as_it_was_named():
    environ = {"HF_TOKEN": "hf_abc", "HOME": "/home/me", "PIN_SECRET": "1"}
    raw = {
        "a": "${oc.env:HF_TOKEN}",
        "b": ["x ${oc.env:HF_TOKEN} y", "${a}"],
        "home": "${oc.env:HOME}",
        "pin": "${oc.env:PIN_SECRET,none}",
        "steps": 1001,
    }
    resolved = {
        "a": "hf_abc",
        "b": ["x hf_abc y", "hf_abc"],
        "home": "/home/me",
        "pin": "1",
        "steps": 1001,
    }
    assert without_secrets(raw, resolved, environ) == {
        "a": "${oc.env:HF_TOKEN}",
        "b": ["x ${oc.env:HF_TOKEN} y", "${oc.env:HF_TOKEN}"],
        "home": "/home/me",
        "pin": "${oc.env:PIN_SECRET}",
        "steps": 1001,
    }


@given(st.text(min_size=4).filter(lambda text: "HF_TOKEN" not in text and text not in "oc.env:${}"))
def test_no_secret_is_left_anywhere(secret):
    resolved = {"a": [secret, f"Bearer {secret}"], "b": {"c": f"{secret}{secret}"}}
    kept = without_secrets({"a": "${oc.env:HF_TOKEN}"}, resolved, {"HF_TOKEN": secret})
    assert secret not in [*kept["a"], kept["b"]["c"]]
    assert kept["a"][1] == "Bearer ${oc.env:HF_TOKEN}" or secret in "Bearer "
