"""Who makes room."""

from __future__ import annotations

from gpucommons.gpu.connections.peer_limits import Crowds


def test_the_oldest_of_the_largest_crowd_makes_room() -> None:
    crowds: Crowds[str] = Crowds(4)
    for at_s, (member, peer) in enumerate((("a", "ann"), ("b", "bob"), ("c", "bob"), ("d", "bob"))):
        assert crowds.add(member, peer, now_s=at_s) is None

    assert crowds.add("e", "eve", now_s=4) == "b"
    assert list(crowds) == ["a", "c", "d", "e"]


def test_one_peer_pushes_out_only_its_own() -> None:
    crowds: Crowds[int] = Crowds(100)
    for member in range(10):
        crowds.add(-1 - member, "ann", now_s=0)

    gone = [crowds.add(member, "eve", now_s=1) for member in range(1000)]

    assert all(member is None or member >= 0 for member in gone)
    assert len(crowds) == 100


def test_those_since_before_then_are_the_oldest_and_who_left_is_none_of_them() -> None:
    crowds: Crowds[str] = Crowds(10)
    for at_s, member in enumerate("abcd"):
        crowds.add(member, None, now_s=at_s)
    crowds.remove("b")
    crowds.remove("never")

    assert crowds.since(3) == ["a", "c"]
    assert "b" not in crowds
