#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""guest.py count|wall PASSES ROW...: the guest's side of `make bench`.

Measures each row with the C driver and with this module, in one boot: a pass takes the C driver first, then this module. The
wires are made anew for each, in the same way. Appends one JSON object for each measurement to bench.jsonl in RXE_OUT:
{"row", "module", "pass", "mode", "ns"}; ns is the time of one operation, which is the number of instructions executed in the
whole guest when the clock counts them. A row that fails gives an "error" in place of "ns".
"""

import json
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import rows

OUT = os.environ.get("RXE_OUT", "/tmp")
LIB = "cd /rxe/tests/guest && . ./lib.sh && . lib/wire.sh && . lib/nvme.sh && "
LIMIT = 120 * float(os.environ.get("RXE_PATIENCE", "1"))
START = time.monotonic()


class Failed(Exception):
    """A measurement or a preparation did not work; the text says why."""


def say(text):
    print(text, flush=True)


def shell(script):
    """Runs a script with the shell library of the suites; its output."""
    r = subprocess.run(["bash", "-c", LIB + script], capture_output=True, text=True, errors="replace", timeout=LIMIT, check=False)
    if r.returncode:
        raise Failed(f"{script.splitlines()[0]}: exit {r.returncode} {(r.stdout + r.stderr)[-300:].strip()}")
    return r.stdout


def load(module):
    """Makes `module` the loaded rdma_rxe and proves it by its taint."""
    shell(f"modprobe -r rdma_rxe; rxe-module {module} && modprobe -a rdma_rxe ib_uverbs rdma_ucm && RXE_MODULE={module} assert_module")


class Wire:
    """Namespaces A and B with links rxeA and rxeB on a veth pair of a given MTU."""

    def __init__(self, mtu):
        shell(f"two_ns {mtu}")
        gids = shell("gid_index rxeA 10.77.0.1; gid_index rxeB 10.77.0.2").split()
        self.gid = {"rxeA": gids[0], "rxeB": gids[1]}

    def run(self, row, mode):
        client = ("A", "rxeA") if row.place == "one" else ("B", "rxeB")
        n = row.iterations(mode)

        def command(ns, dev, *more):
            if row.tool == "write_events":
                tool = ["/usr/bin/python3", "/rxe/tests/bench/write_events.py", dev, self.gid[dev], str(row.size), str(n), str(row.qps)]
            else:
                tool = [row.tool, "-d", dev, "-x", self.gid[dev], "-F", "-n", str(n), *row.arguments(mode)]
            return ["ip", "netns", "exec", ns, *tool, *more]

        with open("/tmp/server", "w+", encoding="utf-8", errors="replace") as log:
            server = subprocess.Popen(command("A", "rxeA"), stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            try:
                self.listening(server)
                r = subprocess.run(command(*client, "10.77.0.1"), capture_output=True, text=True, errors="replace", timeout=LIMIT, check=False)
                if r.returncode:
                    raise Failed(f"the client's exit is {r.returncode}: {(r.stdout + r.stderr)[-400:].strip()}")
                server.wait(LIMIT)
            except subprocess.TimeoutExpired as e:
                raise Failed(f"not done after {LIMIT:.0f} s") from e
            finally:
                if server.poll() is None:
                    server.kill()
                    server.wait()
            if server.returncode:
                log.seek(0)
                raise Failed(f"the server's exit is {server.returncode}: {log.read()[-400:].strip()}")
        return row.nanoseconds(r.stdout)

    @staticmethod
    def listening(server):
        """Waits for the server's TCP socket (port 18515)."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            if server.poll() is not None:
                raise Failed(f"the server's exit is {server.returncode}")
            try:
                with open(f"/proc/{server.pid}/net/tcp", encoding="ascii") as f:
                    if re.search(r":4853 \S+ 0A ", f.read()):
                        return
            except OSError:
                pass
            time.sleep(0.05)
        raise Failed("the server does not listen")

    @staticmethod
    def close():
        shell("two_ns_gone")


class Storage:
    """An NVMe-oF target and host in the first namespace; on one device or across a veth pair."""

    def __init__(self, place):
        self.one_device = place == "one"
        target = "10.78.0.1" if self.one_device else "10.78.0.2"
        shell(f"one_ns 9000 && nvmet_up {target} && nvme_connect {target} 10.78.0.1")
        self.device = shell("nvme_device").strip()
        # Every block exists before anything is measured.
        shell(f"dd if=/dev/zero of={self.device} bs=1M count={rows.NVME_MB} oflag=direct status=none")

    def run(self, row, mode):
        command = ["fio", "--name=bench", f"--filename={self.device}", f"--rw={row.pattern}", f"--bs={row.size}", "--ioengine=libaio", "--direct=1",
                   "--iodepth=16", f"--size={rows.NVME_MB}m", f"--number_ios={row.iterations(mode)}", "--randseed=1", "--norandommap",
                   "--clocksource=clock_gettime", "--output-format=json"]
        r = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=LIMIT, check=False)
        if r.returncode:
            raise Failed(f"fio's exit is {r.returncode}: {(r.stdout + r.stderr)[-400:].strip()}")
        return row.nanoseconds(r.stdout)

    @staticmethod
    def close():
        shell("nvme_disconnect; nvmet_down; one_ns_gone; modprobe -r nvme_rdma nvme_fabrics; true")


def record(**result):
    with open(f"{OUT}/bench.jsonl", "a", encoding="utf-8") as f:
        f.write(json.dumps(result) + "\n")


def place(setup, wanted, mode, module, number):
    """Measures the rows of one place with one module."""
    try:
        where = setup()
    except (Failed, subprocess.TimeoutExpired) as e:
        say(f"{module}: {e}")
        for row in wanted:
            record(row=row.name, module=module, mode=mode, **{"pass": number}, error=str(e))
        return
    try:
        for row in wanted:
            try:
                ns = where.run(row, mode)
            except (Failed, subprocess.TimeoutExpired) as e:
                say(f"{time.monotonic() - START:7.1f} pass {number} {module:5} {row.name:24} failed: {e}")
                record(row=row.name, module=module, mode=mode, **{"pass": number}, error=str(e))
                continue
            say(f"{time.monotonic() - START:7.1f} pass {number} {module:5} {row.name:24} {row.show(ns, mode)}")
            record(row=row.name, module=module, mode=mode, **{"pass": number}, ns=ns)
    finally:
        where.close()


def main():
    mode, passes, names = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    wanted = [r for r in rows.ROWS if r.name in names]
    places = [(lambda m=mtu: Wire(m), [r for r in wanted if r.mtu == mtu and not r.nvme]) for mtu in (9000, 1500)]
    places += [(lambda p=p: Storage(p), [r for r in wanted if r.place == p and r.nvme]) for p in ("one", "veth")]
    bad = 0
    for number in range(1, passes + 1):
        for module in ("stock", "ours"):
            load(module)
            for setup, here in places:
                if here:
                    place(setup, here, mode, module, number)
            bad += bool(re.search(r"WARNING:|BUG:|Oops", subprocess.run(["dmesg"], capture_output=True, text=True, errors="replace", check=False).stdout))
    if bad:
        say("the kernel log holds a report")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
