"""A broker that misbehaves as told, for what no real one can be made to do. It speaks just enough MQTT 5."""

import contextlib
import socket
import threading

from tests.broker.proxy import PUBLISH, packets_in

CONNECT, SUBSCRIBE, PINGREQ = 1, 8, 12

WELCOME = bytes.fromhex("20 03 00 00 00")
GRANTED = 0x01
SUCCESS = 0x00


class ScriptedBroker:
    """Answers as its attributes say; None: not at all."""

    def __init__(self) -> None:
        self.connack: bytes | None = WELCOME
        self.suback_code: int | None = GRANTED
        self.puback_code: int | None = SUCCESS
        self.answers_pings = True
        self.packets: list[bytes] = []
        self.connects = 0
        self._current: socket.socket | None = None
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        if self._current is not None:
            with contextlib.suppress(OSError):
                self._current.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)

    def say(self, hexadecimal: str) -> None:
        """Send these bytes to the client."""
        assert self._current is not None
        self._current.sendall(bytes.fromhex(hexadecimal))

    @property
    def published(self) -> int:
        """QoS 1 frames that came."""
        return sum(1 for packet in list(self.packets) if packet[0] >> 4 == PUBLISH and packet[0] & 0x06)

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            self._current = client
            with client, contextlib.suppress(OSError):
                buffer = bytearray()
                while received := client.recv(65_536):
                    buffer += received
                    for packet in packets_in(buffer):
                        self.packets.append(packet)
                        client.sendall(self._answer(packet) or b"")

    def _answer(self, packet: bytes) -> bytes | None:
        kind = packet[0] >> 4
        if kind == CONNECT:
            self.connects += 1
            return self.connack
        if kind == SUBSCRIBE and self.suback_code is not None:
            return b"\x90\x04" + packet[2:4] + b"\x00" + bytes([self.suback_code])
        if kind == PUBLISH and packet[0] & 0x06 and self.puback_code is not None:
            topic_end = 4 + int.from_bytes(packet[2:4])
            return b"\x40\x04" + packet[topic_end : topic_end + 2] + bytes([self.puback_code]) + b"\x00"
        return b"\xd0\x00" if kind == PINGREQ and self.answers_pings else None
