"""The Node clients of the matrix: kafkajs 2, @platformatic/kafka 1."""
import functools
import re
import shutil
import subprocess

from raw import matrix
from raw.broker import shell
from raw.harness import Skip
from raw.tools import need

OLDEST_NODE = {"kafkajs": (18, 0), "platformatic": (20, 19)}
NODE_WITH_ZSTD = (22, 15)


@functools.cache
def node_version():
    if not shutil.which("node"):
        return (0, 0)
    text = subprocess.run(["node", "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return tuple(int(x) for x in re.findall(r"\d+", text)[:2])


def program(name):
    def command():
        need("node", "npm")
        if node_version() < OLDEST_NODE[name]:
            raise Skip("node {}.{} is too old: {}.{} is the oldest for this client".format(*node_version(), *OLDEST_NODE[name]))
        try:
            return ["node", f"{shell('compat_matrix_node')}/{name}.mjs"]
        except (subprocess.CalledProcessError, IndexError):
            raise Skip("the Node packages could not be installed") from None
    return command


NO_ZSTD = {} if node_version() >= NODE_WITH_ZSTD else {
    column: "Node has zstd from 22.15 on" for column in ("zstd", "reads Java's", "reads librdkafka's")}

matrix.client("kafkajs", program("kafkajs"), lacks={
    "consume": "reads through groups only", "header-order": "headers are an object: a repeated name is a list under it",
    "null-headers": "header values must be there"})
matrix.client("@platformatic/kafka", program("platformatic"), lacks=NO_ZSTD)
