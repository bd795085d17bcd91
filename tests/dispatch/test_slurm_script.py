"""The batch script: as it was agreed on, whole values whatever they hold, and nothing left over."""

import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from theseus.dispatch.providers.base import LaunchError
from theseus.dispatch.providers.slurm_script import job_script, safe_job_name

GOLDEN = Path(__file__).parent / "golden"

USUAL = {
    "run_id": "3f9a2c",
    "attempt": 1,
    "job_name": "train-gpt-3f9a2c-1",
    "tag": "theseus 3f9a2c 1",
    "folder": "/scratch/ada/runs/p/g/train-gpt-3f9a2c",
    "work": "/scratch/ada/work/b1946ac9",
    "log": "/scratch/ada/runs/p/g/train-gpt-3f9a2c/log",
    "command": ["sh", "worker.sh", "/scratch/ada/runs/p/g/train-gpt-3f9a2c/dispatch.json"],
    "nodes": 1,
}
EVERYTHING = USUAL | {
    "nodes": 2,
    "partition": "gpu",
    "gres": "gpu:nvidia_h100_80gb_hbm3:4",
    "cpus": 16,
    "memory_mib": 65536,
    "account": "lab",
    "qos": "high",
    "time": "2-00:00:00",
    "exclude": "n[1-4],n7",
    "constraint": "ib&nvme",
    "extra": ("--reservation=maintenance", "--mail-type=END"),
}
HOSTILE = USUAL | {
    "job_name": "x",
    "folder": "/home/a b/$(touch x)/'q'",
    "work": '/home/"w"/`id`',
    "log": "/home/a b/100%/#log",
    "command": ["python", "-c", "print('a b')\nprint(\"$HOME\")", ""],
    "partition": "CPU nodes (amd)",
    "account": 'a"b\\c',
    "constraint": "[a|b]",
}


@pytest.mark.parametrize(
    ("name", "values"), [("usual", USUAL), ("everything", EVERYTHING), ("hostile", HOSTILE)]
)
def test_the_script_is_the_one_that_was_agreed_on(name, values):
    assert job_script(**values) == (GOLDEN / f"slurm_{name}.sh").read_text("utf-8")


@pytest.mark.parametrize("values", [USUAL, EVERYTHING, HOSTILE], ids=["usual", "all", "hostile"])
def test_the_script_is_posix_sh(values):
    checked = subprocess.run(
        ["dash", "-n"], input=job_script(**values), text=True, capture_output=True, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")


def test_what_was_not_asked_for_is_not_mentioned():
    options = {line.split("=")[0] for line in job_script(**USUAL).splitlines() if "#SBATCH" in line}
    for name in ("mem", "cpus-per-task", "gres", "partition", "account", "qos", "time", "exclude"):
        assert f"#SBATCH --{name}" not in options


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        (None, 120),
        ("UNLIMITED", 120),
        ("2:00:00", 300),
        ("30", 300),
        ("10", 150),
        ("1", 15),
        ("0:30", 7),
        ("1-0", 300),
        ("1-12:30", 300),
        ("0:00", 1),
    ],
)
def test_the_notice_fits_the_time_limit(time, seconds):
    assert f"#SBATCH --signal=B:USR1@{seconds}\n" in job_script(**USUAL | {"time": time})


@pytest.mark.parametrize("key", ["account", "partition", "gres", "constraint", "time", "extra"])
def test_a_line_break_in_a_directive_is_refused(key):
    value = "x\n#SBATCH --uid=root"
    with pytest.raises(LaunchError, match="line break"):
        job_script(**USUAL | {key: (value,) if key == "extra" else value})


@given(name=st.text(), run=st.text("abcdef0123456789", min_size=6, max_size=12))
def test_a_job_name_is_one_plain_word_that_ends_with_the_run(name, run):
    safe = safe_job_name(name, run, 2)
    assert safe.endswith(f"{run}-2")
    assert set(safe) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    assert len(safe) <= 80


NO_NUL = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=30)


@given(folder=NO_NUL, command=st.lists(NO_NUL, min_size=1, max_size=4))
def test_the_shell_gets_every_value_as_it_was(folder, command):
    script = job_script(**USUAL | {"work": folder, "command": command})
    settings = script[script.index("\nrun=") : script.index("\n# One worker")]
    words = shlex.split(settings)
    assert f"work={folder}" in words
    assert words[words.index("--", words.index("set")) + 1 :] == command
