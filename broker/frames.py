"""What a frame may be, how large it is on the wire, and which filters it matches."""

from dataclasses import dataclass
from typing import Final

from schemas.codec import Frame

TOPIC_BYTES_MAX: Final = 65_535

# Bytes of the remaining-length field of an MQTT packet, by the length it must carry.
_LENGTH_STEPS: Final = ((128, 1), (16_384, 2), (2_097_152, 3))
_LENGTH_BYTES_MAX: Final = 4


def packet_size(frame: Frame) -> int:
    """Bytes of the frame's MQTT 5 PUBLISH packet, which the broker's Maximum Packet Size bounds."""
    remaining = 2 + len(frame.topic.encode()) + (2 if frame.qos else 0) + 1 + len(frame.payload)
    length_bytes = next((size for below, size in _LENGTH_STEPS if remaining < below), _LENGTH_BYTES_MAX)
    return 1 + length_bytes + remaining


def check_frame(frame: Frame, packet_max: int | None) -> None:
    """Raise ValueError for a frame that no broker takes, or that this one (`packet_max`, bytes) does not."""
    topic = frame.topic
    if not topic or any(character in topic for character in "+#\0"):
        raise ValueError(f"{topic!r} is no topic to publish on")
    if len(topic.encode()) > TOPIC_BYTES_MAX:
        raise ValueError(f"a topic of {len(topic.encode())} bytes is longer than {TOPIC_BYTES_MAX}")
    if frame.qos not in (0, 1):
        raise ValueError(f"QoS {frame.qos} on {topic}: only 0 and 1 are used")
    if packet_max is not None and packet_size(frame) > packet_max:
        raise ValueError(f"{packet_size(frame)} bytes for {topic} are above the broker's limit of {packet_max}")


def matches(pattern: str, topic: str) -> bool:
    """Whether an MQTT subscription filter takes a topic. Wildcards do not reach topics that start with `$`."""
    wanted, levels = pattern.split("/"), topic.split("/")
    if topic.startswith("$") and wanted[0] in ("+", "#"):
        return False
    for position, level in enumerate(wanted):
        if level == "#":
            return True
        if position >= len(levels) or level not in ("+", levels[position]):
            return False
    return len(wanted) == len(levels)


@dataclass(frozen=True)
class TopicPrefix:
    """What goes before every topic, so that several vehicles share a broker; "": nothing."""

    text: str = ""

    def add(self, topic: str) -> str:
        """A topic or filter as the broker knows it."""
        return f"{self.text}/{topic}" if self.text else topic

    def add_to(self, frame: Frame) -> Frame:
        """A frame as the broker knows it."""
        return Frame(self.add(frame.topic), frame.payload, frame.qos, frame.retain) if self.text else frame

    def strip(self, topic: str) -> str | None:
        """A topic as components know it; None when it lies outside of the prefix and is none of ours."""
        if not self.text:
            return topic
        start = f"{self.text}/"
        return topic[len(start) :] if topic.startswith(start) and len(topic) > len(start) else None
