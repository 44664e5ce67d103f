import asyncio

from gpucommons.labextension.live.fanout import MADE_ROOM, MAX_TABS, Fanout, Tab


async def test_every_tab_gets_the_message_once() -> None:
    fanout, tabs = Fanout(), [Tab(), Tab()]
    for tab in tabs:
        fanout.add(tab)
    fanout.send({"a": "½"})
    assert [await tab.next() for tab in tabs] == ['{"a": "\\u00bd"}'] * 2


async def test_a_full_tab_is_marked_and_hinders_no_other() -> None:
    fanout, slow, quick = Fanout(), Tab(size=1), Tab()
    fanout.add(slow)
    fanout.add(quick)
    fanout.send({"n": 1})
    assert not slow.over.is_set()
    fanout.send({"n": 2})
    assert slow.over.is_set()
    assert [await quick.next(), await quick.next()] == ['{"n": 1}', '{"n": 2}']


async def test_nobody_waits_for_tabs_that_are_there() -> None:
    fanout, tab = Fanout(), Tab()
    waiting = asyncio.create_task(fanout.wait_until_occupied())
    await asyncio.sleep(0)
    assert not waiting.done()
    fanout.add(tab)
    await waiting
    fanout.remove(tab)
    assert len(fanout) == 0


async def test_of_too_many_tabs_the_oldest_of_who_has_most_makes_room() -> None:
    fanout, guest = Fanout(), Tab()
    fanout.add(guest, "bob")
    tabs = [Tab() for _ in range(MAX_TABS)]
    for tab in tabs:
        fanout.add(tab, "alice")

    assert len(fanout) == MAX_TABS
    assert (tabs[0].over.is_set(), tabs[0].why) == (True, MADE_ROOM)
    assert not any(tab.over.is_set() for tab in (guest, *tabs[1:]))
    fanout.remove(tabs[0])
    assert len(fanout) == MAX_TABS
