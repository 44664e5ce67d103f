"""The whole product in a real browser: a real hub, JupyterLab, scheduler and simulated GPUs.

One story, told in order by alice and ada of vision, bob and nora of nlp, and an admin; each test is
a row of the acceptance walk-throughs. Texts are asserted literally: they are promises to people.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from ui.product import (
    PATIENCE_MS,
    PHONE,
    WIDE,
    LogIn,
    Product,
    ask_for,
    both_themes,
    call_panel,
    card_of,
    job_row,
    open_panel,
    picture,
    section,
    take_and_start,
)

pytestmark = [pytest.mark.ui, pytest.mark.hub, pytest.mark.timeout(600)]

ACCOUNT = "nothing isolates"
BUSY, QUIET = re.compile(r"(?<!\d)([3-9]\d|100) %"), re.compile(r"(?<!\d)\d %")
JOB = "train-digits-1"


@pytest.fixture(scope="module")
def product(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Product]:
    # Not below pytest's own folders: the paths of sockets have to be short.
    folder = Path(tempfile.mkdtemp(prefix="gc"))
    one = Product(folder, failed_before=request.session.testsfailed)
    try:
        one.start()
        yield one
    finally:
        one.stop()
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def people(product: Product, browser: Browser) -> LogIn:
    """Who is asked for is logged in, once."""
    here: dict[str, Page] = {}

    def find(user: str) -> Page:
        if user not in here:
            here[user] = product.log_in(browser, user)
        here[user].bring_to_front()
        return here[user]

    return find


@pytest.fixture(autouse=True)
def _story(request: pytest.FixtureRequest, product: Product) -> Iterator[None]:
    """No page fails; and after a test that did, the story cannot go on."""
    if request.session.testsfailed > product.failed_before:
        pytest.skip("an earlier part of the story failed")
    yield
    # Told once: a second try is not to fail for what went wrong in the first.
    problems, product.problems = product.problems, []
    assert problems == []


# --- A: the first notebook -------------------------------------------------------------------


def test_the_start_page_says_what_is_free_and_what_is_enforced(people: LogIn) -> None:
    page = people("alice")

    expect(page.get_by_text("vision: 2 of 2 notebook GPUs free")).to_be_visible()
    expect(page.get_by_text(re.compile(r"updated (just now|\d+ s ago)"))).to_be_visible()
    expect(card_of(page, "½")).to_contain_text("A100-40 · 19.4 GiB")
    for size in ("¼", "½", "1"):
        expect(card_of(page, size)).to_contain_text("free now")
    expect(page.locator(".gpucommons")).to_contain_text(
        "Memory is not limited on this node: nothing stops a neighbour from using more than their"
        " share. Computing time is shared and not guaranteed."
    )
    expect(page.locator(".gpucommons")).to_contain_text(
        "Unless chosen otherwise, the notebook stops after 60 min without GPU use and without a running"
        " cell; saved files stay."
    )
    expect(page.locator(".gpucommons")).to_contain_text(ACCOUNT)
    expect(page.get_by_text("simulated", exact=True)).to_be_visible()
    card_of(page, "½").click()
    both_themes(page, "start")


def test_the_spawn_page_says_where_the_notebook_is_placed(people: LogIn) -> None:
    page = people("alice")
    take_and_start(page, "½")

    placed = re.compile(r"Placed on \S+ \(½ of A100-40, simulated\), starting")
    expect(page.locator("#progress-message")).to_have_text(placed)
    picture(page, "spawn")


def test_lab_shows_the_slice_the_quota_and_the_idle_rule(people: LogIn, product: Product) -> None:
    page = people("alice")
    page.wait_for_url("**/lab**")
    page.goto(f"{product.url}/user/alice/lab/tree/train.ipynb")
    panel = open_panel(page)
    tile = section(panel, "My GPU")

    expect(tile).to_contain_text("½of A100-40")
    expect(tile).to_contain_text("Isolation none: nothing limits memory; compute is shared")
    expect(tile).to_contain_text(re.compile(r"\d\.\d of 19\.4 GiB"))
    expect(tile).to_contain_text(re.compile(r"\d %"))
    expect(tile).to_contain_text("Active · returned after 60 idle min")
    expect(tile).to_contain_text("simulated")
    expect(tile).to_contain_text(ACCOUNT)
    expect(section(panel, "vision")).to_contain_text("½ of 2 fixed")
    expect(page.locator(".gc-Status-item")).to_have_text(
        re.compile(r"GPU ½ \d\.\d/19\.4 GiB · simulated")
    )


def test_the_tile_moves_under_a_busy_cell(people: LogIn, product: Product) -> None:
    page = people("alice")
    expect(page.get_by_text("Python 3 (ipykernel) | Idle")).to_be_visible()
    page.locator(".jp-Notebook .jp-Cell").nth(1).locator(".cm-content").click()
    page.keyboard.press("Shift+Enter")
    tile = section(open_panel(page), "My GPU")

    expect(tile).to_contain_text(BUSY)
    # JupyterLab's question about news would lie over the first screen.
    expect(page.locator(".Toastify__toast")).to_have_count(0)
    picture(page, "lab-light")
    product.end_busy_cell()
    expect(tile).to_contain_text(QUIET)


# --- B: from the notebook to a job -----------------------------------------------------------


def test_train_is_filled_in_from_the_notebook(people: LogIn) -> None:
    panel = open_panel(people("alice"))
    train = section(panel, "Train")

    expect(train.get_by_label("What to run")).to_contain_text(
        re.compile(r"This notebook \(\S+, saved \d\d:\d\d\)")
    )
    train.get_by_label("Part of it").select_option("train(resume_dir)")
    train.get_by_role("button", name="More…").click()
    expect(train).to_contain_text(re.compile(r"Goes along2 files"))
    expect(train).to_contain_text(re.compile(r"train_digits\.py\d\.\d KiB"))
    expect(train).to_contain_text(".envis hidden")
    # One run or a sweep; CPU alone, by memory, and sizes up to 4: eight are not offered to a team
    # that may hold four.
    expect(train.get_by_role("radio")).to_have_count(2 + 8)
    train.get_by_role("button", name="Less").click()


def test_the_quota_line_says_what_can_be_stopped(people: LogIn) -> None:
    panel = open_panel(people("alice"))
    ask_for(panel, "½")
    quote = panel.locator("#gc-quote")
    expect(quote).to_contain_text("no other team can stop this job. It would start now.")
    ask_for(panel, "4")

    expect(quote).to_have_text(
        "Borrowed. vision has ½ of ½ guaranteed GPUs free, so this job borrows 4: other teams can"
        " take them back, and it waits again. With ½ no other team could stop it."
        " Needs 4 GPUs on one node; 3 are free. Would start now with 3 GPUs."
    )


def test_a_job_that_must_wait_says_why_and_what_would_start_now(
    people: LogIn, product: Product
) -> None:
    page = people("alice")
    page.goto(f"{product.url}/user/alice/lab/tree/train_digits.py")
    panel = open_panel(page)
    train = section(panel, "Train")
    expect(train.get_by_label("What to run")).to_contain_text("This script")
    ask_for(panel, "4")
    train.get_by_role("button", name="More…").click()
    train.get_by_label("Arguments of the script").fill("--epochs 100 --seconds-per-epoch 1")
    train.get_by_role("button", name="Submit").click()

    row = job_row(panel, JOB)
    expect(row).to_contain_text("waiting · 4 GPUs")
    expect(row).to_contain_text("Needs 4 GPUs on one node; 3 are free.")
    expect(row).to_contain_text("1st in line")
    expect(page.locator(".gc-JobPage:visible h1")).to_have_text(JOB)
    picture(page, "waiting")
    row.get_by_role("button", name="Start now with 3").click()
    # The same job on fewer GPUs, on the same page.
    expect(row).to_contain_text("running · 3 borrowed")


def test_the_job_page_shows_log_curve_and_checkpoints(people: LogIn) -> None:
    page = people("alice")
    panel = open_panel(page)
    # Start now has opened it.
    job = page.locator(".gc-JobPage:visible")

    expect(job.locator("h1")).to_have_text(JOB)
    expect(job).to_contain_text("borrowed, can be stopped")
    expect(job).to_contain_text("3 × A100-40")
    expect(job).to_contain_text(re.compile(r"epoch 3 +loss \d\.\d+ +accuracy \d\.\d+ +saved"))
    expect(job).to_contain_text(re.compile(r"epoch \d+ of 100"))
    expect(job).to_contain_text("verified")
    expect(job.locator("svg").first).to_be_visible()
    expect(section(panel, "vision")).to_contain_text("0 of ½ + 3 borrowed")
    picture(page, "job-light")


# --- A10, B8, B9: the owners want it back ----------------------------------------------------


def test_lent_gpus_come_back_to_a_ticket_which_starts_its_notebook_by_itself(
    people: LogIn,
) -> None:
    bob = people("bob")
    expect(card_of(bob, "1")).to_contain_text(
        "yours, back in 20 s: lent to training, which makes room"
    )
    both_themes(bob, "start-lent")
    # Asked for once, though the pages of GPU Commons have never seen bob before.
    bob.get_by_role("button", name="Take it back for 1 GPU").click()
    expect(bob.locator("main")).to_contain_text("You asked for 1 GPU at")
    bob.wait_for_url("**/user/bob/lab**")
    tile = section(open_panel(bob), "My GPU")
    expect(tile).to_contain_text("1of A100-40")


def test_the_stopped_job_says_for_whom_and_waits_in_line(people: LogIn) -> None:
    page = people("alice")
    job = page.locator(".gc-JobPage:visible")

    expect(job).to_contain_text(
        re.compile(r"attempt 1: stopped for .*nlp.*: goes on from epoch \d+")
    )
    expect(job_row(open_panel(page), JOB)).to_contain_text("waiting · 3 GPUs")
    expect(job_row(open_panel(page), JOB)).to_contain_text("1st in line")
    picture(page, "job-stopped")


def test_a_full_team_gets_a_ticket_instead_of_a_pending_start(people: LogIn) -> None:
    nora = people("nora")
    expect(nora.get_by_text("nlp: 0 of 1 notebook GPUs free")).to_be_visible()
    expect(card_of(nora, "½")).to_contain_text(
        "needs ½, nlp has 0: wait in line, or ask your admin"
    )
    expect(nora.get_by_role("radio", name=re.compile("½"))).to_be_disabled()
    nora.get_by_role("button", name="Wait in line for ½ GPU").click()

    main = nora.locator("main")
    expect(nora.get_by_role("heading", level=1)).to_have_text("No notebook GPU is free in nlp")
    expect(main).to_contain_text("1st in line")
    expect(main).to_contain_text(re.compile(r"You asked for ½ GPU at \d\d:\d\d\."))
    expect(main).to_contain_text(
        "You may close this page: on your turn the notebook starts by itself."
    )
    expect(main).to_contain_text("nlp holds 1 of its 1 fixed GPU:")
    expect(main).to_contain_text("bob · 1")
    expect(main).to_contain_text("CPU now: moving to a GPU later restarts the notebook.")
    expect(nora.get_by_role("link", name="Keep waiting")).to_be_visible()
    for name in ("CPU now", "Leave the line"):
        expect(nora.get_by_role("button", name=name)).to_be_visible()
    # It is worked out beside the cycles, some seconds later.
    expect(main).to_contain_text("Likely ", timeout=PATIENCE_MS)
    both_themes(nora, "ticket")
    nora.set_viewport_size(PHONE)
    assert nora.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    picture(nora, "ticket-phone")
    nora.set_viewport_size(WIDE)


def test_leaving_the_line_ends_the_ticket(people: LogIn) -> None:
    nora = people("nora")
    nora.get_by_role("button", name="Leave the line").click()
    expect(nora.get_by_role("button", name="Leave the line")).to_be_hidden()


# --- C: the admin ----------------------------------------------------------------------------


def test_the_admin_sees_capacity_use_and_who_waits(people: LogIn, product: Product) -> None:
    admin = people("admin")
    admin.goto(f"{product.url}/services/gpucommons/admin")
    main = admin.locator("main")

    expect(main).to_contain_text(re.compile(r"GPUs held\s*1½\s*of 4"))
    expect(main).to_contain_text("really used, last hour")
    expect(main).to_contain_text("held idle")
    expect(main).to_contain_text("2½ of 4 free")
    waiting = main.get_by_role("row").filter(has_text="alice · vision")
    expect(waiting).to_contain_text("3 GPUs")
    expect(waiting).to_contain_text("Needs 3 GPUs on one node; 2 are free.")
    expect(admin.locator("header")).to_contain_text(re.compile(r"updated \d+ s ago"))
    both_themes(admin, "admin-now")
    for tab in ("Waiting", "Idle", "Evictions", "Report"):
        admin.get_by_role("link", name=re.compile(f"^{tab}")).click()
        expect(main).to_be_visible()
        picture(admin, f"admin-{tab.lower()}")


def test_an_eviction_leaves_a_receipt(people: LogIn, product: Product) -> None:
    admin = people("admin")
    admin.goto(f"{product.url}/services/gpucommons/admin/evictions")
    receipt = admin.get_by_role("row").filter(has_text=JOB)

    for text in (f"vision/{JOB}", "nlp/notebook", "fixed quota of nlp", "yes"):
        expect(receipt).to_contain_text(text)
    expect(receipt).to_contain_text(re.compile(r"epoch \d+"))


def test_quotas_that_cannot_be_laid_out_are_not_saved(people: LogIn, product: Product) -> None:
    admin = people("admin")
    admin.goto(f"{product.url}/services/gpucommons/admin/teams")
    admin.get_by_label("Fixed of vision in pool gpu").fill("3")

    expect(admin.locator("[data-verdict]")).to_have_text(
        "gpu: fixed+guarantee 5 of 4: over by 1, not saved."
        " Lower these by 1 in all: vision (fixed 3, guaranteed ½), nlp (fixed 1, guaranteed ½)."
    )
    expect(admin.locator("#quotas").get_by_role("button", name="Save")).to_be_disabled()
    picture(admin, "quota-over")


def test_a_saved_quota_applies_at_once_and_touches_no_notebook(
    people: LogIn, product: Product
) -> None:
    admin = people("admin")
    admin.get_by_label("Fixed of vision in pool gpu").fill("1.5")
    expect(admin.locator("[data-verdict]")).to_have_text(
        "2½ fixed + 1 guaranteed = 3½ of 4 GPUs: they fit"
    )
    expect(admin.locator("[data-changes]")).to_have_text("vision · gpu: fixed 2 → 1½")
    both_themes(admin, "quota")
    admin.locator("#quotas").get_by_role("button", name="Save").click()
    expect(admin.locator("[data-verdict]")).to_have_text(
        "Saved. 2½ fixed + 1 guaranteed = 3½ of 4 GPUs: they fit"
    )

    panel = open_panel(people("alice"))
    expect(section(panel, "vision")).to_contain_text("½ of 1½ fixed")
    expect(section(panel, "My GPU")).to_contain_text("½of A100-40")


def test_a_researcher_sees_use_without_names_and_changes_nothing(
    people: LogIn, product: Product
) -> None:
    nora = people("nora")
    nora.goto(f"{product.url}/services/gpucommons/admin")
    main = nora.locator("main")

    expect(main).to_contain_text("2½ of 4 free")
    expect(main).to_contain_text("vision")
    assert "alice" not in nora.content()
    expect(nora.get_by_role("button", name="Save")).to_have_count(0)
    picture(nora, "use")


# --- B9, B11: back, and done -----------------------------------------------------------------


def test_the_job_resumes_where_it_stopped_and_brings_its_results(
    people: LogIn, product: Product
) -> None:
    bob = people("bob")
    bob.goto(f"{product.url}/hub/home")
    expect(bob.locator("[data-gpucommons=notice]")).to_have_count(0)
    bob.locator("#stop").click()
    # Without a reload.
    told = bob.locator("[data-gpucommons=notice]", has_text="Not running. Last started on")
    expect(told.get_by_role("button", name="Start again on")).to_be_visible()
    page = people("alice")
    panel, job = open_panel(page), page.locator(".gc-JobPage:visible")

    expect(job_row(panel, JOB)).to_contain_text("running · 3 borrowed")
    expect(job).to_contain_text(re.compile(r"resumed from epoch \d+"))
    product.hurry()
    expect(job_row(panel, JOB)).to_contain_text("finished")
    expect(job).to_contain_text(f"in results/{JOB}/ in the home folder of alice.")
    expect(job).to_contain_text("attempt 2")
    result = json.loads((product.home("alice") / "results" / JOB / "digits.json").read_text())
    assert result["epochs"] == 100
    picture(page, "job-finished")


# --- A8: back to CPU -------------------------------------------------------------------------


def test_dropping_the_gpu_restarts_the_server_and_loads_the_page_anew(
    people: LogIn, product: Product
) -> None:
    page = people("ada")
    take_and_start(page, "¼")
    page.wait_for_url("**/lab**")
    expect(section(open_panel(page), "My GPU")).to_contain_text("¼of A100-40")
    product.restarts = True
    page.evaluate("window.old = true")
    page.get_by_role("menuitem", name="View").click()
    page.get_by_text("Activate Command Palette").click()
    page.locator(".lm-CommandPalette-input").fill("Drop to CPU")
    page.keyboard.press("Enter")
    dialog = page.locator(".jp-Dialog")
    expect(dialog).to_contain_text("The notebook server restarts without its GPU")
    dialog.get_by_role("button", name="Restart without GPU").click()

    expect(dialog).to_contain_text("This page loads again by itself")
    picture(page, "dropping")
    page.wait_for_function("window.old === undefined")
    panel = open_panel(page)
    expect(section(panel, "My GPU")).to_contain_text("This notebook has no GPU.")
    expect(section(panel, "vision")).to_contain_text("½ of 1½ fixed")
    picture(panel, "no-gpu")
    with page.expect_popup() as hub:
        panel.get_by_role("button", name="Restart it with a GPU from the hub…").click()
    hub.value.wait_for_url("**/hub/home")
    product.restarts = False


# --- the same in Notebook 7 ------------------------------------------------------------------


def test_notebook_7_opens_the_panel_beside_its_files(people: LogIn, product: Product) -> None:
    page = people("alice")
    page.goto(f"{product.url}/user/alice/tree")
    panel = call_panel(page)

    expect(section(panel, "My GPU")).to_contain_text("½of A100-40")
    expect(section(panel, "vision")).to_contain_text("½ of 1½ fixed")
    expect(job_row(panel, JOB)).to_contain_text("finished")
    expect(section(panel, "Train")).to_contain_text("Open a notebook or script first")
    expect(page.locator(".jp-DirListing-item", has_text="train.ipynb")).to_be_visible()
    picture(page, "notebook-tree")


def test_notebook_7_trains_its_notebook_and_opens_jobs_beside_it(
    people: LogIn, product: Product
) -> None:
    page = people("alice")
    page.goto(f"{product.url}/user/alice/notebooks/train.ipynb")
    panel = call_panel(page)
    train = section(panel, "Train")

    expect(train.get_by_label("What to run")).to_contain_text("This notebook")
    train.get_by_label("Part of it").select_option("train(resume_dir)")
    expect(train.get_by_role("button", name="Submit")).to_be_enabled()
    panel.get_by_role("button", name=JOB, exact=True).click()
    job = page.locator(".gc-JobPage:visible")
    expect(job).to_contain_text(f"in results/{JOB}/ in the home folder of alice.")
    expect(job.locator("svg").first).to_be_visible()
    expect(page.locator(".jp-Notebook")).to_be_visible()
    picture(page, "notebook-job")
    with page.expect_popup() as opened:
        job.get_by_role("button", name="Show the folder").click()
    expect(opened.value).to_have_url(f"{product.url}/user/alice/tree/results/{JOB}")
    opened.value.close()


def test_dark_lab_has_the_same_panel(people: LogIn, product: Product) -> None:
    product.set_theme("alice", "JupyterLab Dark")
    page = people("alice")
    page.goto(f"{product.url}/user/alice/lab")
    panel = open_panel(page)

    expect(page.locator("body[data-jp-theme-light=false]")).to_be_attached()
    expect(section(panel, "My GPU")).to_contain_text("of A100-40")
    # The curve and the log come each in its own time.
    expect(page.locator(".gc-JobPage:visible")).to_contain_text("accuracy 96")
    expect(page.locator(".gc-JobPage:visible .gc-Log")).to_contain_text("epoch 100")
    picture(page, "job-dark")
