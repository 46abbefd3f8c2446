#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Rules that the compiler does not check for us.

 1. rust/proto uses core, zerocopy and itself, by relative paths: no kernel, alloc, std, crate:: (tests and examples excepted).
 2. Bindings are named inside rust/abstractions only.
 3. The abstractions do not use the driver or the protocol core; sync, work and mm do not use net or rdma; net does not use rdma.
 4. Unsafe code is in rust/abstractions, rust/rxe/queue.rs and rust/rxe/mem.rs only; every other file begins with
    #![forbid(unsafe_code)], the crate root and module lists excepted.
 5. An unsafe block or implementation has a SAFETY comment, an unsafe function a "# Safety" section.

Comments and string literals are blanked out before the rules are applied. With --self-test the rules are tried on lines that
break them.
"""

import os
import re
import subprocess
import sys

UNSAFE_FILES = ('rust/rxe/queue.rs', 'rust/rxe/mem.rs')
# Files without code of their own.
LISTS = ('rust/rdma_rxe.rs',)

STRING = re.compile(r'(?:(b|c)?"|(?:b|c)?r(#*)")')
CHARACTER = re.compile(r"b?'(?:\\.[^']*|[^\\'\n])'")


def blank(text):
    """The text with the contents of comments, strings and character literals replaced by spaces."""
    out, i, n = [], 0, len(text)

    def skip(j):
        out.append(re.sub(r'[^\n]', ' ', text[i:j]))
        return j

    while i < n:
        if text.startswith('//', i):
            j = text.find('\n', i)
            i = skip(n if j < 0 else j)
        elif text.startswith('/*', i):
            depth, j = 1, i + 2
            while j < n and depth:
                if text.startswith('/*', j):
                    depth, j = depth + 1, j + 2
                elif text.startswith('*/', j):
                    depth, j = depth - 1, j + 2
                else:
                    j += 1
            i = skip(j)
        elif m := STRING.match(text, i):
            raw = m.group(2) is not None
            end = '"' + (m.group(2) or '')
            j = m.end()
            while j < n and not text.startswith(end, j):
                j += 2 if text[j] == '\\' and not raw else 1
            i = skip(min(n, j + len(end)))
        elif m := CHARACTER.match(text, i):
            i = skip(m.end())
        else:
            out.append(text[i])
            i += 1
    return ''.join(out)


def own_tests(path):
    return re.search(r'^rust/proto/(?:.*/)?(?:tests|examples|sim|fuzz|loom)(?:/|\.rs$)', path) is not None


def without_test_modules(code):
    """The code with bodies of #[cfg(test)] items blanked out."""
    for m in reversed(list(re.finditer(r'#\[cfg\((?:test|any\(test[^\]]*)\)\]', code))):
        j = m.end()
        depth = 0
        while j < len(code):
            if code[j] == '{':
                depth += 1
            elif code[j] == '}':
                depth -= 1
                if depth == 0:
                    break
            elif code[j] == ';' and depth == 0:
                break
            j += 1
        code = code[:m.start()] + re.sub(r'[^\n]', ' ', code[m.start():j + 1]) + code[j + 1:]
    return code


def reason_above(lines, row, words):
    """Whether one of the words is in the comments and attributes directly above a line, or on it."""
    if any(w in lines[row] for w in words):
        return True
    row -= 1
    steps = 0
    while row >= 0 and steps < 60:
        line = lines[row].strip()
        if line.startswith(('//', '#[', '#![')) or line.endswith(')]'):
            if any(w in line for w in words):
                return True
        elif steps < 60 and continues(line):
            # The statement began on an earlier line: its comment is above that.
            pass
        else:
            return False
        row -= 1
        steps += 1
    return False


def in_trait_impl(lines, row):
    """Whether a line is directly in the implementation of a trait, whose documentation states the requirements."""
    indent = len(lines[row]) - len(lines[row].lstrip())
    for back in range(row - 1, -1, -1):
        line = lines[back]
        if not line.strip() or len(line) - len(line.lstrip()) >= indent:
            continue
        if line.strip() == '{' or line.strip().startswith('where'):
            continue
        return re.match(r'\s*(?:unsafe\s+)?impl\b.*\bfor\b', line) is not None
    return False


def continues(line):
    """Whether a line leaves its statement open."""
    return bool(line) and not line.endswith((';', '{', '}', '},'))


def check(path, text):
    """The faults of one file, as (line, message)."""
    code = blank(text)
    lines = text.splitlines()
    faults = []

    def each(pattern, message, where=code):
        for m in re.finditer(pattern, where):
            faults.append((where.count('\n', 0, m.start()) + 1, message))

    if path.startswith('rust/proto/') and not own_tests(path):
        live = without_test_modules(code)
        each(r'\bcrate::', 'rust/proto uses relative paths (super::), not crate::', live)
        each(r'\b(?:kernel|bindings|alloc|std)::', 'rust/proto uses core and zerocopy only', live)
        each(r'\bextern\s+crate\b', 'rust/proto uses core and zerocopy only', live)
    if not path.startswith('rust/abstractions/'):
        each(r'\bbindings(?:_generated)?\b', 'bindings are for rust/abstractions only')
    else:
        each(r'\bcrate::(?:rxe|proto)\b', 'the abstractions do not know the driver or the protocol core')
        part = path.split('/')[2]
        lower = {'sync': 'net|rdma', 'work': 'net|rdma', 'mm': 'net|rdma', 'net': 'rdma'}.get(part)
        if lower:
            each(rf'\babstractions::(?:{lower})\b', f'abstractions/{part} does not use {lower.replace("|", " or ")}')

    may = path.startswith('rust/abstractions/') or path in UNSAFE_FILES
    if not may:
        each(r'\bunsafe\b(?!_)', f'unsafe code is for rust/abstractions, {" and ".join(UNSAFE_FILES)}')
        has_code = re.search(r'\b(?:fn|impl|const|static)\b', code)
        if has_code and path not in LISTS and not own_tests(path) and not re.search(r'#!\[forbid\(unsafe_code\)\]', code):
            faults.append((1, 'begins without #![forbid(unsafe_code)]'))
    for m in re.finditer(r'\bunsafe\b(?!_)', code):
        row = code.count('\n', 0, m.start())
        rest = code[m.end():].lstrip()
        before = code[:m.start()].rstrip()
        if rest.startswith('{') or rest.startswith('impl'):
            if not reason_above(lines, row, ('SAFETY',)):
                faults.append((row + 1, 'an unsafe block or implementation without a SAFETY comment'))
        elif re.match(r'(?:extern\b[^{;]*?)?\s*fn\s+\w', rest) and not before.endswith(('(', ':', '<', ',', '=', '->')):
            if not in_trait_impl(lines, row) and not reason_above(lines, row, ('# Safety',)):
                faults.append((row + 1, 'an unsafe function without a "# Safety" section'))
        elif rest.startswith('trait'):
            if not reason_above(lines, row, ('# Safety',)):
                faults.append((row + 1, 'an unsafe trait without a "# Safety" section'))
    return sorted(set(faults))


def self_test():
    forbid = '#![forbid(unsafe_code)]\n'
    bad = [
        ('rust/proto/a.rs', forbid + 'use crate::proto::psn::Psn;'),
        ('rust/proto/a.rs', forbid + 'use kernel::prelude::*;'),
        ('rust/proto/a.rs', forbid + 'fn f() -> std::string::String { loop {} }'),
        ('rust/proto/a.rs', 'fn f() {}'),
        ('rust/rxe/a.rs', forbid + 'use kernel::bindings;'),
        ('rust/rxe/a.rs', forbid + '// SAFETY: no.\nunsafe { f() }'),
        ('rust/rxe/a.rs', 'fn f() {}'),
        ('rust/rxe/mem.rs', 'fn f() {\n    unsafe { g() }\n}'),
        ('rust/rxe/mem.rs', 'fn f() {\n    let s = "// SAFETY: in a string";\n    unsafe { g() }\n}'),
        ('rust/abstractions/net/a.rs', 'use crate::rxe::qp;'),
        ('rust/abstractions/net/a.rs', 'use crate::abstractions::rdma::gid;'),
        ('rust/abstractions/sync/a.rs', 'use crate::abstractions::net;'),
        ('rust/abstractions/a.rs', '/// Does it.\npub unsafe fn f() {}'),
        ('rust/abstractions/a.rs', 'impl A {\n    /// Does it.\n    pub unsafe fn f() {}\n}'),
        ('rust/abstractions/a.rs', 'unsafe impl Send for A {}'),
        ('rust/abstractions/a.rs', '/// A.\npub unsafe trait A {}'),
    ]
    good = [
        ('rust/proto/a.rs', forbid + '//! Not crate::x, kernel::y or unsafe.\nfn f() -> &\'static str { "unsafe { }" }'),
        ('rust/proto/a.rs', forbid + 'fn f() {}\n#[cfg(test)]\nmod tests { use std::vec::Vec; }'),
        ('rust/proto/tests/a.rs', 'use std::vec::Vec;'),
        ('rust/abstractions/a.rs', '// SAFETY: A is plain.\nunsafe impl Send for A {}'),
        ('rust/abstractions/a.rs', '    // SAFETY: As promised.\n    let x =\n        unsafe { f() };'),
        ('rust/abstractions/a.rs', '/// # Safety\n///\n/// Call it well.\npub unsafe fn f() {}'),
        ('rust/abstractions/a.rs', 'struct A { f: unsafe extern "C" fn(i32) }'),
        ('rust/abstractions/a.rs', '// SAFETY: No.\nunsafe impl<T> B for A<T>\nwhere\n    T: C,\n{\n    unsafe fn f() {}\n}'),
        ('rust/rdma_rxe.rs', 'struct A;'),
    ]
    for path, text in bad:
        if not check(path, text):
            sys.exit(f'layers.py does not see the fault in {path}: {text!r}')
    for path, text in good:
        if faults := check(path, text):
            sys.exit(f'layers.py sees a fault in {path}: {text!r}: {faults}')


def main():
    self_test()
    if sys.argv[1:] == ['--self-test']:
        return
    top = sys.argv[1]
    listed = subprocess.run(
        ['git', '-C', top, 'ls-files', '--cached', '--others', '--exclude-standard', '--', 'rust/*.rs'],
        capture_output=True, text=True, check=True).stdout.split()
    files = sorted(f for f in set(listed) if os.path.exists(os.path.join(top, f)))
    if len(files) < 20:
        sys.exit(f'only {len(files)} Rust files were found, which cannot be all')
    bad = 0
    for path in files:
        with open(os.path.join(top, path), encoding='utf-8') as f:
            for line, message in check(path, f.read()):
                print(f'{path}:{line}: {message}')
                bad += 1
    print(f'layers: {len(files)} files, {bad} faults')
    sys.exit(1 if bad else 0)


if __name__ == '__main__':
    main()
