"""The page of a really running system, in a real browser: what happens is seen, what is asked for happens."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.dashboard.browser import Watched, watched
from tests.dashboard.stage import Application, Stage, staged
from tests.system.bench import NODE

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with staged() as running:
        yield running


@pytest.fixture
def seen(stage: Stage, browser: Browser) -> Iterator[Watched]:
    with watched(browser, stage.url) as one:
        yield one


@pytest.fixture
def page(seen: Watched) -> Page:
    return seen.page


def open_workload(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()
    expect(page.locator("#detail-title")).to_have_text(f"One workload: {name}")


def test_a_slow_application_is_seen_becoming_fast_from_the_metric_to_the_verified_limit(
    stage: Stage, page: Page
) -> None:
    with Application(stage, "sim-1"):
        stage.client.await_message(
            "scaling/status", lambda b: b["workload_id"] == "sim-1" and b.get("outcome") == "COMPLETED"
        )
        page.locator("#past-list button", has_text="by its performance").first.click()
        facts = page.locator("#timeline-facts")
        expect(facts).to_contain_text("sim-1")
        expect(facts).to_contain_text("COMPLETED")
        expect(facts).to_contain_text("→ 1000m CPU")
        steps = page.locator("#timeline-steps > li")
        expect(steps.first).to_contain_text("degraded")
        expect(steps.first).to_contain_text("(threshold 300)")
        expect(page.locator("#timeline-steps")).to_contain_text("outcome told")
        titles = page.locator("#timeline-steps .title").all_text_contents()
        order = ["degraded", "action asked", "room granted", "recorded", "update sent", "applied and read back"]
        assert [title for title in titles if title in order] == order
        assert titles.index("verified") > titles.index("applied and read back")
        took = page.locator("#timeline-steps .took").all_text_contents()
        assert all(one.endswith((" ms", " s")) for one in took[1:]), "every step says how long it took"
        expect(page.locator("#timeline-phases")).to_contain_text("confirming")

        open_workload(page, "sim-1")
        expect(page.locator("#chart canvas")).to_be_visible()
        legend = page.locator("#chart-legend")
        expect(legend).to_contain_text("threshold 300 ms")
        expect(legend).to_contain_text("limit 1000m")
        expect(page.locator("#chart")).to_have_attribute("aria-label", re.compile("Latency 1.*limit 1000m"))
        page.get_by_role("radio", name="Memory").check()
        expect(legend).to_contain_text("limit 256Mi")
    row = page.locator("#workload-list tr", has_text="sim-1")
    expect(row).to_contain_text("SYNCHRONIZED")
    expect(row).to_contain_text("250m of 1000m")


def test_a_refusal_says_why_in_words_and_numbers(stage: Stage, page: Page) -> None:
    final = stage.client.final(stage.client.scale(NODE, "sim-2", target={"cpu_limit": 400_000}))

    refusal = page.locator("#refusal-list li", has_text="sim-2").first
    expect(refusal).to_contain_text("REJECTED INFEASIBLE")
    expect(refusal).to_contain_text("This can never be granted here")
    expect(refusal).to_contain_text(final["message"])
    assert "total 16000m" in final["message"]


def test_what_if_says_what_would_happen_and_changes_nothing(stage: Stage, page: Page) -> None:
    before = stage.client.heard(f"resources/state/{NODE}/sim-3")[-1]
    mark = stage.client.mark()
    open_workload(page, "sim-3")
    page.get_by_label("CPU", exact=True).last.fill("2")
    page.get_by_role("button", name="What if?").click()

    result = page.locator("#form-result")
    expect(result).to_contain_text("What if: COMPLETED")
    page.get_by_label("Memory", exact=True).last.fill("900Gi")
    page.get_by_role("button", name="What if?").click()
    expect(result).to_contain_text("What if: REJECTED (INFEASIBLE)")
    asked = stage.client.heard("scaling/action", mark)
    assert {one["dry_run"] for one in asked} == {True}
    assert stage.client.heard(f"resources/state/{NODE}/sim-3")[-1]["generation"] == before["generation"]


def test_the_form_scales_and_shows_how_it_went(stage: Stage, page: Page) -> None:
    mark = stage.client.mark()
    open_workload(page, "sim-4")
    page.get_by_label("CPU", exact=True).last.fill("750m")
    page.get_by_label("Memory", exact=True).last.fill("512Mi")
    page.get_by_role("button", name="Scale now").click()

    expect(page.locator("#form-result")).to_contain_text("COMPLETED")
    expect(page.locator("#form-result")).to_contain_text("In force: 750m CPU, 512Mi")
    (action,) = {one["action_id"] for one in stage.client.heard("scaling/action", mark)}
    assert stage.client.final(action)["outcome"] == "COMPLETED"
    expect(page.locator("#workload-list tr", has_text="sim-4")).to_contain_text("of 750m")


def test_what_cannot_be_meant_is_told_at_the_form(stage: Stage, seen: Watched) -> None:
    mark = stage.client.mark()
    open_workload(seen.page, "sim-4")
    seen.page.get_by_label("CPU", exact=True).last.fill("plenty")
    seen.page.get_by_role("button", name="Scale now").click()

    expect(seen.page.locator("#form-result")).to_contain_text("'plenty' is no CPU quantity")
    assert stage.client.heard("scaling/action", mark) == []
    seen.forgive(422)


def test_the_page_says_that_containers_are_simulated(page: Page) -> None:
    expect(page.locator("#counts")).to_contain_text("no real one is changed")
    expect(page.locator("#node-list")).to_contain_text("simulated")


def test_a_switched_off_form_is_not_there_and_the_server_refuses_what_is_sent_all_the_same(
    browser: Browser,
) -> None:
    with staged(scale_form=False) as stage, watched(browser, stage.url) as one:
        page = one.page
        open_workload(page, "sim-1")
        expect(page.get_by_role("button", name="What if?")).to_be_visible()
        expect(page.get_by_role("button", name="Scale now")).to_be_hidden()
        expect(page.locator("#form-note")).to_contain_text("switched off")
        mark = stage.client.mark()
        form = {"node": NODE, "workload": "sim-1", "cpu": "1", "dry_run": False}
        status = page.evaluate(
            """async (form) => (await fetch('/api/scale', {method: 'POST', body: JSON.stringify(form),
                 headers: {'Content-Type': 'application/json'}})).status""",
            form,
        )
        assert status == 403
        assert stage.client.heard("scaling/action", mark) == []
        one.forgive(403)
