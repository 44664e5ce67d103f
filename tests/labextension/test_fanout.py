import asyncio

from gpucommons.labextension.fanout import Fanout, Tab


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
    assert not slow.overrun.is_set()
    fanout.send({"n": 2})
    assert slow.overrun.is_set()
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
