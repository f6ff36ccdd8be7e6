//! The background work of an engine that only applies: what passing time does on the deciding engine, without deciding
//! anything.
//!
//! ```text
//! queues that wake    the wheels are passed to now, slots opened ahead; with something due they stay listed, for
//!                     the leader is about to tell, or this engine leads by then
//! idle queues         entries of those that were forgotten or removed go
//! memory              purged jobs and removed queues are freed, the others moved closer together
//! minutes             the busiest queues are found
//! ```
//!
//! None of it changes what is durable, and none of it goes beyond the instant of the last fact: a wheel that was
//! ahead of the leader's would give another order.

use crate::engine::step::Live;
use crate::engine::step::sweep::open_ahead;
use crate::engine::store::Store;
use crate::engine::store::jobs::JobStage;
use crate::ids::QueueNo;
use crate::limits;
use crate::time::{Micros, Millis};
use crate::wheel::Peek;

/// The result of checking the wheels of a queue.
enum Passed {
    /// Nothing is due.
    All,
    /// There is due work that the leader has not recorded.
    Due,
    /// The steps were used up.
    More,
}

/// Does so in about `budget` steps; true if that was not all.
pub fn follow(store: &mut Store, live: &mut Live, now: Micros, budget: u32) -> bool {
    let at = live.applied.min(now).floor();
    // Half for the queues, so that a herd of them does not keep memory from being freed.
    let mut steps = budget.div_ceil(2);
    let passed = pass_queues(store, live, at, &mut steps);
    steps += budget / 2;
    let dropped = drop_idle(store, live, at);
    let max = live.settings.memory_bytes_max;
    if max > 0 && store.held_bytes() > max - max / 16 {
        store.press();
    }
    let tidy = store.bury_slice(&mut steps) && {
        let mut share = steps.min(limits::TIDYING_STEPS_PER_TURN);
        store.tidy(Some(now.floor()), &mut share, true)
    };
    store.keep_minutes(live.settings.history_queues_max);
    let ranked = store.rank_queues(&mut steps);
    !(passed && dropped && tidy && ranked)
}

fn pass_queues(store: &mut Store, live: &mut Live, at: Millis, steps: &mut u32) -> bool {
    live.opening = limits::OPENING_STEPS_PER_TURN;
    while let Some(number) = store.woken(at, steps) {
        live.list_sweeping(store, number);
    }
    let mut all = *steps > 0;
    for _ in 0..live.sweeping.len() {
        let Some(left) = steps.checked_sub(1) else { return false };
        *steps = left;
        let number = live.sweeping.pop_front().expect("as many as there are");
        if store.bound_queue(number).is_none_or(|queue| !queue.marks.sweeping) {
            continue;
        }
        let mut slice = left.min(limits::QUEUE_SLICE_STEPS);
        *steps -= slice;
        let passed = pass_queue(store, number, at, &mut slice);
        *steps += slice;
        if let Passed::All = passed {
            store.marks_mut(number).sweeping = false;
            let opening = open_ahead(store, &mut live.opening, number, at);
            store.rearm(number, opening);
        } else {
            live.sweeping.push_back(number);
            all &= matches!(passed, Passed::Due);
        }
    }
    all
}

fn pass_queue(store: &mut Store, number: QueueNo, at: Millis, steps: &mut u32) -> Passed {
    let queue = store.queue(number);
    let mut due = queue.next_pause_end().is_some_and(|end| end <= at);
    due |= queue.first_schedule_wake() <= at;
    while let Some((_, group)) = store.queue(number).next_paced().filter(|next| next.0 <= at) {
        if *steps == 0 {
            return Passed::More;
        }
        *steps -= 1;
        if store.pass_pace(number, group, at.start()) {
            // It goes with its fact.
            due = true;
            break;
        }
    }
    for stage in [JobStage::Delayed, JobStage::Leased, JobStage::Window] {
        match store.peek_due(number, stage, at, steps) {
            Peek::Due(_) => due = true,
            Peek::More => return Passed::More,
            Peek::Empty => {}
        }
    }
    if due { Passed::Due } else { Passed::All }
}

/// Drops entries of queues that are gone, and looks at the others as often as the leader does.
fn drop_idle(store: &mut Store, live: &Live, at: Millis) -> bool {
    let retention_ms = live.settings.stats_retention_ms.max(1);
    for _ in 0..limits::FORGOTTEN_PER_TURN {
        let Some(idle) = store.first_idle() else { return true };
        if store.is_bound(idle) && idle.since.plus(retention_ms) > at {
            return true;
        }
        if store.take_idle(idle).is_some() {
            // The leader is about to forget it, or a client waits for it there.
            store.note_idle(idle.queue, at);
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use crate::engine::model::fact::{Fact, Facts};
    use crate::engine::{Engine, Settings};
    use crate::ids::{Db, QueueNo};
    use crate::time::Micros;

    /// Names that come and are forgotten by the leader leave nothing, and a name that a client waits for there is no
    /// obstacle.
    #[test]
    fn entries_of_queues_that_are_gone_go() {
        let mut engine = Engine::new(Settings { stats_retention_ms: 10, ..Settings::default() });
        let mut facts = Facts::default();
        facts.push(&Fact::QueueBound { queue: QueueNo(0), db: Db(0), name: b"waited for" });
        engine.apply(Micros(1_000), &facts).expect("own facts");
        for turn in 2..5_000 {
            let (mut facts, queue, now) = (Facts::default(), QueueNo(16), Micros(turn * 1_000));
            facts.push(&Fact::QueueBound { queue, db: Db(0), name: b"one of many" });
            facts.push(&Fact::QueueForgotten { queue });
            engine.apply(now, &facts).expect("own facts");
            engine.follow(now, 100);
            assert!(engine.store.idle_count() <= 32, "{} entries", engine.store.idle_count());
        }
    }
}
