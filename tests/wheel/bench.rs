//! The benchmark's scenarios, run small: what is measured must also be right.

#[path = "../../benches/wheel/scenario.rs"]
mod scenario;

use scenario::{Contender, Input, Ours, Tokio};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

fn check<C: Contender>(input: &Input) {
    let mut contender = C::new();
    contender.insert_all(&input.dues);
    assert!(!contender.is_empty());
    assert_eq!(contender.expire_all(), input.checksum(), "{}", C::NAME);
    assert!(contender.is_empty());
    if C::CANCELS {
        let mut contender = C::new();
        contender.insert_all(&input.dues);
        contender.cancel_all(&input.dues, &input.order);
        assert!(contender.is_empty(), "{}", C::NAME);
    }
}

#[test]
fn all_contenders_agree() {
    let input = Input::uniform(3000);
    check::<Ours>(&input);
    check::<Tokio>(&input);
    check::<BinaryHeap<Reverse<(u64, u32)>>>(&input);
    check::<BTreeMap<(u64, u32), u64>>(&input);
    let mut ours = Ours::new();
    ours.insert_shuffled(&input.dues, &input.order);
    assert_eq!(ours.expire_by_wakeups(), input.checksum());
    // 2 levels down for a day in levels of 256, at most 3, and 1 to take each.
    assert!(scenario::herd(3000).len() <= 14);
}
