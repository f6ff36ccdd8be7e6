//! The timing wheel against its model, and by name the traps that such wheels fall into.

mod bench;
mod lists;
mod model;

use delayd::time::Millis;
use delayd::wheel::{Peek, Timers, Wheel};
use model::{Pair, each_seed};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// A moment of our time: 2025 in milliseconds, in the middle of its slots on all levels.
const NOW: u64 = 0x195_8a7c_b3d1;

/// A due time: mostly some delay of up to 2^36 ms, else at or beside a border of slots.
fn draw_due(rng: &mut SmallRng, now: u64, bits_max: u32) -> u64 {
    match rng.random_range(0..16) {
        0 => now.saturating_sub(rng.random_range(0..1000)),
        1 => {
            let border = 1u64
                << *[8, 16, 24, 31, 32, 40, 41, 48, 56, 63].get(rng.random_range(0..10)).unwrap();
            let border = (now / border).saturating_add(1).saturating_mul(border);
            border.saturating_add(rng.random_range(0..3)).saturating_sub(1)
        }
        2 => u64::MAX - rng.random_range(0..3) * rng.random_range(0..300),
        3..6 => now.saturating_add(rng.random_range(0..4)),
        _ => {
            let bits = rng.random_range(0..=bits_max);
            now.saturating_add(rng.random_range(0..1u64 << bits))
        }
    }
}

/// A run of random operations. Each run switches some off and draws its own sizes, so that
/// crowds, herds and long silences all occur.
fn random_run(rng: &mut SmallRng) {
    let queues = *[1, 1, 2, 5, 40].get(rng.random_range(0..5)).unwrap();
    let start =
        *[0, NOW, NOW | 0xffff, 1 << 41, u64::MAX - 5000].get(rng.random_range(0..5)).unwrap();
    let mut pair = Pair::new(queues, start);
    let weights: [u32; 8] = std::array::from_fn(|_| match rng.random_range(0..4) {
        0 => 0,
        _ => rng.random_range(1..10),
    });
    let weights = [
        weights[0] + 5,
        weights[1],
        weights[2],
        weights[3] + 1,
        weights[4],
        weights[5],
        weights[6],
        weights[7],
    ];
    let bits_max = rng.random_range(1..=36);
    let keys = *[20u32, 60, 300, 2000].get(rng.random_range(0..4)).unwrap();
    let slice_max = *[1, 2, 30, 1000].get(rng.random_range(0..4)).unwrap();
    for _ in 0..rng.random_range(50..1500) {
        let queue = rng.random_range(0..queues);
        let slice = rng.random_range(1..=slice_max);
        let mut pick = rng.random_range(0..weights.iter().sum::<u32>());
        let operation = weights.iter().position(|&weight| {
            let here = pick < weight;
            pick = pick.saturating_sub(weight);
            here
        });
        match operation.unwrap() {
            0 => {
                // Some at once, so that they outnumber the removals, and some of the same time.
                let due = draw_due(rng, pair.now, bits_max);
                for _ in 0..rng.random_range(1..8) {
                    let key = rng.random_range(0..keys);
                    if !pair.is_armed(key) {
                        let other = draw_due(rng, pair.now, bits_max);
                        pair.insert(queue, key, if rng.random() { due } else { other });
                    }
                }
            }
            1 => {
                let key = pair.any(rng).unwrap_or(0);
                pair.cancel(key);
            }
            2 => {
                if let Some(key) = pair.any(rng) {
                    pair.cancel(key);
                    pair.insert(queue, key, draw_due(rng, pair.now, bits_max));
                }
            }
            3 => {
                let bits = rng.random_range(0..=bits_max);
                pair.now = pair.now.saturating_add(rng.random_range(0..1u64 << bits));
                let max = rng.random_range(0..2 * keys as usize);
                pair.drain(queue, slice, max);
            }
            4 => {
                // One slice and no more, perhaps of a jump; the clock may also have been set back.
                if rng.random() {
                    let bits = rng.random_range(0..=bits_max);
                    pair.now = pair.now.saturating_add(rng.random_range(0..1u64 << bits));
                } else if rng.random_range(0..8) == 0 {
                    pair.now = pair.now.saturating_sub(rng.random_range(0..1000));
                }
                let mut budget = slice;
                if let Peek::Due(key) = pair.peek(queue, &mut budget)
                    && rng.random()
                {
                    pair.cancel(key);
                }
            }
            5 => {
                let count = rng.random_range(0..keys as usize);
                match rng.random_range(0..4) {
                    0 => pair.open_ahead(queue, count, slice),
                    1 => pair.open_slice(queue, count, slice),
                    2 => pair.pass(queue),
                    _ => pair.open_next(queue, slice),
                }
            }
            6 => {
                // Straight to the wake-up, as the server does.
                if let Some(at) = pair.wheel(queue).next_wakeup(&pair.timers) {
                    pair.now = pair.now.max(at.0);
                    pair.drain(queue, slice, usize::MAX);
                }
            }
            _ => {
                if rng.random_range(0..20) == 0 {
                    pair.clear_slice(queue, slice);
                }
            }
        }
        pair.check_wakeup(queue);
        if rng.random_range(0..16) == 0 {
            pair.check_iter(queue);
        }
    }
    if rng.random() {
        pair.now = u64::MAX;
        for queue in 0..queues {
            pair.drain(queue, slice_max, usize::MAX);
        }
        assert_eq!(pair.len(), 0);
        assert!(pair.timers.has_no_slots());
    } else {
        pair.clear();
    }
}

#[test]
fn random_runs_agree_with_the_model() {
    each_seed(400, random_run);
}

#[test]
fn every_magnitude_and_border_comes_on_time_and_in_order() {
    for start in [0, 1, 255, 256, NOW, (1 << 31) - 1, 1 << 32, (1 << 41) - 1, 1 << 56] {
        let mut pair = Pair::new(1, start);
        let mut dues: Vec<u64> = vec![u64::MAX, u64::MAX - 1, u64::MAX - 255, u64::MAX - 256];
        for bit in (0..64).filter(|bit| bit % 8 == 0 || [31, 41, 63].contains(bit)) {
            let border = 1u64 << bit;
            dues.extend([border - 1, border, border + 1]);
            dues.extend([border - 1, border, border + 1].map(|delay| start.saturating_add(delay)));
        }
        dues.extend((0..36).map(|bit| start + (1u64 << bit)));
        let twice: Vec<u64> = dues.iter().chain(dues.iter().rev()).copied().collect();
        for (key, &due) in twice.iter().enumerate() {
            pair.insert(0, key as u32, due);
        }
        // From wake-up to wake-up; each gets at least a level further towards the first timer.
        let mut idle = 0;
        while let Some(at) = pair.wheel(0).next_wakeup(&pair.timers) {
            pair.check_wakeup(0);
            pair.now = pair.now.max(at.0);
            idle = if pair.drain(0, 1, usize::MAX) == 0 { idle + 1 } else { 0 };
            assert!(idle <= 8);
        }
        assert_eq!((pair.len(), pair.now), (0, u64::MAX));
    }
}

#[test]
fn a_jump_over_empty_time_takes_a_step_per_level() {
    for bit in 0..63 {
        let mut pair = Pair::new(1, NOW);
        // Enough of them for levels, all at one time far away.
        for key in 0..100 {
            pair.insert(0, key, NOW + (1 << bit));
        }
        pair.now += 1 << bit;
        let mut budget = 100 * 8 + 8;
        assert_eq!(pair.peek(0, &mut budget), Peek::Due(0));
        assert_eq!(pair.drain(0, 1, usize::MAX), 100);
        pair.now = u64::MAX;
        assert_eq!(pair.peek(0, &mut 0), Peek::Empty, "empty time costs nothing");
        assert_eq!(pair.wheel(0).cursor(), Millis(u64::MAX));
    }
}

#[test]
fn the_wake_up_is_exact_within_level_0() {
    let mut pair = Pair::new(1, NOW & !0xff);
    for key in 0..100 {
        pair.insert(0, key, pair.now + 50 + u64::from(key));
    }
    assert_eq!(pair.wheel(0).next_wakeup(&pair.timers), Some(Millis(pair.now + 50)));
    let mut pair = Pair::new(1, NOW & !0xff);
    for key in 0..100 {
        pair.insert(0, key, pair.now + 256 + 50);
    }
    assert_eq!(pair.wheel(0).next_wakeup(&pair.timers), Some(Millis(pair.now + 256)));
    pair.open_ahead(0, 1, 100);
    assert_eq!(pair.wheel(0).next_wakeup(&pair.timers), Some(Millis(pair.now + 256 + 50)));
}

/// A wheel whose cursor has entered a slot with 1000 timers, 4 for each of 250 times that are `step`
/// apart, and moved `moved` of them down. The slot is on level 1 for a step of 1, on level 2 for 200.
fn half_opened(step: u64, moved: u32) -> Pair {
    let mut pair = Pair::new(1, NOW & !0xffff);
    let start = pair.now + if step == 1 { 0x100 } else { 0x10000 };
    for key in 0..1000 {
        pair.insert(0, key, start + u64::from(key % 250) * step);
    }
    pair.now = start + 0xffff;
    // The step into the slot costs one.
    assert_eq!(pair.peek(0, &mut (moved + 1)), Peek::More);
    assert_eq!(pair.wheel(0).cursor(), Millis(start));
    pair
}

const HALVES: [(u64, u32); 12] = [
    (1, 1),
    (1, 27),
    (1, 26),
    (1, 29),
    (1, 500),
    (1, 999),
    (200, 1),
    (200, 27),
    (200, 500),
    (200, 999),
    (200, 1000),
    (200, 1001),
];

#[test]
fn a_cancel_in_a_half_opened_slot_finds_both_halves() {
    for (step, moved) in HALVES {
        let mut pair = half_opened(step, moved);
        pair.check_iter(0);
        for key in (0..1000).step_by(3) {
            pair.cancel(key);
            pair.check_wakeup(0);
        }
        assert_eq!(pair.drain(0, 7, usize::MAX), 666);
        // All that has moved, or all that has not: the rest goes on.
        let moved = moved.min(1000);
        let mut pair = half_opened(step, moved);
        (0..moved).for_each(|key| pair.cancel(key));
        assert_eq!(pair.drain(0, 7, usize::MAX), 1000 - moved as usize);
        let mut pair = half_opened(step, moved);
        (moved..1000).for_each(|key| pair.cancel(key));
        pair.check_wakeup(0);
        assert_eq!(pair.drain(0, 7, usize::MAX), moved as usize);
    }
}

#[test]
fn an_insert_into_a_slot_being_opened_goes_behind_what_is_to_move() {
    for (step, moved) in HALVES {
        let mut pair = half_opened(step, moved);
        let start = pair.wheel(0).cursor().0;
        for key in 1000..2000 {
            // The same times as those moved and those not, the cursor's own, past ones, and later.
            let due = match key % 4 {
                0 => start + u64::from(key % 250) * step,
                1 => start,
                2 => start - 5,
                _ => start + 0x10000,
            };
            pair.insert(0, key, due);
            if key % 100 == 0 {
                pair.peek(0, &mut 1);
            }
        }
        pair.check_wakeup(0);
        pair.check_iter(0);
        assert_eq!(pair.drain(0, 3, usize::MAX), 1750);
        pair.now += 1;
        assert_eq!(pair.drain(0, 3, usize::MAX), 250);
    }
}

#[test]
fn an_insert_due_in_the_slot_being_drained_comes_last() {
    let mut pair = Pair::new(1, NOW);
    (0..100).for_each(|key| pair.insert(0, key, NOW + 5));
    pair.now = NOW + 9;
    assert_eq!(pair.drain(0, 10, 50), 50);
    assert_eq!(pair.wheel(0).cursor(), Millis(NOW + 5));
    pair.insert(0, 100, NOW + 5);
    pair.insert(0, 101, NOW + 4);
    pair.insert(0, 102, NOW + 6);
    (0..50).for_each(|key| pair.insert(0, key, NOW + 5));
    assert_eq!(pair.drain(0, 10, usize::MAX), 103);
}

#[test]
fn a_jump_while_a_slot_is_being_opened_waits_for_it() {
    for (step, moved) in HALVES {
        let mut pair = half_opened(step, moved);
        let start = pair.wheel(0).cursor();
        (1000..1100).for_each(|key| pair.insert(0, key, start.0 + 0x100_0000));
        pair.now += 0x1_0000_0000;
        assert_eq!(pair.peek(0, &mut 0), Peek::More);
        assert_eq!(pair.wheel(0).cursor(), start, "the cursor stands while a slot is opened");
        assert_eq!(pair.wheel(0).next_wakeup(&pair.timers), Some(start));
        assert_eq!(pair.drain(0, 1, usize::MAX), 1100);
    }
}

/// Jobs that arrive all the time for about two minutes ahead, at least 20 for each ms: slots of 65 s hold a
/// million. Whoever opens them when he is told to has little to move when they come.
#[test]
fn slots_that_are_opened_in_time_cost_little_when_their_time_comes() {
    let (mut timers, mut wheel) = (Timers::default(), Wheel::default());
    let mut rng = SmallRng::seed_from_u64(9);
    let (mut key, mut free, mut opening) = (0, Vec::new(), None::<u64>);
    let (mut worst, mut taken) = (0, 0);
    wheel.pass(&timers, Millis(NOW));
    for now in NOW..NOW + 400_000 {
        for _ in 0..20 {
            let due = Millis(now + rng.random_range(1..130_000));
            let fresh = free.pop().unwrap_or_else(|| {
                key += 1;
                key
            });
            let told = wheel.insert(&mut timers, fresh, due).map(|at| at.0);
            opening = opening.into_iter().chain(told).min();
        }
        let mut moved = 0;
        loop {
            let mut budget = u32::MAX;
            let peek = wheel.peek(&mut timers, Millis(now), &mut budget);
            moved += u32::MAX - budget;
            let Peek::Due(key) = peek else { break };
            wheel.take(&mut timers, key);
            (taken, free) = (taken + 1, {
                free.push(key);
                free
            });
        }
        worst = worst.max(moved);
        if opening.is_some_and(|at| at <= now) {
            // As many in a ms as the engine does.
            wheel.open_next(&mut timers, &mut 4_096);
            opening = wheel.next_opening(&timers).map(|at| at.0);
        }
    }
    assert!(taken > 6_000_000, "{taken} fell due");
    assert!(worst <= 100, "{worst} timers were moved in one ms");
}

#[test]
fn a_wheel_that_was_empty_fills_the_slots_near_the_time() {
    for passes in [true, false] {
        let (mut timers, mut wheel) = (Timers::default(), Wheel::default());
        for key in 1..10_000 {
            if passes {
                wheel.pass(&timers, Millis(NOW));
            }
            wheel.insert(&mut timers, key, Millis(NOW + 10_000_000 + u64::from(key)));
        }
        wheel.insert(&mut timers, 10_000, Millis(NOW + 1));
        let mut budget = u32::MAX;
        let first = wheel.peek(&mut timers, Millis(NOW + 1), &mut budget);
        assert_eq!(first, Peek::Due(10_000));
        let moved = u32::MAX - budget;
        assert_eq!(moved < 10, passes, "{moved} timers were moved for one");
    }
}

#[test]
fn opened_ahead_slots_take_earlier_and_later_inserts() {
    for slice in [1, 5, 1000] {
        let mut pair = Pair::new(1, NOW);
        for key in 0..500 {
            pair.insert(0, key, NOW + 0x100_0000 + u64::from(key % 50) * 3000);
        }
        // In part, as far as the budget goes, or wholly.
        pair.open_slice(0, 120, 77);
        if slice == 5 {
            pair.open_ahead(0, 120, slice);
        }
        // Before what was opened, into it at the same times, and behind it.
        for key in 500..1000 {
            let due = match key % 3 {
                0 => NOW + u64::from(key),
                1 => NOW + 0x100_0000 + u64::from(key % 50) * 3000,
                _ => NOW + 0x200_0000,
            };
            pair.insert(0, key, due);
        }
        pair.check_iter(0);
        pair.check_wakeup(0);
        pair.open_ahead(0, 300, slice);
        (0..1000).step_by(7).for_each(|key| pair.cancel(key));
        pair.check_iter(0);
        pair.now = NOW + 0x100_0000 + 20 * 3000;
        pair.drain(0, slice, usize::MAX);
        pair.open_ahead(0, 1000, slice);
        pair.check_iter(0);
        pair.now = NOW + 0x300_0000;
        pair.drain(0, slice, usize::MAX);
        assert!(pair.timers.has_no_slots());
    }
}

#[test]
fn heartbeats_do_not_grow_memory() {
    let (mut timers, mut wheel) = (Timers::default(), Wheel::default());
    let (jobs, beats) = (10_000u32, 30);
    let mut peak = 0;
    for beat in 0..beats {
        let now = Millis(NOW + beat * 10_000);
        assert_eq!(wheel.peek(&mut timers, now, &mut u32::MAX.clone()), Peek::Empty);
        for key in 0..jobs {
            wheel.cancel(&mut timers, key);
            wheel.insert(&mut timers, key, now.plus(30_000 + u64::from(key % 1000)));
        }
        peak = peak.max(timers.bytes_of_slots());
    }
    // 10,000 timers in full chunks are 47 KB; there are two blocks of chunks and one of levels at
    // least, 64 KB and 50 KB each.
    assert!(peak < 400_000, "{peak} bytes for {jobs} timers");
}

#[test]
fn cancels_of_any_pattern_give_memory_back() {
    for keep_one_in in [2u32, 3, 7, 27, 28, 54, 100] {
        let (mut timers, mut wheel) = (Timers::default(), Wheel::default());
        let count = 60_000u32;
        (0..count).for_each(|key| {
            wheel.insert(&mut timers, key, Millis(NOW + u64::from(key) % 9));
        });
        for key in (0..count).filter(|&key| !key.is_multiple_of(keep_one_in)) {
            assert!(wheel.cancel(&mut timers, key));
        }
        let (left, bytes) = (wheel.len(), timers.bytes_of_slots());
        // 21 bytes per timer and the blocks that are partly in use.
        assert!(bytes < left * 64 + 600_000, "{bytes} bytes for {left} of {count} timers");
        assert!(wheel.iter(&timers).all(|key| key.is_multiple_of(keep_one_in)));
    }
}

#[test]
fn a_million_in_one_millisecond_come_in_slices() {
    let (mut timers, mut wheel) = (Timers::default(), Wheel::default());
    let (count, due) = (1_000_000u32, Millis(NOW + 86_400_000));
    wheel.peek(&mut timers, Millis(NOW), &mut 0);
    (0..count).for_each(|key| {
        wheel.insert(&mut timers, key, due);
    });
    let (mut next, mut slices) = (0, 0);
    while next < count {
        slices += 1;
        let mut budget = 1000;
        loop {
            match wheel.peek(&mut timers, due, &mut budget) {
                Peek::Due(key) if budget > 0 => {
                    assert_eq!(key, next);
                    wheel.take(&mut timers, key);
                    (next, budget) = (next + 1, budget - 1);
                }
                Peek::Due(_) | Peek::More => break,
                Peek::Empty => assert_eq!(next, count),
            }
            if next == count {
                break;
            }
        }
    }
    // Three levels down and out: 4 steps each, and one to enter each slot.
    assert!((4000..=4010).contains(&slices), "{slices} slices");
    assert!(timers.has_no_slots());
}

#[test]
fn a_hundred_thousand_small_wheels_are_small() {
    let mut timers = Timers::default();
    let mut wheels: Vec<Wheel> = (0..100_000).map(|_| Wheel::default()).collect();
    for (key, wheel) in (0..).zip(&mut wheels) {
        wheel.insert(&mut timers, key, Millis(NOW + u64::from(key)));
        wheel.insert(&mut timers, key + 100_000, Millis(NOW));
        assert!(wheel.bytes() <= 24);
    }
    assert!(timers.has_no_slots());
    assert_eq!(timers.due(7), Millis(NOW + 7));
}

#[test]
#[should_panic(expected = "armed twice")]
fn to_arm_an_armed_key_is_our_bug() {
    let (mut timers, mut wheel) = (Timers::default(), Wheel::default());
    wheel.insert(&mut timers, 1, Millis(5));
    wheel.insert(&mut timers, 1, Millis(6));
}

#[test]
#[should_panic(expected = "only what peek has just told of")]
fn to_take_another_than_told_is_our_bug() {
    let (mut timers, mut wheel) = (Timers::default(), Wheel::default());
    wheel.insert(&mut timers, 1, Millis(5));
    wheel.insert(&mut timers, 2, Millis(6));
    assert_eq!(wheel.peek(&mut timers, Millis(9), &mut 1), Peek::Due(1));
    wheel.take(&mut timers, 2);
}
