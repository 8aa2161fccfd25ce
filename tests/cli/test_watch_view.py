"""Keys of `watch`: from the bytes a terminal sends to what a person chose."""

import pytest

from components.cli.watch.terminal import keys_of
from components.cli.watch.view import FILTER_MAX, Key, Order, Part, View


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        (b"q", ["q"]),
        (b"jjk", ["j", "j", "k"]),
        (b"\x1b[A\x1b[B", [Key.UP, Key.DOWN]),
        (b"\x1bOA\x1bOF", [Key.UP, Key.END]),
        (b"\x1b[5~\x1b[6~\x1b[H", [Key.PAGE_UP, Key.PAGE_DOWN, Key.HOME]),
        (b"\x1b", [Key.ESCAPE]),
        (b"\x1b\x1b[Z", [Key.ESCAPE, Key.BACK_TAB]),
        (b"\t\r\x7f", [Key.TAB, Key.ENTER, Key.BACKSPACE]),
        ("né".encode(), ["n", "é"]),
        (b"/cam\r", ["/", "c", "a", "m", Key.ENTER]),
        (b"\x1b[1;5C", []),
        (b"\x1b[24~x", ["x"]),
        (b"\x1b[", []),
        (b"\xff\x01", []),
    ],
)
def test_what_a_terminal_sends_is_keys(sent: bytes, keys: list[str]) -> None:
    assert keys_of(sent) == keys


def pressed(*keys: str, view: View | None = None) -> View:
    view = view or View()
    for key in keys:
        assert view.press(key)
    return view


def test_q_leaves() -> None:
    assert not View().press("q")
    assert not View().press("Q")


def test_letters_of_a_name_are_no_commands() -> None:
    view = pressed("/", "q", "a", "s")

    assert (view.text, view.typing) == ("qas", True)
    assert not view.only_attention


def test_a_name_is_kept_with_enter_and_cleared_with_escape() -> None:
    kept = pressed("/", "c", "x", Key.BACKSPACE, "a", Key.ENTER)
    assert (kept.text, kept.typing, kept.filtered) == ("ca", False, True)
    assert pressed("/", "c", Key.ESCAPE).text == ""
    assert not pressed(Key.ESCAPE, view=kept).filtered


def test_a_name_cannot_become_endless() -> None:
    assert len(pressed("/", *("a" * 500)).text) == FILTER_MAX


def test_n_goes_through_the_nodes_and_back_to_all() -> None:
    view = View(nodes=("a", "b"))
    chosen = []
    for _ in range(4):
        pressed("n", view=view)
        chosen.append(view.node)

    assert chosen == ["a", "b", None, "a"]


def test_n_takes_the_nodes_in_the_order_in_which_they_are_listed_and_leaves_out_none() -> None:
    view = View(nodes=("hpc-01", *(f"hpc-{number}" for number in range(1, 13))))
    chosen = [pressed("n", view=view).node for _ in view.nodes]

    assert chosen == list(view.nodes)


def test_a_chosen_node_that_is_gone_gives_way_to_the_next() -> None:
    assert pressed("n", view=View(nodes=("a", "c"), node="b")).node == "c"
    assert pressed("n", view=View(nodes=("a-2", "a-10"), node="a-9")).node == "a-10"
    assert pressed("n", view=View(nodes=(), node="b")).node is None


def test_s_goes_through_all_orders_and_r_reverses() -> None:
    view = View()
    orders = [pressed("s", view=view).order for _ in Order]

    assert set(orders) == set(Order)
    assert view.order is Order.NAME
    assert pressed("r").reverse
    assert not pressed("r", "r").reverse


def test_tab_goes_through_the_parts_both_ways() -> None:
    assert pressed(Key.TAB).part is Part.ACTIONS
    assert pressed(Key.BACK_TAB).part is Part.NODES
    assert pressed(*[Key.TAB] * len(Part)).part is Part.WORKLOADS


def test_any_key_leaves_the_help_and_does_nothing_else() -> None:
    view = pressed("?")
    assert view.help
    assert pressed("q", view=view).help is False


def test_scrolling_stays_within_the_rows_and_is_kept_for_each_part() -> None:
    view = View()
    view.window(Part.WORKLOADS, 25, 10)
    view.window(Part.EVENTS, 100, 5)

    assert pressed("up", view=view).offsets[Part.WORKLOADS] == 0
    assert pressed("page down", view=view).offsets[Part.WORKLOADS] == 10
    assert pressed("page down", view=view).offsets[Part.WORKLOADS] == 15
    pressed(Key.TAB, Key.TAB, "end", view=view)
    assert (view.offsets[Part.EVENTS], view.offsets[Part.WORKLOADS]) == (95, 15)


def test_keys_without_a_meaning_do_nothing() -> None:
    assert pressed("x", "%", Key.ENTER, Key.BACKSPACE) == View()
