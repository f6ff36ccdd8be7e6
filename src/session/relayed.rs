//! Commands of a client that is answered through the console, which hands on only so much, and only until its client's
//! time is up. A command begins only if its largest answer fits; a wait ends while the answer is still awaited.

use crate::command::spec::action::{Action, ServerRequest};
use crate::engine::decide::transaction::Needs;
use crate::engine::model::request::{Request, Reserve};
use crate::error::Error;
use crate::session::Session;
use crate::session::transaction::Parsed;
use crate::session::world::{Relayed, World};
use std::sync::Arc;

/// An error, or a short reply, always fits: a refusal must be sent.
const SHORT_BYTES: u64 = 1024;
/// The reply of a command that cannot be measured.
const UNKNOWN_BYTES: u64 = 16 << 20;

/// Leases that end with the connection would be over when their jobs arrive.
///
/// # Errors
/// It asks for such.
pub(super) fn check_bound(request: &Request<'_>, relayed: Relayed) -> Result<(), Error> {
    match request {
        Request::Reserve(Reserve { bound: true, .. }) if relayed.is_request => Err(Error::text(
            "ERR BOUND is not available over HTTP: the connection ends with the answer, and the lease with it",
        )),
        _ => Ok(()),
    }
}

impl Session {
    /// The command as it may run on these terms.
    ///
    /// # Errors
    /// Its answer might not fit, or one before it did not.
    pub(super) fn fit<'a>(
        &mut self,
        mut command: Parsed<'a>,
        relayed: Relayed,
        world: &mut dyn World,
    ) -> Result<Result<Action<'a>, Error>, Error> {
        let Relayed { room_bytes: max, wait_ms, .. } = relayed;
        if max == 0 {
            return Err(Error::AnswerTooLarge { bytes: SHORT_BYTES, max });
        }
        match &mut command.action {
            Ok(Action::Engine(request)) => {
                check_bound(request, relayed)?;
                if let (Some(wait), Some(ms)) = (request.wait_mut(), wait_ms) {
                    *wait = wait.at_most(ms);
                }
            }
            Ok(Action::Server(ServerRequest::Wait(wait))) => {
                if let Some(ms) = wait_ms {
                    // 0 is for ever.
                    let own_ms = if wait.timeout_ms == 0 { u64::MAX } else { wait.timeout_ms };
                    wait.timeout_ms = own_ms.min(ms.max(1));
                }
            }
            _ => {}
        }
        let bytes = self.answer_bytes_max(&command, world);
        if bytes > max.max(SHORT_BYTES) {
            world.stop_relayed();
            return Err(Error::AnswerTooLarge { bytes, max });
        }
        Ok(command.action)
    }

    /// The upper bound of its reply, bytes. A waiting command replies with little now, and later with as much as there
    /// is then.
    fn answer_bytes_max(&mut self, command: &Parsed<'_>, world: &mut dyn World) -> u64 {
        // EXEC looks at all that it runs, and the rest of its kind say a word.
        if matches!(command.action, Ok(Action::Transaction(_)) | Err(_)) {
            return SHORT_BYTES;
        }
        let user = Arc::clone(&self.identity.user);
        let globs = match command.action {
            Ok(Action::AllQueues(_)) => user.key_globs(),
            _ => Vec::new(),
        };
        match command.request(&globs) {
            Some(request) => world.answer_bytes_max(self.id, &request),
            None => {
                let measured = self.measure(std::slice::from_ref(command), world);
                measured.map_or(UNKNOWN_BYTES, |Needs { reply_bytes, .. }| reply_bytes)
            }
        }
    }
}
