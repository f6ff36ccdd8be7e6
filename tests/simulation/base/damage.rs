//! Images that are not as they were written: refused or some state, never a panic.

use delayd::engine::{Engine, Loader, Settings};
use rand::Rng;
use rand::rngs::SmallRng;

/// How many queues and jobs there are, if the images are accepted.
fn load(images: &[u8]) -> Option<(usize, [u64; 4])> {
    let mut loader = Loader::new(Settings::default());
    loader.images(images).ok()?;
    let mut engine = Engine::loaded(loader).ok()?;
    let there = (engine.named_count(), engine.job_counts());
    // What was accepted is a state: it can be looked at and written again.
    let bytes = engine.base_bytes();
    engine.digest();
    engine.recovered();
    engine.begin_base();
    while !engine.base_slice(1_000, usize::MAX) {}
    assert_eq!(engine.base_output().len() as u64, bytes, "what was accepted is counted");
    Some(there)
}

/// Cuts everywhere, changes every byte, repeats and leaves out pieces.
pub fn check(images: &[u8], rng: &mut SmallRng) {
    let whole = load(images);
    assert!(whole.is_some());
    for cut in 0..images.len() {
        assert!(load(&images[..cut]).is_none(), "cut at {cut} of {}", images.len());
    }
    let mut changed = images.to_vec();
    for at in 0..images.len() {
        for value in [images[at] ^ (1 << rng.random_range(0..8)), rng.random(), 0, 255] {
            changed[at] = value;
            load(&changed);
        }
        changed[at] = images[at];
    }
    for _ in 0..200 {
        let (one, other) = (rng.random_range(0..=images.len()), rng.random_range(0..=images.len()));
        let (from, to) = (one.min(other), one.max(other));
        let twice = [&images[..to], &images[from..]].concat();
        let without = [&images[..from], &images[to..]].concat();
        // Where a piece among zeros is left out, by chance all that follows may be numbers of the same queue still.
        // Then nothing is lost but those: only the checksums of the file tell.
        for (images, how) in [(without, "left out"), (twice, "twice")] {
            let there = load(&images);
            assert!(there.is_none() || there == whole, "{from} to {to} {how}: {there:?}");
        }
    }
}
