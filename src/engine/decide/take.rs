//! Taking jobs: POP, RESERVE, list pops and moves.

use std::sync::Arc;

use crate::engine::handoff::TakenJobs;
use crate::engine::model::reply::Reply;
use crate::engine::model::request::{JobState, ListPop, Move, QueueName, Reserve, Wait};
use crate::engine::model::turn::Outcome;
use crate::engine::step::Step;
use crate::engine::step::waiters::{LeaseTerms, Taking, Target};
use crate::ids::Db;
use crate::time::{Micros, Millis};

impl Step<'_, '_> {
    pub fn pop(&mut self, db: Db, queues: &[&[u8]], wait: Wait) -> Outcome {
        self.take_or_wait(db, queues, wait, Taking::Pop)
    }

    pub fn reserve(&mut self, reserve: &Reserve<'_>) -> Outcome {
        if let Some(lease_ms) = reserve.lease_ms
            && let Err(error) = self.live.settings.check_lease("lease", lease_ms)
        {
            return self.refuse(&error);
        }
        let Reserve { db, queues, wait, count, lease_ms, no_ack, bound, meta } = *reserve;
        let terms = (!no_ack).then_some(LeaseTerms { lease_ms, bound });
        self.take_or_wait(db, queues, wait, Taking::Reserve { count, terms, meta })
    }

    pub fn list_pop(&mut self, pop: &ListPop<'_>) -> Outcome {
        let ListPop { db, queues, side, count, shape, wait } = *pop;
        if count == 0 {
            // As Redis: an empty array only if there is something that could be taken.
            let queue = queues.first().and_then(|name| self.queue(QueueName { db, name }));
            let store = &self.store;
            let any = queue.is_some_and(|queue| store.queue(queue).count(JobState::Ready) > 0);
            return self.reply(if any { Reply::Bodies(&[]) } else { Reply::NilArray });
        }
        self.take_or_wait(db, queues, wait, Taking::List { side, count, shape })
    }

    pub fn move_between(&mut self, of: &Move<'_>) -> Outcome {
        let Move { db, from, to, take, put, wait } = *of;
        if self.alone {
            // Sweep the destination first, as with ADD.
            self.queue(QueueName { db, name: to });
        }
        let to = Arc::new(Target { name: to.into(), side: put });
        self.take_or_wait(db, &[from], wait, Taking::Move { side: take, to })
    }

    fn take_or_wait(&mut self, db: Db, queues: &[&[u8]], wait: Wait, taking: Taking) -> Outcome {
        let mut batch = TakenJobs::new(taking, self.client, None);
        let mut complete = true;
        let stalled = self.live.room.stalls_hand_offs();
        for name in if stalled { &[][..] } else { queues } {
            let Some(queue) = self.queue(QueueName { db, name }) else { continue };
            if self.alone {
                self.serve_line_first(queue);
            }
            if self.alone && self.is_behind_its_line(queue) {
                complete = false;
                continue;
            }
            complete &= self.take(queue, &mut batch);
            if batch.is_done() {
                break;
            }
        }
        if !batch.is_empty() {
            self.deliver(batch);
            return Outcome::Replied;
        }
        if !complete && self.alone {
            // The rest is done in the next turn, if there is space for it.
            if self.live.room.lets_time_pass() {
                return Outcome::Again;
            }
            return self.refuse(&self.live.room.shortage().into());
        }
        let deadline = match wait {
            _ if !self.alone => return self.reply(batch.taking.nothing()),
            Wait::No => return self.reply(batch.taking.nothing()),
            Wait::Forever => None,
            Wait::For(ms) => Some(self.deadline(ms)),
        };
        self.live.waiters.wait(self.client, db, queues, batch.taking, deadline);
        for name in queues {
            let line = self.live.waiters.line(db, name);
            if let Some(number) = self.store.queue_no(db, name) {
                self.store.aside_mut(number).line = line;
                if self.store.queue(number).count(JobState::Ready) > 0 {
                    // Held: it is served when that is over.
                    self.touch(number, None);
                }
            }
        }
        Outcome::Waiting
    }

    /// The deadline of a client that waits for `ms` from now on. On the monotonic clock it does not come before the
    /// jobs of the same ms on the engine's.
    fn deadline(&self, ms: u64) -> Millis {
        let until = self.now.ceil().plus(ms);
        let Some(at) = self.live.monotonic else { return until };
        Micros(at.0.saturating_add(until.start().0 - self.now.0)).ceil()
    }
}
