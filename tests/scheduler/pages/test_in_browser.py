"""The pages in a real browser: what scripts do, and how it looks on wide and narrow screens."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, Route, async_playwright, expect
from ui.browser import launch

from gpucommons.scheduler import models
from gpucommons.scheduler.errors import NotIdle

pytestmark = pytest.mark.ui

PICTURES = Path(os.environ.get("GPUCOMMONS_SCREENSHOTS", "build/screenshots"))
WIDE, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
TICKET = "ticket/0190aaaa-0000-7000-8000-000000000001"
#: As Chromium calls the language under LANG=C; it is no name of one.
POSIX = """Object.defineProperties(Navigator.prototype, {
  language: { get: () => 'en-US@posix' }, languages: { get: () => ['en-US@posix'] } })"""


@pytest.fixture
def known_problems() -> list[str]:
    """Parts of console errors that a test brings about on purpose."""
    return []


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """One for all tests of this file."""
    async with async_playwright() as playwright:
        started = await launch(playwright.chromium)
        yield started
        await started.close()


@pytest_asyncio.fixture(loop_scope="module")
async def open_page(
    start_pages: Callable[..., Any], cluster: Any, browser: Browser, known_problems: list[str]
) -> AsyncIterator[Callable[..., Any]]:
    """Open a page as a user; no error may reach the console."""
    problems: list[str] = []
    contexts: list[BrowserContext] = []

    async def begin(
        name: str, path: str, *, scheme: str = "light", size: dict[str, int] = WIDE, **settings: Any
    ) -> Page:
        script = settings.pop("script", "")
        server = await start_pages(**settings)
        context = await browser.new_context(
            viewport=size, color_scheme=scheme, locale="en-GB", timezone_id="UTC"
        )
        contexts.append(context)
        await context.add_init_script(script)
        cookie = cluster.login_cookie(f"token-{name}")
        await context.add_cookies(
            [{"name": "service-gpucommons", "value": cookie, "url": server.url}]
        )
        page = await context.new_page()
        page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        await page.clock.set_fixed_time(cluster.NOW / 1000)
        await page.goto(server.url + cluster.PREFIX + path)
        return page

    yield begin
    for context in contexts:
        await context.close()
    assert [text for text in problems if not any(known in text for known in known_problems)] == []


@pytest.mark.parametrize(
    ("name", "user", "path"),
    [
        ("start", "alice", ""),
        ("ticket", "alice", TICKET),
        ("new-ticket", "alice", "ticket?milli_gpu=1000"),
        ("admin", "admin", "admin"),
        ("admin-teams", "admin", "admin/teams"),
        ("admin-waiting", "admin", "admin/waiting"),
        ("admin-idle", "admin", "admin/idle"),
        ("admin-evictions", "admin", "admin/evictions"),
        ("admin-report", "admin", "admin/report"),
        ("admin-utilisation", "admin", "admin/utilisation"),
        ("calibration", "alice", "calibration"),
        ("api", "alice", "docs"),
    ],
)
async def test_no_page_is_wider_than_the_screen(
    open_page: Any, name: str, user: str, path: str
) -> None:
    for kind, size in (("wide", WIDE), ("phone", PHONE)):
        for scheme in ("light", "dark"):
            page = await open_page(user, path, scheme=scheme, size=size, allow_admin_writes=True)
            await _picture(page, f"{name}-{kind}-{scheme}")

            assert await page.evaluate("document.documentElement.scrollWidth") <= size["width"]


async def test_no_tab_of_the_admin_page_is_out_of_sight_on_a_phone(open_page: Any) -> None:
    page = await open_page("admin", "admin", size={"width": 320, "height": 844})

    tabs = await page.locator(".tabs a").evaluate_all(
        "tabs => tabs.map(tab => tab.getBoundingClientRect().right)"
    )

    assert len(tabs) == 7
    assert max(tabs) <= 320


async def test_quotas_stand_below_each_other_on_a_phone(open_page: Any) -> None:
    page = await open_page("admin", "admin/teams", size=PHONE, allow_admin_writes=True)

    box = "one => { const box = one.getBoundingClientRect(); return [box.left, box.right]; }"
    edges = await page.locator(".quotas input").evaluate_all(f"all => all.map({box})")

    assert len({right for _, right in edges}) == 1
    assert min(left for left, _ in edges) > PHONE["width"] / 2


@pytest.mark.parametrize("language", ["", POSIX], ids=["named", "unnamed"])
async def test_the_ticket_shows_its_place_and_follows_the_notebook(
    open_page: Any, scheduler: Any, cluster: Any, language: str
) -> None:
    page = await open_page("alice", TICKET, script=language)
    await page.route("**/hub/user-redirect/lab", _lab)
    ahead = cluster.lease(position=3)

    scheduler.answers["GET /v1/leases/.*"] = ahead
    await page.get_by_text("rd", exact=True).wait_for()
    assert await page.title() == "3rd in line · GPU Commons"
    scheduler.answers["GET /v1/leases/.*"] = cluster.lease(state="granted")
    await page.get_by_role("heading", name="Your notebook is starting").wait_for()
    await _picture(page, "ticket-starting")
    assert not await page.get_by_role("button", name="Leave the line").is_visible()
    scheduler.answers["GET /v1/leases/.*"] = cluster.lease(state="active")
    await page.get_by_text("JupyterLab").wait_for()


async def test_the_ticket_survives_an_outage(
    open_page: Any, scheduler: Any, cluster: Any, known_problems: list[str]
) -> None:
    known_problems.append("503")
    page = await open_page("alice", TICKET)
    scheduler.answers["GET /v1/leases/.*"] = cluster.errors.Unavailable()

    await page.get_by_text("Your place is kept; trying again in 4 s.").wait_for()
    assert await page.get_by_role(
        "heading", name="Not enough of a notebook GPU is free"
    ).is_visible()
    scheduler.answers["GET /v1/leases/.*"] = cluster.lease(position=2)
    await page.get_by_text("nd", exact=True).wait_for()
    assert not await page.get_by_text("Your place is kept").is_visible()


async def test_a_page_logs_in_again_by_itself_when_its_hub_is_back(open_page: Any) -> None:
    page = await open_page("admin", "admin")
    loads: list[str] = []
    page.on("load", lambda _: loads.append("load"))

    async def ended(route: Route) -> None:
        if route.request.resource_type == "fetch":
            await route.fulfill(status=302, headers={"Location": "/hub/login"})
        else:
            await route.continue_()

    await page.route("**/admin", ended)
    # Once by loading the page, which asks nobody anything whom the hub still knows…
    await page.get_by_text("login ended: reload the page").wait_for()
    assert loads == ["load"]
    # …and not again and again: from then on it asks until it is let in.
    await page.unroute("**/admin")
    await page.get_by_text("login ended").wait_for(state="hidden")
    assert loads == ["load"]


async def test_leaving_needs_one_click(open_page: Any, scheduler: Any) -> None:
    page = await open_page("alice", TICKET)

    await page.get_by_role("button", name="Leave the line").click()

    await page.get_by_text("You left the line.").wait_for()
    assert scheduler.writes()[0][1].endswith("/end")


async def test_quotas_are_checked_while_typing_and_saved_once(
    open_page: Any, scheduler: Any
) -> None:
    page = await open_page("admin", "admin", allow_admin_writes=True)
    fixed = page.get_by_label("Fixed of vision in pool a100")
    save = page.locator("#quotas").get_by_role("button", name="Save")

    await fixed.fill("6")
    await page.get_by_text("fixed+guarantee 34 of 32 – over by 2, not saved").wait_for()
    assert await save.is_disabled()
    await _picture(page, "admin-quota-over")
    await fixed.fill("3")
    await page.get_by_text("vision · a100: fixed 2 → 3").wait_for()
    await _picture(page, "admin-quota-fits")
    await save.click()

    await page.get_by_text("Saved. 9 fixed + 22 guaranteed = 31 of 32 GPUs").wait_for()
    saved = [body for _, path, _, body in scheduler.writes() if not body["dry_run"]]
    assert len(saved) == 1


async def test_the_first_change_is_listed_without_a_reload(
    open_page: Any, scheduler: Any, cluster: Any
) -> None:
    page = await open_page("admin", "admin/teams", allow_admin_writes=True)
    await page.get_by_text("Nothing was changed yet.").wait_for()
    receipts = cluster.receipts()
    changed = {"kind": "quota-changed", "by": "admin", "text": "vision: fixed 2 → 3", "data": {}}
    event = receipts.events[0].model_copy(update=changed)
    scheduler.answers["GET /v1/events"] = receipts.model_copy(update={"events": [event]})

    await page.get_by_role("cell", name="vision: fixed 2 → 3").wait_for()
    await _picture(page, "admin-last-changes")


async def test_who_saves_by_keyboard_stays_where_the_answer_is_and_sees_the_change_at_once(
    open_page: Any, scheduler: Any, cluster: Any
) -> None:
    receipts = cluster.receipts()
    changed = {"kind": "quota-changed", "by": "admin", "text": "vision: fixed 2 → 3", "data": {}}
    event = receipts.events[0].model_copy(update=changed)
    page = await open_page("admin", "admin/teams", allow_admin_writes=True)
    # With this clock the page never refreshes by itself.
    await page.clock.install()
    fixed, weight = (
        page.get_by_label("Fixed of vision in pool a100"),
        page.get_by_label("Weight of nlp"),
    )

    await fixed.fill("lots")
    await page.clock.run_for(200)
    await expect(fixed).to_have_attribute("aria-invalid", "true")
    assert await weight.get_attribute("aria-invalid") is None
    await fixed.fill("3")
    await page.clock.run_for(200)
    await page.get_by_text("vision · a100: fixed 2 → 3").wait_for()
    assert await fixed.get_attribute("aria-invalid") is None
    replay = page.get_by_role("button", name="Replay last week")
    await replay.press("Enter")
    await page.locator(".replayed").wait_for()
    await expect(replay).to_be_focused()
    scheduler.answers["GET /v1/events"] = receipts.model_copy(update={"events": [event]})
    await page.locator("#quotas").get_by_role("button", name="Save").press("Enter")
    await page.get_by_role("cell", name="vision: fixed 2 → 3").wait_for()
    await expect(page.locator("#said-of-quotas")).to_be_focused()


async def test_a_dialog_gives_the_focus_back_though_its_button_was_refreshed(
    open_page: Any, scheduler: Any, cluster: Any
) -> None:
    page = await open_page("admin", "admin/idle", allow_admin_writes=True)
    button = page.get_by_role("row", name="user-b").get_by_role("button", name="Reclaim")
    await button.press("Enter")
    await page.evaluate(
        "document.querySelectorAll('[data-reclaim]').forEach(one => { one.dataset.before = 'yes' })"
    )
    await page.locator("[data-before]").first.wait_for(state="detached")
    await page.keyboard.press("Escape")
    await page.get_by_role("dialog").wait_for(state="hidden")
    await expect(button).to_be_focused()


async def test_discard_brings_the_saved_quotas_back(open_page: Any, scheduler: Any) -> None:
    page = await open_page("admin", "admin/teams", allow_admin_writes=True)
    weight = page.get_by_label("Weight of nlp in pool a100")

    await weight.fill("9")
    await page.get_by_role("button", name="Discard").click()

    await expect(weight).to_have_value("3")
    await expect(page.locator("#quotas").get_by_role("button", name="Save")).to_be_disabled()


async def test_last_week_is_replayed_for_an_edit_after_a_discard(
    open_page: Any, scheduler: Any, cluster: Any
) -> None:
    page = await open_page("admin", "admin", allow_admin_writes=True)
    fixed = page.get_by_label("Fixed of vision in pool a100")
    discard = page.get_by_role("button", name="Discard")

    await fixed.fill("3")
    await discard.click()
    await page.evaluate("document.querySelector('[data-last-week]').dataset.before = 'yes'")
    await page.get_by_role("heading", name="Waiting").click()
    # Its buttons are swapped for fresh ones with the next refresh.
    await page.locator("[data-before]").wait_for(state="detached")
    await fixed.fill("3")
    await page.get_by_role("button", name="Replay last week").click()

    await expect(page.locator(".replayed tbody tr").first).to_be_visible()


async def test_an_edit_in_the_moment_of_a_discard_keeps_its_buttons(open_page: Any) -> None:
    page = await open_page("admin", "admin/teams", allow_admin_writes=True)
    await page.get_by_label("Weight of nlp in pool a100").fill("9")

    await page.evaluate(
        """() => {
            document.querySelector('[data-discard]').click();
            const input = document.querySelector("input[name='fixed']");
            input.value = '3';
            input.dispatchEvent(new Event('input', { bubbles: true }));
            return new Promise(done => setTimeout(done, 50));
        }"""
    )

    await expect(page.get_by_role("button", name="Discard")).to_be_visible()


async def test_last_week_reads_as_cards_on_a_phone(open_page: Any) -> None:
    page = await open_page("admin", "admin/teams", size=PHONE, allow_admin_writes=True)
    await page.get_by_label("Fixed of vision in pool a100").fill("3")
    await page.get_by_role("button", name="Replay last week").click()

    vision = page.locator(".replayed tbody tr").first
    await expect(vision.get_by_role("rowheader")).to_have_text("vision")
    labels = await vision.locator("td").evaluate_all("cells => cells.map(c => c.dataset.label)")
    assert labels == [
        "Median wait",
        "Worst in ten",
        "Free GPU-h",
        "Evictions",
        "Lost GPU-h, at most",
    ]
    await expect(page.locator(".replayed thead")).to_be_hidden()
    await expect(vision.get_by_text("0 s → 40 s")).to_be_visible()
    await page.screenshot(path=PICTURES / "admin-replay-phone.png", full_page=True)
    assert await page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


async def test_a_row_of_fragmentation_opens_and_stays_open(
    open_page: Any, scheduler: Any, cluster: Any
) -> None:
    page = await open_page("admin", "admin/waiting", allow_admin_writes=True)

    await page.locator("summary").press("Enter")
    await expect(page.locator("details")).to_contain_text("gpu-02, GPU 0: ¼ free, beside")
    await _picture(page, "admin-waiting-pieces")
    all_jobs = cluster.jobs().jobs
    scheduler.answers["GET /v1/jobs"] = cluster.models.JobList(jobs=all_jobs[:1])
    await page.get_by_text("whisper-2").wait_for(state="detached")
    await expect(page.locator("details")).to_have_attribute("open", "")
    await expect(page.locator("summary")).to_be_focused()


async def test_a_refresh_never_takes_an_edit_away(
    open_page: Any, scheduler: Any, cluster: Any
) -> None:
    page = await open_page("admin", "admin", allow_admin_writes=True)
    await page.get_by_label("Fixed of vision in pool a100").fill("3")
    await page.get_by_role("heading", name="Waiting").click()

    scheduler.answers["GET /v1/jobs"] = cluster.jobs().model_copy(update={"jobs": []})
    await page.get_by_text("whisper-2").wait_for(state="detached")

    assert await page.get_by_label("Fixed of vision in pool a100").input_value() == "3"


async def test_reclaiming_a_busy_notebook_needs_force_and_a_reason(
    open_page: Any, scheduler: Any, known_problems: list[str]
) -> None:
    known_problems.append("422")
    page = await open_page("admin", "admin/idle", allow_admin_writes=True)
    dialog = page.get_by_role("dialog", name="Take back 1 GPU from user-c?")

    await page.get_by_role("row", name="user-c").get_by_role("button", name="Reclaim").click()
    await dialog.get_by_label("Stop it all the same").check()
    await dialog.get_by_role("button", name="Reclaim").click()
    await dialog.get_by_text("Write down why a busy notebook is stopped").wait_for()
    await _picture(page, "admin-reclaim")
    await dialog.get_by_label("Reason").fill("the card is needed for a repair")
    await dialog.get_by_role("button", name="Reclaim").click()

    await dialog.wait_for(state="hidden")
    assert scheduler.writes()[-1][3] == {"force": True, "reason": "the card is needed for a repair"}
    await page.get_by_text("is being returned now: the notebook is stopped").wait_for()


async def test_a_refused_reclaim_leads_on_to_force_and_a_reason(
    open_page: Any, scheduler: Any, cluster: Any, known_problems: list[str]
) -> None:
    """The row said idle; the scheduler has looked since."""
    known_problems.append("409")

    def reclaim(body: Any) -> Any:
        if not body["force"]:
            return NotIdle("Not reclaimed: its GPU computed in the last two minutes.")
        return cluster.holder("user-b", 500, idle_min=41)

    scheduler.answers["POST /v1/leases/.*/reclaim"] = reclaim
    page = await open_page("admin", "admin/idle", allow_admin_writes=True)
    await page.get_by_role("row", name="user-b").get_by_role("button", name="Reclaim").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("button", name="Reclaim").click()

    await dialog.get_by_text("its GPU computed in the last two minutes").wait_for()
    await expect(dialog.get_by_text("It is announced to them now")).to_be_hidden()
    force = dialog.get_by_label("Stop it all the same")
    await expect(force).to_be_focused()
    await force.check()
    await dialog.get_by_label("Reason").fill("a demo at noon")
    await dialog.get_by_role("button", name="Reclaim").click()
    await dialog.wait_for(state="hidden")


@pytest.mark.parametrize("lost", ["connection", "proxy"])
async def test_a_reclaim_that_nobody_answered_may_have_been_done(
    open_page: Any, known_problems: list[str], lost: str
) -> None:
    known_problems += ["Failed to load resource"]
    page = await open_page("admin", "admin/idle", allow_admin_writes=True)

    async def lose(route: Route) -> None:
        if lost == "connection":
            await route.abort("connectionreset")
        else:
            await route.fulfill(status=503, body="<h1>Service Unavailable</h1>")

    await page.route("**/admin/reclaim/*", lose)
    await page.get_by_role("row", name="user-b").get_by_role("button", name="Reclaim").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("button", name="Reclaim").click()

    await dialog.get_by_text("No answer came: it may have been done all the same.").wait_for()


async def test_reclaiming_an_idle_notebook_says_what_its_user_is_told(
    open_page: Any, cluster: Any
) -> None:
    page = await open_page("admin", "admin/idle", allow_admin_writes=True)

    await page.get_by_role("row", name="user-b").get_by_role("button", name="Reclaim").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_text(
        "It is announced to them now: the GPU is returned in 10 min unless they keep it"
    ).wait_for()
    await expect(dialog).to_contain_text(cluster.KEPT)
    assert not await dialog.get_by_label("Stop it all the same").is_visible()
    await dialog.get_by_role("button", name="Reclaim").click()

    await page.get_by_text("Announced at ").wait_for()


async def test_after_a_reclaim_the_row_is_never_as_it_was_before(
    open_page: Any, scheduler: Any, cluster: Any
) -> None:
    def reclaim(_body: Any) -> Any:
        found = cluster.activities()
        view = next(one for one in found.activities if one.lease.user == "user-b")
        asked = {"returns_ms": cluster.NOW + 10 * 60_000, "reclaimed": True}
        lease = view.lease.model_copy(
            update={"state": "warned", "idle": view.lease.idle.model_copy(update=asked)}
        )
        others = [one for one in found.activities if one is not view]
        told = [view.model_copy(update={"lease": lease}), *others]
        scheduler.answers["GET /v1/activities"] = found.model_copy(update={"activities": told})
        return lease

    scheduler.answers["POST /v1/leases/.*/reclaim"] = reclaim
    page = await open_page("admin", "admin/idle", allow_admin_writes=True)
    row = page.get_by_role("row", name="user-b")
    await row.get_by_role("button", name="Reclaim").click()
    await page.get_by_role("dialog").get_by_role("button", name="Reclaim").click()

    await page.get_by_text("Announced at ").wait_for()
    assert "reclaimed" in (await row.text_content() or "")
    await _picture(page, "admin-idle-reclaimed")


async def test_everything_is_reached_by_keyboard(open_page: Any, scheduler: Any) -> None:
    page = await open_page("alice", TICKET)
    reached = []
    name = "document.activeElement.ariaLabel || document.activeElement.textContent.trim()"
    for _ in range(17):
        await page.keyboard.press("Tab")
        reached.append(await page.evaluate(name))

    assert reached == [
        "Skip to content",
        "JupyterHub",
        "Home",
        "Token",
        "GPU Commons",
        "GPU use",
        "How right are we?",
        "Notifications",
        "API",
        "Deutsch",
        "Light or dark",
        "Logout",
        "How right are such times?",
        "Keep waiting",
        "Take ½",
        "CPU now",
        "Leave the line",
    ]


async def test_the_theme_chosen_on_the_hubs_pages_holds_here_and_can_be_changed(
    open_page: Any,
) -> None:
    page = await open_page("alice", "", scheme="light")
    await page.evaluate("localStorage.setItem('jupyterhub-bs-theme', 'dark')")
    await page.reload()
    drawn = "getComputedStyle(document.body).backgroundColor"
    assert await page.evaluate(drawn) == "rgb(33, 37, 41)"

    await page.get_by_role("button", name="Light or dark").click()

    assert await page.evaluate(drawn) == "rgb(255, 255, 255)"
    assert await page.evaluate("localStorage.getItem('jupyterhub-bs-theme')") == "light"


async def test_the_ticket_shows_time_passed_and_likely_left(
    open_page: Any, scheduler: Any, cluster: Any
) -> None:
    page = await open_page("alice", TICKET)
    likely = models.ForecastView(
        made_ms=cluster.NOW, from_ms=600_000, to_ms=1_500_000, text="Likely 10–25 min."
    )
    scheduler.answers["GET /v1/leases/.*"] = cluster.lease(forecast=likely)
    await page.get_by_text("likely 08:10–08:25").wait_for()
    await _picture(page, "ticket-likely")


async def _lab(route: Route) -> None:
    await route.fulfill(body="JupyterLab")


async def _picture(page: Page, name: str) -> None:
    await page.screenshot(path=PICTURES / f"{name}.png", full_page=True)


async def test_utilisation_is_read_by_keyboard(open_page: Any) -> None:
    page = await open_page("admin", "admin/utilisation", script=POSIX)
    await page.locator("#drawing").focus()
    for key, reads in {"End": "Thu 14", "ArrowLeft": "Wed 13", "Home": "Sat 17"}.items():
        await page.keyboard.press(key)
        await expect(page.locator("#reading")).to_contain_text(reads)
