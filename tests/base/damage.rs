//! Images that are not as they were written: refused or some state, never a panic.

use delayd::engine::{Engine, Loader, Settings};
use rand::Rng;
use rand::rngs::SmallRng;

/// Whether the images are accepted.
fn load(images: &[u8]) -> bool {
    let mut loader = Loader::new(Settings::default());
    if loader.images(images).is_err() {
        return false;
    }
    let Ok(mut engine) = Engine::loaded(loader) else { return false };
    // What was accepted is a state: it can be looked at and written again.
    let bytes = engine.base_bytes();
    engine.digest();
    engine.recovered();
    engine.begin_base();
    while !engine.base_slice(1_000, usize::MAX) {}
    assert_eq!(engine.base_output().len() as u64, bytes, "what was accepted is counted");
    true
}

/// Cuts everywhere, changes every byte, repeats and leaves out pieces.
pub fn check(images: &[u8], rng: &mut SmallRng) {
    assert!(load(images));
    for cut in 0..images.len() {
        assert!(!load(&images[..cut]), "cut at {cut} of {}", images.len());
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
        assert!(from == to || !load(&without), "without {from} to {to}");
        assert!(from == to || !load(&twice), "{from} to {to} twice");
    }
}
