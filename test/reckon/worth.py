"""The value of a run's work: the on-demand equivalent, where time and money went, and the cost of each trial of a sweep. figures.py uses it; it
shares no code with the program, either.
"""
import datetime
import math
from collections import defaultdict
from fractions import Fraction

HOUR = datetime.timedelta(hours=1)
KINDS = ("working", "redone", "startup", "setup", "restore", "flush", "idle")


def when(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def hours(length):
    return Fraction(round(length.total_seconds() * 1_000_000), 3_600_000_000)


def common(a, b):
    """The overlap of two intervals, in hours."""
    start, end = max(a[0], b[0]), min(a[1], b[1])
    return hours(end - start) if end > start else Fraction(0)


class Attempt:
    """A program's time on a machine."""

    def __init__(self, e):
        self.program, self.machine, self.number = e["program"], e["instance"], e.get("generation", 0)
        self.began = self.saved = self.ended = self.there = self.outcome = None
        self.fetch = self.setup = self.restore = datetime.timedelta()
        self.repeats = False

    def stretches(self, as_of):
        """The times of work that counts, and of work that is lost or redone."""
        end = self.ended or as_of
        if not self.began:
            return None, []
        begin = self.began
        if self.repeats and not self.there:
            return None, [(begin, end)]
        before = []
        if self.repeats:
            before, begin = [(begin, self.there)], self.there
        if self.outcome in (None, "finished", "stopped"):
            return (begin, end), before
        if not self.saved or self.saved < begin:
            return None, before + [(begin, end)]
        return (begin, self.saved), before + [(self.saved, end)]


class Worth:
    """Reads a journal's lines, like figures.Run, and then answers questions about the same machines."""

    def __init__(self):
        self.attempts, self.newest = [], {}
        self.joined, self.noticed = defaultdict(list), {}
        self.done, self.at, self.again = {}, 0, []
        self.start = self.plan = None

    def market(self, wall):
        """Market time of wall-clock seconds; a mapping is BEGIN@BEGIN*SPEED, or real."""
        return datetime.timedelta(seconds=wall * self.speed())

    def speed(self):
        mapping = self.start["clock"]
        return float(mapping.rsplit("*", 1)[1]) if "*" in mapping else 1.0

    def take(self, e):
        kind, t, machine = e["kind"], when(e["t"]), e.get("instance")
        if kind == "start":
            self.start = e["details"]
        elif kind == "plan":
            self.plan = e["details"]
        elif kind == "join":
            if not self.joined[machine] or self.joined[machine][-1][1]:
                self.joined[machine].append([t, None])
        elif kind == "notice" and e.get("deadline"):
            self.noticed.setdefault(machine, t)
        if kind in ("leave", "failed", "evicted", "terminated") and self.joined[machine] and not self.joined[machine][-1][1]:
            self.joined[machine][-1][1] = t
        if kind == "clock":
            if e.get("redone") or e["clock"] in self.done:
                self.again.append((t - self.market(e.get("seconds", 0)), t))
            self.done[e["clock"]], self.at = e.get("work", 0), e["clock"]
        elif kind == "rollback":
            self.at = e.get("clock", 0)
        elif kind in ("program-start", "program-step", "program-saved", "program-end") and e.get("outcome") != "cancelled":
            self.program(kind, t, e)

    def program(self, kind, t, e):
        a = self.newest.get(e["program"])
        number = e.get("generation", 0)
        if kind == "program-step":
            if a and a.number == number:
                if e.get("redone"):
                    a.repeats = True
                elif a.repeats and not a.there:
                    a.there = t
            return
        same = a and a.number == number
        if kind == "program-end" and same and a.ended and number:
            return  # reported twice
        if not same or a.ended:
            if kind == "program-saved":
                return
            a = self.newest[e["program"]] = Attempt(e)
            self.attempts.append(a)
        if kind == "program-start":
            a.began, d = t, e.get("details") or {}
            a.fetch, a.setup, a.restore = (self.market(d.get(k, 0)) for k in ("fetch", "setup", "restore"))
        elif kind == "program-saved":
            a.saved = t
        else:
            a.ended, a.outcome = t, e["outcome"]

    def used(self, m, as_of):
        """A machine's work for programs: (from, to, what, program), without overlaps."""
        at = self.joined[m.id][0][0] if self.joined[m.id] else m.start
        out = []
        for a in (a for a in self.attempts if a.machine == m.id):
            if a.began:
                ready = a.began - a.restore
                good, bad = a.stretches(as_of)
                plan = [(ready - a.setup - a.fetch, ready - a.setup, "restore"), (ready - a.setup, ready, "setup"), (ready, a.began, "restore")]
                plan += sorted([(f, t, "redone") for f, t in bad] + ([(*good, "working")] if good else []))
            else:
                plan = [(at, a.ended, "setup")]
            for f, t, what in plan:
                if t > max(f, at):
                    out.append((max(f, at), t, what, a.program))
                    at = t
        return out

    def life(self, m, as_of):
        """The kind of each interval of a machine's life: (from, to, kind)."""
        begin, end = m.start, max(m.start, min(m.end or as_of, as_of))
        uses, joined, noticed = self.used(m, as_of), self.joined[m.id], self.noticed.get(m.id)
        edges = {begin, end, noticed} | {x for u in uses for x in u[:2]} | {x for j in joined for x in j}
        if self.start.get("program") is None:
            edges |= {x for i in self.again for x in i}
        edges = sorted(x for x in edges if x and begin <= x <= end)
        out = []
        for f, t in zip(edges, edges[1:]):
            warned = noticed and f >= noticed
            if self.start.get("program") is not None:
                what = next((u[2] for u in uses if u[0] <= f < u[1]), None)
                what = what or ("flush" if warned else "startup" if not uses or f < uses[0][0] else "idle")
            else:
                here = any(j[0] <= f and (not j[1] or f < j[1]) for j in joined)
                left = any(j[1] and j[1] <= f for j in joined)
                if warned and (here or not left):
                    what = "flush"
                elif here:
                    what = "redone" if any(i[0] <= f < i[1] for i in self.again) else "working"
                else:
                    what = "startup" if not joined or f < joined[0][0] else "idle"
            out.append((f, t, what))
        return out

    def went(self, charges, machines, as_of):
        """Hours and dollars by kind of time."""
        time, paid = defaultdict(Fraction), defaultdict(Fraction)
        for m in machines:
            pieces = self.life(m, as_of)
            for f, t, what in pieces:
                time[what] += hours(t - f)
            for f, t, usd, free in charges[m.id]:
                if free:
                    time["free"] += common((f, t), (m.start, max(m.start, min(m.end or as_of, as_of))))
                rest = usd
                for p in pieces:
                    part = usd * common(p, (f, t)) / hours(t - f)
                    paid[p[2]] += part
                    rest -= part
                paid["after_end"] += rest
        return time, paid

    def trials(self, charges, machines, as_of):
        """Hours and dollars of each trial."""
        time, paid = defaultdict(Fraction), defaultdict(Fraction)
        for m in machines:
            life = (m.start, max(m.start, min(m.end or as_of, as_of)))
            for u in self.used(m, as_of):
                time[u[3]] += common(u, life)
                for f, t, usd, _ in charges[m.id]:
                    paid[u[3]] += usd * common(u, (f, t)) / hours(t - f)
        return time, paid

    def equivalent(self, machines, as_of):
        """Hours and dollars of the undisturbed work on the plan's on-demand fleet; None if the journal has no plan for one."""
        fleet = (self.plan or {}).get("on_demand") or {}
        if not fleet.get("count"):
            return None
        types = {t["name"]: t for t in self.start["machines"]}
        on = fleet["pool"].split("/")[3]
        if self.start.get("program") is not None:
            each = defaultdict(float)
            for a in self.attempts:
                good, _ = a.stretches(as_of)
                if a.machine in machines and good:
                    each[machines[a.machine].pool.split("/")[3]] += (good[1] - good[0]).total_seconds()
            work, clocks = sum(s / self.speed() * types[t]["flops"] for t, s in each.items()), 0
            if each:
                on = max(each, key=each.get)
        else:
            counted = [w for c, w in self.done.items() if c <= self.at]
            work, clocks = sum(counted), len(counted)
        if not types.get(on, {}).get("flops"):
            return None
        took = (work / fleet["count"] / types[on]["flops"] * self.speed() + clocks * fleet.get("beside", 0)) / 3600
        billed = took
        if self.start.get("program") is not None and took > 0:
            billed = math.ceil(took) if self.start["rules"] == "ec2-2017" else max(took, 60 / 3600)
        return took, billed * fleet["count"] * float(types[on]["on_demand"]), fleet["count"]
