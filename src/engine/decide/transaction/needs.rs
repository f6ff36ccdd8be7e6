//! The needs of a transaction, and their limits.

use crate::error::Error;
use crate::limits::{TRANSACTION_COST_MAX, TRANSACTION_REPLY_BYTES_MAX};

/// The most that a transaction needs.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Needs {
    /// Entries looked at or taken.
    pub entries: u64,
    pub reply_bytes: u64,
    pub largest_bytes: u64,
    /// Bytes of the jobs that it pops: kept until their replies have begun to leave.
    pub unsent_jobs_bytes: u64,
    pub facts_bytes: u64,
}

impl Needs {
    /// One command more.
    pub fn add(&mut self, entries: u64, reply_bytes: u64) {
        self.entries = self.entries.saturating_add(entries);
        self.reply_bytes = self.reply_bytes.saturating_add(reply_bytes);
        self.largest_bytes = self.largest_bytes.max(reply_bytes);
    }

    /// Whether so much may be answered.
    pub fn check_answer(&self, max: u64) -> Result<(), Error> {
        if self.reply_bytes > max {
            return Err(Error::AnswerTooLarge { bytes: self.reply_bytes, max });
        }
        Ok(())
    }

    /// Whether its client may hold so much.
    pub fn check_held(&self, max: u64) -> Result<(), Error> {
        let held_bytes = self.reply_bytes.saturating_add(self.unsent_jobs_bytes);
        if held_bytes > max {
            return Err(Error::TransactionHeld { held_bytes, max });
        }
        Ok(())
    }

    /// Whether the needs are within limits. An answer allowed for a single command is allowed in a
    /// transaction, too.
    pub fn check(&self) -> Result<(), Error> {
        let Needs { entries, reply_bytes, largest_bytes, .. } = *self;
        if entries > TRANSACTION_COST_MAX {
            return Err(Error::TransactionEntries { entries, max: TRANSACTION_COST_MAX });
        }
        let max = TRANSACTION_REPLY_BYTES_MAX;
        if reply_bytes - largest_bytes > max {
            return Err(Error::TransactionReplies { reply_bytes, largest_bytes, max });
        }
        Ok(())
    }
}
