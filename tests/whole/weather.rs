//! What a seed does to its nodes: each has a character of its own, so that rare cases come up together.

use super::world::{MS, SECOND};
use crate::support::faults::{Kind, Rates};
use rand::Rng;
use rand::rngs::SmallRng;

#[derive(Clone, Debug)]
pub struct Weather {
    /// From one node to another, µs.
    pub delay: (u64, u64),
    /// What a frame is lost with, and its connection, millionths.
    pub loss: u32,
    /// How long syncs take, µs.
    pub sync_us: (u64, u64),
    /// What wall clocks are ahead, µs.
    pub offsets: Vec<i64>,
    /// How often each fault is.
    pub rates: Rates,
    /// A node whose wall clock is set wrong by an hour, and right again.
    pub liar: Option<usize>,
    /// Nodes are of this version or of the one before, drawn anew at each start. The one before knows of no other's clock.
    pub mixes: bool,
    /// Power fails with the process, percent.
    pub power: u32,
    /// From when on, and until when.
    pub begin: u64,
    pub end: u64,
    pub clients: usize,
    /// Between one request and the next, µs.
    pub think: u64,
}

/// What happens besides kills, pauses, cuts and slow disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    Stop,
    /// A turn takes long, while Raft goes on.
    Turn,
    /// Nodes make bases and give up their logs before them: whoever lacks that needs a base.
    Base,
    /// A node loses its disk.
    Replace,
    /// Somebody sets a wall clock.
    Clock,
    /// No fault: whoever leads asks the others whether they hold the same.
    Verify,
    /// Whoever leads is cut off: some time after a turn that takes long has begun.
    Overthrow,
}

impl Own {
    pub const ALL: [Own; 7] =
        [Own::Stop, Own::Turn, Own::Base, Own::Replace, Own::Clock, Own::Verify, Own::Overthrow];
}

impl Weather {
    pub fn new(nodes: usize, chance: &mut SmallRng) -> Weather {
        let pick = |chance: &mut SmallRng, from: &[u64]| from[chance.random_range(0..from.len())];
        let far = pick(chance, &[150, 300, 1_000, 5_000, 20_000]);
        let sync = pick(chance, &[100, 500, 2_000, 10_000]);
        let own = Own::ALL[..6].iter().map(|own| Kind::Own(*own as usize));
        let kinds: Vec<Kind> =
            [Kind::Kill, Kind::Pause, Kind::Cut, Kind::Cut, Kind::Slow, Kind::Hang]
                .into_iter()
                .chain(own)
                .collect();
        let loves = chance.random_range(0..kinds.len() * 2);
        let weight = |at: usize| match kinds[at] {
            _ if at == loves => 12,
            kind if kind == Kind::Own(Own::Base as usize) => 5,
            _ => 2,
        };
        let all: u64 = (0..kinds.len()).map(weight).sum();
        let each = pick(chance, &[200, 500, 1_000, 2_000, 4_000]) * MS;
        let rate = |at: usize| (kinds[at], each * all / weight(at));
        let rates = (0..kinds.len()).map(rate).collect();
        let is_early = chance.random_bool(0.15);
        let skew = [0, 20, 200][chance.random_range(0..3)] * MS as i64;
        let mixes = chance.random_bool(0.2);
        let liar = (!mixes && chance.random_bool(0.5)).then(|| chance.random_range(0..nodes));
        Weather {
            liar,
            mixes,
            delay: (50, far),
            loss: [0, 0, 100, 2_000][chance.random_range(0..4)],
            sync_us: (50, sync),
            offsets: (0..nodes).map(|_| chance.random_range(-skew..=skew)).collect(),
            rates,
            power: [0, 50, 100][chance.random_range(0..3)],
            begin: if is_early { 0 } else { SECOND },
            end: chance.random_range(6..12) * SECOND,
            clients: chance.random_range(4..10),
            think: pick(chance, &[2, 10, 40]) * MS,
        }
    }

    /// Between the clock that is most behind and the one most ahead, µs, while none lies.
    pub fn skew(&self) -> (i64, i64) {
        let least = *self.offsets.iter().min().expect("nodes");
        let most = *self.offsets.iter().max().expect("nodes");
        // Beyond what most say a clock is believed by 50 ms.
        let doubt = if self.liar.is_some() { 50 * MS as i64 } else { 0 };
        (least, most + doubt)
    }
}
