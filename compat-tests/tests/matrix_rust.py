"""The Rust clients of the matrix: rdkafka with the librdkafka of its own source, rskafka."""
import re
import subprocess

from raw import matrix
from raw.broker import shell
from raw.harness import Skip
from raw.tools import need


OLDEST_RUST = (1, 85)


def program(name):
    def command():
        need("cargo", "cc", "make")
        text = subprocess.run(["cargo", "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
        version = tuple(int(x) for x in re.findall(r"\d+", text)[:2])
        if version < OLDEST_RUST:
            raise Skip("cargo {}.{} is too old: rskafka needs {}.{}".format(*version, *OLDEST_RUST))
        try:
            return [shell("compat_matrix_rust"), name]
        except (subprocess.CalledProcessError, IndexError):
            raise Skip("the Rust clients do not build here") from None
    return command


NO_SETTINGS = "no calls for settings"
NO_NULL = "a header without a value is malformed to it"

matrix.client("rdkafka", program("rdkafka"))
matrix.client("rskafka", program("rskafka"), lacks={
    "configs": NO_SETTINGS, "alter": NO_SETTINGS, "configs-at-create": NO_SETTINGS, "grow": "no call for CreatePartitions",
    "reads Java's": NO_NULL, "reads librdkafka's": NO_NULL, "reads re-packed": NO_NULL, "acks 1": "always acks=all", "acks0": "always acks=all", "idempotent": "never idempotent",
    "repeated-headers": "headers are a map", "null-headers": NO_NULL})
