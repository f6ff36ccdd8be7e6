//! A node's share of a turn: what others have decided is applied; it begins to decide, or stops.
//!
//! ```text
//!  told by Raft, in order        what the turn does
//!  facts of another leader       the engine applies them, some thousand a turn
//!  elected, all before applied   the clock goes on behind the newest fact; `Led` is the first fact decided
//!  another leads, or nobody      nothing is decided; connections end
//!  own facts are lost            connections end; the engine is read again from base and log
//! ```

use crate::cluster::timing::freshness::as_of;
use crate::engine::{Applying, Engine, Lead};
use crate::limits::{
    APPLIED_STEPS_PER_TURN, FOLLOW_STEPS_PER_TURN, HAND_OVER_MS_EACH, MAKE_WAY_TIMES_E,
};
use crate::observe::cluster::ClusterView;
use crate::server::cluster::mailbox::Ask;
use crate::server::connection::common::HandOver;
use crate::server::durability::commit::replicated::{Heard, Replicated};
use crate::server::durability::loading::Reloaded;
use crate::server::durability::running::RunningJournal;
use crate::server::outbox::gate::TurnNo;
use crate::server::turn::Turns;
use crate::server::turn::demotion::standing_of;
use crate::session::NodeStanding;
use crate::time::Micros;
use std::io;
use std::sync::Arc;

impl Turns {
    /// Takes Raft's reports since the last turn. An error is a log that cannot be read again.
    pub(super) fn poll_cluster(&mut self) -> io::Result<()> {
        if self.core.durability.replicated().is_none() {
            return Ok(());
        }
        // Otherwise it would remain as a leader that answers no client. The others go on without it, and a start
        // recovers everything that can be proved.
        if let Some(cause) = self.core.durability.node_failure() {
            return Err(io::Error::other(format!("this node stops, the others go on: {cause}")));
        }
        // The consequences of connections closed since the last proposal were decided before.
        self.propose_leftovers();
        self.take_reloaded()?;
        self.node().listen();
        // After the messages: everything requested before is included by now.
        if let Some(running) = self.core.durability.running_mut() {
            running.hear_of_verifying();
        }
        self.follows = false;
        let mut budget = APPLIED_STEPS_PER_TURN;
        while self.go_on_applying(&mut budget) {
            if self.core.durability.running_mut().is_some_and(RunningJournal::holds_to_verify) {
                break;
            }
            match self.node().next() {
                None => break,
                Some(Heard::Apply(facts)) if self.core.engine.may_follow(facts.now) => {
                    let applying = Applying::new(facts.now);
                    self.node().applying = Some((facts, applying));
                }
                // It led, and its clock is ahead of the one that leads now.
                Some(Heard::Apply(_)) => {
                    self.node().discard();
                    self.reload()?;
                }
                Some(Heard::Founded { hash_seed }) => self.begin_with(hash_seed),
                Some(Heard::Leads { epoch }) => self.lead(epoch),
                Some(Heard::Deposed { unconfirmed }) => self.depose(unconfirmed),
                Some(Heard::Lost) => self.reload()?,
                Some(Heard::Restored { hash_seed }) => self.restore(hash_seed)?,
                // It is asked for until it is there: of one that is being written it may be enough.
                Some(Heard::BaseWanted) => {
                    let shown = &mut self.core.durability.shown;
                    shown.base_wanted |= !shown.is_base_in_progress();
                }
            }
        }
        if !self.node().decides() && !self.node().is_loading() {
            let now = self.core.clock.now;
            self.follows = self.core.engine.follow(now, FOLLOW_STEPS_PER_TURN);
        }
        self.stand_as_told();
        self.go_on_handing_over();
        let (turn, now) = (self.core.outputs.gate.turn, Micros(self.core.clock.timer.boot_us()));
        let has_room = self.core.durability.has_room();
        let priority = self.core.options.priority;
        let node = self.node();
        node.begin_turn(turn, now);
        node.tell_may_lead(has_room, priority);
        if let Some(why) = node.makes_way(now) {
            self.make_way(why);
        }
        Ok(())
    }

    /// Another node is to lead, whichever can.
    fn make_way(&mut self, why: &str) {
        if self.core.common.hand_over.is_none() {
            tracing::warn!("another node is asked to lead: {why}");
            self.begin_hand_over(None);
        }
    }

    /// This other node is to lead.
    pub(super) fn ask_to_lead(&mut self, node: u64, why: &str) {
        let named = self.core.view.iter().flat_map(|view| &view.nodes).find(|at| at.id == node);
        let name = named.map_or("another node", |at| at.name.as_str());
        tracing::info!("{name} is asked to lead: {why}");
        self.begin_hand_over(Some(node));
    }

    /// As FAILOVER does: what is decided meanwhile would be lost, and the engine read again.
    fn begin_hand_over(&mut self, to: Option<u64>) {
        let held_us = MAKE_WAY_TIMES_E * self.node().own.election_us;
        let mono_us = self.core.clock.mono_us;
        let until_us = mono_us + held_us;
        self.core.common.hand_over = Some(HandOver { to, until_us, ask_us: 0 });
        self.core.common.pauses.begin(held_us / 1_000, true, mono_us);
        self.core.set_flow();
    }

    /// Another node is to lead, if one can.
    pub(in crate::server) fn hand_over(&mut self) {
        self.node().mailbox.ask(Ask::HandOver(None));
    }

    /// The continuation of FAILOVER: when all decisions are committed, the other node is asked, and again if it was not
    /// elected. If it is not elected by then, this node continues to lead.
    fn go_on_handing_over(&mut self) {
        let Some(mut running) = self.core.common.hand_over else { return };
        let (mono_us, decides) = (self.core.clock.mono_us, self.node().decides());
        if !decides || mono_us >= running.until_us {
            if decides {
                tracing::warn!("no other node has taken over in time: this node goes on");
            }
            self.core.common.hand_over = None;
            self.core.common.pauses.end();
            self.core.set_flow();
        } else if mono_us >= running.ask_us {
            let is_committed = self.node().is_safe();
            let after_ms = if is_committed { HAND_OVER_MS_EACH } else { 1 };
            running.ask_us = mono_us + after_ms * 1_000;
            self.core.common.hand_over = Some(running);
            if is_committed {
                self.node().mailbox.ask(Ask::HandOver(running.to));
            }
        }
    }

    fn node(&mut self) -> &mut Replicated {
        self.core.durability.replicated().expect("what is called of a node alone")
    }

    /// Goes on with what another leader has decided, an entry after the other; whether the next one may begin. While
    /// one is half applied no request is read: what was decided together is seen together.
    fn go_on_applying(&mut self, budget: &mut u32) -> bool {
        let Some((facts, mut applying)) = self.node().applying.take() else { return *budget > 0 };
        let before = applying.applied();
        let (body, count) = (&facts.body, facts.count.into());
        let applied = self.core.engine.apply_slice(&mut applying, body, count, *budget);
        // A newer delayd's, or damage that no checksum shows: no state can be had from it.
        let is_whole = applied.unwrap_or_else(|error| panic!("facts of another node: {error}"));
        if !is_whole {
            self.node().applying = Some((facts, applying));
            return false;
        }
        *budget = budget.saturating_sub((applying.applied() - before) as u32);
        self.node().applied(applying.now());
        *budget > 0
    }

    /// The cluster was founded: ids are hashed with its key, so that a cursor of SCAN outlives its leader. There is
    /// no job yet.
    fn begin_with(&mut self, hash_seed: u64) {
        if self.core.engine.settings().hash_seed != hash_seed {
            let core = &mut self.core;
            core.durability.engine_gives_way(&mut core.engine, &core.clock);
            let settings = self.core.engine.settings().clone();
            let settings = crate::engine::Settings { hash_seed, ..settings };
            self.core.replace_engine(Engine::new(settings));
            self.core.reconfigure();
        }
    }

    /// All that was decided before is applied: from here on it is this node that decides. Leases that would have ended
    /// since the leader before was heard last are extended, so that their holders find this one.
    fn lead(&mut self, epoch: u64) {
        let Replicated { own, mailbox, .. } = self.node();
        let (node, grace_us, status) = (own.id, own.lease_grace_us, mailbox.status());
        let last = self.node().last();
        let heard = status.as_ref().and_then(|status| status.leader_heard);
        let before = self.core.engine.leading().level;
        let level = status.map_or(before.max(1), |status| status.level_after(before));
        let core = &mut self.core;
        core.clock.take_over(last, core.options.limits.clock_jump_us_max);
        let (now, boot_us) = (core.clock.now, core.clock.timer.boot_us());
        let silent_us = heard.map_or(u64::MAX, |heard| boot_us.saturating_sub(heard.0));
        // Before the first fact there was no lease: nothing may be extended, least of all from 1970 on.
        let (last, grace_us) = if last == Micros(0) { (now, 0) } else { (last, grace_us) };
        let from = Micros(now.0.saturating_sub(silent_us)).max(last).min(now);
        let to = Micros(now.0 + grace_us);
        let (engine, mut turn) = core.engine();
        engine.lead(now, &Lead { term: epoch, node, level, from, to }, &mut turn);
        tracing::info!(epoch, "this node leads");
        // They came from nodes that serve them: their options differ.
        if let Err(hidden) = self.core.check_databases() {
            tracing::warn!("{hidden}");
        }
        self.stand_as_told();
    }

    /// From here on nothing is decided. Reads of turns from `unconfirmed` on waited for a majority to confirm that this
    /// node led then. It never will: another one may have led, and changed what was read.
    fn depose(&mut self, unconfirmed: Option<TurnNo>) {
        tracing::info!("this node no longer leads");
        self.stand_as_told();
        if let Some(turn) = unconfirmed {
            self.close_those(|core, (slot, _)| core.outputs.newest_turn(slot) >= turn);
        }
        self.core.engine.unlead();
    }

    /// The engine has lost facts. Clients that wait for one get no answer: it may have been done, or not.
    fn reload(&mut self) -> io::Result<()> {
        tracing::warn!("this node's last decisions are lost: it reloads its jobs");
        let hash_seed = self.core.engine.settings().hash_seed;
        self.read_again(hash_seed)
    }

    /// A base that came from another node is in place.
    fn restore(&mut self, hash_seed: Option<u64>) -> io::Result<()> {
        let index = self.node().position().index.0;
        tracing::info!(index, "loading jobs from the received base");
        let own = self.core.engine.settings().hash_seed;
        self.read_again(hash_seed.unwrap_or(own))
    }

    fn read_again(&mut self, hash_seed: u64) -> io::Result<()> {
        self.stand_as_told();
        let released = self.core.outputs.gate.released();
        self.core.messages.drop_after(released);
        self.close_those(|core, (slot, _)| core.outputs.newest_turn(slot) > released);
        let core = &mut self.core;
        let settings = core.engine.settings().clone();
        let settings = crate::engine::Settings { hash_seed, ..settings };
        let gone = core.replace_engine(Engine::new(settings.clone()));
        core.facts.clear();
        core.durability.begin_reload(gone, settings, &core.clock)?;
        core.reconfigure();
        core.set_flow();
        Ok(())
    }

    fn take_reloaded(&mut self) -> io::Result<()> {
        let Some(reloaded) = self.core.durability.reloaded(&self.core.clock)? else {
            return Ok(());
        };
        let Reloaded { engine, position, last, .. } = *reloaded;
        self.core.replace_engine(engine);
        self.core.reconfigure();
        self.node().loaded(position, last);
        Ok(())
    }

    /// Updates this node's standing for its clients, and the state of the cluster. Raft reports every few ms; in
    /// between nothing is checked.
    fn stand_as_told(&mut self) {
        let node = self.node();
        let (role, is_committed) = (node.role(), node.is_committed());
        let Some(status) = node.mailbox.status() else { return self.stand(NodeStanding::Loading) };
        let base = self.core.durability.shown.base_index;
        let leading = self.core.engine.leading();
        let level = if leading.term > 0 { leading.level } else { status.level };
        self.core.durability.follow_status(&status);
        let verified = self.core.durability.verification();
        // It is kept, so that no other one is made at its address.
        if let Some((told, of_role, of_committed)) = &self.told
            && Arc::ptr_eq(told, &status)
            && (*of_role, *of_committed) == (role, is_committed)
            && let Some(view) = &self.core.view
            && (view.base, view.level) == (base, level)
            && view.verified.as_ref() == verified
        {
            return;
        }
        self.told = Some((Arc::clone(&status), role, is_committed));
        let skew_us = self.node().own.max_skew_us as i64;
        self.core.clock.cap = status.clock.map(|clock| clock.base.saturating_add(skew_us));
        let now = Micros(self.core.clock.timer.boot_us());
        let mut view = self.node().view(&status, now);
        // Raft hears of bases at a start alone: no node is sent one.
        view.base = base;
        view.level = level;
        view.verified = self.core.durability.verification().cloned();
        view.led = view.led.or_else(|| self.core.view.as_ref()?.led);
        view.leaderless_us = self.troubles.leaderless_us(self.core.clock.mono_us);
        view.stuck_us = self.stuck_us();
        let serves_stale = self.core.options.serves_stale;
        let standing = standing_of(role, is_committed, &view, serves_stale);
        view.leads = standing.leads();
        log_forming(self.core.view.as_deref(), &view);
        log_leaving(self.core.view.as_deref(), &view, self.core.siblings.is_some());
        self.core.show_cluster(Box::new(view));
        self.leave();
        self.stand(standing);
        self.core.tell_place();
    }

    /// A follower's data has become too old since the last check: this process stood still, perhaps in this turn, and
    /// the thread of Raft has reported nothing since. Call it after the turn's clock, before requests are run.
    pub(super) fn look_at_age(&mut self) {
        if !matches!(self.core.standing, NodeStanding::Following { reads: true, .. }) {
            return;
        }
        let now_us = self.core.clock.timer.boot_us();
        let Some(node) = self.core.durability.replicated() else { return };
        let applied = node.position().index.0;
        let (Some((status, ..)), Some(view)) = (&self.told, &self.core.view) else { return };
        let is_current = as_of(&status.fresh, applied).is_some_and(|at| view.is_young(now_us, at));
        if !is_current {
            // It is shown, too.
            self.told = None;
            self.stand_as_told();
        }
    }
}

/// The condition a cluster waits for, or the first thing to repair, when that has changed. Clients get the same text.
fn log_forming(before: Option<&ClusterView>, view: &ClusterView) {
    if before.is_none_or(|before| before.forming == view.forming) {
        return;
    }
    match (&view.forming, &view.conflict, view.cluster) {
        (Some(_), Some(conflict), _) => tracing::warn!("no cluster can be formed: {conflict}"),
        (Some(missing), None, _) => tracing::info!("the cluster is forming: {missing}"),
        (None, _, Some(cluster)) => {
            let node = &view.name;
            tracing::info!("{node} is a member of cluster {:032x}", cluster);
        }
        (None, _, None) => {}
    }
}

/// The removal of this node: afterwards no node sends it anything.
fn log_leaving(before: Option<&ClusterView>, view: &ClusterView, begins_anew: bool) {
    if view.has_left() && before.is_some_and(|before| !before.has_left()) {
        let node = &view.name;
        let what = if begins_anew { "it begins anew" } else { "stop it, and empty its folder" };
        tracing::warn!("{node} was removed from its cluster: {what}");
    }
}
