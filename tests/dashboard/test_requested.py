"""The form as the bus hears it: said like any client's action, repeated until answered, bounded, switched off."""

from components.dashboard.items import AskError
from components.dashboard.requested import OPEN_MAX, PATIENCE_S
from schemas.enums import CauseType, OnShortage
from schemas.limits import Limits
from tests.dashboard.desk import Desk, refused


def test_the_form_is_said_as_any_client_would_say_it_and_again_until_its_end() -> None:
    desk = Desk()

    answer, (action,) = desk.submit(cpu="2", memory="2Gi", on_shortage=OnShortage.WAIT, wait_s=30)

    assert answer == {"action_id": "web-1"}
    assert action.target == Limits(cpu_limit=2000, memory_limit=2048)
    assert (action.on_shortage, action.wait_s, action.dry_run) == (OnShortage.WAIT, 30, False)
    assert action.cause.type is CauseType.EXTERNAL
    again = desk.pass_time(1.1)
    assert again == [action], "the broker may have lost it"
    assert desk.dashboard.connected(desk.now) == [action], "and with a connection all of it"
    desk.hear(refused("web-1"))
    assert desk.pass_time(600) == []


def test_what_nobody_answers_is_given_up_and_the_page_says_so() -> None:
    desk = Desk()
    screen = desk.watch()
    desk.submit(wait_s=10)
    desk.pass_time(0.5)
    assert screen.sections["requested"]["web-1"]["given_up"] is False

    desk.pass_time(10 + PATIENCE_S)
    desk.pass_time(1)

    assert screen.sections["requested"]["web-1"]["given_up"] is True
    assert desk.pass_time(600) == []


def test_the_form_keeps_only_so_much_under_way() -> None:
    desk = Desk()
    for _ in range(OPEN_MAX):
        desk.submit()

    answer, said = desk.submit()

    assert isinstance(answer, AskError) and answer.status == 429
    assert said == []
    desk.hear(refused("web-1"))
    assert len(desk.submit()[1]) == 1, "one has ended, so there is room"


def test_switched_off_the_form_still_asks_but_never_scales() -> None:
    desk = Desk(scale_form=False)

    answer, said = desk.submit()
    assert isinstance(answer, AskError) and answer.status == 403
    assert said == []

    _, (asked,) = desk.submit(dry_run=True)
    assert asked.dry_run


def test_a_form_that_means_nothing_is_told_what_to_write() -> None:
    answer, said = Desk().submit(cpu="fast")
    assert isinstance(answer, AskError) and answer.status == 422
    assert "'fast' is no CPU quantity" in str(answer)
    assert said == []
