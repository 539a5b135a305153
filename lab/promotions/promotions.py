"""Has Syne Tune's promotion variant of ASHA decide on recorded losses: cases on standard input, decisions on standard output, as JSON."""

import contextlib
import datetime
import heapq
import json
import sys

with contextlib.redirect_stdout(sys.stderr):  # it prints hints
    from syne_tune.backend.trial_status import Trial
    from syne_tune.config_space import uniform
    from syne_tune.optimizer.schedulers.hyperband import HyperbandScheduler


def decide(case):
    losses, rungs, clocks = case["losses"], case["rungs"], case["clocks"]
    scheduler = HyperbandScheduler(
        {"step": uniform(0, 1), "clocks": clocks}, searcher="random", type="promotion", metric="loss", mode="min",
        resource_attr="clock", max_resource_attr="clocks", rung_levels=rungs, reduction_factor=3, brackets=1, random_seed=1)
    decisions, busy, trials, names, reached = [], [], {}, {}, {}
    now = order = asked = 0
    idle = case["workers"]
    while True:
        while idle > 0:
            asked += 1
            ask = scheduler.suggest(asked)  # an ID may be requested once
            if ask.spawn_new_trial_id:
                if len(trials) == len(losses):
                    break  # no other trial can begin: a new one is never reported on
                trial = names[asked] = len(trials)
                trials[trial] = Trial(trial_id=asked, config=ask.config, creation_time=datetime.datetime.now())
                scheduler.on_trial_add(trials[trial])
                decisions.append(f"start {trial}")
                before = 0
            else:
                trial = names[int(ask.checkpoint_trial_id)]
                before = reached[trial]
                decisions.append(f"promote {trial} from {before}")
            until = min((r for r in rungs + [clocks] if r > before))
            order += 1
            heapq.heappush(busy, (now + until - before, order, trial, before, until))
            idle -= 1
        if not busy:
            return decisions
        now, _, trial, before, until = heapq.heappop(busy)
        idle += 1
        reached[trial] = until
        if until == clocks:
            scheduler.on_trial_complete(trials[trial], {"loss": losses[trial][-1], "clock": until})
            continue
        result = {"loss": losses[trial][rungs.index(until)], "clock": until}
        decision = scheduler.on_trial_result(trials[trial], result)
        assert decision == "PAUSE", decision


with contextlib.redirect_stdout(sys.stderr):
    answers = [decide(case) for case in json.load(sys.stdin)]
json.dump(answers, sys.stdout)
