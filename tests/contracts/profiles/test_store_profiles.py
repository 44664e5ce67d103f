"""Profiles are there after a restart, are replaced by team and name, and no team has too many."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from gpucommons.scheduler.errors import PolicyRefused
from gpucommons.scheduler.profiles import MAX_PROFILES, Profile
from gpucommons.scheduler.store.base import Store
from gpucommons.scheduler.store.opening import open_store


def a_profile(team: str = "vision", name: str = "plain", *, says: str = "{}") -> Profile:
    return Profile(team=team, name=name, document=says, published_by="ada", published_ms=1)


def test_one_is_replaced_by_team_and_name_and_read_in_order_after_a_restart(
    url: str, store: Store
) -> None:
    for one in (a_profile("vision", "b"), a_profile("nlp", "b"), a_profile("vision", "a")):
        store.profiles.put(one)
    store.profiles.put(a_profile("vision", "b", says='{"description": "new"}'))
    if url != "memory:":
        store.close()
        store = open_store(url)
    vision = (a_profile("vision", "a"), a_profile("vision", "b", says='{"description": "new"}'))
    assert store.profiles.all() == (a_profile("nlp", "b"), *vision)
    assert store.profiles.all(["vision"]) == vision
    assert store.profiles.all([]) == ()
    store.profiles.drop("vision", "b")
    store.profiles.drop("vision", "none")
    assert store.profiles.all(["vision"]) == vision[:1]
    store.close()


def test_a_team_has_so_many_however_many_are_published_at_once(store: Store) -> None:
    for number in range(MAX_PROFILES - 1):
        store.profiles.put(a_profile(name=f"p{number}"))

    def publish(number: int) -> bool:
        try:
            store.profiles.put(a_profile(name=f"more{number}"))
        except PolicyRefused:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(publish, range(4))) == 1
    store.profiles.put(a_profile(name="p0", says='{"description": "new"}'))
    store.profiles.put(a_profile(team="nlp"))
    with pytest.raises(PolicyRefused, match="remove one"):
        store.profiles.put(a_profile(name="another"))
