"""Tests how leases are read from the output of servers: python3 tests/chaos/leases_test.py."""

from __future__ import annotations

import base64
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.dont_write_bytecode = True

from etcd_watch import Change, changes_in  # noqa: E402
from history import Event  # noqa: E402
from leases import Ledger, MajorityLedger  # noqa: E402


class LedgerTest(unittest.TestCase):
    RECORD = 'x 0 777 1000000 {ends} h {{\\"host\\":\\"a\\"}}'

    def read(self, ledger: Ledger, *lines: str) -> list[tuple[int, float]]:
        leases = [ledger.read("s", line, float(line[1:].split()[0])) for line in lines]
        return [(lease.fence, lease.end) for lease in leases if lease]

    def grant(self, value: str = "aa", ends: int = 103_000_000) -> list[str]:
        return [f'+100.0 [0 lua] "SET" "dlock:{{job}}" "{value}" "PX" "3000"',
                f'+100.0 [0 lua] "HSET" "dlock:{{job}}:h" "aa" "{self.RECORD.format(ends=ends)}"']

    def test_a_grant_and_a_renewal_set_the_end_of_a_lease(self) -> None:
        renewal = '+101.0 [0 lua] "PEXPIRE" "dlock:{job}" "3000"'
        self.assertEqual(self.read(Ledger(), *self.grant(), renewal), [(777, 103.0), (777, 104.0)])

    def test_with_several_holders_the_record_has_the_end(self) -> None:
        self.assertEqual(self.read(Ledger(), *self.grant("dlock:shared", 102_500_000)), [(777, 102.5)])

    def test_a_promise_is_not_a_lease(self) -> None:
        promise = [line.replace(" h {", " p {") for line in self.grant()]
        self.assertEqual(self.read(Ledger(), *promise), [])

    def test_a_replicated_grant_sets_the_end_of_a_lease(self) -> None:
        told = self.grant()
        told[0] = told[0].replace('"PX" "3000"', '"PXAT" "103500"')
        self.assertEqual(self.read(Ledger(), *told), [(777, 103.5)])

    def test_stamps_of_a_stepped_clock_are_corrected(self) -> None:
        ledger = Ledger()
        leases = [ledger.read("s", line, 200.0) for line in self.grant()]
        self.assertEqual([lease.end for lease in leases if lease], [203.0])

    def test_a_late_grant_on_another_server_does_not_change_what_a_renewal_renews(self) -> None:
        ledger = Ledger()
        self.read(ledger, *self.grant())
        for line in self.grant():
            ledger.read("old", line.replace("777", "888"), 100.0)
        renewal = '+101.0 [0 lua] "PEXPIRE" "dlock:{job}" "3000"'
        self.assertEqual(self.read(ledger, renewal), [(777, 104.0)])

    def test_a_renewal_after_a_move_of_the_slot_renews_the_lease_that_was_moved(self) -> None:
        old, new = "a" * 32, "b" * 32
        for last in (old, "dlock:shared"):  # what the target had before, and has not seen removed
            ledger = Ledger()
            ledger.read("target", f'+90.0 [0 lua] "SET" "dlock:{{job}}" "{last}" "PX" "3000"', 90.0)
            ledger.read("target", '+90.0 [0 lua] "HSET" "dlock:{job}:h" "' + old + '" "'
                        + self.RECORD.format(ends=93_000_000).replace("777", "666") + '"', 90.0)
            ledger.read("source", f'+100.0 [0 lua] "SET" "dlock:{{job}}" "{new}" "PX" "3000"', 100.0)
            ledger.read("source", '+100.0 [0 lua] "HSET" "dlock:{job}:h" "' + new + '" "'
                        + self.RECORD.format(ends=103_000_000) + '"', 100.0)
            moved = (f'+100.5 [0 127.0.0.1:5] "RESTORE-ASKING" "dlock:{{job}}" "2500" "\\x00 {new}'
                     '\\n\\x00q\\"\\xc4\\\\K\\x8f\\x1b9"')
            renewal = '+101.0 [0 lua] "PEXPIRE" "dlock:{job}" "3000"'
            leases = [ledger.read("target", line, 101.0) for line in (moved, renewal)]
            self.assertEqual([lease and (lease.fence, lease.end) for lease in leases], [None, (777, 104.0)])

    def test_other_keys_and_lines_are_ignored(self) -> None:
        self.assertEqual(self.read(Ledger(), '+100.0 [0 lua] "GET" "dlock:{job}"', '+100.0 OK',
                                   '+100.0 [0 lua] "SET" "other" "x" "PX" "5"'), [])


class MajorityLedgerTest(unittest.TestCase):
    def test_a_lease_on_a_quorum_lasts_while_a_majority_has_it(self) -> None:
        ledger, told = MajorityLedger(3), []
        for server, end in (("a", 102.0), ("b", 101.0), ("c", 103.0), ("b", 104.0)):
            record = f"x 0 777 1000000 {end * 1e6:.0f} h {{}}"
            told.append(ledger.read(server, f'+100.0 [0 lua] "HSET" "dlock:{{job}}:h" "aa" "{record}"', 100.0))
        self.assertEqual([lease and lease.end for lease in told], [None, 101.0, 102.0, 103.0])

    def test_a_lease_on_a_quorum_says_which_servers_have_it(self) -> None:
        ledger = MajorityLedger(3)

        def grant(server: str, end: float) -> tuple[float, ...] | None:
            record = f"x 0 777 1000000 {end * 1e6:.0f} h {{}}"
            lease = ledger.read(server, f'+100.0 [0 lua] "HSET" "dlock:{{job}}:h" "aa" "{record}"', 100.0)
            return lease and lease.ends

        self.assertEqual([grant("a", 101.0), grant("b", 102.0), grant("c", 103.0)],
                         [None, (101.0, 102.0), (101.0, 102.0, 103.0)])
        ledger.read("a", '+100.5 [0 127.0.0.1:5] "FLUSHALL"', 100.5)
        self.assertEqual(grant("b", 104.0), (104.0, 103.0))
        ledger.forget("c", "other")
        ledger.forget("c", "job")
        self.assertEqual(grant("b", 105.0), (105.0,))
        self.assertEqual(grant("a", 106.0), (106.0, 105.0))


class EtcdWatchTest(unittest.TestCase):
    def event(self, key: str, revision: int, gone: bool = False, standing: str = "holds") -> Event:
        def encoded(text: str) -> str:
            return base64.b64encode(text.encode()).decode()

        pair = {"key": encoded(key), "mod_revision": str(revision)}
        entry = {"create_revision": "7", "value": encoded(f'{{"standing":"{standing}"}}')}
        return {"type": "DELETE", "kv": pair, "prev_kv": entry} if gone else {"kv": {**pair, **entry}}

    def changes(self, *events: Event) -> list[Change]:
        return list(changes_in({"events": list(events)}, ["job"]))

    def test_the_entry_of_a_holder_is_a_lease(self) -> None:
        self.assertEqual(self.changes(self.event("dlock/job/1f", 8)), [Change("job", 7, ended=False)])

    def test_entries_of_waiters_and_other_keys_are_not_leases(self) -> None:
        self.assertEqual(self.changes(self.event("dlock/job/1f", 8, standing="waits"),
                                      self.event("dlock/.runs/job/now/1f", 8), self.event("dlock/other/1f", 8)), [])

    def test_a_deleted_entry_without_a_record_of_the_run_ends_the_lease(self) -> None:
        gone = self.event("dlock/job/1f", 9, gone=True)
        self.assertEqual(self.changes(gone), [Change("job", 7, ended=True)])
        self.assertEqual(self.changes(gone, self.event("dlock/.runs/job/past/7", 9)), [])


if __name__ == "__main__":
    unittest.main()
