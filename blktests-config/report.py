#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""report.py verdicts LOG: the verdicts in the output of blktests' check, one a line: test, verdict, seconds, reason.
report.py compare STOCK PASS VERDICTS...: a table of them beside those recorded of the C driver; exit 1 if one is worse.

STOCK has lines `PASS TEST VERDICT`, where PASS `*` stands for every pass that has none of its own.
"""

import re
import sys


def verdicts(log):
    found, current = [], None
    for line in open(log, encoding="utf-8", errors="replace"):
        line = line.rstrip("\n")
        if m := re.match(r"^([a-z-]+/\d+)( => \S+)? .*\[(passed|failed|not run)\]$", line):
            current = [m[1], {"passed": "pass", "failed": "fail", "not run": "skip"}[m[3]], "", []]
            found.append(current)
        elif current and (m := re.match(r"^    runtime\s.*?([0-9.]+)s$", line)):
            current[2] = m[1]
        elif current and line.startswith("    ") and current[1] != "pass" and len(current[3]) < 4:
            text = line.strip()
            if not text.startswith(("---", "+++", "@@")):
                current[3].append(text)
        elif not line.startswith(" ") and re.match(r"^[a-z-]+/\d+ ", line):
            current = None
    for test, verdict, seconds, reason in found:
        print(test, verdict, seconds, " / ".join(reason), sep="\t")


def recorded(path):
    table = {}
    for line in open(path, encoding="utf-8"):
        if line.strip() and not line.startswith("#"):
            which, test, verdict = line.split()[:3]
            table[which, test] = verdict
    return table


def compare(stock, which, files):
    stock = recorded(stock)
    worse = 0
    counts = {"pass": 0, "fail": 0, "skip": 0}
    for name in files:
        for line in open(name, encoding="utf-8"):
            test, verdict, seconds, reason = line.rstrip("\n").split("\t")
            counts[verdict] += 1
            old = stock.get((which, test), stock.get(("*", test), "?"))
            mark = ""
            if verdict != "pass" and old == "pass":
                mark, worse = "WORSE ", worse + 1
            elif verdict == "fail" and old == "?":
                mark, worse = "FAIL ", worse + 1
            elif verdict == "pass" and old == "fail":
                mark = "better "
            print(f"{test:<14} {verdict:<5} {seconds:>9}  C: {old:<5} {mark}{reason}".rstrip())
    print(f"{counts['pass']} passed, {counts['fail']} failed, {counts['skip']} not run; {worse} worse than the C driver")
    return 1 if worse else 0


if sys.argv[1] == "verdicts":
    verdicts(sys.argv[2])
else:
    sys.exit(compare(sys.argv[2], sys.argv[3], sys.argv[4:]))
