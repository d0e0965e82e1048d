"""A blocking Kafka connection that can also say wrong things: frames, requests, replies.

Conn.call() sends one request and reads its reply; send()/recv() are the halves for pipelining; raw()/frame() carry anything.
"""
import contextlib
import select
import socket
import struct

from raw import schema

CLIENT_ID = "compat"


def address(where):
    if isinstance(where, tuple):
        return where
    host, port = where.rsplit(":", 1)
    return host, int(port)


def request_header(key, version, correlation, client_id=CLIENT_ID, flexible=False):
    head = struct.pack(">hhi", key, version, correlation)
    data = None if client_id is None else client_id.encode()
    return head + schema.sized(data, False, False) + (b"\0" if flexible else b"")


def frame(payload):
    return struct.pack(">i", len(payload)) + payload


class Conn:
    def __init__(self, where, timeout=20, client_id=CLIENT_ID):
        self.sock = socket.create_connection(address(where), timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client_id = client_id
        self.correlation = 0
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def reset(self):
        """Close with RST instead of FIN."""
        with contextlib.suppress(OSError):
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    # ---- bytes ----

    def raw(self, data):
        self.sock.sendall(data)

    def frame(self):
        """The next frame's payload. EOFError when the peer closed."""
        size = struct.unpack(">i", self._exactly(4))[0]
        return self._exactly(size)

    def _exactly(self, n):
        while len(self.buffer) < n:
            try:
                data = self.sock.recv(1 << 18)
            except ConnectionResetError:
                data = b""
            if not data:
                raise EOFError(f"closed with {len(self.buffer)} of {n} bytes")
            self.buffer += data
        out, self.buffer = self.buffer[:n], self.buffer[n:]
        return out

    def closed(self, within=10):
        """True when the peer closes within that many seconds without sending anything."""
        self.sock.settimeout(within)
        try:
            return not self.buffer and self.sock.recv(1) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False

    def silent(self, seconds):
        """True when nothing arrives for that long (an answer that must not come)."""
        return not self.buffer and not select.select([self.sock], [], [], seconds)[0]

    # ---- requests ----

    def request(self, api, version, values, correlation):
        a = schema.APIS[api]
        head = request_header(a.key, version, correlation, self.client_id, version >= a.flex)
        return frame(head + schema.encode(api, version, values))

    def send(self, api, version, **values):
        self.correlation += 1
        self.raw(self.request(api, version, values, self.correlation))
        return self.correlation

    def recv(self, api, version, correlation=None):
        """The reply to the next request in order; checks correlation, header form and that nothing is left over."""
        reply = schema.Reader(self.frame())
        got = reply.number(">i")
        if correlation is not None and got != correlation:
            raise AssertionError(f"correlation {got}, expected {correlation}")
        a = schema.APIS[api]
        if version >= a.flex and api != "ApiVersions":
            tags = reply.uvarint()
            if tags:
                raise AssertionError("unexpected tags in a response header")
        values, left = schema.decode(api, version, reply.data[reply.at:])
        if left:
            raise AssertionError(f"{left} bytes left over after {api} v{version}")
        return values

    def call(self, api, version, **values):
        return self.recv(api, version, self.send(api, version, **values))
