"""The tree that the README shows is the one that is seen: every topic of the registry, and no other."""

import re
from pathlib import Path

from schemas.topics import DEBUG_PREFIX, TOPICS

README = Path(__file__).parents[2] / "components" / "debug_tap" / "README.md"
_BRANCH = re.compile(r"^(?P<lines>(?:[│ ] {3})*)[├└]── (?P<level>\S+) *(?P<text>.*)$")


def tree() -> dict[str, str]:
    """Each path in the README's tree, and what stands beside it."""
    block = README.read_text(encoding="utf-8").split("```\n")[1]
    found, path = dict[str, str](), [DEBUG_PREFIX.rstrip("/")]
    for line in block.splitlines()[1:]:
        branch = _BRANCH.match(line)
        assert branch is not None, line
        path = [*path[: 1 + len(branch["lines"]) // 4], branch["level"]]
        found["/".join(path)] = branch["text"]
    return found


def test_the_tree_has_every_topic_and_no_other() -> None:
    shown = tree()
    topics = {DEBUG_PREFIX + topic.template for topic in TOPICS}

    assert topics - set(shown) == set()
    inner = {path for path in shown if any(other.startswith(f"{path}/") for other in shown)}
    assert set(shown) - topics - inner == set()


def test_the_tree_says_what_is_retained() -> None:
    shown = tree()
    retained = {DEBUG_PREFIX + topic.template for topic in TOPICS if topic.retained}

    assert {path for path, text in shown.items() if text.startswith("retained")} == retained
