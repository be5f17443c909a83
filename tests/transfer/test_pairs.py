"""Which pairs are measured: the laws of the draw, and what the command line may say."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from robusttc.errors import UsageError
from robusttc.transfer.pairs import PairList, choose_pairs, count_entries, draw_rounds, parse_pairs

SEEDS = st.integers(0, 2**63 - 1)


def make_names(n: int) -> list[str]:
    return [f"task {i}" for i in range(n)]


def degrees_of(pairs: PairList, n: int) -> NDArray[np.int64]:
    return np.bincount(pairs.entries()[0], minlength=n)


def as_set(pairs: PairList) -> set[tuple[int, int]]:
    return set(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True))


def name_pairs(names: list[str], pairs: PairList) -> set[frozenset[str]]:
    return {frozenset([names[a], names[b]]) for a, b in as_set(pairs)}


def count_parts(n: int, first: NDArray[np.int64], second: NDArray[np.int64]) -> int:
    graph = sparse.coo_array((np.ones(len(first)), (first, second)), shape=(n, n))
    return int(connected_components(graph, directed=False)[0])


def second_eigenvalue(n: int, pairs: PairList) -> float:
    adjacency = np.zeros((n, n))
    adjacency[pairs.entries()] = 1.0
    root = np.sqrt(degrees_of(pairs, n))
    return float(np.sort(np.abs(np.linalg.eigvalsh(adjacency / root / root[:, None])))[-2])


@st.composite
def sizes_and_entries(draw: st.DrawFn, largest: int = 30) -> tuple[int, int]:
    n = draw(st.integers(2, largest))
    return n, draw(st.integers(n, n * (n - 1)))


@settings(deadline=None, max_examples=50)
@given(sizes_and_entries(), SEEDS)
def test_distinct_sorted_pairs_of_the_number_asked_for(size: tuple[int, int], seed: int) -> None:
    n, entries = size
    pairs = choose_pairs(make_names(n), entries, random_state=seed)
    assert 2 * len(pairs) == entries + entries % 2
    codes = pairs.first * n + pairs.second
    assert (np.diff(codes) > 0).all()
    assert (pairs.first < pairs.second).all()
    assert pairs.second.max() < n
    assert degrees_of(pairs, n).min() >= 1


@settings(deadline=None, max_examples=50)
@given(sizes_and_entries(), SEEDS, st.randoms(use_true_random=False))
def test_order_of_the_tasks_does_not_count(size: tuple[int, int], seed: int, random: object) -> None:
    n, entries = size
    names = make_names(n)
    shuffled = names.copy()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    here = name_pairs(names, choose_pairs(names, entries, random_state=seed))
    assert here == name_pairs(shuffled, choose_pairs(shuffled, entries, random_state=seed))


@settings(deadline=None, max_examples=50)
@given(sizes_and_entries(), SEEDS, st.data())
def test_a_larger_number_keeps_the_pairs_of_a_smaller(
    size: tuple[int, int], seed: int, data: st.DataObject
) -> None:
    n, entries = size
    names = make_names(n)
    fewer = choose_pairs(names, data.draw(st.integers(n, entries)), random_state=seed)
    more = choose_pairs(names, entries, random_state=seed)
    assert as_set(fewer) <= as_set(more) <= as_set(choose_pairs(names, "all", random_state=seed))
    # The way there does not count either.
    assert as_set(choose_pairs(names, entries, random_state=seed, already=fewer)) == as_set(more)


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 45), SEEDS)
def test_every_beginning_is_balanced_and_connected(n: int, seed: int) -> None:
    n_all = n * (n - 1) // 2
    generator = np.random.default_rng(seed)
    first, second = np.array(list(islice(draw_rounds(n, [], generator), n_all))).T
    assert len({frozenset(pair) for pair in zip(first.tolist(), second.tolist(), strict=True)}) == n_all
    took_part = np.zeros((n_all, n), dtype=np.int64)
    took_part[np.arange(n_all), first] = 1
    took_part[np.arange(n_all), second] = 1
    degrees = took_part.cumsum(axis=0)
    gap = degrees.max(axis=1) - degrees.min(axis=1)
    assert gap[: n_all // 2].max(initial=0) <= 1
    assert gap[: 2 * n_all // 3].max(initial=0) <= 2
    assert gap.max(initial=0) <= 8  # 5 is the most that was seen
    assert count_parts(n, first[: n - 1], second[: n - 1]) == 1
    half = -(-n // 2)
    assert degrees[half - 1].min() == 1


@settings(deadline=None, max_examples=50)
@given(sizes_and_entries(), SEEDS, SEEDS, st.data())
def test_what_is_measured_already_is_kept_and_counts(
    size: tuple[int, int], seed: int, other: int, data: st.DataObject
) -> None:
    n, entries = size
    names = make_names(n)
    all_of_them = choose_pairs(names, "all")
    chosen = data.draw(st.integers(0, len(all_of_them)))
    rows = np.sort(np.random.default_rng(other).permutation(len(all_of_them))[:chosen])
    already = PairList(all_of_them.first[rows], all_of_them.second[rows])
    pairs = choose_pairs(names, entries, random_state=seed, already=already)
    assert as_set(already) <= as_set(pairs)
    assert len(pairs) == len(as_set(pairs)) == max(-(-entries // 2), len(already))
    n_missing = count_parts(n, already.first, already.second) - 1
    if len(pairs) - len(already) >= n_missing:
        assert count_parts(n, pairs.first, pairs.second) == 1
    # Neither the order of the tasks nor that of the pairs counts.
    back = PairList(n - 1 - already.second, n - 1 - already.first)
    reverse = choose_pairs(names[::-1], entries, random_state=seed, already=back)
    assert name_pairs(names[::-1], reverse) == name_pairs(names, pairs)


@pytest.mark.parametrize("seed", range(5))
def test_new_tasks_get_partners_first_and_among_the_old_ones(seed: int) -> None:
    n_old, n_new = 300, 60
    old = choose_pairs(make_names(n_old), 300 * 20, random_state=seed)
    n = n_old + n_new
    pairs = choose_pairs(make_names(n), 2 * len(old) + 2 * n_new * 8, random_state=seed + 1, already=old)
    degrees = degrees_of(pairs, n)
    assert degrees[n_old:].min() >= 8
    # Every added pair is one of a new task.
    added = as_set(pairs) - as_set(old)
    assert sum(second < n_old for _, second in added) == 0
    assert degrees[:n_old].max() - degrees[:n_old].min() <= 3
    n_within = sum(first >= n_old for first, _ in added)
    assert n_within < len(added) / 2


@pytest.mark.parametrize("seed", range(5))
def test_more_pairs_of_another_seed_stay_balanced(seed: int) -> None:
    names = make_names(101)
    already = choose_pairs(names, 1010, random_state=seed)
    degrees = degrees_of(choose_pairs(names, 3030, random_state=seed + 100, already=already), 101)
    assert degrees.max() - degrees.min() <= 2


def test_every_pair_is_as_likely() -> None:
    n, n_draws = 12, 800
    counts = np.zeros((n, n))
    for seed in range(n_draws):
        pairs = choose_pairs(make_names(n), 44, random_state=seed)
        counts[pairs.first, pairs.second] += 1
    share = counts[np.triu_indices(n, 1)] / n_draws
    # A third of the pairs each time: 4.5 standard errors for the largest of 66.
    assert np.abs(share - 1 / 3).max() < 4.5 * np.sqrt(2 / 9 / n_draws)


@pytest.mark.parametrize("degree", [4, 10, 20])
def test_the_graph_expands_like_a_random_regular_one(degree: int) -> None:
    n = 600
    pairs = choose_pairs(make_names(n), n * degree, random_state=3)
    assert (degrees_of(pairs, n) == degree).all()
    assert second_eigenvalue(n, pairs) < 1.08 * 2 * np.sqrt(degree - 1) / degree


def test_seeds_differ() -> None:
    names = make_names(20)
    assert as_set(choose_pairs(names, 60, random_state=0)) != as_set(choose_pairs(names, 60, random_state=1))


def test_the_draw_stays_what_it_is() -> None:
    # A run resumed by a later version must ask for the same pairs.
    pairs = choose_pairs(["a", "b", "c", "d", "e"], 12, random_state=7)
    assert as_set(pairs) == {(0, 1), (0, 3), (1, 2), (2, 3), (2, 4), (3, 4)}


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("pairs", ["all", "auto", 0])
def test_fewer_than_two_tasks_have_no_pairs(n: int, pairs: str | int) -> None:
    assert len(choose_pairs(make_names(n), pairs)) == 0  # type: ignore[arg-type]


def test_two_and_three_tasks() -> None:
    assert as_set(choose_pairs(["a", "b"], "auto")) == {(0, 1)}
    assert as_set(choose_pairs(["a", "b"], 1)) == {(0, 1)}
    assert as_set(choose_pairs(["a", "b", "c"], "all")) == {(0, 1), (0, 2), (1, 2)}
    assert len(choose_pairs(["a", "b", "c"], 3)) == len(choose_pairs(["a", "b", "c"], 4)) == 2
    assert len(choose_pairs(["a", "b", "c"], 5)) == 3


def test_auto() -> None:
    assert count_entries(300, "auto") == 300 * 299
    for n in (301, 1491, 100_000):
        assert abs(count_entries(n, "auto") - n * np.log(n) ** 2) <= 2
    pairs = choose_pairs(make_names(1491), "auto")
    assert 2 * len(pairs) == 79_614
    assert set(degrees_of(pairs, 1491).tolist()) == {53, 54}


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ("al", "Did you mean 'all'?"),
        ("Auto", "Did you mean 'auto'?"),
        ("everything", "got 'everything'; expected 'all' or 'auto' or an integer from 5 to 20"),
        (1.5, "got 1.5"),
        (True, "got True"),
        (None, "got None"),
        (21, "got 21; expected 'all' or 'auto' or an integer from 5 to 20"),
        (4, "got 4"),
        (0, "got 0"),
        (-2, "got -2"),
    ],
)
def test_bad_choices(pairs: object, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        choose_pairs(make_names(5), pairs)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_bad_names_and_bad_known_pairs() -> None:
    with pytest.raises(UsageError, match="two tasks have one name"):
        choose_pairs(["a", "a"], "all")
    with pytest.raises(UsageError, match="a task that is not there; got position 5"):
        choose_pairs(make_names(5), "all", already=PairList([0], [5]))
    with pytest.raises(UsageError, match="twice"):
        choose_pairs(make_names(5), "all", already=PairList([0, 0], [1, 1]))
    with pytest.raises(UsageError, match="random_state"):
        choose_pairs(make_names(5), 8, random_state=-1)


@pytest.mark.parametrize(("first", "second"), [([1], [0]), ([1], [1]), ([-1], [0]), ([0, 1], [2]), (0, 1)])
def test_what_is_no_pair_list(first: object, second: object) -> None:
    with pytest.raises(UsageError, match="no pairs of tasks"):
        PairList(first, second)  # type: ignore[arg-type]


def test_pair_list() -> None:
    pairs = PairList.from_entries([3, 0, 1, 2, 2], [0, 3, 2, 1, 2])
    assert as_set(pairs) == {(0, 3), (1, 2)}
    source, target = pairs.entries()
    assert set(zip(source.tolist(), target.tolist(), strict=True)) == {(0, 3), (3, 0), (1, 2), (2, 1)}
    assert degrees_of(pairs, 5).tolist() == [1, 1, 1, 1, 0]
    assert len(PairList.from_entries([], [])) == 0


@pytest.mark.parametrize(
    ("text", "value"),
    [("all", "all"), (" auto ", "auto"), ("100,000", 100_000), ("100000", 100_000), ("1,000,000", 10**6)],
)
def test_parse_pairs(text: str, value: str | int) -> None:
    assert parse_pairs(text) == value


@pytest.mark.parametrize("text", ["", "al", "ALL", "-5", "1.5", "1e5", "100,00", ",100", "٣", "9" * 5000])
def test_parse_pairs_refuses(text: str) -> None:
    with pytest.raises(UsageError, match="pairs cannot be used"):
        parse_pairs(text)
