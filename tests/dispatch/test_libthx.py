"""A file of libthx 0.4.0 opens: what has a counterpart is taken over, what has none is told."""

import copy
import warnings
from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf

from theseus import _libthx, config, registry
from theseus._libthx import LibthxWarning
from theseus._libthx_rules import RULES
from theseus._plain import SpecError
from theseus.combobulation import Combobulation

CASE = Path(__file__).parent / "cases" / "libthx-out.yaml"
SAVED = yaml.safe_load(CASE.read_text("utf-8"))


def changed(**paths):
    """Return the case with values changed: `execution__gpus=1`."""
    saved = copy.deepcopy(SAVED)
    for path, value in paths.items():
        *groups, name = path.split("__")
        inner = saved
        for group in groups:
            inner = inner[group]
        inner[name] = value
    return saved


def opened(**paths):
    return _libthx.opened(changed(**paths))


def notes(**paths):
    return "\n".join(opened(**paths).notes)


@pytest.fixture
def case():
    with pytest.warns(LibthxWarning):
        return Combobulation.load(CASE)


def test_the_file_opens_with_its_job_and_resources(case):
    assert case.job.name == "gpt/train/pretrain"
    assert case.identity.name == "libthx-out"
    assert case.resources.chips == ("h100",)
    assert case.resources.gpus == 4
    assert str(case.resources.sharding) == "tp 2, fsdp, zero"


def test_its_configuration_is_taken_over(case, tmp_path):
    got = case.quick(tmp_path).config
    for group, names in {
        "architecture": "n_embd n_layers n_head block_size vocab_size bias dropout layer_norm_eps rope",
        "optimization": "lr warmup_pct decay_pct final_lr_frac weight_decay beta1 beta2",
        "training": "tokens batch_size validation evaluate analyze",
        "logging": "report_interval checkpoint_interval validation_interval",
        "tokenizer": "backend name",
    }.items():
        for name in names.split():
            assert got[group][name] == SAVED["config"][group][name], f"{group}.{name}"
    assert got.architecture.dtype.activation == "bfloat16"
    assert got.architecture.intermediate_size is None
    assert got.training.per_device_batch_size is None
    assert got.training.validation_rows == 2048
    assert got.training.remat == "none"
    assert got.data.dataset == "fineweb"


def test_every_key_of_the_file_is_taken_over_or_told(case):
    taken = {
        "architecture.intermediate_size",
        "architecture.dtype.activation",
        "training.per_device_batch_size",
        "training.validation_steps",
        *RULES["gpt/train/pretrain"].same,
    }
    for key, _ in _libthx._leaves(SAVED["config"], ""):
        assert key in taken or any(note.startswith(f"{key}: ") for note in case.notes), key
    assert "execution.nonce: c1c98f" in case.notes[0]


def test_what_is_told_is_warned_about_and_shown(case):
    with pytest.warns(LibthxWarning, match=r"eval.length: -1 — no counterpart") as caught:
        Combobulation.load(CASE)
    assert caught[0].filename == __file__
    assert "from libthx  execution.nonce: c1c98f" in str(case)
    assert "eval.length" in case._repr_html_()


def test_it_opens_from_omegaconf_too():
    with pytest.warns(LibthxWarning):
        c = Combobulation.deserialize(OmegaConf.load(CASE))
    assert c.identity.name == "gpt/train/pretrain"


def test_saved_again_it_is_an_ordinary_file(case, tmp_path):
    case.save(tmp_path / "out.yaml")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Combobulation.load(tmp_path / "out.yaml") == case


def test_every_key_that_is_written_is_one_of_ours():
    for key, rules in RULES.items():
        schema = config.build(*registry.find("job", key).configs())
        ours = {record.key for record in config.describe(schema)}
        assert {*rules.same, *rules.added} <= ours
        for change in rules.changed.values():
            assert change("float32")[0] in ours


def test_a_key_that_is_left_out_has_libthxs_default():
    saved = changed()
    saved["config"] = {"architecture": {"n_embd": 64}}
    values = _libthx.opened(saved).values
    assert values["architecture"]["n_embd"] == 64
    assert values["architecture"]["n_layers"] == 32
    assert values["architecture"]["rope"] is True
    assert values["optimization"]["lr"] == 3e-4


def test_numbers_that_are_set_stay():
    values = opened(config__architecture__intermediate_size=512).values
    assert values["architecture"]["intermediate_size"] == 512


@pytest.mark.parametrize(
    ("path", "value", "want"),
    [
        ("config__architecture__dtype__param", "bfloat16", "architecture.dtype.param: bfloat16 — weights are float32 here"),
        ("config__architecture__dtype__activation", "float16", "architecture.dtype.activation: float16 — no counterpart"),
        ("config__architecture__instrumentation__residual", True, "architecture.instrumentation.residual: true — no counterpart"),
        ("config__architecture__n_kv_head", 2, "architecture.n_kv_head: 2 — no counterpart"),
        ("config__extra", {"a": {"b": 1}}, "extra.a.b: 1 — no counterpart"),
        ("execution__somebodys", "x", "execution.somebodys: x — no counterpart"),
        ("other", 1, "other: 1 — no counterpart"),
    ],
)  # fmt: skip
def test_what_has_no_counterpart_is_told(path, value, want):
    assert want in notes(**{path: value})


@pytest.mark.parametrize(
    ("value", "want"),
    [(64000, 64000 * 2**20), ("64Gi", 64 * 2**30), ("64G", 64 * 2**30), (None, None)],
)
def test_memory_is_mebibytes_or_a_size(value, want):
    assert opened(execution__minimum_memory=value).resources.memory == want


def test_clusters_and_processors_are_taken_over():
    found = opened(
        execution__preferred_clusters=["a"], execution__forbidden_clusters=["b"], execution__cpus=4
    )
    assert found.resources.clusters == ("a",)
    assert found.resources.avoid == ("b",)
    assert found.resources.cpus == 4


def test_chips_have_our_names():
    found = opened(execution__chips=["b6000", "drive-pg199"])
    assert found.resources.chips == ("pro6000",)
    assert "execution.chips: b6000 — called pro6000 here" in found.notes
    assert "execution.chips: drive-pg199 — no such chip here" in found.notes


def test_when_no_chip_is_left_that_is_told():
    assert "none is left, so any chip will do" in notes(execution__chips=["drive-pg199"])


def test_activations_that_are_computed_again():
    assert (
        opened(execution__sharding__activation_checkpointing=True).values["training"]["remat"]
        == "block"
    )


def test_a_job_is_named_in_two_ways():
    assert opened(execution__steps=[{"job": "gpt/train/pretrain"}]).job.name == "gpt/train/pretrain"


def test_the_job_that_writes_tokens():
    saved = changed(execution__steps=[{"job": "data/tokenize/fineweb"}])
    saved["config"] = {"data": {"max_samples": -1, "max_tokens": 1000}}
    values = _libthx.opened(saved).values
    assert values["data"]["max_samples"] is None
    assert values["data"]["max_tokens"] == 1000
    assert values["data"]["val_pct"] == 0.05
    assert values["tokenizer"]["name"] == "cl100k_base"


def test_further_steps_are_told():
    step = SAVED["execution"]["steps"][0]
    later = {"job": "llama/train/pretrain", "base": "previous", "resume": True}
    told = notes(execution__steps=[{**step, "resume": True}, later])
    assert "execution.steps[1]: llama/train/pretrain — a recipe is one job" in told
    assert (
        "execution.steps[0].resume: true — a run that is submitted again goes on by itself" in told
    )


def test_somebodys_own_job_keeps_its_keys():
    @registry.job("test/libthx/own")
    class Own:
        """A job."""

    found = opened(execution__steps=[{"job": "test/libthx/own"}])
    assert found.values == SAVED["config"]


@pytest.mark.parametrize(
    ("steps", "want"),
    [
        ([], "it names no job"),
        (None, "execution.steps: expected a list"),
        ([{"job": "gpt/train/pretrian"}], "'gpt/train/pretrian' has no counterpart here, did you mean 'gpt/train/pretrain'"),
        ([{"job": {"type": "cloudpickle", "payload": "gASV"}}], "cannot be opened here; write the class for theseus"),
        ([{"job": 3}], "expected keys and values, got 3"),
    ],
)  # fmt: skip
def test_a_job_without_a_counterpart_is_a_mistake(steps, want):
    with pytest.raises(SpecError, match=r"steps|counterpart") as error:
        opened(execution__steps=steps)
    assert want in str(error.value)


def test_a_mistake_names_the_file(tmp_path):
    path = tmp_path / "out.yaml"
    path.write_text(yaml.safe_dump(changed(execution__gpus="four")))
    with pytest.raises(
        SpecError, match=r"out.yaml: gpus: a whole number of at least 0, not 'four'"
    ):
        Combobulation.load(path)
