# SPDX-License-Identifier: GPL-2.0
"""Runs test modules of pyverbs on one device and prints one verdict a line.

    ok|fail|error|skip <test> [<reason>]
    crash <module> <what happened>

Run it in the directory that holds the package `tests`. Each test is named on standard error when it starts, so that a hang shows
where. A module runs in a process of its own: some of the library's tests crash the interpreter.
"""

import argparse
import importlib
import os
import sys
import types
import unittest


class Verdicts(unittest.TestResult):
    def say(self, verdict, test, reason=''):
        print(verdict, test.id(), ' '.join(str(reason).split())[:200], flush=True)

    def startTest(self, test):
        print('start', test.id(), file=sys.stderr, flush=True)
        super().startTest(test)

    def addSuccess(self, test):
        self.say('ok', test)

    def addSkip(self, test, reason):
        self.say('skip', test, reason)

    def addFailure(self, test, err):
        self.say('fail', test, err[1])
        print(self._exc_info_to_string(err, test), file=sys.stderr)

    def addError(self, test, err):
        self.say('error', test, err[1])
        print(self._exc_info_to_string(err, test), file=sys.stderr)

    def addSubTest(self, test, subtest, err):
        if err:
            self.say('fail', test, err[1])


def flat(suite):
    for t in suite:
        if isinstance(t, unittest.TestSuite):
            yield from flat(t)
        else:
            yield t


def run_module(name):
    module = importlib.import_module('tests.test_' + name)
    tests = unittest.defaultTestLoader.loadTestsFromModule(module)
    unittest.TestSuite(t for t in flat(tests) if type(t).__module__ == module.__name__).run(Verdicts())


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--dev', required=True)
    p.add_argument('--port', default='1')
    p.add_argument('--gid', required=True)
    p.add_argument('modules', nargs='+')
    a = p.parse_args()
    # The package's own __init__ imports every test of every vendor; a stand-in saves that time.
    tests = types.ModuleType('tests')
    tests.__path__ = [os.path.join(os.getcwd(), 'tests')]
    sys.modules['tests'] = tests
    sys.path.insert(0, tests.__path__[0])
    sys.argv = ['run', '--dev', a.dev, '--port', a.port, '--gid', a.gid]
    importlib.import_module('args_parser').parser.parse_args()
    importlib.import_module('tests.base')
    rc = 0
    for name in a.modules:
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            run_module(name)
            sys.stdout.flush()
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status:
            print('crash', 'tests.test_' + name, f'exit status {status}', flush=True)
            rc = 1
    return rc


sys.exit(main())
