"""The state of a queue in the process: fed by rows, and asked for the next ones."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from spark_queue.commands import claims, settle
from spark_queue.config import QueueConfig
from spark_queue.log.heads import QueueHead, StatusHead, following
from spark_queue.log.log_columns import Columns
from spark_queue.log.schema import QUEUE_COLUMNS, STATUS_COLUMNS
from spark_queue.log.settings import Settings
from spark_queue.reader_config import ReaderConfig
from spark_queue.retry_policy import RetryPolicy
from spark_queue.rules.rule_model import Ack, Dead, Defer, Nack, NewItem, Outcome, Release
from spark_queue.rules.scheduler import Scheduler
from spark_queue.saying import Said
from spark_queue.state import claim_decision, enqueue_decision
from spark_queue.state.open_items import ENTERED, FOLLOWED
from spark_queue.state.replica import Replica
from spark_queue.state.replica_rows import replica_of
from spark_queue.state.request import Request
from spark_queue.state.schedulers import ReaderTerms, Several
from spark_queue.state.settle_decision import Every, KnownLease, Renewed

NO_LIMITS = ReaderConfig()

START = datetime(2026, 1, 1, tzinfo=timezone.utc)

CONFIG = QueueConfig(
    dedup_key="id",
    fair_key="tenant",
    group_key="grp",
    priority="urgency",
    lease=timedelta(seconds=60),
    max_attempts=2,
    max_losses=2,
    retry=RetryPolicy(delay=timedelta(seconds=10), jitter=0.0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class New:
    """A row to enqueue."""

    key: str | None = None
    tenant: str | None = None
    group: str | None = None
    priority: int = 0
    cost: float = 1.0
    delay: int | None = None
    ttl: int | None = None


class Steps:
    """A queue whose steps are decided from its replica, and applied to it as rows."""

    def __init__(self, config: QueueConfig) -> None:
        self.settings = Settings.initial(config)
        self.queue, self.status = QueueHead(), StatusHead(step=1)
        self.replica = Replica()
        self.now = START
        self.entered: list[dict[str, Any]] = []
        self.followed: list[dict[str, Any]] = []

    def enqueue(self, rows: Sequence[New]) -> list[int | None]:
        """Enqueue rows, and return who holds the key of each."""
        found = enqueue_decision.decide_entry(
            self.replica,
            self.settings,
            self.frame(rows),
            self.queue,
            self.status.pointers,
            self.now,
        )
        count = found.count - len(found.duplicates)
        self.queue = following(
            self.queue,
            last_seq=self.queue.last_seq + found.count,
            items=self.queue.items + count,
        )
        logged = _rows(found.rows, (*ENTERED, "_duplicate_of"))
        self.replica.enter(self.queue.token, logged)
        self.entered += [{**row, "_step": self.queue.step} for row in logged]
        by_seq = {row["_seq"]: row for row in logged if row["_kind"] in ("item", "refused")}
        return [by_seq[seq]["_duplicate_of"] for seq in sorted(by_seq)]

    def frame(self, rows: Sequence[New]) -> pa.Table:
        """Return rows as an evaluated frame has them."""
        at = pa.timestamp("us", "UTC")
        columns = {
            "n": pa.array(range(len(rows)), pa.int32()),
            "_dedup_key": pa.array([row.key for row in rows], pa.string()),
            "_fair_key": pa.array([row.tenant for row in rows], pa.string()),
            "_group_key": pa.array([row.group for row in rows], pa.string()),
            "_priority": pa.array([row.priority for row in rows], pa.int32()),
            "_cost": pa.array([row.cost for row in rows], pa.float64()),
            "_available_at": pa.array([self.in_seconds(row.delay) for row in rows], at),
            "_expires_at": pa.array([self.in_seconds(row.ttl) for row in rows], at),
        }
        return pa.table(columns)

    def in_seconds(self, seconds: int | None) -> datetime | None:
        """Return the instant so many seconds from now."""
        return None if seconds is None else self.now + timedelta(seconds=seconds)

    def claim(self, limit: int, run: int = 1) -> tuple[int, list[int]]:
        """Claim items, and return the lease and their seqs."""
        request = Request(
            limit=limit, lease=self.settings.config.lease, worker_id="w", run=run, claim_id="c"
        )
        at = (self.status, ReaderTerms(self.settings, NO_LIMITS), request, self.now)
        chosen = claim_decision.choose(self.replica, *at)
        # One that is made of the rows anew says the same.
        assert claim_decision.choose(replace(self.replica, follower=None), *at) == chosen
        if chosen.total() == 0:
            return 0, []
        self.status = claims.log_claim(self.status, chosen, self.queue, request)
        self.follow(chosen.table())
        return self.status.step, [row["_seq"] for row in chosen.rows if row["_state"] == "claimed"]

    def known(self, lease: int) -> KnownLease:
        """Return what is known of a lease."""
        return KnownLease(self.replica, lease, ReaderTerms(self.settings, NO_LIMITS), self.now)

    def settle(self, lease: int, said: Said | dict[int, Said]) -> tuple[int, ...]:
        """Settle items of a lease, and return which were lost."""
        judged = self.known(lease).judge(said)
        if judged.rows:
            self.status = settle.log_settle(self.status, judged)
            self.follow(judged.table())
        return judged.lost

    def follow(self, rows: pa.Table) -> None:
        """Apply the rows of a step of the status log."""
        logged = _rows(rows, FOLLOWED)
        self.replica.follow(self.status.token, self.status.step, logged)
        self.followed += [{**row, "_step": self.status.step} for row in logged]

    def read(self, since: int = 0) -> Replica:
        """Return the replica that the rows of both logs make, whose files are in no order."""
        return replica_of(
            _read(self.entered[::-1], QUEUE_COLUMNS, ENTERED),
            _read(self.followed[::-1], STATUS_COLUMNS, FOLLOWED),
            since,
        )


def _read(rows: list[dict[str, Any]], schema: Columns, columns: Sequence[str]) -> pa.Table:
    kinds = schema.arrow
    return pa.Table.from_pylist(rows, pa.schema([kinds.field(name) for name in columns]))


def _rows(table: pa.Table, columns: Sequence[str]) -> list[dict[str, Any]]:
    named = [name for name in columns if name in table.column_names]
    return [dict.fromkeys(columns) | row for row in table.select(named).to_pylist()]


@pytest.fixture
def queue() -> Steps:
    """Return a queue with two items of one group, and one of another key."""
    steps = Steps(CONFIG)
    steps.enqueue(
        [
            New(key="a", tenant="T", group="g"),
            New(key="b", tenant="T", group="g"),
            New(key="c", tenant="U"),
        ]
    )
    return steps


def test_items_are_served_by_key_and_group(queue: Steps) -> None:
    """Laws 2-4: keys take turns, and of a group one item is in flight."""
    assert queue.claim(9) == (2, [1, 3])
    assert queue.claim(9) == (0, [])
    queue.settle(2, Said("ack"))
    assert queue.claim(9)[1] == [2]


def test_a_key_is_held_while_its_item_is_live(queue: Steps) -> None:
    """Law 1: a row whose key a live item has is refused, and names the holder."""
    lease, _ = queue.claim(1)
    assert queue.enqueue([New(key="a"), New(key="d"), New(key="d")]) == [1, None, 5]
    queue.settle(lease, Said("ack"))
    assert queue.enqueue([New(key="a")]) == [None]


def test_a_settle_of_what_is_not_held_is_lost(queue: Steps) -> None:
    """Law 5: what the holder settled before, or never had, is lost to it and unchanged."""
    lease, _ = queue.claim(1)
    assert queue.settle(lease, {1: Said("ack"), 3: Said("ack")}) == (3,)
    assert queue.settle(lease, {1: Said("nack", "late")}) == (1,)
    assert queue.settle(lease, Said("ack")) == ()
    assert sorted(queue.replica.items) == [2, 3]


def test_a_worker_that_died_is_a_loss_until_there_were_too_many(queue: Steps) -> None:
    """An item that is lost comes back without an attempt, and is dead after the last loss."""
    lease, _ = queue.claim(1)
    queue.settle(lease, {1: Said("lose", "it died")})
    row = queue.replica.items[1]
    assert (row["_state"], row["_losses"], row["_attempts"]) == ("ready", 1, 0)
    lease, seqs = queue.claim(1)
    assert seqs == [1]
    judged = queue.known(lease).judge(Said("lose", "again"))
    assert (judged.counts, judged.failed) == ({"dead": 1}, 0)


def test_an_unknown_outcome_is_no_outcome(queue: Steps) -> None:
    """What nobody may say of an item is not taken for something else."""
    lease, _ = queue.claim(1)
    with pytest.raises(KeyError):
        queue.known(lease).judge(Said("done"))


def test_a_lease_that_is_not_remembered_is_left_to_spark(queue: Steps) -> None:
    """What became of an old claim is in the tables only."""
    unread: Any = None
    for verdict in (Every("ack"), Renewed(timedelta(seconds=1))):
        assert settle.judge_here(unread, queue.replica, 77, verdict, START) is None


def test_what_is_said_of_an_item_tells_whether_it_failed(queue: Steps) -> None:
    """What goes back has failed after a nack or a loss, and waits only after a nack."""
    lease, _ = queue.claim(1)
    found = {}
    for outcome in ("nack", "lose", "release"):
        judged = queue.known(lease).judge(Said(outcome))
        assert judged.counts == {"ready": 1}
        found[outcome] = (judged.failed, judged.rows[0]["_available_at"])
    later = queue.now + timedelta(seconds=10)
    assert found == {"nack": (1, later), "lose": (1, None), "release": (0, None)}


def test_a_renewal_names_what_is_lost(queue: Steps) -> None:
    """Of the items that their holder has not settled, those of somebody else are not renewed."""
    lease, seqs = queue.claim(2)
    assert seqs == [1, 3]
    queue.replica.items[3] |= {"_lease": lease + 1}
    renewed = queue.known(lease).renew(timedelta(seconds=5))
    assert ([row["_seq"] for row in renewed.rows], renewed.lost) == ([1], (3,))


def test_deciding_leaves_no_trace(queue: Steps) -> None:
    """A step that is decided and then lost to another writer has changed nothing."""
    lease, _ = queue.claim(1)
    before = copy.deepcopy(queue.replica)
    request = Request(
        limit=5, lease=timedelta(seconds=5), worker_id="w", run=1, claim_id="lost", output=None
    )
    claim_decision.choose(
        queue.replica, queue.status, ReaderTerms(queue.settings, NO_LIMITS), request, queue.now
    )
    frame = queue.frame([New(key="x", tenant="T")])
    pointers = queue.status.pointers
    enqueue_decision.decide_entry(
        queue.replica, queue.settings, frame, queue.queue, pointers, queue.now
    )
    queue.known(lease).judge(Said("nack", "no"))
    assert queue.replica == before
    queue.settle(lease, Said("ack"))
    assert queue.claim(5)[1] == [3, 2]


def test_what_is_next_after_a_settle_is_known_before_it(queue: Steps) -> None:
    """What would be chosen after a settle is known without a trace of either."""
    lease, _ = queue.claim(2)
    judged = queue.known(lease).judge(Said("ack"))
    request = Request(limit=9, lease=CONFIG.lease, worker_id="w", run=1, claim_id="c")
    at = (queue.replica, queue.status, ReaderTerms(queue.settings, NO_LIMITS), request, queue.now)
    for _ in range(2):
        after = claim_decision.choose(*at, judged.rows)
        assert [row["_seq"] for row in after.rows] == [2]
        assert claim_decision.choose(*at).total() == 0
    assert queue.replica.grants[lease].left == {1, 3}


@pytest.mark.parametrize(("seconds", "expired"), [(98, [4]), (99, [4, 1, 2, 3])])
def test_a_reader_limits_the_age_of_items(queue: Steps, seconds: int, expired: list[int]) -> None:
    """An item expires with a claim when it is too old for the reader, or over by itself before."""
    queue.enqueue([New(key="d", ttl=50)])
    queue.now += timedelta(seconds=seconds)
    request = Request(limit=5, lease=timedelta(seconds=5), worker_id="w", run=1, claim_id="c")
    limits = ReaderConfig(max_age=timedelta(seconds=99))
    chosen = claim_decision.choose(
        queue.replica, queue.status, ReaderTerms(queue.settings, limits), request, queue.now
    )
    assert [row["_seq"] for row in chosen.rows if row["_state"] == "expired"] == expired


def test_a_lease_that_is_spared_does_not_end_by_time(queue: Steps) -> None:
    """Its item stays in its slot: its group waits, and others are served."""
    lease, _ = queue.claim(1)
    request = Request(limit=5, lease=timedelta(seconds=5), worker_id="w", run=1, claim_id="c")
    queue.now += timedelta(seconds=60)
    at = (queue.replica, queue.status, ReaderTerms(queue.settings, NO_LIMITS))

    for _ in range(2):
        left = claim_decision.choose(*at, replace(request, spared=frozenset({lease})), queue.now)
        assert [row["_seq"] for row in left.rows] == [3]
        taken = claim_decision.choose(*at, request, queue.now)
        assert [row["_seq"] for row in taken.rows] == [1, 3]


def test_a_lease_has_lapsed_when_its_time_is_over_and_items_are_in_flight(queue: Steps) -> None:
    """The last instant of a lease is its end; what was settled is in nobody's hands."""
    lease, _ = queue.claim(1)
    over = queue.now + CONFIG.lease
    assert not claim_decision.lapsed_leases(queue.replica, CONFIG, over - timedelta(microseconds=1))
    assert claim_decision.lapsed_leases(queue.replica, CONFIG, over) == {lease}
    queue.settle(lease, Said("ack"))
    assert not claim_decision.lapsed_leases(queue.replica, CONFIG, over)


def test_keys_that_nobody_holds_are_forgotten(queue: Steps) -> None:
    """A key is remembered while its item is live, and for the time that it is held after that."""
    lease, _ = queue.claim(1)
    queue.settle(lease, Said("ack"))
    minute = timedelta(minutes=1)

    queue.replica.forget_keys("forever", queue.now + minute)
    queue.replica.forget_keys(2 * minute, queue.now + minute)
    assert queue.replica.keys.keys() == {"a", "b", "c"}
    queue.replica.forget_keys("live", queue.now + minute)
    assert queue.replica.keys.keys() == {"b", "c"}


def test_a_key_is_free_at_the_instant_at_which_its_time_is_over() -> None:
    """Law 1: a key that is held for a while is refused before that is over, and taken then."""
    queue = Steps(replace(CONFIG, dedup_scope=timedelta(seconds=30)))
    queue.enqueue([New(key="a")])
    queue.settle(queue.claim(1)[0], Said("ack"))
    queue.now += timedelta(seconds=29)
    assert queue.enqueue([New(key="a")]) == [1]
    queue.now += timedelta(seconds=1)
    assert queue.enqueue([New(key="a")]) == [None]


def test_an_item_is_not_in_the_way_of_its_own_redrive() -> None:
    """Law 8: a row that repeats an item is refused for the keys of others only."""
    queue = Steps(replace(CONFIG, dedup_scope="forever"))
    queue.enqueue([New(key="a"), New(key="b")])
    queue.settle(queue.claim(2)[0], Said("dead", "no"))
    frame = queue.frame([New(key="a"), New(key="b")])
    frame = frame.append_column("_origin", pa.array([1, 1], pa.int64()))
    found = enqueue_decision.decide_entry(
        queue.replica, queue.settings, frame, queue.queue, queue.status.pointers, queue.now
    )
    assert [row["_duplicate_of"] for row in found.duplicates] == [2]


def test_the_highest_tag_of_each_priority_is_told(queue: Steps) -> None:
    """Spark looks for what comes next up to the highest tag that any key of a priority has."""
    rows = [New(tenant="T"), New(tenant="U"), New(tenant="V"), New(tenant="V", priority=1)]
    found = enqueue_decision.decide_entry(
        queue.replica, queue.settings, queue.frame(rows), queue.queue, {}, queue.now
    )
    assert found.tops == {0: 3.0, 1: 1.0}


def test_a_member_goes_on_from_the_line_to_which_its_group_lowers_it(queue: Steps) -> None:
    """Law 3: an item that comes at another priority than its own has the next tag of that line."""
    queue.enqueue([New(tenant="U")])
    queue.enqueue([New(tenant="U", group="g", priority=1)])
    item = queue.replica.items[5]
    assert (item["_priority"], item["_round"]) == (0, 3.0)


def test_what_is_settled_of_a_claim_in_flight_is_still_of_it(queue: Steps) -> None:
    """A lease is read with all that it was granted for, and with what is left of that."""
    lease, seqs = queue.claim(2)
    queue.settle(lease, {1: Said("ack")})
    read = queue.read()
    assert (sorted(read.grants[lease].rows), read.grants[lease].left) == (seqs, {3})
    _assert_same(read, queue.replica)


def test_a_reader_has_what_came_after_it_was_made(queue: Steps) -> None:
    """Of earlier steps the keys and the tags count, and the items are not its own."""
    queue.enqueue([New(key="d", tenant="T")])
    read = queue.read(since=1)
    assert list(read.items) == [4]
    assert (read.keys, read.ends) == (queue.replica.keys, queue.replica.ends)
    read.enter("", queue.entered, is_seen=False)
    assert list(read.items) == [4]


def test_turns_that_a_fold_wrote_down_count(queue: Steps) -> None:
    """What a checkpoint says was handed out is known, whether it is read or followed."""
    queue.status = following(queue.status)
    nothing = dict.fromkeys(STATUS_COLUMNS.names)
    turns = [
        {**nothing, "_kind": "served", "_priority": 0, "_fair_key": key} | given
        for key, given in (
            ("T", {"_turn": 7.0, "_overdue": False}),
            ("T", {"_turn": 9.0, "_overdue": True}),
            (None, {"_turn": 8.0, "_overdue": False}),
        )
    ]
    queue.follow(pa.Table.from_pylist(turns, STATUS_COLUMNS.arrow))
    expected = {((0, "T"), False): 7.0, ((0, "T"), True): 9.0, ((0, None), False): 8.0}
    assert queue.replica.served == expected
    assert queue.read().served == expected


def test_a_changed_setting_counts_for_the_next_claim() -> None:
    """The scheduler that a replica keeps is one of the settings in force."""
    queue = Steps(CONFIG)
    queue.enqueue([New(tenant="T") for _ in range(4)])
    assert queue.claim(1)[1] == [1]
    queue.settings = replace(queue.settings, config=CONFIG.changed(max_in_flight=2))
    assert queue.claim(3)[1] == [2]


def test_a_clock_that_goes_back_is_gone_by() -> None:
    """A claim at an earlier instant than one that came to nothing knows of no later time."""
    queue = Steps(CONFIG)
    queue.enqueue([New(tenant="T", delay=10), New(tenant="T")])
    request = Request(limit=5, lease=CONFIG.lease, worker_id="w", run=1, claim_id="lost")
    later = queue.now + timedelta(seconds=11)
    at = (queue.status, ReaderTerms(queue.settings, NO_LIMITS), request)
    assert claim_decision.choose(queue.replica, *at, later).count_claimed() == 2
    assert queue.claim(5)[1] == [2]


def test_a_line_that_is_new_to_a_claim_has_its_weight_from_where_it_was_changed() -> None:
    """A key whose weight changed while it had nothing is served from where the order stood."""
    queue = Steps(CONFIG)
    queue.enqueue([New(tenant="U") for _ in range(9)])
    queue.claim(4)
    weights = CONFIG.changed(weights={"T": 2.0})
    queue.settings = queue.settings.reconfigured(weights, queue.status.pointers)
    queue.claim(1)
    queue.enqueue([New(tenant="T") for _ in range(4)])
    assert queue.claim(5)[1] == [10, 6, 11, 12, 7]


def test_what_ends_half_way_is_known_as_of_no_step(
    queue: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupt while something is chosen or applied leaves nothing that is taken for whole."""
    queue.claim(1)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Scheduler, "propose_within", interrupted)
        with pytest.raises(KeyboardInterrupt):
            queue.claim(1)
    assert queue.replica.follower is None
    with monkeypatch.context() as patch:
        patch.setattr(Scheduler, "apply", interrupted)
        with pytest.raises(KeyboardInterrupt):
            queue.claim(1)
    assert queue.replica.status == ""


@pytest.mark.parametrize(("state", "left"), [("acked", [2, 3]), ("ready", [1, 2, 3])])
def test_rows_that_say_little_are_followed(state: str, left: list[int]) -> None:
    """A front writes of an item what has become of it, and leaves out when it was enqueued."""
    queue = Steps(replace(CONFIG, fair_key=None, group_key=None))
    queue.enqueue([New(ttl=50) for _ in range(3)])
    queue.claim(0)
    queue.status = following(queue.status)
    row = {**dict.fromkeys(STATUS_COLUMNS.names), "_kind": "item", "_seq": 1, "_gen": 0}
    row |= {"_state": state, "_attempts": 0, "_losses": 0, "_priority": 0, "_round": 1.0}
    row["_cost"] = 1.0
    queue.follow(pa.Table.from_pylist([row], STATUS_COLUMNS.arrow))
    _assert_same(queue.read(), queue.replica)
    assert queue.claim(5)[1] == left
    queue.now += timedelta(seconds=111)
    assert queue.claim(5)[1] == []
    assert {row["_expires_at"] for row in queue.replica.items.values()} == set()


def test_turns_that_were_stretched_count_from_the_next_claim_on() -> None:
    """What a changed weight makes of the turns of a line is gone by, lower ones too."""
    queue = Steps(CONFIG)
    queue.enqueue([New(tenant=key) for key in "TTTTUUUU"])
    lease, _ = queue.claim(4)
    queue.settle(lease, dict.fromkeys((1, 2), Said("release")))
    assert queue.claim(1)[1] == [1]
    queue.status = following(queue.status)
    served = {**dict.fromkeys(STATUS_COLUMNS.names), "_kind": "served", "_priority": 0}
    served |= {"_fair_key": "T", "_turn": -3.0, "_overdue": True}
    queue.follow(pa.Table.from_pylist([served], STATUS_COLUMNS.arrow))
    assert queue.claim(1)[1] == [2]
    assert queue.replica.items[2]["_turn"] == 2.0


def test_claims_of_which_nothing_is_left_are_forgotten() -> None:
    """Of claims that are over a hundred are remembered, and it is known that there were more."""
    queue = Steps(QueueConfig())
    queue.enqueue([New() for _ in range(250)])
    for _ in range(250):
        lease, _ = queue.claim(1)
        queue.settle(lease, Said("ack"))
    assert 100 <= len(queue.replica.grants) <= 201
    assert queue.replica.has_forgotten
    assert lease in queue.replica.grants


def test_new_items_are_measured_against_all_readers() -> None:
    """An item is live while one reader is not done with it, and tags go on from the highest."""
    one, other = Steps(CONFIG), Steps(CONFIG)
    for steps in (one, other):
        steps.enqueue([New(key="a", tenant="T", group="g")])
    one.settle(one.claim(1)[0], Said("ack"))
    for replicas in ([one.replica, other.replica], [other.replica, one.replica]):
        known = Several(replicas)
        known.learn_ends([(0, "T")])
        assert [row["_seq"] for row in known.members({"g"}, {})] == [1]
        assert [(seq, live) for seq, _, live in known.holders({"a": None}).values()] == [(1, True)]
        assert known.ends == {(0, "T"): 1.0}


_NEW = st.builds(
    New,
    key=st.sampled_from([None, "k", "l", "m"]),
    tenant=st.sampled_from([None, "a", "b"]),
    group=st.sampled_from([None, None, "x", "y"]),
    priority=st.integers(0, 1),
    cost=st.sampled_from([1.0, 1.0, 2.0]),
    delay=st.sampled_from([None, None, 15]),
    ttl=st.sampled_from([None, None, 25]),
)

_STEP = st.one_of(
    st.tuples(st.just("enqueue"), st.lists(_NEW, min_size=1, max_size=6)),
    st.tuples(st.just("claim"), st.tuples(st.integers(1, 5), st.sampled_from([1, 1, 2]))),
    st.tuples(st.just("settle"), st.tuples(st.integers(0, 2), st.sampled_from("arndw"))),
    st.tuples(st.just("advance"), st.sampled_from([1, 16, 61])),
)

_CONFIGS = st.builds(
    QueueConfig,
    dedup_key=st.just("id"),
    dedup_scope=st.sampled_from(["live", "forever", timedelta(seconds=30)]),
    fair_key=st.sampled_from([None, "tenant"]),
    group_key=st.sampled_from([None, "grp"]),
    priority=st.sampled_from([None, "urgency"]),
    group_limit=st.just(1),
    max_in_flight=st.sampled_from([None, 3]),
    lease=st.just(timedelta(seconds=60)),
    max_attempts=st.just(2),
    max_losses=st.just(2),
    retry=st.just(RetryPolicy(delay=timedelta(seconds=10), jitter=0.0)),
    on_failure=st.sampled_from(["block", "skip"]),
)


_WEIGHED = _CONFIGS.map(lambda c: replace(c, weights={"a": 2.0}) if c.fair_key else c)


@given(config=st.one_of(_CONFIGS, _WEIGHED), history=st.lists(_STEP, max_size=14))
def test_a_scheduler_made_anew_for_each_step_goes_on_as_one_that_stays(
    config: QueueConfig, history: list[tuple[str, Any]]
) -> None:
    """Laws 1-9: what the rows say is all that the next decision needs."""
    ours, theirs = Steps(config), Scheduler(config)
    held: list[tuple[int, int, list[int]]] = []
    for verb, what in history:
        if verb == "enqueue":
            rows = [_of(config, row) for row in what]
            expected = theirs.admit([_new(ours, row) for row in rows], ours.now.timestamp())
            assert ours.enqueue(rows) == [answer.duplicate_of for answer in expected]
        elif verb == "claim":
            grant = theirs.claim(ours.now.timestamp(), what[0], run=what[1])
            lease, seqs = ours.claim(what[0], what[1])
            assert seqs == [item.seq for item in grant.items]
            if seqs:
                held = [(lease, grant.lease, seqs), *held][:3]
        elif verb == "settle" and held:
            lease, other, seqs = held[what[0] % len(held)]
            outcomes = dict.fromkeys(seqs, _SAID[what[1]])
            lost = ours.settle(lease, dict.fromkeys(seqs, _TOLD[what[1]]))
            settled = theirs.settle(other, outcomes, ours.now.timestamp())
            assert lost == tuple(sorted(settled.lost))
        elif verb == "advance":
            ours.now += timedelta(seconds=what)
    _assert_same(ours.read(), ours.replica)
    ever = range(1, ours.queue.last_seq + 1)
    assert set(ours.replica.items) == {seq for seq in ever if _is_live(theirs, seq)}


def _assert_same(read: Replica, known: Replica) -> None:
    """What is read from the logs is what was followed, but for claims that are over."""
    assert read.items == known.items
    assert (read.keys, read.ends, read.served) == (known.keys, known.ends, known.served)
    held = {row["_lease"] for row in known.items.values() if row["_state"] == "claimed"}
    assert read.grants == {lease: known.grants[lease] for lease in held}
    assert read.has_forgotten == bool(known.grants.keys() - held)


_SAID: dict[str, Outcome] = {
    "a": Ack(),
    "r": Release(),
    "n": Nack("no"),
    "d": Dead("bad"),
    "w": Defer(7.0, "later"),
}
_TOLD: dict[str, Said] = {
    "a": Said("ack"),
    "r": Said("release"),
    "n": Said("nack", "no"),
    "d": Said("dead", "bad"),
    "w": Said("defer", "later", timedelta(seconds=7)),
}


def _of(config: QueueConfig, row: New) -> New:
    """Return a row as a queue sees it that is not fair, or serial, or has no priorities."""
    return replace(
        row,
        tenant=row.tenant if config.fair_key else None,
        group=row.group if config.group_key else None,
        priority=row.priority if config.priority else 0,
        cost=row.cost if config.fair_key else 1.0,
    )


def _new(steps: Steps, row: New) -> NewItem:
    return NewItem(
        dedup_key=row.key,
        fair_key=row.tenant,
        group_key=row.group,
        priority=row.priority,
        cost=row.cost,
        available_at=_seconds(steps.in_seconds(row.delay)),
        expires_at=_seconds(steps.in_seconds(row.ttl)),
    )


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def _is_live(scheduler: Scheduler, seq: int) -> bool:
    return scheduler.state(seq) in ("ready", "claimed")
