"""The frame proxy as a test holds it: rules by method, its events awaited."""
import subprocess

from raw import tools
from raw.broker import free_port


class Proxy:
    """Stands in front of one broker. Give the broker `advertised` so that clients come back through here."""

    def __init__(self, upstream_port=None):
        self.upstream = upstream_port or free_port()
        self.process = subprocess.Popen([tools.proxy_binary(), "0", str(self.upstream)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, bufsize=1)
        self.port = int(self.process.stdout.readline().split()[1])
        self.addr = f"127.0.0.1:{self.port}"
        self.events = []

    @property
    def advertised(self):
        return f"PLAINTEXT://{self.addr}"

    def command(self, text):
        """Send one command, collect events until its answer; lines between are the answer's body."""
        self.process.stdin.write(text + "\n")
        body = []
        while True:
            line = self.process.stdout.readline().strip()
            if line == "ok":
                return body
            if line.startswith("error") or not line:
                raise AssertionError(f"proxy: {text}: {line}")
            if line.startswith("event"):
                self.events.append(line.split()[1:])
            else:
                body.append(line)

    def rule(self, name, direction, api, count, action):
        self.command(f"rule {name} {direction} {api} {count} {action}")

    def wait_event(self, name, times=1):
        """Block until the rule has fired that often; returns the last firing."""
        while True:
            hits = [e for e in self.events if e[0] == name]
            if len(hits) >= times:
                return hits[-1]
            line = self.process.stdout.readline().strip()
            if not line:
                raise AssertionError("the proxy ended")
            self.events.append(line.split()[1:])

    def stats(self):
        return {f[1]: (int(f[3]), int(f[5])) for f in (line.split() for line in self.command("stats"))}

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


def broker_behind(c, **settings):
    """(broker, proxy): a broker of its own whose clients are led through the proxy."""
    proxy = Proxy()
    c.opened.append(proxy)
    broker = c.own(start=False, advertised_listeners=proxy.advertised, **settings)
    broker.port = proxy.upstream
    return broker.start(), proxy
