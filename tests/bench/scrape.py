"""A number from /metrics."""

import urllib.request

from prometheus_client.parser import text_string_to_metric_families


def scraped(port: int, name: str, **labels: str) -> float:
    """The sum of a metric's samples with these labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )
