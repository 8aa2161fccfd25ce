"""The form in a real browser: what it says is about the workload shown, and stays as long as that is."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from schemas.enums import ActionOutcome, Phase, Reason, TaskState
from schemas.scaling import ScalingStatus
from tests.dashboard.browser import watched
from tests.dashboard.desk import NODE, state
from tests.dashboard.served import Site, serving

pytestmark = pytest.mark.slow


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as running:
        running.say(state("cam"), state("nav"))
        yield running


@pytest.fixture
def page(site: Site, browser: Browser) -> Iterator[Page]:
    with watched(browser, f"http://127.0.0.1:{site.port}/") as one:
        choose(one.page, "cam")
        yield one.page


def choose(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()
    expect(page.locator("#detail-title")).to_have_text(f"One workload: {name}")


def ask(page: Page) -> None:
    page.locator("#form-cpu").fill("2")
    page.get_by_role("button", name="What if?").click()


def refused(action_id: str, message: str, workload: str = "cam") -> ScalingStatus:
    return ScalingStatus(
        action_id=action_id,
        node=NODE,
        workload_id=workload,
        state=TaskState.FAILED,
        phase=Phase.DONE,
        outcome=ActionOutcome.REJECTED,
        reason=Reason.INSUFFICIENT_CPU,
        message=message,
        dry_run=True,
    )


def test_a_result_stays_however_many_other_actions_end_after_it(site: Site, page: Page) -> None:
    """Else it says again, and for ever, that it waits for an answer."""
    ask(page)
    asked = site.await_action(lambda _: True)
    site.say(refused(asked.action_id, "needs 1000m more"))
    result = page.locator("#form-result")
    expect(result).to_contain_text("needs 1000m more")

    site.say(*(refused(f"other-{number}", f"refused {number}", "nav") for number in range(30)))
    expect(page.locator("#past-list")).to_contain_text("nav")
    page.wait_for_function("import('/live.js').then((live) => Boolean(live.sections.actions['other-29']))")

    assert page.evaluate(f"import('/live.js').then((live) => !live.sections.actions['{asked.action_id}'])")
    expect(result).to_contain_text("needs 1000m more")


def test_an_answer_that_comes_when_another_workload_is_shown_is_not_said_of_that(site: Site, page: Page) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/api/scale", hold)
    with page.expect_request("**/api/scale"):
        ask(page)
    choose(page, "nav")
    with page.expect_response("**/api/scale"):
        held[0].continue_()
    asked = site.await_action(lambda _: True)
    site.say(refused(asked.action_id, "needs 1000m more"))
    expect(page.locator("#past-list")).to_contain_text("cam")

    expect(page.get_by_role("button", name="What if?")).to_be_enabled()
    assert page.locator("#form-result").text_content() == ""
