//! What a base holds, counted as it is read, without the memory that a server would need for it.

use crate::engine::model::fact::Reader;
use crate::engine::record::Image;
use crate::journal::error::JournalError;

/// What was counted.
#[derive(Debug, Default)]
pub struct Counted {
    /// Jobs by state: delayed, ready, leased, dead.
    pub jobs: [u64; 4],
    /// Queues, those without a job included.
    pub queues: u64,
    /// Schedules.
    pub schedules: u64,
    /// Where images begin that cannot be read.
    wrong_at: Option<u64>,
}

impl Counted {
    /// Counts images that stand at `offset`.
    pub fn add(&mut self, offset: u64, images: &[u8]) {
        let mut reader = Reader::new(images);
        while !reader.is_done() {
            let Ok(image) = Image::read(&mut reader) else {
                self.wrong_at.get_or_insert(offset);
                return;
            };
            match image {
                Image::Job(job) => {
                    if let Some(state) = job.stage.state() {
                        self.jobs[state as usize] += 1;
                    }
                }
                Image::Queue(_) => self.queues += 1,
                Image::Schedule { .. } => self.schedules += 1,
                _ => {}
            }
        }
    }

    /// All jobs.
    pub fn all(&self) -> u64 {
        self.jobs.iter().sum()
    }

    /// Whether all of `file` could be read, and has as many jobs by state as the server had.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn check(&self, file: &str, expected: Option<[u64; 4]>) -> Result<(), JournalError> {
        let damaged =
            |offset, what| Err(JournalError::Damaged { file: file.to_owned(), offset, what });
        if let Some(offset) = self.wrong_at {
            return damaged(offset, "images that cannot be read".to_owned());
        }
        match expected.filter(|expected| *expected != self.jobs) {
            Some(expected) => damaged(
                0,
                format!("it has {:?} jobs by state, the server had {expected:?}", self.jobs),
            ),
            None => Ok(()),
        }
    }
}
