# SPDX-License-Identifier: GPL-2.0
"""What `make bench` measures. Used by the guest, which measures, and by the host, which chooses and reports."""

import fnmatch
import json

NVME_MB = 64
SIZES = {"64": 64, "4k": 4096, "64k": 65536}


class Row:
    """One thing that is measured: a name, where (on one device or across a veth pair of some MTU), and how."""

    nvme = False

    def __init__(self, name, place, mtu, tool, size, qps=1, extra=()):
        self.name, self.place, self.mtu, self.tool, self.size, self.qps, self.extra = name, place, mtu, tool, size, qps, list(extra)
        self.latency = tool.endswith("_lat")

    def describe(self):
        where = "one device" if self.place == "one" else f"veth, MTU {self.mtu}"
        what = {"send": "SEND", "read": "READ", "write": "WRITE", "atomic": "fetch and add"}[self.name.split("-")[1]]
        size = "" if what.startswith("fetch") else " " + amount(self.size)
        return f"{what}{size}{' latency' if self.latency else ''}{f', {self.qps} QPs' if self.qps > 1 else ''} ({where})"

    def iterations(self, mode):
        """How many operations: enough that the beginning does not matter."""
        # The tools insist on more than their queues hold.
        n = 200 if self.latency else 2000 if self.size <= 64 else 1000 if self.size <= 4096 else 200
        if self.qps > 1:
            n = max(n // self.qps, 40)
        return n if mode == "count" else 2 * n

    def arguments(self, mode):
        """Arguments of perftest."""
        a = list(self.extra)
        if not self.tool.startswith("ib_atomic"):
            a += ["-s", str(self.size)]
        if self.qps > 1:
            a += ["-q", str(self.qps), "-t", "32"]
        # Polling would be counted too; perftest refuses events for WRITE.
        if mode == "count" or self.latency:
            a += [] if "write" in self.tool else ["-e"]
        return a

    def nanoseconds(self, text):
        """Nanoseconds of one operation, out of the tool's output."""
        for line in reversed(text.splitlines()):
            word = line.split()
            if self.tool == "write_events" and word[:1] == ["ns"]:
                return float(word[1])
            if len(word) >= 5 and word[0].isdigit() and word[1].isdigit():
                return float(word[4]) * 1000 if self.latency else 1000 / float(word[4])
        raise ValueError(f"no result in {text[-200:]!r}")

    def show(self, ns, mode):
        if mode == "count":
            return f"{ns:10.0f} instructions"
        if self.latency:
            return f"{ns / 1000:10.1f} us"
        return f"{ns / 1000:10.1f} us per operation, {self.size * 1e9 / ns / 2**20:8.1f} MiB/s"


class WriteRow(Row):
    """WRITE: perftest when the clock is a clock, a tool that sleeps on the completion channel when it counts."""

    def __init__(self, name, place, mtu, size, qps=1):
        super().__init__(name, place, mtu, "ib_write_bw", size, qps)

    def iterations(self, mode):
        self.tool = "write_events" if mode == "count" else "ib_write_bw"
        return super().iterations(mode)


class NvmeRow(Row):
    """Random reads and writes, half and half, 16 at a time, of a namespace in memory."""

    nvme = True
    pattern = "randrw"

    def __init__(self, name, place, size):
        super().__init__(name, place, 9000, "fio", size)

    def describe(self):
        return f"NVMe-oF {amount(self.size)} ({'one device' if self.place == 'one' else f'veth, MTU {self.mtu}'})"

    def iterations(self, mode):
        return 2000 if self.size <= 4096 else 200

    def nanoseconds(self, text):
        job = json.loads(text[text.index("{"):])["jobs"][0]
        ios = job["read"]["total_ios"] + job["write"]["total_ios"]
        return max(job["read"]["runtime"], job["write"]["runtime"]) * 1e6 / ios


def amount(size):
    return f"{size // 1024} KiB" if size >= 1024 else f"{size} B"


def make():
    for prefix, place, mtu in (("one", "one", 9000), ("veth", "veth", 9000), ("veth1500", "veth", 1500)):
        for label, size in SIZES.items():
            yield Row(f"{prefix}-send-{label}", place, mtu, "ib_send_bw", size)
            yield WriteRow(f"{prefix}-write-{label}", place, mtu, size)
            yield Row(f"{prefix}-read-{label}", place, mtu, "ib_read_bw", size)
        yield Row(f"{prefix}-send-lat", place, mtu, "ib_send_lat", 64)
        if mtu == 1500:
            continue
        yield Row(f"{prefix}-read-lat", place, mtu, "ib_read_lat", 64)
        yield Row(f"{prefix}-atomic", place, mtu, "ib_atomic_bw", 8, extra=("-A", "FETCH_AND_ADD"))
        for label, size in (("64", 64), ("64k", 65536)):
            yield Row(f"{prefix}-send-{label}-16qp", place, mtu, "ib_send_bw", size, qps=16)
    for place in ("one", "veth"):
        for label, size in (("4k", 4096), ("128k", 131072)):
            yield NvmeRow(f"{place}-nvme-{label}", place, size)


ROWS = list(make())


def choose(patterns):
    """The names of the rows that any of the patterns matches, in order; all without patterns."""
    return [r.name for r in ROWS if not patterns or any(fnmatch.fnmatch(r.name, p) for p in patterns)]
