//! The core: jobs, queues, leases, retries, dead letters, waiters. A plain data structure without
//! clock, socket, file, thread or randomness: its behaviour depends only on its inputs, byte for
//! byte. A *fact* is one recorded change, a *turn* one round of the server's loop, a *waiter* a
//! client that is blocked on queues.
//!
//! ```text
//! handle   hand_off -> decide ----> hand_off         waiters that the journal held back come first
//!                        | find: sweep -> hand_off   what is due in the queue, before it is looked at
//! advance  unsent, lost leases -> hand_off -> each queue: sweep -> hand_off -> deadlines, idle queues, memory
//!                        |
//!                     Step::commit: a Fact recorded, then applied: Store::apply_at, as recovery does
//! ```
//!
//! The rooms, which are folders of modules, in an order in which each uses only those before it: `model` (values),
//! `store` (what a replay of the facts gives back), `journal_room` (what the journal allows in a turn), `observe`
//! (counts and events for observers), `step` (the context of every decision), `handoff` (which waiter gets a ready
//! job), `advance` (time passing), `follow` (what a follower does besides applying), `decide` (what clients ask for).

mod advance;
pub mod decide;
mod follow;
mod handoff;
pub mod journal_room;
pub mod model;
pub mod observe;
mod step;
mod store;

use crate::calendar::Zones;
use crate::engine::model::turn::Budget;
use crate::error::Error;
use crate::ids::{ClientId, Db};
use crate::time::{Micros, Millis};
use decide::transaction::{self, TransactionBegun, WholeTransaction};
use decide::watch::{Stamp, Watched};
use journal_room::Flow;
use model::event::Events;
pub use model::fact::{Applying, Facts};
use model::fact::{Fact, Malformed};
use model::holder::Holder;
pub use model::leading::{Lead, Leading, Stall};
use model::reply::Reply;
use model::request::{QueueName, Request};
use model::schedule::{ScheduleCounts, ZonesChange};
pub use model::settings::Settings;
pub use model::turn::{Outcome, Turn};
use observe::survey::{self, Oldest, QueueView, QueueWalk};
use observe::tally::Tally;
use std::sync::Arc;
pub use step::schedule::{Missed, MissedNotes};
use step::{Live, Step, ZonesWalk};
use store::Store;
pub use store::snapshot::load::Loader;
pub(crate) use store::snapshot::record;

/// One partition: queues, their jobs, and waiting clients.
#[derive(Debug)]
pub struct Engine {
    store: Store,
    live: Live,
}

impl Engine {
    /// The reply to a waiter whose deadline came, or that CLIENT UNBLOCK released.
    pub const TIMED_OUT: Reply<'static> = advance::TIMED_OUT;

    pub fn new(settings: Settings) -> Engine {
        Engine::with(Store::new(&settings), settings)
    }

    /// The engine as it was when the base file was begun. Facts that came later are applied to it
    /// next, then [`Engine::recovered`] is called.
    pub fn loaded(loader: Loader) -> Result<Engine, Malformed> {
        let (store, settings) = loader.finish()?;
        Ok(Engine::with(store, settings))
    }

    fn with(store: Store, settings: Settings) -> Engine {
        let hasher = store.hasher().state();
        Engine { store, live: Live::new(settings, hasher) }
    }

    fn step<'s, 't>(&'s mut self, now: Micros, turn: &'s mut Turn<'t>) -> Step<'s, 't> {
        self.ask(now, ClientId(0), turn)
    }

    fn ask<'s, 't>(
        &'s mut self,
        now: Micros,
        client: ClientId,
        turn: &'s mut Turn<'t>,
    ) -> Step<'s, 't> {
        let Engine { store, live } = self;
        Step { store, live, turn, now, client, alone: true, budget: Budget::of(0) }
    }

    pub fn settings(&self) -> &Settings {
        &self.live.settings
    }

    /// The settings, to be changed between turns.
    pub fn settings_mut(&mut self) -> &mut Settings {
        &mut self.live.settings
    }
}

/// A turn.
impl Engine {
    /// From here on it is `at` on a monotonic clock, whatever `now` does: timeouts of waiting clients follow that
    /// clock. Call it before every turn, or never; then `now` is used.
    pub fn set_monotonic(&mut self, at: Micros) {
        self.live.monotonic = Some(at);
    }

    /// Sets what the journal allows from here on, in the turn that happens at `now`. An engine
    /// without this call has unlimited space. Cost: negligible.
    pub fn set_flow(&mut self, now: Micros, flow: Flow) {
        self.live.room.set(now, flow, self.live.advanced);
    }

    /// Decides and applies one request, then hands ready jobs to waiters. The client must not be
    /// waiting.
    pub fn handle(
        &mut self,
        now: Micros,
        client: ClientId,
        request: &Request<'_>,
        turn: &mut Turn<'_>,
    ) -> Outcome {
        let mut step = self.ask(now, client, turn);
        // Waiters that the journal held back in earlier steps are served first.
        step.hand_off();
        let outcome = step.run(request);
        step.hand_off();
        // A client that began to wait may have been served by that: an earlier waiter moved a job to the queue where it
        // waits.
        let served = outcome == Outcome::Waiting && !self.live.waiters.is_waiting(client);
        if served { Outcome::Replied } else { outcome }
    }

    /// A half-done request of the client ([`Outcome::Again`]) is not repeated. Its effects so far stay.
    pub fn abandon(&mut self, client: ClientId) {
        self.live.abandon(client);
    }

    /// Begins a transaction whose client may come to hold `held_bytes_max` for it: replies, and unsent jobs. Cost:
    /// about that of running it.
    pub fn begin_transaction(
        &mut self,
        now: Micros,
        client: ClientId,
        whole: &WholeTransaction<'_>,
        held_bytes_max: u64,
        turn: &mut Turn<'_>,
    ) -> TransactionBegun {
        self.ask(now, client, turn).begin_transaction(whole, held_bytes_max)
    }

    /// The most bytes that a request may answer which is decided alone in this turn. Cost: about that of deciding it.
    pub fn answer_bytes_max(
        &mut self,
        now: Micros,
        client: ClientId,
        request: &Request<'_>,
        turn: &mut Turn<'_>,
    ) -> u64 {
        self.ask(now, client, turn).answer_bytes_max(request)
    }

    /// One request of a transaction that has begun: never waits, is never cut short, and hands nothing to
    /// waiters. Outside of one, a reading request that must hand nothing off.
    pub fn handle_in_transaction(
        &mut self,
        now: Micros,
        client: ClientId,
        request: &Request<'_>,
        turn: &mut Turn<'_>,
    ) -> Outcome {
        Step { alone: false, ..self.ask(now, client, turn) }.run(request)
    }

    /// All requests of the transaction have been decided: serve waiting clients with the jobs they left.
    pub fn end_transaction(&mut self, now: Micros, turn: &mut Turn<'_>) {
        self.step(now, turn).end_transaction();
    }

    /// Whether a request in a transaction would be refused now, for lack of memory or of the journal's space, or by its
    /// queue; the last only if `limits`, because earlier commands may change that.
    pub fn check_queued(
        &self,
        now: Micros,
        request: &Request<'_>,
        limits: bool,
    ) -> Result<(), Error> {
        transaction::check_queued(&self.store, &self.live, now, request, limits)
    }

    /// Lets time pass, in at most about `budget` steps: a job that falls due, a timer moved to a
    /// lower level, a job freed are one each. True if that was not all: call it again in the next turn.
    /// Never call it with an earlier `now` than before.
    pub fn advance(&mut self, now: Micros, budget: u32, turn: &mut Turn<'_>) -> bool {
        Step { budget: Budget::of(budget), ..self.step(now, turn) }.advance()
    }

    /// When `advance` must be called next, at the latest. Work without space waits for
    /// [`Engine::set_flow`], and a deadline on the monotonic clock is [`Engine::next_timeout`].
    pub fn next_wakeup(&self) -> Option<Millis> {
        advance::next_wakeup(&self.store, &self.live)
    }

    /// When `advance` must be called for the next deadline of a waiter, at the latest: on the monotonic clock. None
    /// without that clock: deadlines are in [`Engine::next_wakeup`] then.
    pub fn next_timeout(&self) -> Option<Millis> {
        let comes = self.live.monotonic.is_some() && !self.live.room.defers();
        self.live.waiters.next_wakeup().filter(|_| comes)
    }

    /// Hands ready jobs to waiters: the end of a step. Queues whose waiters the journal holds back
    /// stay on the list for the next one.
    pub fn hand_off(&mut self, now: Micros, turn: &mut Turn<'_>) {
        self.step(now, turn).hand_off();
    }

    /// The current queue. Its due jobs are swept first, within a small budget. Until [`Engine::unwatch`] or
    /// [`Engine::closed`] the client counts as watching it.
    pub fn stamp(
        &mut self,
        now: Micros,
        client: ClientId,
        queue: QueueName<'_>,
        turn: &mut Turn<'_>,
    ) -> Stamp {
        self.ask(now, client, turn).stamp(queue)
    }

    /// Whether any of `queues` has changed since it was stamped. Cost: as EXISTS of all of them.
    pub fn compare<'q>(
        &mut self,
        now: Micros,
        client: ClientId,
        queues: impl Iterator<Item = (QueueName<'q>, Stamp)> + Clone,
        turn: &mut Turn<'_>,
    ) -> Watched {
        self.ask(now, client, turn).compare(queues)
    }

    /// `client` watches nothing any more: what it was stamped means nothing from here on.
    pub fn unwatch(&mut self, client: ClientId) {
        self.live.watched.unwatch(client);
    }
}

/// Connections.
impl Engine {
    /// Takes `client` out of the lines without a reply; false if it does not wait.
    pub fn stop_waiting(&mut self, client: ClientId) -> bool {
        self.live.stop_waiting(&mut self.store, client)
    }

    /// `client` is this in words from here on, until some time after it is [`closed`](Engine::closed). Call it before
    /// its first request that takes or acknowledges jobs, and after its words have changed; without it, leases and
    /// statistics have only its number.
    pub fn introduce(&mut self, client: ClientId, holder: Holder) {
        self.live.holders.introduce(client, holder);
    }

    /// All that was handed to `client` is on its way: the hand-offs stand.
    pub fn sent(&mut self, client: ClientId) {
        self.live.unsent.sent(client);
    }

    /// The first bytes of the oldest `replies` that handed jobs to `client` reached the kernel: those
    /// hand-offs stand. The later ones of a pipeline are still unsent.
    pub fn sent_first(&mut self, client: ClientId, replies: usize) {
        self.live.unsent.sent_first(client, replies);
    }

    /// The jobs handed to `client` and not yet [`sent`](Engine::sent) never left: they go back to their old place,
    /// uncounted, and on to waiting clients. Call [`Engine::closed`] afterwards. Of very many jobs some go back when
    /// time passes next; so do those whose facts do not fit.
    pub fn unsent(&mut self, now: Micros, client: ClientId, turn: &mut Turn<'_>) {
        self.ask(now, client, turn).unsend();
    }

    /// The connection is gone: it waits for nothing and watches nothing any more, and its bound leases
    /// end.
    pub fn closed(&mut self, now: Micros, client: ClientId, turn: &mut Turn<'_>) {
        self.ask(now, client, turn).close();
    }

    /// From here on another node decides, or none does, and all connections are closed. No fact may be made for them:
    /// unsent jobs stay handed over, and leases that end with a connection run on, as after a crash. Call it before the
    /// connections are closed.
    pub fn step_down(&mut self) {
        self.live.step_down();
    }

    /// Bytes held for a client's places in lines.
    pub fn waiting_bytes(&self, client: ClientId) -> usize {
        self.live.waiters.bytes(client)
    }

    pub fn unsent_jobs_bytes(&self, client: ClientId) -> usize {
        self.live.unsent.bytes(client)
    }

    /// Bytes held to end a client's BOUND leases with its connection.
    pub fn bound_bytes(&self, client: ClientId) -> usize {
        self.live.leases.bytes(client)
    }

    /// In an orderly shutdown: ends all bound leases, at most about `budget` at a time; true when none is left. Their
    /// jobs go back to their old places and the attempts are given back, because the server ended them and not the job
    /// or its consumer; leases whose connection was closed before count as lost, as usual. Hands nothing to waiters.
    pub fn end_bound(&mut self, now: Micros, budget: u32, turn: &mut Turn<'_>) -> bool {
        Step { budget: Budget::of(budget), ..self.step(now, turn) }.end_bound()
    }
}

/// Times in which no client could answer.
impl Engine {
    /// The process did nothing from `from` until now: leases that would have ended since, or will before
    /// [`Engine::backlog_read`], are extended by what was left of them then, as in a stall of the journal.
    /// Nothing else is put off.
    pub fn stood_still(&mut self, from: Micros) {
        self.live.room.stood_still(from);
    }

    /// Whether waiters are served later, and their deadlines come later, too: until everything that arrived while the
    /// process stood still has been read, so that a CANCEL among it wins against the clock. Jobs fall due as usual, and
    /// requests take them, but do not overtake waiting clients.
    pub fn defer_hand_offs(&mut self, defers: bool) {
        self.live.room.defer(defers);
    }

    /// Everything that arrived while the process stood still has been read by `now`.
    pub fn backlog_read(&mut self, now: Micros) {
        self.live.room.backlog_read(now);
    }

    /// Whether, for lack of room or in a pause, no time passes for jobs: `advance` leaves what is due until
    /// [`Engine::set_flow`] gives room.
    pub fn is_stalled(&self) -> bool {
        !self.live.room.lets_time_pass()
    }
}

/// Several nodes: one leads, which decides, the others apply its facts.
///
/// ```text
/// follower   apply_slice …, follow                    after each batch; reads go on under `Flow::Stopped`
/// leads      lead, then as ever                       when all batches of epochs before are applied
/// follows    unlead, then apply_slice …, follow       if all its facts were committed, and `may_follow` the next batch
/// ```
impl Engine {
    /// Does the background work that passing time does on the deciding engine, in about `budget` steps: frees removed
    /// jobs, moves jobs together, opens slots early, drops stale entries. Nothing durable changes, and for jobs it is
    /// never later than at the last fact, whatever `now` is: this node's own clock, which does not go back. True if
    /// there is more to do.
    pub fn follow(&mut self, now: Micros, budget: u32) -> bool {
        follow::follow(&mut self.store, &mut self.live, now, budget)
    }

    /// When [`Engine::follow`] must be called next if nothing is applied.
    pub fn next_following(&self) -> Option<Millis> {
        self.store.next_tidying()
    }

    /// This engine, which only applied, decides from `now` on, which is not before the last fact that it applied; the
    /// first fact records that. Leases that would have ended from `lead.from` to `lead.to` are extended when their ends
    /// are reached; bound ones of other connections than this node's end at `lead.to`, and no rate allows a delivery
    /// until a second after `lead.from`. Tokens begin above the clock. Cost: as of [`Engine::unlead`]; work over many
    /// queues is done as time passes.
    pub fn lead(&mut self, now: Micros, lead: &Lead, turn: &mut Turn<'_>) {
        assert!(now >= self.live.applied, "a leader's clock goes on from the last fact");
        self.step(now, turn).lead(lead);
    }

    /// This engine no longer decides: no client waits or watches, no job is unsent, nothing is postponed or half done.
    /// Waiting clients get no reply; to release very many, stop them in slices before. Cost: their number.
    pub fn unlead(&mut self) {
        self.live.unlead(&mut self.store);
    }

    /// Whether facts of a batch that begins at `now` can be applied: not if time has passed here beyond it, which
    /// happens to an engine that led until its clock was ahead of the next leader's. Discard it then.
    pub fn may_follow(&self, now: Micros) -> bool {
        self.store.passed() <= now.floor()
    }

    /// The leader, as far as facts were applied.
    pub fn leading(&self) -> Leading {
        self.store.leading()
    }
}

/// Recovery and base files.
impl Engine {
    /// Applies facts of an earlier turn, as recovery does.
    pub fn apply(&mut self, now: Micros, facts: &Facts) -> Result<(), Malformed> {
        self.apply_encoded(now, &facts.bytes, facts.count).map(drop)
    }

    /// As [`Engine::apply`], for `count` encoded facts: the instant of the last one. An error names the byte;
    /// everything before it has been applied.
    pub fn apply_encoded(
        &mut self,
        now: Micros,
        bytes: &[u8],
        count: u64,
    ) -> Result<Micros, Malformed> {
        let mut batch = Applying::new(now);
        while !self.apply_slice(&mut batch, bytes, count, u32::MAX)? {}
        Ok(batch.now())
    }

    /// Goes on with applying a batch of `count` facts that are encoded, in about `budget` steps: a fact, each job
    /// of those that fall due together, a timer moved or a job freed before it can be applied are one each; true
    /// when all of it is applied. As many steps more as fall due in one fact. A base file must not be begun
    /// between two slices of one batch. Errors as of [`Engine::apply_encoded`].
    pub fn apply_slice(
        &mut self,
        batch: &mut Applying,
        bytes: &[u8],
        count: u64,
        mut budget: u32,
    ) -> Result<bool, Malformed> {
        while let Some((fact, end)) = batch.next(bytes, count)? {
            if budget == 0 || !self.store.prepare(&fact, &mut budget) {
                return Ok(false);
            }
            let jobs = if let Fact::Due { count, .. } = fact { count } else { 0 };
            budget = budget.saturating_sub(1 + jobs);
            batch.pass(&fact, end);
            self.store.apply(batch.now(), &fact);
            self.live.applied = batch.now();
        }
        Ok(true)
    }

    /// Returns memory left by [applied](Engine::apply_encoded) facts, in `budget` steps: for recovery, where no time
    /// passes.
    pub fn tidy_applied(&mut self, mut budget: u32) {
        if self.store.bury_slice(&mut budget) {
            self.store.tidy(None, &mut budget, true);
        }
    }

    /// After a restart, when everything is loaded and replayed: the connections of bound leases are gone, so the next
    /// calls of [`Engine::advance`] end these leases as lost. Looks at every lease.
    pub fn recovered(&mut self) {
        self.live.recover(&mut self.store);
        self.store.settle_busyness();
    }

    /// Sets back the clock of an engine that does not run: see `store/offline.rs`. It was `was` when the last
    /// fact was applied, and is `to` from here on. Looks at every queue and lease.
    pub fn lower_clock(&mut self, was: Micros, to: Micros) {
        self.store.lower_clock(was, to);
        advance::lower_schedules(&mut self.store, &self.live.zones, was, to);
    }

    /// Tokens that were handed out before are invalid, and leased jobs are ready again: see `store/offline.rs`. For an
    /// engine that does not run, of a state that is older than what its clients have seen since. Looks at every job.
    pub fn void_tokens(&mut self, now: Micros, floor: u64) {
        self.store.void_tokens(now, floor);
    }

    /// The state is no cluster's any more. For an engine that does not run.
    pub fn forget_leading(&mut self) {
        self.store.forget_leading();
    }

    /// Begins a base file: the state as it is now, between two turns; after it come the minutes of DELAY.HISTORY, if they
    /// take no more than half of what the journal has left for bases. Cost: some 20 µs with 200 queues. A base that is being
    /// written is abandoned.
    pub fn begin_base(&mut self) {
        self.store.begin_base(self.minutes_room());
    }

    /// As [`Engine::begin_base`], of the queues of one partition of `count`: see [`crate::hash_slot`]. Nothing may change
    /// until it is complete.
    pub fn begin_part(&mut self, partition: u16, count: u16) {
        self.store.begin_part(partition, count, self.minutes_room());
    }

    fn minutes_room(&self) -> u64 {
        let later = journal_room::base_bytes_later(&self.store);
        self.live.room.base_bytes_max().saturating_sub(later) / 2
    }

    /// Appends images to the output; true when the base file is complete. Ends after `images_max`
    /// steps of the walk (an image, or a look at a table of the id index) or with the image that
    /// reaches `bytes_max`. Panics if none is being written.
    pub fn base_slice(&mut self, images_max: u32, bytes_max: usize) -> bool {
        self.store.base_slice(images_max, bytes_max)
    }

    /// The images that are to go to the base file, whole ones only; to be taken away. Facts append
    /// here too: images of what they change.
    pub fn base_output(&mut self) -> &mut Vec<u8> {
        self.store.base_output_mut()
    }

    pub fn base_output_bytes(&self) -> usize {
        self.store.base_output().len()
    }

    /// The sum over the images of the newest base file, once all of them are made: that of every node that began one of the same
    /// state, whatever its layout, and whatever has changed since.
    pub fn base_sum(&self) -> Option<u64> {
        self.store.base_sum()
    }

    pub fn is_base_running(&self) -> bool {
        self.store.is_base_running()
    }

    /// Gives up the base file that is being written, if there is one, and forgets the output.
    pub fn abandon_base(&mut self) {
        self.store.abandon_base();
    }

    /// How many bytes of images a base file would have if it were written now. O(16).
    pub fn base_bytes(&self) -> u64 {
        self.store.base_bytes() + self.store.minutes_image_bytes(self.minutes_room())
    }

    /// The size of a base, bytes, once all jobs there are have been delivered: the most that it can
    /// become without a job being added. O(16).
    pub fn base_bytes_later(&self) -> u64 {
        journal_room::base_bytes_later(&self.store)
    }
}

/// Schedules.
impl Engine {
    /// From here on these tables define the zones. Schedules whose next occurrence changes are moved as time passes, in
    /// slices; [`Engine::take_zones_change`] reports the result. Call it before the first turn, after recovery, and
    /// when the tables have changed. A follower looks when it first leads with them.
    pub fn set_zones(&mut self, zones: Arc<Zones>) {
        self.live.zones = zones;
        self.live.zones_walk = Some(ZonesWalk::default());
    }

    pub fn zones(&self) -> &Arc<Zones> {
        &self.live.zones
    }

    /// The effect of the newest tables, once all schedules have been looked through; returned once.
    pub fn take_zones_change(&mut self) -> Option<ZonesChange> {
        self.live.zones_change.take()
    }

    /// The occurrences missed since the last call: the first few are named.
    pub fn take_missed(&mut self) -> MissedNotes {
        std::mem::take(&mut self.live.missed)
    }

    /// How many schedules there are, by state. O(log n).
    pub fn schedule_counts(&self) -> ScheduleCounts {
        self.store.schedule_counts()
    }

    /// Groups of all queues. Cost: negligible.
    pub fn group_count(&self) -> u64 {
        self.store.group_count()
    }
}

/// For observers.
impl Engine {
    /// Turns the collection of events on or off. Collected events that were not taken are dropped.
    pub fn collect_events(&mut self, on: bool) {
        if on != self.live.events.is_some() {
            self.live.events = on.then(Box::default);
        }
    }

    /// The events since this was last asked; none if there are none.
    pub fn take_events(&mut self) -> Option<Events> {
        let events = self.live.events.as_deref_mut().filter(|events| !events.is_empty())?;
        Some(std::mem::take(events))
    }

    /// Counts since the start.
    pub fn tally(&self) -> &Tally {
        &self.live.tally
    }

    /// Bytes counted for jobs and queues: follows from what there is, not from how it came about.
    pub fn memory_bytes(&self) -> u64 {
        self.store.bytes() + self.live.unsent.returning_bytes() as u64
    }

    /// Bytes of those that give way before a job is refused: of queues that have only totals.
    pub fn giving_way_bytes(&self) -> u64 {
        self.store.giving_way_bytes()
    }

    /// Bytes held for jobs and queues, including memory of freed jobs until it is returned. Never less than the counted
    /// bytes.
    pub fn held_bytes(&self) -> u64 {
        self.live.held_bytes(&self.store)
    }

    /// Bytes that the jobs there are take more once all of them have been delivered.
    pub fn lease_bytes_to_come(&self) -> u64 {
        self.store.lease_bytes_to_come(0, 0)
    }

    pub fn queue_counts(&self) -> [u64; 16] {
        self.store.existing()
    }

    /// The names of all queues. Cost: a step a queue.
    pub fn queue_names(&self) -> impl Iterator<Item = &[u8]> {
        survey::names(&self.store)
    }

    /// How many queues have a name, those without a job included.
    pub fn named_count(&self) -> usize {
        self.name_counts().iter().sum::<u64>() as usize
    }

    /// The same, by database.
    pub fn name_counts(&self) -> [u64; 16] {
        std::array::from_fn(|db| self.store.name_count(Db(db as u8)) as u64)
    }

    /// Jobs by state (delayed, ready, leased, dead), all queues.
    pub fn job_counts(&self) -> [u64; 4] {
        self.store.counts()
    }

    pub fn waiter_count(&self) -> usize {
        self.live.waiters.len()
    }

    /// How many queue names are waited for.
    pub fn awaited_count(&self) -> usize {
        self.live.waiters.line_total()
    }

    pub fn deadline_count(&self) -> usize {
        self.live.waiters.deadline_total()
    }

    /// When the oldest running lease began. Leases of a queue that was removed are among them until its
    /// jobs are freed.
    pub fn oldest_lease(&self) -> Oldest {
        self.store.oldest_lease()
    }

    /// Visits up to `count` queues from `from` on; where to go on, none at the end. Cost: as many
    /// queues.
    pub fn walk(
        &mut self,
        from: QueueWalk,
        count: u32,
        now: Micros,
        visit: impl FnMut(QueueView<'_>),
    ) -> Option<QueueWalk> {
        let waiters = |db, name: &[u8]| self.live.waiters.count(db, name);
        survey::walk(&mut self.store, (from, count), now, waiters, visit)
    }

    /// The earliest due time among the ready jobs of up to `count` queues from `from` on, and where
    /// to go on. Cost: at most forty jobs a queue.
    pub fn oldest_ready(&self, from: QueueWalk, count: u32) -> (Option<Millis>, Option<QueueWalk>) {
        survey::oldest_ready(&self.store, from, count)
    }

    /// That of the queues alone: where they are divided among engines, the sum of theirs is that of the whole. Cost: all
    /// jobs.
    pub fn queues_digest(&self) -> u64 {
        self.store.queues_digest()
    }

    /// The digest: see `store/digest.rs`. Cost: all jobs; for tests and for comparing machines.
    pub fn digest(&self) -> u64 {
        self.store.digest()
    }

    /// Whether what is known of running leases is what there is of them. Looks at all; for tests.
    pub fn knows_its_leases(&self) -> bool {
        self.store.knows_its_leases()
    }

    /// Whether every job has an id, and no id or body is kept of a job that is gone. For tests.
    pub fn keeps_data_of_its_jobs(&self) -> bool {
        self.store.jobs().has_data_of_each()
    }
}
