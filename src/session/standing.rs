//! The server's current role for its clients: which commands it refuses, because they are not for it to answer.

use crate::command::CommandSpec;
use crate::command::spec::Flag;
use crate::error::{Error, Misconf};
use std::sync::Arc;

/// The reply to commands that need the jobs until the journal has been read. Clients look at the
/// first word only and try again.
const LOADING: &str = "LOADING delayd is loading the journal into memory";

/// A node that does not decide, and does not know whether what it has is current.
const NO_READS: &str = "MASTERDOWN this node does not lead and answers no reads: it has not heard a leader recently, \
    or replica-serve-stale-data is no";

/// See the module. A server that is in no cluster serves, but while it loads.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum NodeStanding {
    /// It decides: every command is served.
    #[default]
    Serving,
    /// The jobs are being read.
    Loading,
    /// The cluster has never been complete. Nothing is acknowledged by fewer nodes than were asked for.
    Forming {
        /// The missing nodes, such as `n3 is missing`.
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

impl NodeStanding {
    #[inline]
    pub fn is_serving(&self) -> bool {
        matches!(self, NodeStanding::Serving)
    }

    /// Whether this is the node that decides, be it cut off for the moment.
    pub fn leads(&self) -> bool {
        matches!(self, NodeStanding::Serving | NodeStanding::Down)
    }

    /// Whether no node is known here that decides: a client has to look for one elsewhere, and may find none.
    pub fn is_leaderless(&self) -> bool {
        matches!(self, NodeStanding::Down | NodeStanding::Following { is_led: false, .. })
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
            NodeStanding::Loading if !spec.has(Flag::Loading) => Err(Error::text(LOADING)),
            NodeStanding::Forming { .. } | NodeStanding::Following { .. } | NodeStanding::Down
                if is_ping =>
            {
                Ok(())
            }
            NodeStanding::Forming { missing } if changes || !spec.has(Flag::Loading) => {
                Err(Error::text(format!("LOADING the cluster is forming: {missing}")))
            }
            NodeStanding::Following { is_led: true, .. } if changes => {
                Err(Misconf::Following.into())
            }
            // READONLY would say that another node can do it.
            NodeStanding::Following { is_led: false, .. } if changes => {
                Err(Misconf::Leaderless.into())
            }
            NodeStanding::Following { reads: false, .. } if !spec.has(Flag::Stale) => {
                Err(Error::text(NO_READS))
            }
            NodeStanding::Down if changes || !spec.has(Flag::Stale) => {
                Err(Misconf::NoQuorum.into())
            }
            _ => Ok(()),
        }
    }

    /// Why nothing is decided; none if it is, as far as the journal allows.
    pub fn stopped(&self) -> Option<Misconf> {
        match self {
            NodeStanding::Serving => None,
            NodeStanding::Down => Some(Misconf::NoQuorum),
            NodeStanding::Following { is_led: false, .. } => Some(Misconf::Leaderless),
            NodeStanding::Loading
            | NodeStanding::Forming { .. }
            | NodeStanding::Following { .. } => Some(Misconf::Following),
        }
    }
}
