//! Statuses of HTTP for what the server says: a proxy and a client's library look at nothing else.

use super::Failed;
use crate::console::site::client::{Cut, Until};
use axum::http::StatusCode;

/// Classes of errors that are the server's and no mistake of the client's: another node may answer, or this one later.
const LATER: [&str; 7] =
    ["READONLY", "MASTERDOWN", "CLUSTERDOWN", "LOADING", "MISCONF", "OOM", "UNBLOCKED"];

/// The status for an error of the server, by its class, the first word.
pub(super) fn of_error(text: &str) -> StatusCode {
    let class = text.split(' ').next().unwrap_or_default();
    // EXEC says what kept it from running.
    if let Some((_, why)) = text.split_once(" because of: ")
        && class == "EXECABORT"
    {
        return of_error(why);
    }
    match class {
        "TOOLARGE" => StatusCode::PAYLOAD_TOO_LARGE,
        "NOPERM" => StatusCode::FORBIDDEN,
        class if LATER.contains(&class) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_REQUEST,
    }
}

/// The answer for a missing reply. Jobs taken for it are back in their queue.
pub(super) fn of_cut(cut: Option<&Cut>, until: Until) -> Failed {
    match cut {
        Some(Cut::TooLarge(most)) => Failed(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!(
                "TOOLARGE the answers have more than {} MiB; jobs of this one are back in their queues, request less \
                 at once",
                most >> 20
            ),
        ),
        Some(Cut::Busy) => Failed(
            StatusCode::SERVICE_UNAVAILABLE,
            "ERR too many large answers are in progress; this was not run, try again".to_owned(),
        ),
        Some(Cut::Late) => {
            let waits = until.answer.zip(until.wait).map(|(answer, wait)| answer - wait);
            let text = format!(
                "ERR there was no reply {} s after console-wait; jobs in it are back in their queues",
                waits.unwrap_or_default().as_secs()
            );
            Failed(StatusCode::GATEWAY_TIMEOUT, text)
        }
        Some(Cut::Closed(_)) | None => Failed(
            StatusCode::BAD_GATEWAY,
            "ERR the server closed the connection; jobs of this answer are back in their queues"
                .to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_status_of_their_class() {
        for (text, status) in [
            ("READONLY You can't write against a read only replica.", 503),
            ("MASTERDOWN no quorum", 503),
            ("LOADING delayd is loading", 503),
            ("EXECABORT Transaction discarded because of: MISCONF the journal", 503),
            ("EXECABORT Transaction discarded because of: ERR syntax", 400),
            ("EXECABORT Transaction discarded because of previous errors.", 400),
            ("TOOLARGE the answer", 413),
            ("NOPERM this user", 403),
            ("ERR READONLY", 400),
            ("", 400),
        ] {
            assert_eq!(of_error(text).as_u16(), status, "{text}");
        }
    }
}
