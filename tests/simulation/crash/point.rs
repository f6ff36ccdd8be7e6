//! What was true after each batch.

use delayd::engine::Engine;
use delayd::time::Micros;

use super::picture::Shown;

/// What was true after a batch.
#[derive(Clone, Debug)]
pub struct Point {
    pub digest: u64,
    /// Its time.
    pub now: Micros,
    /// The sequence of the next fact.
    pub first: u64,
    /// The greatest number of a token or a made id so far.
    pub number: u64,
    pub counts: [u64; 4],
    pub base_bytes: u64,
    /// At a moment at which all that was due had been done and freed.
    pub calm: Option<Calm>,
}

/// What is compared at calm moments only.
#[derive(Clone, Debug)]
pub struct Calm {
    pub memory_bytes: Option<u64>,
    pub picture: Option<Vec<Shown>>,
}

impl Point {
    pub fn of(engine: &Engine, now: Micros, first: u64, number: u64) -> Point {
        let (digest, counts) = (engine.digest(), engine.job_counts());
        let base_bytes = engine.base_bytes();
        Point { digest, now, first, number, counts, base_bytes, calm: None }
    }

    /// Panics if the engine is in another state.
    pub fn check(&self, engine: &Engine) {
        assert_eq!(engine.job_counts(), self.counts, "jobs by state");
        assert_eq!(engine.base_bytes(), self.base_bytes, "bytes of a base");
        assert_eq!(engine.digest(), self.digest, "digests live and recovered");
    }
}
