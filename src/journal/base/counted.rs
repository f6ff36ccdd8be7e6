//! The content of a base, counted as it is read, without the memory that a server would need for
//! it.

use crate::engine::model::fact::FactReader;
use crate::engine::record::Image;
use crate::journal::error::JournalError;

#[derive(Debug, Default)]
pub struct BaseCounts {
    /// Jobs by state: delayed, ready, leased, dead.
    pub jobs: [u64; 4],
    /// Queues, those without a job included.
    pub queues: u64,
    pub schedules: u64,
    /// Where images begin that cannot be read.
    wrong_at: Option<u64>,
}

impl BaseCounts {
    pub fn add(&mut self, offset: u64, images: &[u8]) {
        let mut reader = FactReader::new(images);
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
    /// The first error, and where it is.
    pub fn check(&self, file: &str, expected: Option<[u64; 4]>) -> Result<(), JournalError> {
        let damaged =
            |offset, what| Err(JournalError::Damaged { file: file.to_owned(), offset, what });
        if let Some(offset) = self.wrong_at {
            return damaged(offset, "images that cannot be read".to_owned());
        }
        match expected.filter(|expected| *expected != self.jobs) {
            Some(expected) => damaged(
                0,
                format!("it has {:?} jobs by state, the server has {expected:?}", self.jobs),
            ),
            None => Ok(()),
        }
    }
}
