"""Who may say and hear what, written down by hand from the contract: the code under test has no part in it.

Each line: a topic, who may say it, who may hear it. `-` is nobody.
"""

from typing import Final

IDENTITIES: Final = {
    "MS": "monitoring_server",
    "PM": "policy_manager",
    "AC": "action_controller",
    "RM": "resource_manager",
    "TAP": "debug_tap",
    "WEB": "dashboard",
    "A": "node_agent/a",
    "B": "node_agent/b",
    "ECU": "application/a",  # any application of node a
    "NAV": "application/a/nav",  # this one workload of node a
    "CLI": "cli/alice",
    "ADM": "admin/bob",
    "CAR": "bridge/car-7",
    "XX": "node_agent/ghost",  # has a certificate, but the broker was not told of it
}

CONTRACT: Final = """
metrics/a/node                      A           MS
metrics/b/node                      B           MS
metrics/a/containers                A           MS
metrics/b/containers                B           MS
metrics/ghost/node                  -           MS
metrics/a/app/nav                   ECU,NAV     MS
metrics/a/app/map                   ECU         MS
metrics/b/app/nav                   -           MS
perf/degraded                       MS          PM
perf/recovered                      MS          PM
perf/outcome                        PM          MS
scaling/action                      PM,CLI,ADM,WEB  AC
scaling/status                      AC          PM
resources/validate                  AC,CLI,ADM  RM
resources/validate/reply            RM          AC
resources/desired                   AC          RM
resources/desired/reply             RM          AC
resources/actual                    AC          RM
resources/actual/reply              RM          AC
resources/reconcile                 RM          AC
resources/state/a/nav               RM,ADM      PM,RM
resources/state/b/nav               RM,ADM      PM,RM
resources/capacity/a                RM,ADM      AC
node/a/update                       AC          A
node/b/update                       AC          B
node/a/update/reply                 A           AC
node/b/update/reply                 B           AC
node/a/status/get                   RM,CLI,ADM  A
node/b/status/get                   RM,CLI,ADM  B
node/a/status/reply                 A           RM
node/b/status/reply                 B           RM
node/a/actual                       A,ADM       RM,MS
node/b/actual                       B,ADM       RM,MS
node/a/info                         A,ADM       RM,MS,AC
node/b/info                         B,ADM       RM,MS,AC
component/monitoring_server/main    MS,ADM      MS,PM,AC,RM,A,B
component/monitoring_server/1-of-2  MS,ADM      MS,PM,AC,RM,A,B
component/monitoring_server/2-of-2  MS,ADM      MS,PM,AC,RM,A,B
component/policy_manager/main       PM,ADM      MS,PM,AC,RM,A,B
component/policy_manager/1-of-2     ADM         MS,PM,AC,RM,A,B
component/action_controller/main    AC,ADM      MS,PM,AC,RM,A,B
component/resource_manager/main     RM,ADM      MS,PM,AC,RM,A,B
component/debug_tap/main            TAP,ADM     MS,PM,AC,RM,A,B
component/dashboard/main            WEB,ADM     MS,PM,AC,RM,A,B
component/node_agent/a              A,ADM       MS,PM,AC,RM,A,B
component/node_agent/b              B,ADM       MS,PM,AC,RM,A,B
component/node_agent/main           ADM         MS,PM,AC,RM,A,B
control/scaling                     CLI,ADM     PM
deadletter/monitoring_server        MS          -
deadletter/policy_manager           PM          -
deadletter/action_controller        AC          -
deadletter/resource_manager         RM          -
deadletter/node_agent               A,B         -
deadletter/debug_tap                TAP         -
deadletter/dashboard                WEB         -
"""

OBSERVERS: Final = frozenset({"TAP", "WEB", "CLI", "ADM"})
"""People, the web page and the debug tap hear all of the above."""

BESIDES: Final = """
debug/scaling/action                TAP         CLI,ADM
debug/resources/state/a/nav         TAP         CLI,ADM
piriscale-doctor/trial              CLI,ADM     CLI,ADM
car-7/node/a/update                 CAR         CAR
car-8/node/a/update                 -           -
node/a                              -           -
node/a/update/reply/more            -           -
scaling                             -           -
anything                            -           -
"""


def _rows(text: str, also: frozenset[str]) -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    lines = [line.split() for line in text.strip().splitlines()]
    return {topic: (_set(say), _set(hear) | also) for topic, say, hear in lines}


def _set(text: str) -> frozenset[str]:
    return frozenset() if text == "-" else frozenset(text.split(","))


RIGHTS: Final = _rows(CONTRACT, OBSERVERS) | _rows(BESIDES, frozenset())
"""By topic: who may say it, who may hear it."""


def sayable(who: str) -> set[str]:
    """The topics that somebody may say."""
    return {topic for topic, (say, _) in RIGHTS.items() if who in say}


def hearable(who: str) -> set[str]:
    """The topics that somebody may hear."""
    return {topic for topic, (_, hear) in RIGHTS.items() if who in hear}
