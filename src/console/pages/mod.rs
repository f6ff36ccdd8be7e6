//! One file a page: what it asks, what it makes of the replies, what it shows.
//!
//! `ask` names commands out of the address alone; `more` names those that follow from the first replies, which come
//! behind them; `show` is HTML of them all. Nothing here sees a socket, a clock or a session.

pub mod clients;
pub mod filter;
pub mod forecast;
pub mod job;
pub mod login;
pub mod overview;
pub mod queue;
pub mod queues;
pub mod schedules;
pub mod search;
pub mod server;
pub mod wall;

use super::frame::Frame;
use super::params::Params;
use super::value::{Command, Value};
use axum::response::Response;
use maud::Markup;

/// A page.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "see the module")]
pub struct Page {
    pub path: &'static str,
    pub ask: fn(&Params) -> Vec<Command>,
    pub more: fn(&Params, &[Value]) -> Vec<Command>,
    pub show: fn(&Frame, &Params, &[Value]) -> Markup,
    /// Bodies of jobs are shown whole; elsewhere their beginning does.
    pub whole: bool,
    /// Instead of HTML: a file.
    pub file: Option<fn(&Params, &[Value]) -> Response>,
}

/// All pages for whoever has logged in.
pub static PAGES: [Page; 10] = [
    overview::PAGE,
    queues::PAGE,
    queue::PAGE,
    job::PAGE,
    job::BODY,
    schedules::PAGE,
    schedules::ONE,
    clients::PAGE,
    server::PAGE,
    wall::PAGE,
];

/// The page of a path.
pub fn find(path: &str) -> Option<&'static Page> {
    PAGES.iter().find(|page| page.path == path)
}

/// Of a page whose first replies say all.
pub const NO_MORE: fn(&Params, &[Value]) -> Vec<Command> = |_, _| Vec::new();
