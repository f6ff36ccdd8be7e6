//! What the server is to its clients just now: which commands it refuses, since they are not for it to answer.

use crate::command::CommandSpec;
use crate::command::spec::Flag;
use crate::error::{Error, Misconf};
use std::sync::Arc;

/// What commands that need the jobs are answered until the journal has been read. Clients look at
/// the first word only and try again.
const LOADING: &str = "LOADING delayd is loading the journal into memory";

/// A node that does not decide, and does not know whether what it has is current.
const NO_READS: &str = "MASTERDOWN this node does not lead, and answers no reads: it has not heard of a leader \
    lately, or replica-serve-stale-data is no";

/// See the module. A server that is in no cluster serves, but while it loads.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Standing {
    /// It decides: every command is served.
    #[default]
    Serving,
    /// The jobs are being read.
    Loading,
    /// The cluster has never been complete. Nothing is acknowledged by fewer nodes than were asked for.
    Forming {
        /// Who has not come yet, such as `n3 is missing`.
        missing: Arc<str>,
    },
    /// Another node decides, or none does.
    Following {
        /// Whether reads are answered from what has been applied.
        reads: bool,
        /// Whether a leader is known and was heard of lately.
        is_led: bool,
    },
    /// It leads, and hears too few others to know that it still does.
    Down,
}

impl Standing {
    /// Whether every command is served.
    #[inline]
    pub fn is_serving(&self) -> bool {
        matches!(self, Standing::Serving)
    }

    /// Whether this is the node that decides, be it cut off for the moment.
    pub fn leads(&self) -> bool {
        matches!(self, Standing::Serving | Standing::Down)
    }

    /// Whether no node is known here that decides: a client has to look for one elsewhere, and may find none.
    pub fn is_leaderless(&self) -> bool {
        matches!(self, Standing::Down | Standing::Following { is_led: false, .. })
    }

    /// Whether a command may run now, alone or in a transaction.
    ///
    /// # Errors
    /// Redis's classes: `LOADING`, `READONLY`, `MASTERDOWN`.
    pub fn check(&self, spec: &CommandSpec) -> Result<(), Error> {
        // Health checks send it. While the jobs are read it is refused, as Redis does; that a node does not lead, or
        // waits for others, makes it no less alive.
        let is_ping = spec.name == "ping";
        // A subscriber would wait for events that only the node makes that decides.
        let changes =
            [Flag::Write, Flag::Blocking, Flag::PubSub].iter().any(|flag| spec.has(*flag));
        match self {
            Standing::Loading if !spec.has(Flag::Loading) => Err(Error::text(LOADING)),
            Standing::Forming { .. } | Standing::Following { .. } | Standing::Down if is_ping => {
                Ok(())
            }
            Standing::Forming { missing } if changes || !spec.has(Flag::Loading) => {
                Err(Error::text(format!("LOADING the cluster is forming: {missing}")))
            }
            Standing::Following { is_led: true, .. } if changes => Err(Misconf::Following.into()),
            // READONLY would say that another node can do it.
            Standing::Following { is_led: false, .. } if changes => Err(Misconf::Leaderless.into()),
            Standing::Following { reads: false, .. } if !spec.has(Flag::Stale) => {
                Err(Error::text(NO_READS))
            }
            Standing::Down if changes || !spec.has(Flag::Stale) => Err(Misconf::NoQuorum.into()),
            _ => Ok(()),
        }
    }

    /// Why nothing is decided; none if it is, as far as the journal allows.
    pub fn stopped(&self) -> Option<Misconf> {
        match self {
            Standing::Serving => None,
            Standing::Down => Some(Misconf::NoQuorum),
            Standing::Following { is_led: false, .. } => Some(Misconf::Leaderless),
            Standing::Loading | Standing::Forming { .. } | Standing::Following { .. } => {
                Some(Misconf::Following)
            }
        }
    }
}
