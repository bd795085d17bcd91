import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from theseus.data._mixing import Mixing, shares
from theseus.data.permutation import key_of, mix, permuted, uniform

SEEDS = st.integers(0, 2**63)


@given(SEEDS, st.integers(1, 3000))
def test_a_permutation_reaches_every_number_once(seed, size):
    found = permuted(key_of(seed), size, np.arange(size))
    assert sorted(found.tolist()) == list(range(size))


@given(SEEDS, st.integers(1, 10**12), st.data())
def test_any_part_of_a_huge_permutation_is_that_of_the_whole(seed, size, data):
    index = np.array(data.draw(st.lists(st.integers(0, size - 1), min_size=1, unique=True)))
    together = permuted(seed, size, index)
    assert ((together >= 0) & (together < size)).all()
    assert len(np.unique(together)) == len(index)
    alone = [int(permuted(seed, size, index[i : i + 1])[0]) for i in range(len(index))]
    assert together.tolist() == alone


def test_permutations_look_random():
    size = 10_000
    for seed in range(3):
        found = permuted(seed, size, np.arange(size))
        # Of a random permutation, |correlation with the identity| and of neighbours is ~ 1 / 100.
        assert abs(np.corrcoef(found, np.arange(size))[0, 1]) < 0.05
        assert abs(np.corrcoef(found[1:], found[:-1])[0, 1]) < 0.05
        assert (found == np.arange(size)).sum() < 10
        # Each tenth of the order holds about a tenth of each tenth of the numbers.
        counts = np.histogram2d(np.arange(size), found, bins=10)[0]
        assert counts.min() > 60
        assert counts.max() < 140


def test_small_permutations_come_in_all_orders():
    seen = {tuple(permuted(key_of(seed), 3, np.arange(3)).tolist()) for seed in range(300)}
    assert len(seen) == 6


def test_the_orders_of_seeds_and_of_epochs_differ():
    index = np.arange(1000)
    orders = [
        permuted(key_of(*parts), 1000, index) for parts in [(1,), (2,), (1, 0), (1, 1), ("a",)]
    ]
    for one in range(len(orders)):
        for other in range(one):
            assert (orders[one] == orders[other]).mean() < 0.02


def test_the_hash_is_that_of_the_paper():
    # The first outputs of SplitMix64 from state 0, as published with its reference code.
    states = np.array([0, 0x9E3779B97F4A7C15], dtype=np.uint64)
    assert [hex(word) for word in mix(states).tolist()] == [
        "0xe220a8397b1dcdaf",
        "0x6e789e6aa1b965f4",
    ]


def test_keys_tell_parts_apart():
    keys = {
        key_of("ab"),
        key_of("a", "b"),
        key_of("b", "a"),
        key_of("a"),
        key_of("a", ""),
        key_of(),
    }
    assert len(keys) == 6


def test_uniform_numbers_are_uniform():
    found = uniform(7, np.arange(100_000))
    assert found.min() >= 0
    assert found.max() < 1
    assert np.histogram(found, bins=10, range=(0, 1))[0].min() > 9_600


# Mixtures


def test_the_shares_of_a_block_are_exact():
    names = ["a", "b", "c"]
    assert shares(names[:1], [0.7]) == (1,)
    assert shares(names[:2], [0.5, 0.5]) == (1, 1)
    assert shares(names[:2], [0.9, 0.1]) == (9, 1)
    assert shares(names, [1, 1, 1]) == (1, 1, 1)
    assert shares(names, [0.7, 0.2, 0.1]) == (7, 2, 1)
    assert sum(shares(names[:2], [1, 2**0.5])) == 65_536


RATES = st.lists(st.integers(1, 30), min_size=1, max_size=4)


@given(RATES, st.data(), SEEDS)
@settings(max_examples=25)
def test_every_epoch_of_every_dataset_reads_each_row_once(weights, data, seed):
    sizes = [data.draw(st.integers(1, 40)) for _ in weights]
    names = [f"dataset {number}" for number in range(len(weights))]
    mixing = Mixing(names, weights, sizes, seed)
    read: list[list[int]] = [[] for _ in weights]
    for start in range(0, 160, 16):  # in steps of 16 rows
        slots = np.arange(start, start + 16)
        rows = np.full((16, 2), -1)
        for place in mixing.places(slots):
            rows[place.at] = np.stack([np.full(len(place.at), place.source), place.rows], axis=1)
        for source, row in rows.tolist():
            read[source].append(row)
    for source, size in enumerate(sizes):
        for begin in range(0, len(read[source]) - size + 1, size):
            assert sorted(read[source][begin : begin + size]) == list(range(size))
    for source, epochs in enumerate(mixing.epochs(160)):
        expected = 160 * weights[source] / sum(weights) / sizes[source]
        assert abs(epochs - expected) < 1e-9


@given(RATES, SEEDS)
def test_any_stretch_of_rows_holds_the_datasets_in_their_proportion(weights, seed):
    mixing = Mixing([str(n) for n in range(len(weights))], weights, [1000] * len(weights), seed)
    owners = np.empty(300, dtype=int)
    for place in mixing.places(np.arange(300)):
        owners[place.at] = place.source
    for start in range(0, 280, 7):
        for length in (8, 20):
            counts = np.bincount(owners[start : start + length], minlength=len(weights))
            wanted = length * np.array(weights) / sum(weights)
            assert (abs(counts - wanted) <= len(weights)).all()


@given(st.integers(0, 10**9), st.integers(1, 64))
def test_any_place_is_the_same_whatever_is_asked_with_it(start, count):
    mixing = Mixing(["a", "b"], [0.3, 0.7], [11, 1_000_003], 3)
    slots = np.arange(start, start + count)
    together = {}
    for place in mixing.places(slots):
        together |= {
            int(slots[at]): (place.source, row)
            for at, row in zip(place.at, place.rows.tolist(), strict=True)
        }
    for slot in slots.tolist():
        (place,) = mixing.places(np.array([slot]))
        assert together[slot] == (place.source, int(place.rows[0]))
