//! How fast base files are written and loaded; told, not judged.
//!
//! `cargo test --release --test base -- --ignored --nocapture speed`

use std::time::Instant;

use delayd::engine::request::Request;
use delayd::engine::{Engine, Facts, Loader, Settings, Turn};
use delayd::ids::ClientId;

use crate::scenarios::{BEGIN, add};
use crate::trace::Recorder;

const JOBS: u64 = 1_000_000;

#[test]
#[ignore = "measures"]
fn speed() {
    let mut engine = Engine::new(Settings::default());
    let (mut facts, mut outbox) = (Facts::default(), Recorder::default());
    for number in 0..JOBS {
        let turn = &mut Turn { facts: &mut facts, outbox: &mut outbox };
        let mut add = add(b"q", number.wrapping_mul(0x9e37_79b9) % 86_400_000);
        add.body = &[7; 100];
        engine.handle(BEGIN, ClientId(1), &Request::Add(add), turn);
        turn.facts.clear();
        outbox.0.clear();
    }
    let begun = Instant::now();
    engine.begin_base();
    while !engine.base_slice(10_000, usize::MAX) {}
    let written = begun.elapsed();
    let images = std::mem::take(engine.base_output());
    println!("{JOBS} jobs, {} bytes written: {} ns a job", images.len(), per_job(written));
    let digest = engine.digest();
    drop(engine);
    for hash_seed in [1, 2, 3] {
        let begun = Instant::now();
        let mut loader = Loader::new(Settings { hash_seed, ..Settings::default() });
        loader.images(&images).expect("own images");
        let read = begun.elapsed();
        let engine = loader.finish().expect("own images");
        let (read, all) = (per_job(read), per_job(begun.elapsed()));
        println!("loaded: {all} ns a job, {read} of it before the end");
        assert_eq!(engine.digest(), digest);
    }
}

fn per_job(took: std::time::Duration) -> u64 {
    took.as_nanos() as u64 / JOBS
}
