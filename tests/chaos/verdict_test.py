"""Tests the verdict with a short history for each complaint, and one without complaints. Run by
ctest (tests/faults/chaos.bats), and as `python3 tests/chaos/verdict_test.py`."""

from __future__ import annotations

import sys
import unittest
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.dont_write_bytecode = True

from contenders import SEATS, Plan, plan_for, words_of  # noqa: E402
from history import CLOCK, Event, operations_of, story_of  # noqa: E402
from verdict import judge, lateness  # noqa: E402


def start(store: str = "redis") -> Event:
    return {"at": 0.0, "what": "start", "store": store, "seed": 1, "ttl": 3.0, "store_timeout": 0.5,
            "servers": 3}


def report(**more: Any) -> dict[str, Any]:
    return {"outcome": "ran", "protected": True, "exit_code": 0, "signal": None, "fence": 100, **more}


def run(number: int, began: float, ended: float, fence: int = 100, slot: int = 0, code: int = 0,
        lease: float = 3.0, said: dict[str, Any] | None = None, entered: float | None = None,
        **plan: Any) -> list[Event]:
    """A run whose command lives from 0.1 s after the start of the run to 0.1 s before its end."""
    entered = began + 0.1 if entered is None else entered
    wanted = asdict(Plan("run", plan.pop("lock", "alone"), **plan))
    outcome = report(fence=fence) if said is None else said
    return [
        {"at": began, "what": "spawn", "run": number, "contender": number // 1_000_000, "plan": wanted},
        {"at": entered - 0.01, "what": "lease", "lock": wanted["lock"], "fence": fence, "end": entered + lease},
        {"at": entered, "what": "enter", "run": number, "pid": number, "fence": fence, "slot": slot},
        {"at": ended - 0.1, "what": "leave", "run": number, "pid": number},
        {"at": ended, "what": "exit", "run": number, "code": code, "said": "", "report": outcome, "hung": False},
    ]


def unserved(number: int, began: float, ended: float, code: int = 75, outcome: str = "busy", hung: bool = False,
             **plan: Any) -> list[Event]:
    wanted = asdict(Plan("run", plan.pop("lock", "alone"), **plan))
    return [
        {"at": began, "what": "spawn", "run": number, "contender": number // 1_000_000, "plan": wanted},
        {"at": ended, "what": "exit", "run": number, "code": code, "said": "", "hung": hung,
         "report": report(outcome=outcome, protected=None, fence=None)},
    ]


def fault(began: float, ended: float, forgets: bool = False, servers: int | None = None) -> list[Event]:
    return [{"at": began, "what": "fault", "id": 1, "name": "a fault", "forgets": forgets, "contender": None,
             "servers": servers},
            {"at": ended, "what": "healed", "id": 1}]


def signalled(number: int, at: float, name: str) -> Event:
    return {"at": at, "what": "signal", "run": number, "signal": name}


class VerdictTest(unittest.TestCase):
    def kinds(self, *parts: Any, store: str = "redis") -> list[str]:
        """Returns the kinds of complaints about a history, each once."""
        events: list[Event] = [start(store)]
        for part in parts:
            events += part if isinstance(part, list) else [part]
        return sorted({complaint.split(":")[0] for complaint in judge(story_of(events))})

    def test_a_correct_history_has_no_complaints(self) -> None:
        self.assertEqual(self.kinds(run(1, 1, 2), run(2, 2, 3, fence=101), unserved(3, 1.2, 1.3)), [])

    def test_two_holders_at_a_time_overlap(self) -> None:
        self.assertIn("overlap", self.kinds(run(1, 1, 3), run(2, 2, 4, fence=101)))

    def test_readers_and_holders_of_different_slots_do_not_exclude_each_other(self) -> None:
        self.assertEqual(self.kinds(run(1, 1, 3, mode="s"), run(2, 2, 4, fence=101, mode="s")), [])
        self.assertEqual(self.kinds(run(1, 1, 3, slots=2), run(2, 2, 4, fence=101, slots=2, slot=1)), [])

    def test_two_holders_of_one_slot_overlap_and_so_do_a_reader_and_a_writer(self) -> None:
        self.assertIn("overlap", self.kinds(run(1, 1, 3, slots=2), run(2, 2, 4, fence=101, slots=2)))
        self.assertIn("overlap", self.kinds(run(1, 1, 3, mode="s"), run(2, 2, 4, fence=101)))

    def test_a_slot_must_be_in_range(self) -> None:
        self.assertIn("slot", self.kinds(run(1, 1, 2, slots=2, slot=2)))

    def test_a_store_that_forgot_excuses_two_holders_but_not_two_successes(self) -> None:
        lost = report(outcome="lost", protected=False)
        both = [run(2, 2, 4, fence=101), fault(1.5, 1.6, forgets=True)]
        self.assertEqual(self.kinds(run(1, 1, 3, code=76, said=lost), *both), [])
        self.assertEqual(self.kinds(run(1, 1, 3), *both), ["success"])
        self.assertIn("overlap", self.kinds(run(1, 1, 3), run(2, 2, 4, fence=101), fault(1.5, 1.6)))
        late = fault(2.5, 2.6, forgets=True)
        self.assertIn("overlap", self.kinds(run(1, 1, 3), run(2, 2, 4, fence=101), late))

    def test_a_run_whose_release_got_no_reply_cannot_know_that_the_store_forgot_it(self) -> None:
        said = "dlock: alone: cannot release the lock: the server did not reply within 500ms\n"
        first = [{**event, "said": said} if event["what"] == "exit" else event for event in run(1, 1, 3)]
        both = [*first, *run(2, 2, 4, fence=101)]
        self.assertEqual(self.kinds(both, fault(1.5, 1.6, forgets=True)), [])
        self.assertIn("success", self.kinds(both, fault(1.5, 1.6)))

    def test_on_a_quorum_only_more_forgetting_servers_than_the_strength_excuse_an_overlap(self) -> None:
        def met(strength: int, forgets: bool) -> list[str]:
            lost = report(outcome="lost", protected=False, strength=strength)
            return self.kinds(run(1, 1, 3, code=76, said=lost), run(2, 2, 4, fence=101),
                              fault(1.5, 1.6, forgets=forgets, servers=1))

        self.assertEqual(met(0, forgets=True), [])
        self.assertEqual(met(1, forgets=True), ["overlap"])
        self.assertEqual(met(0, forgets=False), ["overlap"])

    def test_on_a_quorum_the_servers_that_have_the_lease_say_how_many_may_forget_it(self) -> None:
        def met(*ends: float) -> list[str]:
            lost = report(outcome="lost", protected=False, strength=1)
            first = run(1, 1, 3, code=76, said=lost)
            known = {"at": 1.2, "what": "lease", "lock": "alone", "fence": 100, "end": 4.0, "ends": ends}
            return self.kinds(first, known, run(2, 2, 4, fence=101), fault(1.5, 1.6, forgets=True, servers=1))

        self.assertEqual(met(4.0, 4.0, 4.0), ["overlap"])
        self.assertEqual(met(4.0, 4.0, 1.4), [])
        self.assertEqual(met(4.0, 4.0), [])

    def test_a_lock_may_be_lost_if_more_servers_of_a_quorum_restart_than_its_strength(self) -> None:
        lost = run(1, 1, 3, code=76, said=report(outcome="lost", protected=False, reason="taken over", strength=1))
        self.assertEqual(self.kinds(lost, fault(1.5, 1.6, servers=2)), [])
        self.assertEqual(self.kinds(lost, fault(1.5, 1.6, servers=1)), ["robbed"])

    def test_a_taken_kernel_lock_is_an_overlap_unless_the_store_forgot_its_holder(self) -> None:
        event = {"at": 1.1, "what": "not alone", "run": 1, "pid": 1}
        self.assertEqual(self.kinds(run(1, 1, 2), event), ["overlap"])
        left_just_before = run(2, 0.2, 1.15, fence=99)
        self.assertEqual(self.kinds(run(1, 1, 2), event, left_just_before), ["overlap"])
        self.assertEqual(self.kinds(run(1, 1, 2), event, left_just_before, fault(0.9, 0.95, forgets=True)), [])

    def test_a_death_after_the_end_of_its_lease_is_late(self) -> None:
        self.assertIn("late", self.kinds(run(1, 1, 3, lease=1.0, code=76, said=report(outcome="lost", protected=False))))

    def test_a_death_after_the_observed_end_of_its_lease_is_late(self) -> None:
        def ended(at: float) -> list[str]:
            events = [{**event, "end": None} if event["what"] == "lease" else event for event in run(1, 1, 3)]
            return self.kinds(events, {"at": at, "what": "lease ended", "lock": "alone", "fence": 100})

        self.assertEqual(ended(2.0), ["late", "success"])
        self.assertEqual(ended(3.0), [])

    def test_a_run_that_outlived_its_lease_must_not_succeed(self) -> None:
        self.assertIn("success", self.kinds(run(1, 1, 3, lease=1.0)))

    def test_a_renewal_after_a_death_does_not_count(self) -> None:
        prolonged = {"at": 3.5, "what": "lease", "lock": "alone", "fence": 100, "end": 9.0}
        self.assertIn("late", self.kinds(run(1, 1, 3, lease=1.0), prolonged))

    def test_lateness_is_measured_from_the_end_of_the_lease(self) -> None:
        self.assertAlmostEqual(lateness(story_of([start(), *run(1, 1, 3, lease=1.0)]))[1], 0.8)

    def test_a_server_must_have_granted_each_fence(self) -> None:
        events = [event for event in run(1, 1, 2) if event["what"] != "lease"]
        self.assertEqual(self.kinds(events), ["unknown"])
        self.assertEqual(self.kinds(events, store="local"), [])

    def test_fences_must_grow(self) -> None:
        self.assertEqual(self.kinds(run(1, 1, 2, fence=101), run(2, 2, 3, fence=100)), ["fence"])
        self.assertEqual(self.kinds(run(1, 1, 2), run(2, 2, 3)), ["fence"])

    def test_on_etcd_claims_that_wait_for_slots_have_the_fences_of_their_positions(self) -> None:
        def met(began: float, **plan: Any) -> list[str]:
            return self.kinds(run(1, 1, 3, fence=101, **plan), run(2, began, 5, fence=100, entered=4, **plan),
                              store="etcd3")

        self.assertEqual(met(1.05, slots=2), [])
        self.assertEqual(met(3.5, slots=2), ["fence"])
        self.assertEqual(met(1.05), ["fence"])

    def test_fences_must_grow_even_after_the_store_forgot(self) -> None:
        forgot = fault(1.5, 1.6, forgets=True)
        self.assertEqual(self.kinds(run(1, 1, 2, fence=101), forgot, run(2, 2, 3, fence=1)), ["fence"])

    def test_a_command_may_begin_after_its_lease_was_forgotten_and_another_ran(self) -> None:
        lost = report(outcome="lost", protected=False, reason="taken over", fence=100)
        second = run(2, 1, 4, fence=100, entered=3, code=76, said=lost)
        first = run(1, 1.5, 2.5, fence=101)
        self.assertEqual(self.kinds(first, fault(1.2, 1.3, forgets=True), second), [])
        self.assertIn("fence", self.kinds(first, second))

    def test_a_waiter_must_not_overtake_an_undisturbed_one(self) -> None:
        first = run(1, 1, 9, fence=102, lock="line", wait=60.0, entered=8)
        second = run(2, 4, 6, fence=101, lock="line", wait=60.0, entered=5)
        self.assertEqual(self.kinds(first, second), ["order"])
        self.assertEqual(self.kinds(first, second, store="etcd3"), [])  # it arrived later
        self.assertEqual(self.kinds(first, second, fault(4.5, 4.6)), [])
        self.assertEqual(self.kinds(first, second, signalled(1, 3, "STOP"), signalled(1, 4, "CONT")), [])

    def test_a_free_lock_must_be_granted_to_a_waiter(self) -> None:
        late = run(1, 1, 22, lock="line", wait=60.0, entered=21)
        self.assertEqual(self.kinds(late), ["idle"])
        clock = [{**fault(1.5, 1.6, forgets=True)[0], "name": CLOCK}, fault(1.5, 1.6)[1]]
        self.assertEqual(self.kinds(late, clock), ["idle"])
        self.assertEqual(self.kinds(late, fault(1.5, 1.6, forgets=True)), [])
        self.assertEqual(self.kinds(late, fault(15.0, 15.1)), ["idle"])
        self.assertEqual(self.kinds(late, fault(8.0, 13.0)), [])
        self.assertEqual(self.kinds(late, run(2, 1, 15, fence=99, lock="line", lease=20)), [])

    def test_a_lock_is_not_free_while_a_lease_lasts_whose_command_was_not_seen(self) -> None:
        late = run(1, 1, 22, lock="line", wait=60.0, entered=21)
        lease = {"at": 1.5, "what": "lease", "lock": "line", "fence": 50, "end": 12.0}
        self.assertEqual(self.kinds(late, lease), [])
        self.assertEqual(self.kinds(late, {**lease, "lock": "alone"}), ["idle"])
        open_end = {**lease, "end": None}
        over = {"at": 12.0, "what": "lease ended", "lock": "line", "fence": 50}
        self.assertEqual(self.kinds(late, open_end, over), [])
        self.assertEqual(self.kinds(late, open_end), ["idle"])

    def test_a_process_must_not_outlive_its_dlock(self) -> None:
        events = run(1, 1, 2)
        events[3]["at"] = 3.0
        self.assertEqual(self.kinds(events), ["orphan"])

    def test_a_command_may_outlive_a_killed_dlock_only_on_local(self) -> None:
        events = [*run(1, 1, 2, code=-9, lease=9), signalled(1, 1.9, "KILL")]
        events[3]["at"] = 4.0
        self.assertEqual(self.kinds(events, store="local"), [])
        self.assertEqual(self.kinds(events), ["orphan"])

    def test_a_wait_must_not_be_longer_than_requested(self) -> None:
        self.assertEqual(self.kinds(unserved(1, 1, 8, wait=1.0)), ["wait"])
        stopped = [signalled(1, 2, "STOP"), signalled(1, 7, "CONT")]
        self.assertEqual(self.kinds(unserved(1, 1, 8, wait=1.0), *stopped), [])

    def test_a_run_must_end(self) -> None:
        self.assertIn("hang", self.kinds(unserved(1, 1, 99, code=-9, hung=True)))
        self.assertIn("hang", self.kinds(unserved(1, 1, 2)[:1], {"at": 9.0, "what": "over"}))

    def test_the_exit_code_must_fit_the_run(self) -> None:
        for code in (1, 70, 125, -6, -11, -15):
            self.assertIn("code", self.kinds(run(1, 1, 2, code=code)), code)
        self.assertIn("code", self.kinds(unserved(1, 1, 2, code=0)))
        self.assertIn("code", self.kinds(run(1, 1, 2, code=75, said=report(outcome="busy"))))
        self.assertEqual(self.kinds(run(1, 1, 2, code=-15), signalled(1, 1.5, "TERM")), [])
        unguarded = report(outcome="error", protected=False)
        self.assertEqual(self.kinds(run(1, 1, 2, code=70, said=unguarded),
                                    {**signalled(1, 1.5, "KILL"), "to": "guardian"}), [])

    def test_the_report_must_agree_with_the_history(self) -> None:
        for wrong in (report(outcome="lost"), report(outcome="busy"), report(fence=7), report(protected=False)):
            self.assertIn("report", self.kinds(run(1, 1, 2, said=wrong)), wrong)
        self.assertIn("report", self.kinds(unserved(1, 1, 2, outcome="ran")))
        silent = run(1, 1, 2)
        silent[4]["report"] = None
        self.assertEqual(self.kinds(silent), ["report"])

    def test_a_lost_run_must_not_report_protection(self) -> None:
        self.assertIn("report", self.kinds(run(1, 1, 2, code=76, said=report(outcome="lost"))))

    def test_a_lease_must_not_go_to_another_run_if_the_store_forgot_nothing(self) -> None:
        lost = run(1, 1, 2, code=76, said=report(outcome="lost", protected=False, reason="taken over"))
        self.assertEqual(self.kinds(lost), ["robbed"])
        self.assertEqual(self.kinds(lost, fault(1.5, 1.6, forgets=True)), [])
        self.assertEqual(self.kinds(lost, signalled(1, 1.2, "STOP"), signalled(1, 1.4, "CONT")), [])

    def test_a_leftover_is_a_complaint(self) -> None:
        self.assertEqual(self.kinds({"at": 1.0, "what": "leftover", "which": "key k"}), ["leftover"])


class PlanTest(unittest.TestCase):
    def test_a_seed_repeats_the_plans(self) -> None:
        import random

        for seat in SEATS:
            plans = [[plan_for(seat, random.Random(f"7/{i}"), 3.0) for i in range(50)] for _ in range(2)]
            self.assertEqual(plans[0], plans[1])
            self.assertGreater(len(set(plans[0])), 1)

    def test_a_plan_becomes_options_of_dlock(self) -> None:
        plan = Plan("run", "pool", slots=2, wait=0.5, timeout=1.0)
        self.assertEqual(words_of(plan), ["--ttl=3s", "--slots=2", "--wait=0.5s", "--kill-after=0s",
                                          "--stragglers=leave", "--timeout=1s"])

    def test_the_operations_say_what_each_run_held_and_when(self) -> None:
        killed = run(2, 2.0, 4.0, fence=8, code=-9)
        events = [start(), *run(1, 0.0, 1.0, fence=7), *unserved(3, 0.5, 0.6), *killed,
                  *run(4, 0.0, 1.0, lock="pages", mode="s"), {"at": 5.0, "what": "over"}]

        def said(number: int, kind: str, what: str, at: float, value: str) -> str:
            return (f"{{:process {number}, :type :{kind}, :f :{what}, :time {round(at * 1e9)}, "
                    f":value {{:lock {value}}}}}")

        self.assertEqual(operations_of(story_of(events)), [
            said(1, "invoke", "acquire", 0.0, '"alone#0"'), said(1, "ok", "acquire", 0.1, '"alone#0" :fence 7'),
            said(3, "invoke", "acquire", 0.5, '"alone"'), said(3, "fail", "acquire", 0.6, '"alone"'),
            said(1, "invoke", "release", 0.9, '"alone#0" :fence 7'), said(1, "ok", "release", 1.0, '"alone#0" :fence 7'),
            said(2, "invoke", "acquire", 2.0, '"alone#0"'), said(2, "ok", "acquire", 2.1, '"alone#0" :fence 8'),
            said(2, "invoke", "release", 3.9, '"alone#0" :fence 8'), said(2, "info", "release", 4.0, '"alone#0" :fence 8'),
        ])


if __name__ == "__main__":
    unittest.main()
