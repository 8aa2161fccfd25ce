"""Quantities as people write them."""

import pytest

from schemas.units import format_cpu, format_memory, parse_cpu, parse_memory


@pytest.mark.parametrize(
    ("text", "millicores"), [("2", 2000), ("2000m", 2000), ("0.5", 500), (" 1.25 ", 1250), ("0", 0), ("0.001", 1)]
)
def test_cpu_quantity(text: str, millicores: int) -> None:
    assert parse_cpu(text) == millicores


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("512Mi", 512),
        ("2Gi", 2048),
        ("1.5Gi", 1536),
        ("1Ti", 1024 * 1024),
        ("2048Ki", 2),
        ("500M", 476),
        ("1G", 953),
        ("1048576", 1),
        ("2000k", 1),
    ],
)
def test_memory_quantity_rounded_down_to_the_mib(text: str, mib: int) -> None:
    assert parse_memory(text) == mib


@pytest.mark.parametrize(
    "text", ["", "two", "-1", "1e3", "2 cpus", "2M", "0.0005", "9" * 400, "1..2", "nan", "inf"]
)
def test_what_is_no_cpu_quantity_is_refused_with_an_example_or_the_reason(text: str) -> None:
    with pytest.raises(ValueError, match=r"write CPUs \(2, 0\.5\) or millicores|finer than a millicore"):
        parse_cpu(text)


@pytest.mark.parametrize("text", ["", "lots", "-1Gi", "1e3", "2gi", "2m", "512", "1023Ki", "9" * 400])
def test_what_is_no_memory_quantity_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="write 512Mi, 2Gi"):
        parse_memory(text)


def test_absent_limits_are_written_as_unlimited() -> None:
    assert (format_cpu(None), format_memory(None)) == ("unlimited", "unlimited")
    assert (format_cpu(1500), format_memory(512)) == ("1500m", "512Mi")
