//! Which nodes should have which partitions: each partition on as many as wanted, each node with about as many as the
//! others, and as few moved as that takes.

use crate::cluster::members::names::Name;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The nodes of each partition, in the order of the partitions.
pub type Placement = Vec<BTreeSet<Name>>;

/// A node that gets a replica of a partition, and one whose replica goes afterwards.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Move {
    pub partition: usize,
    pub to: Option<Name>,
    pub from: Option<Name>,
}

/// Where the replicas should be that are at `now`. Nodes that are not in `nodes` give up theirs. Loads differ by one at
/// most in the end: while one node has two more than another, it has a partition that the other lacks, which moves; that
/// makes the sum of squares less each time.
///
/// # Panics
/// Without nodes.
pub fn target(now: &[BTreeSet<Name>], nodes: &BTreeSet<Name>, replicas: usize) -> Placement {
    let replicas = replicas.min(nodes.len());
    let mut placed = Placed::of(now, nodes);
    for partition in 0..now.len() {
        while placed.partitions[partition].len() > replicas {
            let most = placed.most(partition);
            placed.take(partition, &most);
        }
        while placed.partitions[partition].len() < replicas {
            let least = placed.least(partition);
            placed.give(partition, least);
        }
    }
    while let Some((partition, from, to)) = placed.uneven() {
        placed.take(partition, &from);
        placed.give(partition, to);
    }
    placed.partitions
}

/// From one placement to the other, one replica after the other. Whatever a partition is to have more than it has comes
/// first, and each replica that goes leaves as many as it is to have in the end.
pub fn moves(now: &[BTreeSet<Name>], then: &[BTreeSet<Name>]) -> Vec<Move> {
    let of = |(partition, (now, then)): (usize, (&BTreeSet<Name>, &BTreeSet<Name>))| {
        let (mut to, mut from) = (then.difference(now), now.difference(then));
        let more = then.len().saturating_sub(now.len());
        let count = more + now.difference(then).count();
        let moves = (0..count).map(|at| Move {
            partition,
            to: to.next().cloned(),
            from: if at < more { None } else { from.next().cloned() },
        });
        moves.collect::<Vec<_>>()
    };
    now.iter().zip(then).enumerate().flat_map(of).collect()
}

struct Placed {
    partitions: Placement,
    /// How many partitions each node has.
    loads: BTreeMap<Name, usize>,
}

impl Placed {
    fn of(now: &[BTreeSet<Name>], nodes: &BTreeSet<Name>) -> Placed {
        let partitions: Placement = now.iter().map(|own| own & nodes).collect();
        let load = |node: &Name| partitions.iter().filter(|own| own.contains(node)).count();
        let loads = nodes.iter().map(|node| (node.clone(), load(node))).collect();
        Placed { partitions, loads }
    }

    fn give(&mut self, partition: usize, to: Name) {
        *self.loads.get_mut(&to).expect("one of the nodes") += 1;
        self.partitions[partition].insert(to);
    }

    fn take(&mut self, partition: usize, from: &Name) {
        *self.loads.get_mut(from).expect("one of the nodes") -= 1;
        self.partitions[partition].remove(from);
    }

    /// The node of the partition that has most.
    fn most(&self, partition: usize) -> Name {
        let own = self.partitions[partition].iter();
        own.max_by_key(|node| (self.loads[*node], rank(partition, node))).expect("some").clone()
    }

    /// The node without the partition that has least.
    fn least(&self, partition: usize) -> Name {
        let others =
            self.loads.iter().filter(|(node, _)| !self.partitions[partition].contains(*node));
        let least = others.min_by_key(|(node, load)| (**load, rank(partition, node)));
        least.expect("fewer replicas than nodes").0.clone()
    }

    /// A partition of the node with most, for the one with least, if they are two apart.
    fn uneven(&self) -> Option<(usize, Name, Name)> {
        let (from, most) = self.loads.iter().max_by_key(|(_, load)| **load)?;
        let (to, least) = self.loads.iter().min_by_key(|(_, load)| **load)?;
        let is_movable = |own: &BTreeSet<Name>| own.contains(from) && !own.contains(to);
        let movable = (0..self.partitions.len()).filter(|at| is_movable(&self.partitions[*at]));
        let partition = movable.min_by_key(|at| rank(*at, to)).filter(|_| *most > least + 1)?;
        Some((partition, from.clone(), to.clone()))
    }
}

/// Decides between equals, for each partition in another way: otherwise the same nodes would go together always, and the
/// partitions of one that fails would all be led by the same others. The same in each run.
fn rank(partition: usize, node: &Name) -> u64 {
    let mut hasher = DefaultHasher::new();
    (partition, node.as_str()).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::seq::IndexedRandom;
    use rand::{Rng, SeedableRng};

    fn node(number: usize) -> Name {
        Name::new(&format!("n{number}")).unwrap()
    }

    fn loads(placement: &Placement, nodes: &BTreeSet<Name>) -> Vec<usize> {
        let load = |node: &Name| placement.iter().filter(|own| own.contains(node)).count();
        nodes.iter().map(load).collect()
    }

    /// From any placement, also one that a run was interrupted in.
    #[test]
    fn replicas_end_even_and_no_partition_ever_has_fewer() {
        for seed in 0..500 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let count = 1 << rng.random_range(0..5);
            let all: Vec<Name> = (1..=9).map(node).collect();
            let size = rng.random_range(1..=9);
            let nodes: BTreeSet<Name> = all.choose_multiple(&mut rng, size).cloned().collect();
            let some = |rng: &mut SmallRng| {
                let size = rng.random_range(1..=4);
                all.choose_multiple(rng, size).cloned().collect::<BTreeSet<Name>>()
            };
            let mut now: Placement = (0..count).map(|_| some(&mut rng)).collect();
            let then = target(&now, &nodes, 3);
            assert!(
                then.iter().all(|own| own.len() == 3.min(nodes.len())),
                "seed {seed}: {then:?}"
            );
            assert!(then.iter().all(|own| own.is_subset(&nodes)), "seed {seed}: {then:?}");
            let loads = loads(&then, &nodes);
            let (least, most) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
            assert!(most - least <= 1, "seed {seed}: {loads:?}");
            for Move { partition, to, from } in moves(&now, &then) {
                now[partition].extend(to);
                now[partition].retain(|node| Some(node) != from.as_ref());
                let left = now[partition].len();
                assert!(from.is_none() || left >= then[partition].len(), "seed {seed}");
            }
            assert_eq!(now, then, "seed {seed}");
            assert_eq!(target(&then, &nodes, 3), then, "seed {seed}: nothing is left to do");
        }
    }

    /// 8 partitions of three nodes, and a fourth: 24 replicas, 6 for each, so 6 move.
    #[test]
    fn no_more_moves_than_it_takes() {
        let three: BTreeSet<Name> = (1..=3).map(node).collect();
        let four: BTreeSet<Name> = (1..=4).map(node).collect();
        let now: Placement = vec![three.clone(); 8];
        assert_eq!(moves(&now, &target(&now, &three, 3)), []);
        let then = target(&now, &four, 3);
        assert_eq!((moves(&now, &then).len(), loads(&then, &four)), (6, vec![6; 4]));
        // And back, when the fourth is to go.
        assert_eq!(moves(&then, &target(&then, &three, 3)).len(), 6);
    }
}
