//! Three nodes over a Raft that is a list and a few rules: elections, lost leaders, truncated logs and crashes at
//! random. Every fact has a number of its own and an engine is the list of all it has applied, so that a state that
//! another node does not have is seen at once.

use crate::support::seeds::{Seen, for_each_seed};
use delayd::cluster::raft::member::{
    DecidedBatch, Delivery, Effect, EnginePosition, Lost, Member, Payload, Proposals, Role,
};
use delayd::ids::Index;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, VecDeque};

const NODES: usize = 3;

/// Facts, and the batch that they are.
type Proposal = (DecidedBatch, Vec<u64>);

#[derive(Clone, PartialEq, Debug)]
struct Entry {
    term: u64,
    /// None: a new leader's blank.
    facts: Option<Proposal>,
}

/// What the thread of Raft tells the turn.
#[derive(Clone, Debug)]
enum Event {
    Elected(u64),
    Followed,
    Refused(DecidedBatch),
    Deliver(usize),
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Ticket {
    Waiting,
    Released,
    /// Its client was told nothing.
    Lost,
}

struct Node {
    // Durable.
    term: u64,
    log: Vec<Entry>,
    // Raft's thread.
    leads: bool,
    commit: usize,
    acked: [usize; NODES],
    proposals: Proposals,
    handed: usize,
    events: VecDeque<Event>,
    outgoing: VecDeque<Proposal>,
    // The turn.
    member: Member,
    engine: Vec<u64>,
    waiting: VecDeque<usize>,
    tickets: BTreeMap<u64, (Ticket, Vec<u64>)>,
    next_ticket: u64,
}

struct World {
    rng: SmallRng,
    nodes: Vec<Node>,
    /// What a majority has, for good.
    committed: Vec<Entry>,
    /// Who has decided in an epoch.
    deciders: BTreeMap<u64, usize>,
    next_fact: u64,
    seen: Seen,
}

/// The facts of a log, in their order.
fn replay(log: &[Entry]) -> Vec<u64> {
    log.iter()
        .filter_map(|entry| entry.facts.as_ref())
        .flat_map(|(_, facts)| facts.clone())
        .collect()
}

/// Where an engine is that has applied these entries.
fn position(log: &[Entry]) -> EnginePosition {
    EnginePosition {
        index: Index(log.len() as u64),
        epoch: log.last().map_or(0, |entry| entry.term),
        first: replay(log).len() as u64 + 1,
    }
}

impl World {
    fn new(seed: u64) -> World {
        let node = || Node {
            term: 0,
            log: Vec::new(),
            leads: false,
            commit: 0,
            acked: [0; NODES],
            proposals: Proposals::default(),
            handed: 0,
            events: VecDeque::new(),
            outgoing: VecDeque::new(),
            member: Member::new(position(&[])),
            engine: Vec::new(),
            waiting: VecDeque::new(),
            tickets: BTreeMap::new(),
            next_ticket: 1,
        };
        World {
            rng: SmallRng::seed_from_u64(seed),
            nodes: (0..NODES).map(|_| node()).collect(),
            committed: Vec::new(),
            deciders: BTreeMap::new(),
            next_fact: 1,
            seen: Seen::default(),
        }
    }

    fn step(&mut self) {
        let at = self.rng.random_range(0..NODES);
        let to = (at + self.rng.random_range(1..NODES)) % NODES;
        match self.rng.random_range(0..100) {
            0..4 => self.elect(at),
            4..6 => self.step_down(at),
            6..30 => self.propose(at),
            30..45 => self.admit(at),
            45..65 => {
                let most = self.rng.random_range(0..=self.nodes[at].log.len());
                self.replicate(at, to, most);
            }
            65..75 => self.hand(at),
            75..95 => (0..self.rng.random_range(1..4)).for_each(|_| self.turn(at)),
            95..99 => self.load(at),
            _ => self.crash(at),
        }
    }

    // Raft.

    fn elect(&mut self, at: usize) {
        let is_behind = |node: &Node, other: &Node| {
            let place =
                |node: &Node| (node.log.last().map_or(0, |entry| entry.term), node.log.len());
            place(node) < place(other)
        };
        let voters: Vec<usize> = (0..NODES)
            .filter(|v| *v == at || !is_behind(&self.nodes[at], &self.nodes[*v]))
            .filter(|v| *v == at || self.rng.random_bool(0.8))
            .collect();
        if voters.len() <= NODES / 2 {
            return;
        }
        let term = voters.iter().map(|v| self.nodes[*v].term).max().expect("itself") + 1;
        for voter in voters {
            self.follow(voter, term);
        }
        let node = &mut self.nodes[at];
        node.log.push(Entry { term, facts: None });
        (node.leads, node.acked) = (true, [0; NODES]);
        node.events.push_back(Event::Elected(term));
        self.seen.note("elected");
    }

    fn follow(&mut self, at: usize, term: u64) {
        self.nodes[at].term = term;
        self.step_down(at);
    }

    fn step_down(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        if std::mem::take(&mut node.leads) {
            node.events.push_back(Event::Followed);
        }
    }

    /// Sends `most` entries from the beginning, and hears of it.
    fn replicate(&mut self, from: usize, to: usize, most: usize) {
        let (term, leads) = (self.nodes[from].term, self.nodes[from].leads);
        if !leads {
            return;
        }
        if self.nodes[to].term > term {
            return self.follow(from, self.nodes[to].term);
        }
        if self.nodes[to].term < term {
            self.follow(to, term);
        }
        let (entries, commit) = (self.nodes[from].log[..most].to_vec(), self.nodes[from].commit);
        let node = &mut self.nodes[to];
        for (at, entry) in entries.into_iter().enumerate() {
            if node.log.get(at) != Some(&entry) {
                assert!(at >= node.commit, "a committed entry is cut");
                node.log.truncate(at);
                node.log.push(entry);
            }
        }
        node.commit = node.commit.max(commit.min(most));
        let node = &mut self.nodes[from];
        node.acked[to] = node.acked[to].max(most);
        node.acked[from] = node.log.len();
        let mut acked = node.acked;
        acked.sort_unstable();
        let majority = acked[NODES / 2];
        if majority > node.commit && node.log[majority - 1].term == term {
            node.commit = majority;
        }
        let log = &node.log[..node.commit];
        let common = self.committed.len().min(log.len());
        assert_eq!(self.committed[..common], log[..common], "two logs were committed");
        if log.len() > common {
            self.committed = log.to_vec();
        }
    }

    /// A committed entry goes to the turn.
    fn hand(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        while node.handed < node.commit {
            node.handed += 1;
            node.events.push_back(Event::Deliver(node.handed));
        }
    }

    /// Proposals enter the log, several as one entry.
    fn admit(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        let mut merged: Option<Proposal> = None;
        for _ in 0..self.rng.random_range(1..4) {
            let Some((batch, facts)) = node.outgoing.pop_front() else { break };
            let raft_refuses = self.rng.random_bool(0.02);
            if !node.proposals.admits(batch, node.leads.then_some(node.term)) || raft_refuses {
                node.proposals.refuse(batch);
                node.events.push_back(Event::Refused(batch));
                self.seen.note("refused");
                continue;
            }
            match &mut merged {
                Some((all, all_facts)) => {
                    all.count += batch.count;
                    all_facts.extend(facts);
                    self.seen.note("merged");
                }
                None => merged = Some((batch, facts)),
            }
        }
        if merged.is_some() {
            node.log.push(Entry { term: node.term, facts: merged });
        }
    }

    // The turn.

    fn propose(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        let Role::Leader { epoch } = node.member.role() else { return };
        assert_eq!(*self.deciders.entry(epoch).or_insert(at), at, "two decide in epoch {epoch}");
        let count = self.rng.random_range(1..4);
        let facts: Vec<u64> = (self.next_fact..).take(count).collect();
        self.next_fact += count as u64;
        let first = node.engine.len() as u64 + 1;
        node.engine.extend(&facts);
        let ticket = node.next_ticket;
        node.next_ticket += self.rng.random_range(1..3);
        let batch = node.member.propose(count as u64, ticket);
        assert_eq!((batch.epoch, batch.first), (epoch, first));
        node.tickets.insert(ticket, (Ticket::Waiting, facts.clone()));
        node.outgoing.push_back((batch, facts));
    }

    fn turn(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        let Some(event) = node.events.pop_front() else { return };
        match event {
            Event::Elected(term) => {
                if node.member.elected(term) {
                    self.seen.note("leads when it is told");
                    self.leads(at);
                }
            }
            Event::Followed => {
                if !node.member.is_committed() {
                    self.seen.note("deposed ahead of the commit");
                }
                node.member.followed(None);
            }
            Event::Refused(batch) => {
                if let Some(lost) = node.member.refused(batch) {
                    self.seen.note("reload for a refusal");
                    self.reload(at, lost);
                }
            }
            Event::Deliver(index) => self.deliver(at, index),
        }
        if self.nodes[at].member.must_resign() && self.rng.random_bool(0.3) {
            self.step_down(at);
        }
    }

    fn deliver(&mut self, at: usize, index: usize) {
        let entry = self.committed[index - 1].clone();
        let payload =
            entry.facts.as_ref().map_or(Payload::Blank, |(batch, _)| Payload::Facts(*batch));
        let delivery = Delivery { index: Index(index as u64), epoch: entry.term, payload };
        let node = &mut self.nodes[at];
        match node.member.deliver(&delivery) {
            Effect::Old => self.seen.note("old"),
            Effect::Passed => {}
            Effect::Apply => {
                let (batch, facts) = entry.facts.expect("facts are applied");
                assert_eq!(batch.first, node.engine.len() as u64 + 1);
                node.engine.extend(facts);
            }
            Effect::Confirmed { ticket } => self.confirmed(at, index, ticket),
            Effect::Leads { epoch } => {
                assert_eq!(epoch, entry.term);
                self.leads(at);
            }
            Effect::Reload(lost) => {
                self.seen.note("reload");
                node.waiting.push_back(index);
                self.reload(at, lost);
            }
            Effect::Wait => node.waiting.push_back(index),
        }
        self.audit(at);
    }

    fn confirmed(&mut self, at: usize, index: usize, ticket: u64) {
        let facts = replay(&self.committed[..index]);
        let node = &mut self.nodes[at];
        assert_eq!(node.engine[..facts.len()], facts, "what was confirmed is not what was decided");
        assert_eq!(node.tickets[&ticket].1.last(), facts.last(), "ticket {ticket} is not the last");
        for (state, own) in node.tickets.range_mut(..=ticket).map(|(_, ticket)| ticket) {
            if *state == Ticket::Waiting {
                assert!(own.iter().all(|fact| facts.contains(fact)), "told and not committed");
                *state = Ticket::Released;
            }
        }
        let leads = matches!(node.member.role(), Role::Leader { .. });
        self.seen.note(if leads { "confirmed" } else { "confirmed after it was deposed" });
    }

    fn leads(&mut self, at: usize) {
        let node = &self.nodes[at];
        assert!(matches!(node.member.role(), Role::Leader { .. }));
        let known = &self.committed[..node.member.position().index.0 as usize];
        assert_eq!(
            node.engine,
            replay(known),
            "it leads with another state than what is committed"
        );
    }

    /// Every ticket that waits is lost, and no other.
    fn reload(&mut self, at: usize, lost: Lost) {
        let node = &mut self.nodes[at];
        assert_eq!(node.member.role(), Role::Loading);
        let mut waiting: Vec<u64> = Vec::new();
        for (ticket, (state, _)) in &mut node.tickets {
            if *state == Ticket::Waiting {
                *state = Ticket::Lost;
                waiting.push(*ticket);
            }
        }
        assert_eq!(waiting.first(), Some(lost.tickets.start()));
        assert_eq!(waiting.last(), Some(lost.tickets.end()));
        node.engine.clear();
    }

    /// The loader is done, with anything up to what was handed over.
    fn load(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        if node.member.role() != Role::Loading {
            return;
        }
        let least = node.member.position().index.0 as usize;
        let index = self.rng.random_range(least..=node.handed.max(least));
        let log = &self.committed[..index];
        node.engine = replay(log);
        if node.member.loaded(position(log)) {
            self.seen.note("leads when it is loaded");
            self.leads(at);
        }
        let node = &mut self.nodes[at];
        for index in std::mem::take(&mut node.waiting) {
            self.deliver(at, index);
        }
        self.audit(at);
    }

    fn audit(&self, at: usize) {
        let node = &self.nodes[at];
        if node.member.is_committed() {
            let log = &self.committed[..node.member.position().index.0 as usize];
            assert_eq!(node.member.position(), position(log));
            assert_eq!(node.engine, replay(log), "node {at} shows what is not committed");
        }
    }

    fn crash(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        let known = self.rng.random_range(0..=node.commit);
        node.leads = false;
        (node.commit, node.handed) = (known, known);
        node.proposals = Proposals::default();
        node.events.clear();
        node.outgoing.clear();
        node.waiting.clear();
        node.tickets.values_mut().filter(|(state, _)| *state == Ticket::Waiting).for_each(
            |ticket| {
                ticket.0 = Ticket::Lost;
            },
        );
        let log = &self.committed[..known];
        if self.rng.random_bool(0.5) {
            node.member = Member::new(position(log));
            node.engine = replay(log);
        } else {
            node.member = Member::loading();
            node.engine.clear();
            node.handed = 0;
        }
        self.seen.note("crashed");
    }

    /// All is well again: one leader, everything arrives.
    fn heal(&mut self) {
        for _ in 0..20 {
            for at in 0..NODES {
                self.load(at);
                while !self.nodes[at].events.is_empty() {
                    self.turn(at);
                }
                self.load(at);
            }
            let resigns = |node: &Node| node.leads && node.member.must_resign();
            if let Some(at) = self.nodes.iter().position(resigns) {
                self.step_down(at);
            }
            if !self.nodes.iter().any(|node| node.leads) {
                let newest = |at: &usize| {
                    let log = &self.nodes[*at].log;
                    (log.last().map_or(0, |entry| entry.term), log.len())
                };
                let best = (0..NODES).max_by_key(newest).expect("three");
                self.elect(best);
            }
            for from in 0..NODES {
                while !self.nodes[from].outgoing.is_empty() {
                    self.admit(from);
                }
                for to in (0..NODES).filter(|to| *to != from).collect::<Vec<_>>() {
                    // Twice: what was committed by the first is told by the second.
                    for _ in 0..2 {
                        self.replicate(from, to, self.nodes[from].log.len());
                    }
                }
                self.hand(from);
            }
            (0..NODES).for_each(|at| self.hand(at));
        }
        let facts = replay(&self.committed);
        for (at, node) in self.nodes.iter().enumerate() {
            assert!(node.member.is_committed(), "node {at} neither kept its state nor reloads");
            assert_eq!(node.engine, facts, "node {at} has another state");
            for (ticket, (state, own)) in &node.tickets {
                assert_ne!(*state, Ticket::Waiting, "ticket {ticket} of node {at} was forgotten");
                let all = own.iter().all(|fact| facts.contains(fact));
                assert!(all || *state != Ticket::Released, "ticket {ticket} was told and is gone");
            }
        }
    }
}

#[test]
fn an_engine_is_kept_if_all_it_decided_was_committed_and_reloaded_else() {
    let seen = for_each_seed(3_000, |seed, seen| {
        let mut world = World::new(seed);
        (0..600).for_each(|_| world.step());
        world.heal();
        world.seen.add_to(seen);
    });
    seen.check(&[
        "elected",
        "leads when it is told",
        "leads when it is loaded",
        "deposed ahead of the commit",
        "confirmed",
        "confirmed after it was deposed",
        "reload",
        "reload for a refusal",
        "refused",
        "merged",
        "old",
        "crashed",
    ]);
}
