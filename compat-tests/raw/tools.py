"""Foreign programs as the tests call them: toolchain checks that skip with a reason, kcat, Java, Go, C."""
import base64
import functools
import os
import shutil
import subprocess

from raw import broker
from raw.harness import Skip

WORDS = "/usr/share/dict/american-english"


def need(*programs):
    for p in programs:
        if not shutil.which(p):
            raise Skip(f"{p} is not installed")


def run(command, limit=120, **more):
    """Run to the end; a non-zero exit is an error with its output. Returns standard output."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=limit, check=False, **more)
    if done.returncode:
        raise AssertionError(f"{command[0]} exited {done.returncode}: {done.stderr.decode(errors='replace')[-1500:]}"
                             f"{done.stdout.decode(errors='replace')[-500:]}")
    return done.stdout


@functools.cache
def go_binary():
    need("go")
    try:
        return broker.shell("compat_go")
    except (subprocess.CalledProcessError, IndexError):
        raise Skip("the Go programs do not build here (see versions.env for the Go version that they need)") from None


@functools.cache
def c_binary(name):
    need("cc")
    if not os.path.exists("/usr/include/librdkafka/rdkafka.h"):
        raise Skip("librdkafka-dev is not installed")
    return broker.shell("compat_c", name)


@functools.cache
def proxy_binary():
    need("cc")
    return broker.shell("compat_proxy")


def java(*args, heap="256m", limit=180):
    need("java", "mvn")
    return run(broker.java(heap) + list(args), limit)


def kcat(where, *args, **more):
    need("kcat")
    return run(["kcat", "-b", where, "-m", "20", *args], **more)


def words():
    if not os.path.exists(WORDS):
        raise Skip("wamerican is not installed")
    with open(WORDS, "rb") as f:
        return f.read().splitlines()


@functools.cache
def _session():
    need("java", "mvn")
    return subprocess.Popen(broker.java("256m") + ["Tools"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def kafka_tool(main, *args):
    """One of Kafka's own tools, all calls of a run in one JVM (java/src/Tools.java): (exit status, what it printed)."""
    jvm = _session()
    jvm.stdin.write(b" ".join(base64.b64encode(str(w).encode()) for w in (main, *args)) + b"\n")
    jvm.stdin.flush()
    status, said = jvm.stdout.readline().split(b" ")
    return int(status), base64.b64decode(said).decode()
