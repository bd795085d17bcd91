"""What is sent: the project as it stands, the same bytes for the same content, never too much."""

from __future__ import annotations

import os
import subprocess
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theseus.dispatch.bundle import Bundle, BundleError, gather


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), "-c", "protocol.file.allow=always", *words],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.strip()


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A git tree with one commit of `a.py` and a `.gitignore`."""
    folder = tmp_path / "my project"
    folder.mkdir()
    (folder / "a.py").write_text("a = 1\n")
    (folder / ".gitignore").write_text("*.log\nignored/\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one")
    return folder


def names(bundle: Bundle) -> list[str]:
    return [one.path.removeprefix("project/") for one in bundle.files if one.path[:4] == "proj"]


def unpacked(bundle: Bundle, tmp_path: Path) -> Path:
    archive, target = tmp_path / "b.tar.gz", tmp_path / "unpacked"
    bundle.write(archive)
    subprocess.run(["mkdir", str(target)], check=True)
    subprocess.run(["tar", "-xzf", str(archive), "-C", str(target)], check=True)
    return target / "project"


def test_what_is_private_stays_wherever_it_lies_and_however_it_is_reached(project: Path) -> None:
    write(project, hosts_yaml="env: {HF_TOKEN: s3cret}", state__runs__x="1", b="2")
    (project / "link").symlink_to("hosts_yaml")
    bundle = gather(project / "state", private=[project / "hosts_yaml", project / "state"])
    assert names(bundle) == [".gitignore", "a.py", "b"]
    assert not any("s3cret" in one.read().decode(errors="replace") for one in bundle.files)
    assert "hosts_yaml is left out: what theseus knows of hosts and runs stays here" in bundle.notes


def test_changed_and_untracked_files_go_and_ignored_ones_stay(project: Path) -> None:
    (project / "a.py").write_text("a = 2\n")
    write(project, Makefile="all:\n", notes__x="1", out_log="")
    (project / "train.log").write_text("noise")
    write(project, ignored__big="x")
    bundle = gather(project, own=False)
    assert names(bundle) == [".gitignore", "Makefile", "a.py", "notes/x", "out_log"]
    by_name = {one.path: one for one in bundle.files}
    assert by_name["project/a.py"].read() == b"a = 2\n"


def test_a_tracked_file_that_is_ignored_goes_and_a_removed_one_does_not(project: Path) -> None:
    write(project, ignored__kept="x", gone="x")
    git(project, "add", "-f", "ignored/kept", "gone")
    git(project, "commit", "-q", "-m", "two")
    (project / "gone").unlink()
    assert names(gather(project, own=False)) == [".gitignore", "a.py", "ignored/kept"]


def test_commit_and_changes_are_told(project: Path) -> None:
    clean = gather(project, own=False)
    assert (clean.commit, clean.dirty) == (git(project, "rev-parse", "HEAD"), False)
    write(project, new="x")
    assert gather(project, own=False).dirty


def test_a_tree_without_a_commit_and_a_detached_head_can_be_sent(
    project: Path, tmp_path: Path
) -> None:
    git(project, "checkout", "-q", "--detach")
    assert names(gather(project, own=False)) == [".gitignore", "a.py"]
    new = tmp_path / "new"
    new.mkdir()
    git(new, "init", "-q")
    write(new, b="x")
    bundle = gather(new, own=False)
    assert (names(bundle), bundle.commit) == (["b"], None)


def test_a_tag_becomes_the_version_that_tools_derive_from_git(project: Path) -> None:
    git(project, "tag", "v1.2.0")
    assert gather(project, own=False).version == "1.2.0"
    write(project, b="x")
    git(project, "add", "b")
    git(project, "commit", "-q", "-m", "two")
    head = git(project, "rev-parse", "HEAD")
    version = gather(project, own=False).version
    assert version is not None
    assert version.startswith("1.2.0.dev1+g")
    assert head.startswith(version.partition("+g")[2])


def test_the_tree_is_sent_whole_from_a_folder_inside_it(project: Path) -> None:
    write(project, libs__one__pyproject_toml="", libs__one__x="")
    (project / "libs/one/pyproject_toml").rename(project / "libs/one/pyproject.toml")
    bundle = gather(project / "libs" / "one", own=False)
    assert bundle.folder == "libs/one"
    assert "a.py" in names(bundle)


def test_submodules_are_sent_with_their_changes(project: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    write(library, inner__l="1")
    git(library, "init", "-q")
    git(library, "add", ".")
    git(library, "commit", "-q", "-m", "lib")
    git(project, "submodule", "--quiet", "add", str(library), "lib")
    git(project, "commit", "-q", "-m", "with lib")
    (project / "lib/inner/l").write_text("2")
    (project / "lib/new").write_text("3")
    bundle = gather(project, own=False)
    assert {"lib/inner/l", "lib/new"} <= set(names(bundle))
    assert not [name for name in names(bundle) if name.startswith("lib/.git/")]
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(project), str(clone))
    assert "lib is a submodule that is not there" in str(gather(clone, own=False))


def test_links_inside_stay_links_and_a_file_outside_is_sent_by_content(
    project: Path, tmp_path: Path
) -> None:
    write(tmp_path, outside__vocab="words", outside__folder__x="")
    (project / "sub").mkdir()
    (project / "sub" / "relative").symlink_to("../a.py")
    (project / "sub" / "absolute").symlink_to(project / "a.py")
    (project / "folder").symlink_to("sub")
    (project / "nowhere").symlink_to("missing")
    (project / "vocab").symlink_to(tmp_path / "outside" / "vocab")
    (project / "away").symlink_to(tmp_path / "outside" / "folder")
    bundle = gather(project, own=False)
    tree = unpacked(bundle, tmp_path)
    assert str((tree / "sub/relative").readlink()) == "../a.py"
    assert str((tree / "sub/absolute").readlink()) == "../a.py"
    assert str((tree / "folder").readlink()) == "sub"
    assert str((tree / "nowhere").readlink()) == "missing"
    assert not (tree / "vocab").is_symlink()
    assert (tree / "vocab").read_text() == "words"
    assert not os.path.lexists(tree / "away")
    assert "away is left out" in str(bundle)


def test_the_same_content_is_the_same_bytes_wherever_and_whenever(
    project: Path, tmp_path: Path
) -> None:
    (project / "a.py").chmod(0o755)
    first = gather(project, own=False)
    copy = tmp_path / "elsewhere"
    subprocess.run(["cp", "-R", str(project), str(copy)], check=True)
    os.utime(copy / "a.py", (1, 1))
    second = gather(copy, own=False)
    assert first.digest == second.digest
    first.write(tmp_path / "1")
    second.write(tmp_path / "2")
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
    (copy / "a.py").chmod(0o644)
    assert gather(copy, own=False).digest != first.digest


def test_a_folder_without_git_goes_without_caches_and_environments(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    write(folder, model_py="", pkg__data__init="", node_modules__x="")
    write(folder / "pkg" / "__pycache__", x="")
    write(folder, env__pyvenv_cfg="", env__lib__x="", ipynb="")
    (folder / "env/pyvenv_cfg").rename(folder / "env/pyvenv.cfg")
    (folder / ".env").write_text("HF_TOKEN=hf_secret")
    (folder / ".ipynb_checkpoints").mkdir()
    (folder / ".ipynb_checkpoints/x").write_text("")
    assert names(gather(folder, own=False)) == ["ipynb", "model_py", "pkg/data/init"]


def test_an_untracked_environment_is_left_out_with_a_word(project: Path) -> None:
    (project / "venv/lib").mkdir(parents=True)
    (project / "venv/pyvenv.cfg").write_text("")
    (project / "venv/lib/x").write_text("")
    bundle = gather(project, own=False)
    assert names(bundle) == [".gitignore", "a.py"]
    assert "venv/ is left out: an environment" in str(bundle)


def test_runs_and_tokens_in_the_project_are_left_out_with_a_word(project: Path) -> None:
    write(project, theseus__data__tokens="x" * 9, theseus__mine="", data__mine="")
    run = project / "theseus/runs/general/default/tiny-12345678"
    run.mkdir(parents=True)
    (run / "run.json").write_text("{}")
    bundle = gather(project, own=False)
    assert names(bundle) == [".gitignore", "a.py", "data/mine", "theseus/mine"]
    assert "theseus/runs/ is left out: runs and data of theseus" in str(bundle)


def test_too_much_is_refused_with_the_largest_files(project: Path) -> None:
    (project / "big.jsonl").write_bytes(b"x" * 50_000)
    (project / "small").write_bytes(b"x" * 200)
    with pytest.raises(BundleError) as refused:
        gather(project, own=False, limit=20_000)
    lines = str(refused.value).splitlines()
    assert "holds 50.2 kB" in lines[0]
    assert lines[1].split() == ["50.0", "kB", "big.jsonl"]
    assert ".gitignore" in lines[-1]
    assert "--limit" in lines[-1]
    assert gather(project, own=False, limit=60_000)


def test_a_file_that_changes_while_it_is_sent_is_refused(project: Path, tmp_path: Path) -> None:
    bundle = gather(project, own=False)
    (project / "a.py").write_text("a = 3\n")
    with pytest.raises(BundleError, match=r"a\.py changed while it was being sent"):
        bundle.write(tmp_path / "b.tar.gz")


def test_a_pipe_is_left_out_instead_of_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    write(folder, x="1")
    os.mkfifo(folder / "pipe")
    bundle = gather(folder, own=False)
    assert names(bundle) == ["x"]
    assert "pipe is left out" in str(bundle)


def test_nothing_of_a_home_folder_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, diary="")
    monkeypatch.setenv("HOME", str(tmp_path))
    bundle = gather(tmp_path)
    assert names(bundle) == []
    assert "a home folder is no project" in str(bundle)
    assert bundle.own
    git(tmp_path, "init", "-q")  # dotfiles in git make it no project either
    assert names(gather(tmp_path)) == []


def test_theseus_is_sent_to_those_who_do_not_bring_it(
    project: Path, repository: Path, tmp_path: Path
) -> None:
    bundle = gather(project)
    assert bundle.own
    paths = {one.path for one in bundle.files}
    assert {"own/theseus/__init__.py", "own/theseus/dispatch/worker/start.sh"} <= paths
    assert not [path for path in paths if "__pycache__" in path]
    assert not gather(repository).own


_NAMES = st.text(
    st.characters(blacklist_characters="/\0", blacklist_categories=("Cs",)), min_size=1, max_size=20
).filter(lambda name: name not in {".", "..", ".git"} and len(os.fsencode(name)) < 200)


@settings(max_examples=25)
@given(st.dictionaries(_NAMES, st.binary(max_size=50), min_size=1, max_size=4))
def test_any_file_name_and_content_arrives(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    tmp_path = tmp_path_factory.mktemp("names")
    folder = tmp_path / "tree"
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    git(folder, "init", "-q")
    bundle = gather(folder, own=False)
    tree = unpacked(bundle, tmp_path)
    known = {name for name in files if name != ".gitignore"}
    for name in names(bundle):
        assert (tree / name).read_bytes() == files[name]
    if ".gitignore" not in files:
        assert set(names(bundle)) == known


def test_archive_entries_carry_no_owner_and_no_time(project: Path, tmp_path: Path) -> None:
    bundle = gather(project, own=False)
    bundle.write(tmp_path / "b.tar.gz")
    with tarfile.open(tmp_path / "b.tar.gz") as archive:
        for entry in archive:
            assert (entry.uid, entry.gid, entry.mtime, entry.uname) == (0, 0, 0, "")
