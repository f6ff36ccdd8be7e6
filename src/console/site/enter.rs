//! Getting in, by the form as by the API: a password, or the token where the default user has none.

use super::relay::Relay;
use super::session::{Denied, connect};
use crate::console::site::Site;
use crate::console::site::client::{Ends, Link};
use crate::limits::{CONSOLE_SLOWED_TIME, CONSOLE_WRONG_TIME};
use axum::http::HeaderValue;
use std::time::Instant;

/// A user and a password.
pub type Login<'a> = (&'a [u8], &'a [u8]);

/// Why there is no connection.
#[derive(Debug)]
pub enum RefusedLogin {
    /// Neither a password nor a token was shown.
    Missing,
    /// It would cross the network as plain text.
    Insecure,
    Wrong,
    /// It is wrong after many others, or was not looked at for that.
    TooMany,
    /// The server's refusal: too many clients, protected mode, loading.
    Server(String),
}

/// The user without a password.
pub const DEFAULT: &[u8] = b"default";

/// A connection that has logged in to the server. Wrong passwords are answered late.
///
/// # Errors
/// See [`RefusedLogin`].
pub async fn enter(
    site: &Site,
    ends: Ends,
    login: Option<Login<'_>>,
    relay: Relay,
) -> Result<Link, RefusedLogin> {
    let Some((user, password)) = login else { return Err(RefusedLogin::Missing) };
    if !site.takes_passwords(ends) {
        return Err(RefusedLogin::Insecure);
    }
    if user == DEFAULT && site.is_token(password) {
        return by_token(site, ends, relay).await;
    }
    let Some(tried) = site.tries.begin(ends.peer.ip(), user, password, Instant::now()) else {
        tokio::time::sleep(CONSOLE_WRONG_TIME).await;
        return Err(RefusedLogin::TooMany);
    };
    match connect(&site.connector, ends, Some((user, password)), relay).await {
        Ok(link) => {
            tried.was_right();
            Ok(link)
        }
        Err(Denied::Wrong) => {
            let too_many = tried.was_wrong();
            tokio::time::sleep(if too_many { CONSOLE_SLOWED_TIME } else { CONSOLE_WRONG_TIME })
                .await;
            Err(if too_many { RefusedLogin::TooMany } else { RefusedLogin::Wrong })
        }
        Err(Denied::Refused(why)) => {
            tried.forgive();
            Err(RefusedLogin::Server(why))
        }
    }
}

/// The same with the token: the default user, while it has no password.
///
/// # Errors
/// As of [`enter`].
pub async fn by_token(site: &Site, ends: Ends, relay: Relay) -> Result<Link, RefusedLogin> {
    let ends = Ends { is_proven: true, ..ends };
    connect(&site.connector, ends, None, relay).await.map_err(|denied| match denied {
        Denied::Wrong => RefusedLogin::Wrong,
        Denied::Refused(why) => RefusedLogin::Server(why),
    })
}

/// After how many seconds the next password may be looked at.
pub fn retry_after() -> HeaderValue {
    HeaderValue::from(CONSOLE_SLOWED_TIME.as_secs())
}
