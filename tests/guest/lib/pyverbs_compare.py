# SPDX-License-Identifier: GPL-2.0
"""Compares the verdicts of pyverbs_run.py with the recorded ones; exits 1 and says what differs, if anything does.

A line of the record: `<verdict> <test> [# <explanation>]`. `any` as a verdict means that the test is known to be unsteady. Every
`skip` and every `any` must have an explanation.
"""

import sys


def read(path):
    out, why = {}, {}
    for line in open(path):
        line = line.strip()
        if not line or line.startswith('#'):
            continue
        text, _, comment = line.partition(' # ')
        words = text.split(None, 2)
        out[words[1]] = words[0]
        why[words[1]] = comment.strip() or (words[2] if len(words) > 2 else '')
    return out, why


def main():
    expected, explained = read(sys.argv[1])
    found, reason = read(sys.argv[2])
    bad = 0
    for test in sorted(expected.keys() | found.keys()):
        e, f = expected.get(test, 'not recorded'), found.get(test, 'not run')
        if e in ('skip', 'any') and not explained[test]:
            print(f'{test}: recorded as {e} without a reason')
            bad = 1
        if e == f or e == 'any' and f in ('ok', 'fail', 'error'):
            continue
        print(f'{test}: {f}, recorded: {e}; {reason.get(test, "")}')
        bad = 1
    return bad


sys.exit(main())
