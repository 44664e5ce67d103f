"""Rows of free GPUs and asks at random, for the tests of packing."""

from hypothesis import strategies as st

from gpucommons.scheduler.core.packing.asks import Ask
from gpucommons.scheduler.core.packing.rows import Rows

#: GPU kind, free milli-GPU of each device, processor, memory.
Node = tuple[str, list[int], int, int]


def rows_of(*nodes: Node) -> Rows:
    """Rows with these kinds, free devices, processor and memory."""
    rows = Rows([kind for kind, *_ in nodes], [len(free) for _, free, *_ in nodes])
    for row, (_, free, cpu_milli, memory_mib) in enumerate(nodes):
        rows.write(row, free, cpu_milli, memory_mib)
    return rows


asks = st.one_of(
    st.builds(
        Ask,
        st.just(1),
        st.sampled_from([100, 250, 460, 500, 700, 1000]),
        st.integers(0, 40) | st.just(0),
        st.integers(0, 40),
        st.sampled_from([(), ("a",), ("a", "b")]),
    ),
    st.builds(Ask, st.integers(2, 4), st.just(1000), st.integers(0, 40), st.integers(0, 40)),
    st.builds(Ask, st.just(0), st.just(0), st.integers(0, 40), st.integers(0, 40)),
)
frees = st.lists(st.sampled_from([0, 100, 300, 500, 540, 750, 1000]), min_size=1, max_size=4)
nodes = st.tuples(st.sampled_from(["a", "b"]), frees, st.integers(0, 60), st.integers(0, 60))
