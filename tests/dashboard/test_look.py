"""The look of the page in a real browser: phone and desk, light and dark, by keyboard, with strange texts."""

import threading
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from schemas.enums import SyncState
from tests.dashboard.browser import DESK, PHONE, SCHEMES, Scheme, Watched, watched
from tests.dashboard.desk import state
from tests.dashboard.gallery import LONG, MARKUP, SHORTAGE, everything, measures
from tests.dashboard.served import Site, serving

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with serving() as running:
        running.say(*everything(time.time_ns() // 1_000_000))
        ended = threading.Event()

        def live() -> None:
            while not ended.wait(0.5):
                running.say(*measures())

        agents = threading.Thread(target=live)
        agents.start()
        yield running
        ended.set()
        agents.join()


@pytest.fixture
def seen(site: Site, browser: Browser) -> Iterator[Watched]:
    with watched(browser, f"http://127.0.0.1:{site.port}/") as one:
        one.page.locator("#past-list button", has_text="app-synchronized").first.click()
        expect(one.page.locator("#timeline-steps > li").first).to_be_visible()
        one.page.get_by_role("button", name="app-synchronized", exact=True).click()
        expect(one.page.locator("#chart-legend")).to_contain_text("limit 1000m")
        yield one


@pytest.mark.parametrize("scheme", SCHEMES)
def test_everything_can_be_read_in_both_colour_schemes(seen: Watched, scheme: Scheme) -> None:
    seen.resize(DESK, scheme)
    assert seen.faint == []
    ground = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    darkness = sum(int(part) for part in ground.removeprefix("rgb(").removesuffix(")").split(","))
    assert (darkness < 3 * 64) == (scheme == "dark"), "the scheme is followed at all"


def test_no_screen_is_too_narrow(seen: Watched) -> None:
    for width in (320, 375, 768, 1024, 1280, 2560):
        seen.resize({"width": width, "height": 800}, "light")
        seen.page.wait_for_timeout(200)  # the chart follows the new width
        assert seen.overflow <= 0, width
        cut = seen.page.evaluate(
            """() => [...document.querySelectorAll('.card, .node-head, td, .facts, .line, .what')]
                 .filter((one) => one.checkVisibility() && one.scrollWidth > one.clientWidth + 1)
                 .map((one) => `${one.className} ${one.textContent.trim().slice(0, 40)}`)"""
        )
        assert cut == [], width


def test_on_a_phone_what_is_chosen_is_brought_into_view_and_fingers_hit_the_buttons(seen: Watched) -> None:
    seen.resize(PHONE, "light")
    seen.page.get_by_role("button", name="app-pending", exact=True).click()
    expect(seen.page.locator("#detail-title")).to_be_in_viewport()
    expect(seen.page.locator("#detail-title")).to_have_text("One workload: app-pending")
    small = seen.page.evaluate(
        """() => [...document.querySelectorAll('button, select, input:not([type="radio"])')]
             .filter((one) => one.checkVisibility() && one.getBoundingClientRect().height < 24)
             .map((one) => one.textContent)"""
    )
    assert small == [], "WCAG 2.2 asks for 24 pixels"


def test_the_whole_page_works_by_keyboard_alone(seen: Watched) -> None:
    page = seen.page
    page.goto("about:blank")  # nothing was clicked before
    page.goto(seen.origin)
    expect(page.locator("#workload-list tr").first).to_be_visible()
    page.keyboard.press("Tab")
    assert seen.focused["text"] == "Skip to the picture"
    page.keyboard.press("Enter")
    assert seen.focused["id"] == "main"

    order = []
    for _ in range(60):
        page.keyboard.press("Tab")
        order.append(seen.focused)
        if order[-1]["id"] == "scale":
            break
    ids = [one["id"] for one in order]
    assert all(one["seen"] for one in order), [one for one in order if not one["seen"]]
    wanted = ["filter", "sort", "form-cpu", "form-memory", "form-shortage", "what-if", "scale"]
    assert [one for one in ids if one in wanted] == wanted
    assert "resource" in [one["name"] for one in order]

    page.locator("#filter").focus()
    page.keyboard.type("failed")
    expect(page.locator("#workload-list tr")).to_have_count(1)
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    while seen.focused["text"] != "app-failed":
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#detail-title")).to_be_focused()
    expect(page.locator("#detail-title")).to_have_text("One workload: app-failed")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("radio", name="Memory")).to_be_checked()
    page.keyboard.press("Tab")
    page.keyboard.type("2")
    page.keyboard.press("Enter")
    expect(page.locator("#form-result")).to_contain_text("Sent", use_inner_text=True)


def test_enter_in_the_form_only_asks(site: Site, seen: Watched) -> None:
    earlier = {action.action_id for action in site.actions}
    seen.page.locator("#form-cpu").fill("2")
    seen.page.keyboard.press("Enter")
    expect(seen.page.locator("#form-result")).to_contain_text("Sent")
    asked = site.await_action(lambda action: action.action_id not in earlier)
    assert asked.dry_run


def test_everything_has_a_name_and_a_role_for_a_screen_reader(seen: Watched) -> None:
    page = seen.page
    for name in (
        "What needs attention",
        "Nodes",
        "Workloads",
        "Scalings",
        "From metric to verified",
        "Components",
    ):
        expect(page.get_by_role("region", name=name).first).to_be_attached()
    expect(page.get_by_role("table", name="Workloads")).to_be_visible()
    expect(page.get_by_role("status").first).to_have_text("live")
    expect(
        page.get_by_role("img", name="CPU of hpc-1: 5000m allocated, 800m reserved, 2200m available")
    ).to_be_visible()
    nameless = page.evaluate(
        """() => [...document.querySelectorAll('input, select, button')].filter((one) =>
             !one.labels?.length && !one.textContent.trim() && !one.ariaLabel).map((one) => one.outerHTML)"""
    )
    doubled = page.evaluate(
        """() => [...document.querySelectorAll('[id]')].map((one) => one.id)
             .filter((id, place, all) => all.indexOf(id) !== place)"""
    )
    broken = page.evaluate(
        """() => [...document.querySelectorAll('[aria-labelledby]')]
             .map((one) => one.getAttribute('aria-labelledby'))
             .filter((id) => !document.getElementById(id))"""
    )
    assert (nameless, doubled, broken) == ([], [], [])


def test_what_needs_attention_comes_first_the_gravest_on_top(seen: Watched) -> None:
    needs = seen.page.locator("#needs li").all_text_contents()
    assert "policy_manager is lost" in needs[0] or needs[0].startswith("problem")
    assert any("app-failed on hpc-1 FAILED" in one for one in needs)
    assert any("app-drift-detected on hpc-1 drifted" in one for one in needs)
    assert any("paused" in one for one in needs)
    levels = [one.startswith("problem") for one in needs]
    assert levels == sorted(levels, reverse=True)
    top = seen.page.evaluate("document.querySelector('main > section').id")
    assert top == "attention"


def test_running_and_waiting_actions_show_their_phase_and_what_they_wait_for(seen: Watched) -> None:
    running = seen.page.locator("#action-list > li", has_text="app-applying")
    expect(running.locator("[aria-current=step]")).to_have_text("updating")
    waiting = seen.page.locator("#action-list > li", has_text="app-pending")
    expect(waiting).to_contain_text("waiting")
    expect(waiting).to_contain_text(SHORTAGE)


def test_a_refusal_that_comes_again_and_again_is_one_entry_with_its_count(seen: Watched) -> None:
    entries = seen.page.locator("#refusal-list li", has_text="AT_MAXIMUM")
    expect(entries).to_have_count(1)
    expect(entries).to_contain_text("3 times")
    expect(entries).to_contain_text("It has the maximum that its policy allows.")


def test_texts_of_strangers_are_shown_and_never_obeyed(seen: Watched) -> None:
    expect(seen.page.locator("#refusal-list")).to_contain_text(MARKUP)
    expect(seen.page.locator("#needs")).to_contain_text(MARKUP)
    assert seen.page.title() == "piriscale"
    assert seen.page.locator("img").count() == 0


def test_a_long_name_is_shown_whole(seen: Watched) -> None:
    seen.resize(PHONE, "dark")
    expect(seen.page.get_by_role("button", name=LONG, exact=True)).to_be_visible()
    assert seen.overflow <= 0


def test_the_filter_and_the_order_find_a_workload(seen: Watched) -> None:
    rows = seen.page.locator("#workload-list tr")
    assert "app-failed" in rows.all_text_contents()[0], "what is in trouble comes first"
    seen.page.locator("#sort").select_option("name")
    names = seen.page.locator("#workload-list tr button").all_text_contents()
    assert names == sorted(names)
    seen.page.locator("#filter").fill("drift hpc-1")
    expect(rows).to_have_count(1)
    seen.page.locator("#filter").fill("nothing like it")
    expect(seen.page.locator("#no-workloads")).to_have_text("no workload matches the filter")


def test_a_thousand_workloads_do_not_choke_the_page(browser: Browser) -> None:
    with serving() as site:
        site.say(*(state(f"w-{number:04}") for number in range(1000)))
        site.say(state("w-0999", sync_state=SyncState.FAILED))
        with watched(browser, f"http://127.0.0.1:{site.port}/") as one:
            expect(one.page.locator("#workload-list tr").first).to_contain_text("w-0999")
            expect(one.page.locator("#no-workloads")).to_contain_text("the first 200 of 1000")
            one.page.locator("#filter").fill("w-0777")
            expect(one.page.locator("#workload-list tr")).to_have_count(1)


def test_a_page_says_when_its_picture_is_old_and_when_it_is_live_again(browser: Browser) -> None:
    with serving() as first:
        port = first.port
        with watched(browser, f"http://127.0.0.1:{port}/") as one:
            assert first.process.stop()
            expect(one.page.locator("#live")).to_have_text("not connected, trying again")
            with serving(port=port) as second:
                second.say(state("after"))
                expect(one.page.locator("#live")).to_have_text("live")
                expect(one.page.locator("#workload-list")).to_contain_text("after")
            one.faults[:] = [fault for fault in one.faults if "ERR_CONNECTION_REFUSED" not in fault]


def test_a_page_says_when_the_bus_has_fallen_silent(browser: Browser) -> None:
    with serving() as site:
        site.say(*everything(time.time_ns() // 1_000_000))
        with watched(browser, f"http://127.0.0.1:{site.port}/") as one:
            site.dashboard._heard_ms -= 60_000  # as if it were a minute later
            expect(one.page.locator("#live")).to_contain_text("nothing heard from the broker for 6")
