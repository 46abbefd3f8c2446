#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""panic.py OBJECT SOURCE_DIR MINIMUM [ALLOWED]: no instruction that comes from a source file below SOURCE_DIR may lead to a panic.

Every relocation against a panic function of core is looked at. The debug information tells which source lines the instruction
comes from, through all levels of inlining, so that a panic is found in whatever function the code ended up. A function of
core or another library that is in the object and leads to a panic itself counts as a panic function in turn. MINIMUM is the
number of functions below SOURCE_DIR that must be in the object for the verdict to mean something.

With ALLOWED, a list of exceptions, everything in the object is looked at, also what comes from no file below SOURCE_DIR. A line
of the list is "FILE FUNCTION REASON": code of the source file FILE, by the end of its path, may lead to panic functions
whose names contain FUNCTION. Code that was inlined there belongs to it; code that it was inlined into does not.
"""

import collections
import re
import subprocess
import sys

# The functions of core that do not return, by their demangled names.
PANICS = re.compile(r'''
    core::panicking::
    | core::(?:option|result|cell|slice|str|num|unicode|char)(?:::\w+)*::
      (?:\w*_fail(?:ed)?(?:_rt|_inner)?|panic_\w+|\w*panic\w*|fail)\b
    | \blen_mismatch_fail\b | \brust_begin_unwind\b | \brust_panic\b
''', re.X)


# Where the sources of others are.
FOREIGN = re.compile(r'/library/(?:core|alloc)/|/rust/(?:kernel|zerocopy\S*|pin-init|bindings|macros)/')


class Allowed:
    def __init__(self, line):
        self.file, self.function, self.reason = line.split(None, 2)
        self.used = False


def read_allowed(path):
    with open(path) as lines:
        return [Allowed(line) for line in lines if line.strip() and not line.startswith('#')]


def run(*args, **kwargs):
    return subprocess.run(args, check=True, capture_output=True, text=True, **kwargs).stdout


def demangle(names):
    if not names:
        return {}
    names = sorted(names)
    out = run('c++filt', '-s', 'rust', input='\n'.join(names) + '\n').splitlines()
    # Without the hashes of the crates.
    return {name: re.sub(r'\[[0-9a-f]{6,}\]', '', text) for name, text in zip(names, out)}


class Object:
    def __init__(self, path):
        self.path = path
        self.sections = {}
        for line in run('readelf', '-WS', path).splitlines():
            if m := re.match(r'\s*\[\s*(\d+)\]\s+(\S+)\s+PROGBITS\s', line):
                self.sections[int(m.group(1))] = m.group(2)
        # Functions: name, section index, offset, size.
        self.functions = collections.defaultdict(list)
        for line in run('readelf', '-Ws', path).splitlines():
            f = line.split()
            if len(f) == 8 and f[3] == 'FUNC' and f[6].isdigit():
                self.functions[self.sections.get(int(f[6]), '?')].append((int(f[1], 16), int(f[2], 0), f[7]))
        for functions in self.functions.values():
            functions.sort()
        # Relocations of code: section, offset, symbol.
        self.relocations = []
        section = None
        for line in run('readelf', '-Wr', path).splitlines():
            if m := re.match(r"Relocation section '\.rela?(\S+)'", line):
                section = m.group(1) if m.group(1).startswith('.text') or m.group(1).startswith('.init.text') \
                    or m.group(1).startswith('.exit.text') else None
            elif section and (m := re.match(r'([0-9a-f]{8,16})\s+[0-9a-f]+\s+R_\S+\s+[0-9a-f]+\s+(\S+)(?:\s+([+-])\s+([0-9a-f]+))?', line)):
                addend = int(m.group(4) or '0', 16) * (-1 if m.group(3) == '-' else 1)
                self.relocations.append((section, int(m.group(1), 16), m.group(2), addend))

    def function_at(self, section, offset):
        best = None
        for start, size, name in self.functions[section]:
            if start > offset:
                break
            if offset < start + size:
                best = name
        return best

    def frames(self, places):
        """For each (section, offset): the source positions of the instruction, innermost first."""
        by_section = collections.defaultdict(list)
        for section, offset in places:
            by_section[section].append(offset)
        result = {}
        for section, offsets in by_section.items():
            offsets = sorted(set(offsets))
            out = run('addr2line', '-e', self.path, '-j', section, '-i', '-f', '-a', input='\n'.join(map(hex, offsets)) + '\n')
            current, lines = None, []
            for line in out.splitlines():
                if re.fullmatch(r'0x[0-9a-f]+', line):
                    current = int(line, 16)
                    result[section, current] = lines = []
                else:
                    lines.append(line)
        return {place: list(zip(lines[::2], lines[1::2])) for place, lines in result.items()}


def main():
    path, source, minimum = sys.argv[1], sys.argv[2].rstrip('/') + '/', int(sys.argv[3])
    everything = len(sys.argv) > 4
    allowed = read_allowed(sys.argv[4]) if everything else []
    obj = Object(path)
    if not obj.relocations:
        sys.exit(f'{path} has no relocations: it is not the object of the module')

    # Of the sources of the kernel and of the compiler, which have a directory of that name too, the path is known otherwise.
    def is_ours(position):
        return (source in position or position.startswith(source)) and not FOREIGN.search(position)

    def is_allowed(frames, symbol):
        """Up to the innermost source of ours, is there one that is allowed to do that?"""
        name = names.get(symbol, symbol)
        for _, position in frames:
            if is_ours(position):
                return False
            place = re.sub(r':\S*(?: \(.*)?$', '', position)
            for entry in allowed:
                if place.endswith('/' + entry.file) and entry.function in name:
                    entry.used = True
                    return True
        return False

    # Is the source in the object, and does its debug information name it?
    starts = [(section, start) for section, functions in obj.functions.items() for start, _, _ in functions]
    positions = obj.frames([(s, o + 0) for s, o in starts])
    ours = sum(1 for frames in positions.values() if frames and is_ours(frames[-1][1]))
    if ours < minimum:
        sys.exit(f'{path} holds {ours} functions from {source}, fewer than {minimum}: is the debug information missing?')

    names = demangle({symbol for _, _, symbol, _ in obj.relocations})
    panics = {symbol for symbol, name in names.items() if PANICS.search(name)}
    print(f'{path}: {ours} functions from {source}; {len(panics)} panic functions are referred to')

    # A local function may be referred to through its section: the target is then the addend.
    def target(section, symbol, addend):
        if symbol.startswith('.text'):
            return obj.function_at(symbol, addend + 4)
        return symbol

    bad = {}
    done = set()
    while panics - done:
        new = panics - done
        done |= new
        places = {(section, offset): target(section, symbol, addend) for section, offset, symbol, addend in obj.relocations
                  if target(section, symbol, addend) in new}
        for place, frames in obj.frames(places).items():
            if is_allowed(frames, places[place]):
                continue
            hit = [f for f in frames if is_ours(f[1])]
            if hit:
                bad[place] = (hit[0][1], frames, places[place])
            elif frames and re.search(r'/(?:library/(?:core|alloc)|rust/zerocopy\S*)/', frames[-1][1]):
                if name := obj.function_at(*place):
                    panics.add(name)
            elif everything:
                bad[place] = (frames[-1][1] if frames else '?', frames, places[place])

    seen = set()
    for place, (position, frames, symbol) in sorted(bad.items(), key=lambda item: item[1][0]):
        position = position.split(' (')[0]
        if is_ours(position):
            position = position[max(position.find(source), 0):]
        name = names.get(symbol) or demangle({symbol})[symbol]
        if (position, name) in seen:
            continue
        seen.add((position, name))
        inside = obj.function_at(*place)
        print(f'{position}: leads to {name}\n    in {demangle({inside})[inside] if inside else "?"}')
    for entry in allowed:
        if not entry.used:
            print(f'{sys.argv[4]}: nothing needs "{entry.file} {entry.function}" any more')
    if bad:
        print(f'{len(seen)} places in {source if not everything else path} can panic')
    if bad or not all(entry.used for entry in allowed):
        sys.exit(1)


if __name__ == '__main__':
    main()
