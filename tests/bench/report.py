#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""report.py rows PATTERN...: prints the names of the chosen rows.
report.py report DIR KERNEL REVISION: makes bench.json, bench.svg and table.md of the measurements in DIR and prints the table."""

import json
import os
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import rows


def measurements(directory):
    """{(row, mode): {"stock": {pass: ns}, "ours": {...}}} and the errors."""
    found, errors = {}, []
    for mode in ("count", "wall"):
        path = f"{directory}/{mode}.jsonl"
        if not os.path.exists(path):
            continue
        with open(path, encoding="utf-8") as f:
            for line in f:
                m = json.loads(line)
                if "ns" in m:
                    found.setdefault((m["row"], mode), {"stock": {}, "ours": {}})[m["module"]][m["pass"]] = m["ns"]
                else:
                    errors.append({k: m[k] for k in ("row", "module", "mode", "pass", "error")})
    return found, errors


def summarise(found):
    """One entry for each row that was measured; what was not measured is absent."""
    result = []
    for row in rows.ROWS:
        entry = {"row": row.name, "what": row.describe()}
        for mode in ("count", "wall"):
            m = found.get((row.name, mode))
            if not m:
                continue
            part = {name: statistics.median(m[key].values()) for name, key in (("c", "stock"), ("ours", "ours")) if m[key]}
            both = [m["stock"][p] / m["ours"][p] for p in m["stock"] if p in m["ours"]]
            if both:
                part.update(ratio=statistics.median(both), passes=len(both), lowest=min(both), highest=max(both))
            entry[mode] = part
        if len(entry) > 2:
            result.append(entry)
    return result


def cell(value, form):
    return "" if value is None else format(value, form)


def table(entries):
    """A Markdown table, which reads well on a terminal too."""
    modes = [m for m in ("count", "wall") if any(m in e for e in entries)]
    head = ["row", "what"]
    for m in modes:
        head += ["C, instructions", "ours", "C/ours"] if m == "count" else ["C, us", "ours, us", "C/ours (lowest, highest)"]
    body = []
    for e in entries:
        line = [e["row"], e["what"]]
        for m in modes:
            p = e.get(m, {})
            scale, form = (1, ",.0f") if m == "count" else (1e-3, ",.1f")
            line += [cell(p[k] * scale if k in p else None, form) for k in ("c", "ours")]
            ratio = cell(p.get("ratio"), ".2f")
            if m == "wall" and p.get("passes", 0) > 1:
                ratio += f" ({p['lowest']:.2f}, {p['highest']:.2f})"
            line.append(ratio)
        body.append(line)
    width = [max(len(r[i]) for r in [head, *body]) for i in range(len(head))]

    def fmt(cells):
        return "| " + " | ".join(c.ljust(w) if i < 2 else c.rjust(w) for i, (c, w) in enumerate(zip(cells, width))) + " |"

    rule = "|" + "|".join("-" * (w + 2) if i < 2 else "-" * (w + 1) + ":" for i, w in enumerate(width)) + "|"
    return "\n".join([fmt(head), rule, *map(fmt, body)]) + "\n"


def chart(entries, title):
    """Horizontal bars of the ratios on a logarithmic scale; to the right of 1 this module is faster."""
    import math

    bars = [(e["what"], m, e[m]["ratio"]) for e in entries for m in ("count", "wall") if "ratio" in e.get(m, {})]
    if not bars:
        return None
    low = min(-1, math.floor(min(math.log2(b[2]) for b in bars)))
    high = max(1, math.ceil(max(math.log2(b[2]) for b in bars)))
    left, right, top, step = 300, 60, 60, 18
    span = 620

    def x(ratio):
        return left + span * (math.log2(ratio) - low) / (high - low)

    height = top + step * len(bars) + 40
    colour = {"count": "#31688e", "wall": "#e08214"}
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + span + right}" height="{height}" font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="white"/>', f'<text x="10" y="20" font-size="14">{title}</text>',
           '<text x="10" y="40" fill="#31688e">counted instructions</text>', '<text x="150" y="40" fill="#e08214">wall clock</text>']
    for k in range(low, high + 1):
        dark = "#333" if k == 0 else "#ccc"
        label = f"{2**k}" if k >= 0 else f"1/{2**-k}"
        out.append(f'<line x1="{x(2.0**k):.1f}" y1="{top - 6}" x2="{x(2.0**k):.1f}" y2="{height - 32}" stroke="{dark}"/>'
                   f'<text x="{x(2.0**k):.1f}" y="{height - 16}" text-anchor="middle">{label}</text>')
    last = None
    for i, (what, mode, ratio) in enumerate(bars):
        y = top + i * step
        a, b = sorted((x(1.0), x(ratio)))
        if what != last:
            out.append(f'<text x="{left - 8}" y="{y + 11}" text-anchor="end">{what}</text>')
        last = what
        out.append(f'<rect x="{a:.1f}" y="{y}" width="{max(b - a, 1):.1f}" height="{step - 4}" fill="{colour[mode]}"/>'
                   f'<text x="{b + 4:.1f}" y="{y + 11}">{ratio:.2f}</text>')
    out.append("</svg>")
    return "\n".join(out) + "\n"


def report(directory, kernel, revision):
    found, errors = measurements(directory)
    entries = summarise(found)
    with open(f"{directory}/bench.json", "w", encoding="utf-8") as f:
        json.dump({"kernel": kernel, "revision": revision, "rows": entries, "errors": errors}, f, indent=1)
        f.write("\n")
    text = table(entries) if entries else ""
    with open(f"{directory}/table.md", "w", encoding="utf-8") as f:
        f.write(text)
    svg = chart(entries, f"Cost of the C driver divided by that of this module ({kernel}, {revision})")
    if svg:
        with open(f"{directory}/bench.svg", "w", encoding="utf-8") as f:
            f.write(svg)
    print(text, end="")
    for e in errors:
        print(f"failed: {e['row']} with {e['module']} ({e['mode']}, pass {e['pass']}): {e['error'].splitlines()[0][:200]}")
    return 1 if errors or not entries else 0


def main():
    if sys.argv[1:2] == ["rows"]:
        print("\n".join(rows.choose(sys.argv[2:])))
        return 0
    return report(*sys.argv[2:5])


if __name__ == "__main__":
    sys.exit(main())
