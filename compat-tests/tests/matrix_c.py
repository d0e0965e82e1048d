"""Debian's librdkafka in the matrix: a C program, and kcat."""
import os
import subprocess
import sys

from raw import matrix
from raw.broker import COMPAT, shell
from raw.harness import Skip
from raw.tools import need


def c_program():
    need("cc", "pkg-config")
    for header in ("librdkafka/rdkafka.h", "cjson/cJSON.h"):
        if not os.path.exists(f"/usr/include/{header}"):
            raise Skip(f"no /usr/include/{header}")
    try:
        return [shell("compat_matrix_c")]
    except (subprocess.CalledProcessError, IndexError):
        raise Skip("the C program does not build here") from None


def kcat():
    need("kcat")
    return [sys.executable, os.path.join(COMPAT, "clients/python/kcat.py")]


NO_ADMIN = "kcat has no admin calls"

matrix.client(matrix.LIBRDKAFKA, c_program)
matrix.client("kcat (Debian)", kcat, records=12, lacks={
    "create": NO_ADMIN, "configs": NO_ADMIN, "alter": NO_ADMIN, "grow": NO_ADMIN, "trim": NO_ADMIN, "delete": NO_ADMIN,
    "timestamps": "kcat stamps records itself", "binary": "keys and values are split at delimiters",
    "null-beside-empty": "-Z makes every empty string of a call a null",
    "acks0": "one call, and so one connection, per kind of record: their order is not promised with acks 0"})
