"""A TCP proxy between one client and the broker: sees all packets, breaks connections, keeps back PUBACKs."""

import contextlib
import socket
import threading
from collections.abc import Iterator

CONNECT, CONNACK, PUBLISH, PUBACK = 1, 2, 3, 4


def packets_in(buffer: bytearray) -> Iterator[bytes]:
    """Take whole MQTT packets from the start of the buffer."""
    while True:
        length, shift, position = 0, 0, 1
        while True:
            if position >= len(buffer):
                return
            byte = buffer[position]
            length |= (byte & 0x7F) << shift
            position, shift = position + 1, shift + 7
            if not byte & 0x80:
                break
        if len(buffer) < position + length:
            return
        yield bytes(buffer[: position + length])
        del buffer[: position + length]


class Proxy:
    """Listens on a port of its own while used as a context manager."""

    def __init__(self, host: str, port: int) -> None:
        self.target = (host, port)
        self.most_in_flight = 0
        self.connects = 0
        self.openings: list[tuple[bytes, int]] = []
        """CONNECT, and the kind of the packet that follows, of each connection."""
        self._in_flight = 0
        self._refusing = False
        self._holding = False
        self._held: list[tuple[socket.socket, bytes]] = []
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.RLock()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        self.refuse()
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for thread in self._threads:
            thread.join(5)

    def cut(self) -> None:
        """Break what is connected; the client may come again."""
        with self._lock:
            for pair in self._pairs:
                for each in pair:
                    with contextlib.suppress(OSError):
                        each.shutdown(socket.SHUT_RDWR)
            self._pairs.clear()

    def refuse(self) -> None:
        """Break what is connected, and whatever connects."""
        with self._lock:
            self._refusing = True
            self.cut()

    def admit(self) -> None:
        self._refusing = False

    def hold_acks(self) -> None:
        """Keep back the broker's PUBACKs."""
        self._holding = True

    def release_acks(self) -> None:
        with self._lock:
            self._holding = False
            for client, packet in self._held:
                self._acked()
                with contextlib.suppress(OSError):
                    client.sendall(packet)
            self._held.clear()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            self._connect(client)

    def _connect(self, client: socket.socket) -> None:
        with self._lock:
            try:
                if self._refusing:
                    raise ConnectionRefusedError
                broker = socket.create_connection(self.target)
            except OSError:
                client.close()
                return
            for each in (client, broker):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connects += 1
            self._in_flight = 0
            self._held.clear()
            self._pairs.append((client, broker))
        thread = threading.Thread(target=self._serve, args=(client, broker), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self, client: socket.socket, broker: socket.socket) -> None:
        inwards = threading.Thread(target=self._pump, args=(broker, client, True), daemon=True)
        inwards.start()
        self._pump(client, broker, False)
        inwards.join()
        client.close()
        broker.close()

    def _pump(self, source: socket.socket, target: socket.socket, inwards: bool) -> None:
        buffer, seen, opening = bytearray(), 0, b""
        with contextlib.suppress(OSError):
            while received := source.recv(65_536):
                buffer += received
                for packet in packets_in(buffer):
                    seen += 1
                    if not inwards and seen == 1:
                        opening = packet
                    elif not inwards and seen == 2:
                        self.openings.append((opening, packet[0] >> 4))
                    if self._passes(packet, target, inwards):
                        target.sendall(packet)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def _passes(self, packet: bytes, target: socket.socket, inwards: bool) -> bool:
        kind, qos = packet[0] >> 4, packet[0] >> 1 & 3
        with self._lock:
            if kind == PUBLISH and qos and not inwards:
                self._in_flight += 1
                self.most_in_flight = max(self.most_in_flight, self._in_flight)
            if kind == PUBACK and inwards:
                if self._holding:
                    self._held.append((target, packet))
                    return False
                self._acked()
        return True

    def _acked(self) -> None:
        self._in_flight -= 1
