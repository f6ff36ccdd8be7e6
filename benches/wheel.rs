//! The timing wheel and others: `cargo bench --bench wheel`.
//!
//! `DELAYD_BENCH_SIZES` (default `100000,1000000`) sets the numbers of timers and
//! `DELAYD_BENCH_PEERS_MAX` (default 1000000) the most that the others are measured with. Quote
//! numbers with the machine they were taken on and the size.

#[path = "wheel/scenario.rs"]
mod scenario;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, SamplingMode, Throughput};
use scenario::{Contender, Input, Ours, Tokio};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::{Duration, Instant};

fn main() {
    let sizes = std::env::var("DELAYD_BENCH_SIZES").unwrap_or("100000,1000000".into());
    let peers = std::env::var("DELAYD_BENCH_PEERS_MAX").map_or(1_000_000, |max| number(&max));
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(500))
        .without_plots()
        .configure_from_args();
    for size in sizes.split(',').map(number) {
        let input = Input::uniform(size);
        wheel_alone(&mut criterion, &input);
        rows::<Ours>(&mut criterion, &input);
        if size <= peers {
            rows::<Tokio>(&mut criterion, &input);
            rows::<BinaryHeap<Reverse<(u64, u32)>>>(&mut criterion, &input);
            rows::<BTreeMap<(u64, u32), u64>>(&mut criterion, &input);
        }
        sizes_and_slices(size, &input);
    }
    criterion.final_summary();
}

fn number(text: &str) -> u32 {
    text.trim().parse().expect("a number of timers")
}

/// Insert, cancel and expire of a contender, per timer.
fn rows<C: Contender>(criterion: &mut Criterion, input: &Input) {
    let (dues, checksum) = (&input.dues[..], input.checksum());
    let mut group = group(criterion, "insert", input);
    bench(&mut group, C::NAME, input, C::new, |c| c.insert_all(dues));
    group.finish();
    let filled = || {
        let mut contender = C::new();
        contender.insert_all(dues);
        contender
    };
    if C::CANCELS {
        let mut group = self::group(criterion, "cancel", input);
        bench(&mut group, C::NAME, input, filled, |c| {
            c.cancel_all(dues, &input.order);
            assert!(c.is_empty());
        });
        group.finish();
    }
    let mut group = self::group(criterion, "expire", input);
    bench(&mut group, C::NAME, input, filled, |c| assert_eq!(c.expire_all(), checksum));
    group.finish();
}

/// What has no counterpart in the others.
fn wheel_alone(criterion: &mut Criterion, input: &Input) {
    let mut group = group(criterion, "insert", input);
    let used = || {
        let mut ours = Ours::new();
        ours.insert_all(&input.dues);
        ours.cancel_all(&input.dues, &input.order);
        ours
    };
    bench(&mut group, "wheel, keys shuffled", input, used, |ours| {
        ours.insert_shuffled(&input.dues, &input.order);
    });
    group.finish();
    let mut group = self::group(criterion, "expire", input);
    let (checksum, filled) = (input.checksum(), || {
        let mut ours = Ours::new();
        ours.insert_shuffled(&input.dues, &input.order);
        ours
    });
    bench(&mut group, "wheel by wake-ups, keys shuffled", input, filled, |ours| {
        assert_eq!(ours.expire_by_wakeups(), checksum);
    });
    group.finish();
}

fn group<'a>(
    criterion: &'a mut Criterion,
    name: &str,
    input: &Input,
) -> BenchmarkGroup<'a, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(input.dues.len() as u64));
    group.sampling_mode(SamplingMode::Flat);
    group
}

/// Measures `run` on what `prepare` makes, and neither that nor the dropping.
fn bench<T>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    input: &Input,
    prepare: impl Fn() -> T,
    run: impl Fn(&mut T),
) {
    group.bench_function(BenchmarkId::new(name, input.dues.len()), |bencher| {
        bencher.iter_custom(|rounds| {
            let mut total = Duration::ZERO;
            for _ in 0..rounds {
                let mut prepared = prepare();
                let begun = Instant::now();
                run(&mut prepared);
                total += begun.elapsed();
            }
            println!(
                "    {:.1} ns per timer",
                total.as_nanos() as f64 / rounds as f64 / input.dues.len() as f64
            );
            total
        });
    });
}

fn sizes_and_slices(size: u32, input: &Input) {
    let mut ours = Ours::new();
    ours.insert_all(&input.dues);
    let each = |bytes: usize| bytes as f64 / f64::from(size);
    println!(
        "memory/{size}: {:.1} bytes per timer, {:.1} of them in slots",
        each(ours.timers.bytes() + ours.wheel.bytes()),
        each(ours.timers.bytes_of_slots()),
    );
    drop(ours);
    let slices = scenario::herd(size);
    let at = |share: f64| slices[((slices.len() - 1) as f64 * share) as usize];
    println!(
        "herd/{size} in one millisecond, slices of {}: p50 {:?}, p99 {:?}, max {:?}",
        scenario::SLICE,
        at(0.5),
        at(0.99),
        at(1.0),
    );
}
