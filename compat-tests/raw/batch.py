"""Record batches v2, right ones and wrong ones, and the codecs (through the system's libraries)."""
import ctypes
import ctypes.util
import functools
import struct
import time
import zlib

from raw.schema import Reader, uvarint

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
T0 = (int(time.time()) - 86_400) * 1000              # yesterday: retention leaves it alone


# ---- CRC-32C ----

@functools.cache
def crc_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return table


@functools.cache
def library(name, soname):
    for candidate in (soname, ctypes.util.find_library(name)):
        try:
            return ctypes.CDLL(candidate) if candidate else None
        except OSError:
            continue
    return None


def crc32c(data):
    isal = library("isal", "libisal.so.2")
    if isal:
        isal.crc32_iscsi.restype = ctypes.c_uint
        return ~isal.crc32_iscsi(bytes(data), len(data), ctypes.c_uint(0xFFFFFFFF)) & 0xFFFFFFFF
    crc, table = 0xFFFFFFFF, crc_table()
    for b in data:
        crc = table[(crc ^ b) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


# ---- codecs ----

def compress(codec, data):
    if codec == GZIP:
        c = zlib.compressobj(6, zlib.DEFLATED, 31)
        return c.compress(data) + c.flush()
    if codec == SNAPPY:
        lib = library("snappy", "libsnappy.so.1")
        size = ctypes.c_size_t(32 + len(data) + len(data) // 6)
        out = ctypes.create_string_buffer(size.value)
        assert lib.snappy_compress(data, ctypes.c_size_t(len(data)), out, ctypes.byref(size)) == 0
        return out.raw[:size.value]
    if codec == LZ4:
        lib = library("lz4", "liblz4.so.1")
        lib.LZ4F_compressFrameBound.restype = lib.LZ4F_compressFrame.restype = ctypes.c_size_t
        size = lib.LZ4F_compressFrameBound(ctypes.c_size_t(len(data)), None) + 64
        out = ctypes.create_string_buffer(size)
        independent = struct.pack("<iiiiQIiiIIIII", 4, 1, *[0] * 11)     # preferences: blocks of 64 KiB that Kafka can read, each by itself
        n = lib.LZ4F_compressFrame(out, ctypes.c_size_t(size), data, ctypes.c_size_t(len(data)), independent)
        return out.raw[:n]
    if codec == ZSTD:
        lib = library("zstd", "libzstd.so.1")
        lib.ZSTD_compressBound.restype = lib.ZSTD_compress.restype = ctypes.c_size_t
        size = lib.ZSTD_compressBound(ctypes.c_size_t(len(data)))
        out = ctypes.create_string_buffer(size)
        n = lib.ZSTD_compress(out, ctypes.c_size_t(size), data, ctypes.c_size_t(len(data)), 3)
        return out.raw[:n]
    return data


# ---- records and batches ----

def varint(n):
    return uvarint(((n << 1) ^ (n >> 63)) & 0xFFFFFFFFFFFFFFFF)


def vbytes(b):
    return varint(-1) if b is None else varint(len(b)) + b


def record(delta, ts_delta, key, value, headers=()):
    body = b"\0" + varint(ts_delta) + varint(delta) + vbytes(key) + vbytes(value) + varint(len(headers))
    for name, data in headers:
        body += vbytes(name) + vbytes(data)
    return varint(len(body)) + body


def body_of(items, base_ts):
    return b"".join(record(i, (x[2] if len(x) > 2 else base_ts) - base_ts, x[0], x[1]) for i, x in enumerate(items))


def batch(items, codec=NONE, pid=-1, epoch=-1, seq=-1, base_offset=0, magic=2, crc=None, attributes=0, count=None, last_delta=None,
          base_ts=None, max_ts=None, leader_epoch=-1, length=None, body=None):
    """items: (key, value[, timestamp]). Every header field can be lied about; the CRC is right unless given."""
    base_ts = (items[0][2] if items and len(items[0]) > 2 else T0) if base_ts is None else base_ts
    times = [x[2] if len(x) > 2 else base_ts for x in items] or [base_ts]
    body = compress(codec, body_of(items, base_ts) if body is None else body)
    tail = struct.pack(">hiqqqhii", attributes | codec, len(items) - 1 if last_delta is None else last_delta, base_ts,
                       max(times) if max_ts is None else max_ts, pid, epoch, seq, len(items) if count is None else count) + body
    head = struct.pack(">ibI", leader_epoch, magic, crc32c(tail) if crc is None else crc)
    size = len(head) + len(tail) if length is None else length
    return struct.pack(">qi", base_offset, size) + head + tail


def values(prefix, n, size=0):
    return [(None, f"{prefix}{i}".encode().ljust(size, b".")) for i in range(n)]


def zstd_bomb(mib=1024, front=b"", window_log=17):
    """A valid zstd frame: front, then RLE blocks, each 128 KiB of zeros from 4 bytes (T55)."""
    raw = struct.pack("<I", len(front) << 3)[:3] + front
    block = struct.pack("<I", 128 * 1024 << 3 | 1 << 1)[:3] + b"\0"
    last = struct.pack("<I", 128 * 1024 << 3 | 1 << 1 | 1)[:3] + b"\0"
    return bytes.fromhex("28b52ffd") + b"\0" + bytes([(window_log - 10) << 3]) + raw + block * (mib * 8 - 1) + last


def endless(value_bytes):
    """The front of a record with a key, whose value goes on for so many bytes."""
    body = b"\0" + varint(0) + varint(0) + vbytes(b"k") + varint(value_bytes)
    return varint(len(body) + value_bytes + 1) + body


class Batch:
    """One batch as it came from a Fetch."""

    def __init__(self, data):
        (self.base_offset, size, self.leader_epoch, self.magic, self.crc, self.attributes, self.last_delta, self.base_ts, self.max_ts,
         self.pid, self.epoch, self.seq, self.count) = struct.unpack_from(">qiibIhiqqqhii", data)
        self.data = data[:12 + size]
        self.codec = self.attributes & 7
        self.good_crc = crc32c(self.data[21:]) == self.crc

    def inner(self):
        return decompress(self.codec, self.data[61:])

    def records(self):
        """(offset, timestamp, key, value)"""
        return [r[:4] for r in self.whole_records()]

    def whole_records(self):
        """(offset, timestamp, key, value, [(header name, header value)])"""
        r = Reader(self.inner())
        out = []
        for _ in range(self.count):
            end = r.varint() + r.at
            r.take(1)
            ts, delta = r.varint(), r.varint()
            key, value = self._bytes(r), self._bytes(r)
            headers = [(self._bytes(r).decode(), self._bytes(r)) for _ in range(r.varint())]
            out.append((self.base_offset + delta, self.max_ts if self.attributes & 8 else self.base_ts + ts, key, value, headers))
            r.at = end
        return out

    @staticmethod
    def _bytes(r):
        n = r.varint()
        return None if n < 0 else r.take(n)


def decompress(codec, data):
    if codec == NONE:
        return data
    if codec == GZIP:
        return zlib.decompress(data, 31)
    if codec == ZSTD:
        return stream(library("zstd", "libzstd.so.1"), "ZSTD", data)
    if codec == LZ4:
        return lz4_stream(data)
    return snappy(data)


def snappy(data):
    if data[:8] == b"\x82SNAPPY\0":
        out, at = b"", 16
        while at < len(data):
            n = struct.unpack_from(">i", data, at)[0]
            out += snappy(data[at + 4:at + 4 + n])
            at += 4 + n
        return out
    lib = library("snappy", "libsnappy.so.1")
    size = ctypes.c_size_t(0)
    assert lib.snappy_uncompressed_length(data, ctypes.c_size_t(len(data)), ctypes.byref(size)) == 0
    out = ctypes.create_string_buffer(max(size.value, 1))
    assert lib.snappy_uncompress(data, ctypes.c_size_t(len(data)), out, ctypes.byref(size)) == 0
    return out.raw[:size.value]


class ZBuf(ctypes.Structure):
    _fields_ = [("p", ctypes.c_void_p), ("size", ctypes.c_size_t), ("pos", ctypes.c_size_t)]


def stream(lib, _, data):
    lib.ZSTD_createDStream.restype = ctypes.c_void_p
    lib.ZSTD_decompressStream.restype = ctypes.c_size_t
    lib.ZSTD_decompressStream.argtypes = [ctypes.c_void_p, ctypes.POINTER(ZBuf), ctypes.POINTER(ZBuf)]
    ds, src = lib.ZSTD_createDStream(), ctypes.create_string_buffer(data, len(data))
    inp = ZBuf(ctypes.cast(src, ctypes.c_void_p), len(data), 0)
    piece, out = ctypes.create_string_buffer(1 << 17), []
    while True:
        o = ZBuf(ctypes.cast(piece, ctypes.c_void_p), 1 << 17, 0)
        left = lib.ZSTD_decompressStream(ds, ctypes.byref(o), ctypes.byref(inp))
        assert left < 1 << 60, "zstd error"
        out.append(piece.raw[:o.pos])
        if inp.pos == inp.size and o.pos < 1 << 17:
            break
    lib.ZSTD_freeDStream(ctypes.c_void_p(ds))
    return b"".join(out)


def lz4_stream(data):
    lib = library("lz4", "liblz4.so.1")
    lib.LZ4F_decompress.restype = ctypes.c_size_t
    ctx = ctypes.c_void_p()
    lib.LZ4F_createDecompressionContext(ctypes.byref(ctx), 100)
    piece, out, at = ctypes.create_string_buffer(1 << 17), [], 0
    while at < len(data):
        n, used = ctypes.c_size_t(1 << 17), ctypes.c_size_t(len(data) - at)
        left = lib.LZ4F_decompress(ctx, piece, ctypes.byref(n), data[at:], ctypes.byref(used), None)
        assert left < 1 << 60, "lz4 error"
        out.append(piece.raw[:n.value])
        at += used.value
        if not used.value and not n.value:
            break
    lib.LZ4F_freeDecompressionContext(ctx)
    return b"".join(out)


def batches(data):
    """Whole batches of a fetched record set; a cut-off last one is dropped, as clients do."""
    out, at = [], 0
    while at + 61 <= len(data):
        size = 12 + struct.unpack_from(">i", data, at + 8)[0]
        if at + size > len(data):
            break
        out.append(Batch(data[at:at + size]))
        at += size
    return out
