#!/usr/bin/env python3
"""Recomputes the figures of report pages from the runs' journals, sharing no code with the program.

usage: figures.py JOURNAL PAGE [JOURNAL PAGE ...]

It compares with the journal: each machine's lifetime, bill and end, pools, the cost, evictions, losses, ranks, tasks and trials with their states,
steps, attempts and exit codes, machines' usage, and (worth.py) the on-demand equivalent, where time and money went, and the cost of each trial. Rule
books: ec2-2017, ec2-now, and charges of shared hosts. The exit code is 1 if a figure differs.
"""
import datetime
import json
import math
import re
import sys
from collections import Counter, defaultdict
from fractions import Fraction
from html.parser import HTMLParser

from worth import Worth

HOUR = 3600


def when(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None


class Page(HTMLParser):
    """Cards by their title, and tables by their region's label: rows of {column: text}, the first cell's column is ""."""

    def __init__(self, text):
        super().__init__()
        self.cards, self.tables = {}, {}
        self.label, self.row, self.cell, self.column, self.skip, self.dt, self.dd = None, None, None, None, 0, None, None
        self.body = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        a = dict(attrs)
        if a.get("role") == "region":
            self.label = a["aria-label"]
        self.skip += tag == "svg"
        self.body = self.body or tag == "tbody"
        if tag == "tr" and self.body and self.label:
            self.row = {}
        if tag in ("td", "th") and self.row is not None:
            self.cell, self.column = "", a.get("data-is", "" if tag == "th" else str(len(self.row)))
        if tag == "dt":
            self.dt = ""
        if tag == "dd":
            self.dd = ""

    def handle_endtag(self, tag):
        self.skip -= tag == "svg"
        if tag in ("td", "th") and self.cell is not None:
            self.row[self.column], self.cell = self.cell.strip(), None
        if tag == "tr" and self.row:
            self.tables.setdefault(self.label, []).append(self.row)
            self.row = None
        if tag == "tbody":
            self.body = False
        if tag == "dd" and self.dt is not None:
            self.cards.setdefault(self.dt.strip(), []).append(self.dd.strip())
            self.dd = None

    def handle_data(self, data):
        if self.skip:
            return
        if self.cell is not None:
            self.cell += data
        elif self.dd is not None:
            self.dd += data
        elif self.dt is not None and not self.cards.get(self.dt):
            if self.lasttag == "dt":
                self.dt += data


class Machine:
    def __init__(self, e):
        self.id, self.pool, self.bid = e["instance"], e["pool"], Fraction(e.get("bid") or 0)
        self.start = when(e.get("launched")) or when(e["t"]).replace(microsecond=0)
        self.end = self.by = self.kind = None
        self.charged, self.used, self.moved = [], [], False
        self.noticed = self.failed = False


class Run:
    def __init__(self, lines):
        self.machines, self.prices, self.start, self.done = {}, defaultdict(list), None, None
        self.members, self.trials, self.dropped = {}, {}, set()
        self.worth = Worth()
        self.last, self.test, self.rollbacks, self.step = None, None, 0, 0
        for text in lines:
            try:
                e = json.loads(text)
            except ValueError:
                continue  # torn
            self.take(e)
            self.worth.take(e)
        ends = [m.end for m in self.machines.values() if m.end]
        self.as_of = max([self.last] + ends)

    def take(self, e):
        kind, t, m = e["kind"], when(e["t"]), self.machines.get(e.get("instance"))
        self.last = max(self.last or t, t)
        if kind == "start":
            self.start, self.done = e["details"], None
        elif kind == "price":
            self.prices[e["pool"]].append((when(e.get("at")) or t, Fraction(e["usd"])))
        elif kind == "launch" and not m:
            self.machines[e["instance"]] = Machine(e)
        elif kind in ("evicted", "failed", "terminated") and m:
            if kind == "failed":
                m.failed = True
            if kind != "failed" or e.get("ended"):
                if e.get("ended") or not m.end:
                    m.end = when(e.get("ended")) or t.replace(microsecond=0)
                    m.by = e.get("ended_by") or ("provider" if kind == "evicted" else "user")
                    m.kind = kind
        elif kind == "join" and m:
            m.moved = m.moved or bool(e.get("bytes"))
        elif kind == "charge" and m:
            m.charged.append((when(e["from"]), when(e["to"]), Fraction(e["usd"]), False))
        elif kind == "use" and m:
            m.used.append(e)
        elif kind == "rollback":
            self.rollbacks += 1
        elif kind == "clock" and "test_loss" in e and not e.get("redone"):
            self.test = e["test_loss"]
        elif kind == "done":
            self.done = e
        if kind in ("export", "done") and "test_loss" in e and (kind == "done" or e.get("model")):
            self.test = e["test_loss"]
        if kind.startswith("program-") and e.get("program"):
            self.program(kind, e)

    def program(self, kind, e):
        p = self.members.setdefault(e["program"], {"attempts": set(), "step": 0, "loss": None, "code": None, "state": None})
        if e.get("generation"):
            if kind == "program-start" or kind == "program-end" and e["outcome"] != "cancelled":
                p["attempts"].add(e["generation"])
        if kind == "program-start":
            p["state"], p["step"] = "running", max(p["step"], e.get("clock", 0))
            p["settings"] = (e.get("details") or {}).get("settings") or p.get("settings", {})
        if kind in ("program-step", "program-end", "program-saved"):
            p["step"] = max(p["step"], e.get("clock", 0)) if kind != "program-step" else e.get("clock", 0)
            self.step = e.get("clock", 0) if kind == "program-step" else max(self.step, e.get("clock", 0))
            if "train_loss" in e:
                p["loss"] = e["train_loss"]
        if kind == "program-end":
            p["state"], p["code"] = e["outcome"], e.get("code")
        if kind == "program-dropped":
            self.dropped.add(e["program"])

    def price(self, m, at):
        pool_type = m.pool.split("/")[3]
        if m.pool.endswith("/on-demand"):
            return next(Fraction(t["on_demand"]) for t in self.start["machines"] if t["name"] == pool_type)
        steps = sorted(self.prices[m.pool], key=lambda p: p[0])
        usd = [p for at_, p in steps if at_ <= at][-1] if steps and steps[0][0] <= at else steps[0][1]
        return min(usd, m.bid) if m.bid else usd

    def charges(self, m):
        """A machine's charges: (from, to, dollars, whether that time is free); None for unknown rules."""
        if self.start.get("billed"):
            return m.charged if m.end else None
        rules, end = self.start["rules"], m.end or self.as_of
        if m.moved or rules not in ("ec2-2017", "ec2-now"):
            return None
        taken = m.by == "provider" and m.pool.endswith("/spot")
        out, at = [], m.start
        if rules == "ec2-2017":
            while at == m.start or (at < end if m.end else at <= end):
                to = at + datetime.timedelta(seconds=HOUR)
                free = taken and m.end < to
                out.append((at, m.end if free else to, 0 if free else self.price(m, at), free))
                at = to
            return out
        if taken and (end - m.start).total_seconds() < HOUR:
            return [(m.start, end, 0, True)] if end > m.start else []
        seconds = max(60, math.floor((end - m.start).total_seconds()))
        changes = sorted({m.start} | {a for a, _ in self.prices[m.pool] if m.start < a < end})
        for at, to in zip(changes, changes[1:] + [m.start + datetime.timedelta(seconds=seconds)]):
            out.append((at, to, self.price(m, at) * Fraction(math.ceil((to - at).total_seconds()), HOUR), False))
        return out

    def evicted(self, m):
        return bool(m.end) and m.by == "provider" and m.kind != "failed"


class Checks:
    def __init__(self):
        self.done, self.wrong = Counter(), []

    def same(self, what, shown, want, close=None):
        self.done[what.split(":")[0]] += 1
        if close is None:
            ok = shown == want
        else:
            number = re.search(r"-?\d[\d,]*\.?\d*(e-?\d+)?", shown.replace("$", ""))
            ok = number and abs(float(number[0].replace(",", "")) - float(want)) <= close
        if not ok:
            self.wrong.append(f"{what}: the page has {shown!r}, the journal {want}")


def check(run, page, c):
    charges = {m.id: run.charges(m) for m in run.machines.values()}
    bills = {i: None if c is None else sum(usd for _, _, usd, _ in c) for i, c in charges.items()}
    lives = {m.id: ((m.end or run.as_of) - m.start).total_seconds() / HOUR for m in run.machines.values()}
    rows = page.tables.get("Machines", [])
    c.same("machines", str(len(rows)), str(len(run.machines)))
    for row in rows:
        m = run.machines[row[""]]
        c.same(f"machine's hours: {m.id}", row["hours"], max(0, lives[m.id]), .0051)
        if bills[m.id] is not None:
            c.same(f"machine's bill: {m.id}", row["paid"], bills[m.id], 2e-9)
        c.same(f"machine's end: {m.id}", row["how it ended, and why"].startswith("evicted"), bool(m.end) and m.by == "provider")
    known = None not in bills.values()
    by_pool = defaultdict(list)
    for m in run.machines.values():
        by_pool["/".join(m.pool.split("/")[2:])].append(m)
    pools = page.tables.get("Pools", [])
    c.same("pools", str(sum(int(r["machines"]) for r in pools)), str(len(run.machines)))
    c.same("pools' evictions", str(sum(int(r["evicted"]) for r in pools)), str(sum(map(run.evicted, run.machines.values()))))
    c.same("pools' hours", str(sum(float(r["hours"]) for r in pools)), sum(lives.values()), .0051 * max(1, len(pools)))
    c.same("evictions", page.cards["Evictions"][0], str(sum(map(run.evicted, run.machines.values()))))
    if known:
        total = sum(bills.values())
        c.same("cost", page.cards["Cost"][0], total, .0051)
        c.same("pools' dollars", str(sum(float(r["paid"].replace("$", "")) for r in pools)), total, .0051 * max(1, len(pools)))
        worth(run, page, c, charges, float(total))
    if run.start.get("program") is None and run.test is not None:
        shown = [v for k, v in page.cards.items() if k.startswith("Test ")]
        c.same("test loss", shown[0][0] if shown else "none", run.test, 5.1e-5)
    if run.start.get("program") is None and run.start["app"] != "hosts":
        c.same("roll-backs", page.cards["Evictions"][1], run.rollbacks, 0)
    gang = len(page.tables.get("Ranks", [])) > 1  # it has one step, by whichever rank reports it
    if gang and "Step" in page.cards:
        c.same("gang's step", page.cards["Step"][0], str(run.step))
    for row in page.tables.get("Tasks", []) + page.tables.get("Ranks", []):
        p = run.members[row[""]]
        state = "dropped" if row[""] in run.dropped else p["state"]
        c.same(f"state: {row['']}", row["state"], state)
        c.same(f"attempts: {row['']}", row["attempts"], str(len(p["attempts"])))
        if p["code"]:
            c.same(f"exit code: {row['']}", row["exit code"], str(p["code"]))
        if not gang:
            c.same(f"step: {row['']}", row["step"] or "0", str(p["step"]))
        loss = next((v for k, v in row.items() if k not in FIXED), "")
        if p["loss"] is not None and loss:
            c.same(f"loss: {row['']}", loss, p["loss"], 5.1e-5)
    trials = page.tables.get("Trials", [])
    for row in trials:
        p = run.members[row[""]]
        loss = list(row.values())[2]
        if p["loss"] is not None:
            c.same(f"trial's loss: {row['']}", loss, p["loss"], abs(p["loss"]) * 1e-4)
        for name, value in (p.get("settings") or {}).items():
            c.same(f"trial's setting: {row['']}", row.get(name, ""), value)
    if trials and "Best trial" in page.cards:
        finished = {n: p["loss"] for n, p in run.members.items() if p["loss"] is not None and p["state"] == "finished" and n not in run.dropped}
        if finished:
            c.same("best trial", finished.get(page.cards["Best trial"][0]), min(finished.values()))
    for row in page.tables.get("Use of each machine", []):
        used = run.machines[row[""]].used
        seconds, cpu = sum(u["seconds"] for u in used), sum(u.get("cpu_seconds", 0) for u in used)
        c.same(f"cores used: {row['']}", row["processor"], cpu / seconds, .0051)
        memory = re.search(r"peak ([\d.]+) (k|M|G|T)?B", row["memory"])
        want = max(u.get("memory_bytes", 0) for u in used)
        c.same(f"memory used: {row['']}", memory[1], want / {None: 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[memory[2]], .51 if float(memory[1]) >= 99.5 else .051)


# The rows of "Where time and money went", by the journal's kinds of time.
ROWS = {"working": ("saved work", "working"), "redone": ("redone work",), "startup": ("start-up", "start-up idle"), "setup": ("setup",), "restore": ("restore",),
        "flush": ("flush",), "idle": ("idle", "out of training"), "after_end": ("beyond the end",), "free": ("free",)}


def worth(run, page, c, charges, total):
    """Compares the value of the run's work with the page."""
    machines = list(run.machines.values())
    time, paid = run.worth.went(charges, machines, run.as_of)
    for row in page.tables.get("Where time and money went", []):
        kind = next(k for k, names in ROWS.items() if row[""] in names)
        c.same(f"hours of: {kind}", row["1"] or "0", time[kind], .0051)
        if kind != "free":
            c.same(f"dollars of: {kind}", row["2"], paid[kind], .0051)
    equivalent = run.worth.equivalent(run.machines, run.as_of)
    shown = page.cards.get("On-demand equivalent")
    if equivalent and shown:
        took, usd, _ = equivalent
        c.same("equivalent", shown[0], usd, .0051)
        c.same("equivalent's hours", shown[1].split(":")[1], took, .0051)
        c.same("saving", page.cards["Saving"][0], 100 * (usd - total) / usd, .051)
    hours, dollars = run.worth.trials(charges, machines, run.as_of)
    for row in page.tables.get("Trials", []):
        c.same(f"trial's hours: {row['']}", row["machine hours"], hours[row[""]], .0051)
        c.same(f"trial's dollars: {row['']}", row["paid"], dollars[row[""]], 5.1e-5)


FIXED = {"", "state", "step", "attempts", "exit code", "machine", "since", "why its last attempt ended"}


def main(args):
    failed = False
    for journal, html in zip(args[::2], args[1::2]):
        with open(journal, encoding="utf-8") as lines, open(html, encoding="utf-8") as text:
            run, page, c = Run(lines), Page(text.read()), Checks()
        check(run, page, c)
        failed = failed or bool(c.wrong)
        print(f"{journal}: {sum(c.done.values())} figures of {len(c.done)} kinds, {len(c.wrong)} differ")
        for w in c.wrong[:20]:
            print("  " + w)
    sys.exit(failed)


if __name__ == "__main__":
    main(sys.argv[1:])
