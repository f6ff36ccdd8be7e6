//! Deciding clients' requests: a file for each family of requests.

mod across;
mod add;
mod bulk;
mod busy;
mod change;
mod configure;
mod filtered;
mod groups;
mod inspect;
mod keys;
mod lease;
mod list;
mod schedule;
mod take;
pub mod transaction;
pub mod watch;

use crate::engine::model::reply::Reply;
use crate::engine::model::request::Request;
use crate::engine::model::turn::Outcome;
use crate::engine::step::Step;

impl Step<'_, '_> {
    /// Refuses what the journal might not take before anything of it is done.
    pub fn run(&mut self, request: &Request<'_>) -> Outcome {
        if let Err(misconf) = self.live.room.admit(self.store, request) {
            if let Some(moved) = self.live.broken_off(self.client, &misconf) {
                return self.reply(Reply::Integer(moved as i64));
            }
            return self.refuse(&misconf.into());
        }
        let outcome = self.decide(request);
        self.live.room.release();
        outcome
    }

    fn decide(&mut self, request: &Request<'_>) -> Outcome {
        match *request {
            Request::Add(ref add) => self.add(add),
            Request::Push(ref push) => self.push(push),
            Request::ListPop(ref pop) => self.list_pop(pop),
            Request::Move(ref of) => self.move_between(of),
            Request::Range { queue, start, stop } => {
                self.or_refuse(|step| step.range(queue, start, stop))
            }
            Request::At { queue, place } => self.or_refuse(|step| step.at(queue, place)),
            Request::Find(ref find) => self.or_refuse(|step| step.find_equal(find)),
            Request::DeleteEqual { queue, body, from, count } => {
                self.or_refuse(|step| step.delete_equal(queue, body, from, count))
            }
            Request::Pop { db, queues, wait } => self.pop(db, queues, wait),
            Request::Reserve(ref reserve) => self.reserve(reserve),
            Request::Ack { queue, ref jobs } => self.ack(queue, jobs),
            Request::Nack(ref nack) => self.nack(nack),
            Request::Extend { queue, id, token, lease_ms } => {
                self.extend(queue, id, token, lease_ms)
            }
            Request::Delete { queue, ids } => self.delete(queue, ids),
            Request::Cancel { queue, id, force } => self.cancel(queue, id, force),
            Request::Reschedule { queue, id, when, only } => {
                self.or_refuse(|step| step.reschedule(queue, id, when, only))
            }
            Request::Redrive(ref redrive) => self.or_refuse(|step| step.redrive(redrive)),
            Request::Bulk(ref of) => self.or_refuse(|step| step.bulk(of)),
            Request::Purge { queue, purge } => self.purge(queue, purge),
            Request::Get { queue, id } => self.get(queue, id),
            Request::Settings { queue, only } => self.show_settings(queue, only),
            Request::Configure { queue, ref changes } => {
                self.or_refuse(|step| step.configure(queue, changes))
            }
            Request::Unconfigure { queue } => self.or_refuse(|step| step.unconfigure(queue)),
            Request::Pause { queue, direction, for_ms } => {
                self.or_refuse(|step| step.pause(queue, direction, for_ms))
            }
            Request::Resume { queue, direction } => self.resume(queue, direction),
            Request::Stats { queue } => self.stats(queue),
            Request::Errors { queue } => self.errors(queue),
            Request::Forecast { queue, span_ms, count, schedules } => {
                self.forecast(queue, span_ms, count, schedules)
            }
            Request::Len { queue, state } => self.len(queue, state),
            Request::Peek { queue, state, count, newest } => self.peek(queue, state, count, newest),
            Request::Scan(ref scan) => self.or_refuse(|step| step.scan(scan)),
            Request::Queues(ref of) => self.queues(of),
            Request::Locate(ref of) => self.locate(of),
            Request::Leases(ref of) => self.list_leases(of),
            Request::Minutes(ref of) => self.list_minutes(of),
            Request::Remove { db, queues } => self.remove(db, queues),
            Request::Rename { db, queue, to, only_new } => self.rename(db, queue, to, only_new),
            Request::Exists { db, queues } => self.exists(db, queues),
            Request::Flush { db } => self.flush(db),
            Request::Keys { db, pattern } => self.keys(db, pattern),
            Request::ScanQueues { db, cursor, pattern, count } => {
                self.or_refuse(|step| step.scan_queues(db, cursor, pattern, count))
            }
            Request::RandomQueue { db, draw } => self.random_queue(db, draw),
            Request::QueueCount { db } => {
                self.reply(Reply::Integer(self.store.existing_in(db) as i64))
            }
            Request::Memory { queue } => self.memory(queue),
            Request::Schedule(ref of) => self.or_refuse(|step| step.schedule(of)),
            Request::Groups(ref of) => self.or_refuse(|step| step.groups(of)),
        }
    }
}
