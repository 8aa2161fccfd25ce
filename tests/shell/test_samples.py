"""Metrics of a component, read by its worker; requests go before them."""

import threading

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

from components.shell.inbox import Inbox
from tests.shell.doubles import Probe, delivery
from tests.shell.stage import Stage, running


class ObservableProbe(Probe):
    sampled_in: str = ""

    def samples(self) -> list[Metric]:
        self.sampled_in = threading.current_thread().name
        return [GaugeMetricFamily("piriscale_test", "A test", value=3.0)]


def test_metrics_of_a_component_are_read_by_its_own_worker() -> None:
    probe = ObservableProbe()
    with running(probe) as stage:
        (family,) = stage.shell.samples()

    assert family.samples[0].value == 3.0
    assert probe.sampled_in == "resource_manager"


def test_metrics_that_can_no_longer_be_read_are_a_gap_and_do_not_end_the_component() -> None:
    class Breaking(ObservableProbe):
        broken = False

        def samples(self) -> list[Metric]:
            if self.broken:
                raise OSError
            return super().samples()

    probe = Breaking()
    with running(probe) as stage:
        assert list(stage.shell.samples())
        probe.broken = True
        assert list(stage.shell.samples()) == []
        assert stage.shell.up


def test_metrics_that_arrive_after_the_end_are_none() -> None:
    stage = Stage(ObservableProbe())

    assert list(stage.shell.samples()) == []


def test_a_full_inbox_refuses_metrics_but_never_requests() -> None:
    inbox = Inbox(qos_0_max=2, posted_max=3)
    sample = delivery("metrics/hpc-1/node", b"", qos=0)

    assert [inbox.deliver(sample) for _ in range(3)] == [True, True, False]
    assert inbox.deliver(delivery("resources/validate", b""))
    inbox.post("lost")
    assert inbox.dropped_posts == 1
    assert len(inbox) == 3
