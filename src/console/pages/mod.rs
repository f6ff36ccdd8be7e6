//! One file a page: what it asks, what it makes of the replies, what it shows.
//!
//! `ask` gives commands from the address alone; `more` gives those that follow from the first replies, whose replies
//! come after them; `show` is HTML of them all. Nothing here sees a socket, a clock or a session.

pub mod busy;
pub mod clients;
pub mod filter;
pub mod forecast;
pub mod history;
pub mod job;
pub mod login;
pub mod overview;
pub mod paging;
pub mod queue;
pub mod queues;
pub mod schedules;
pub mod search;
pub mod server;
pub mod wall;

use crate::console::view::chrome::PageFrame;
use crate::console::words::params::Params;
use crate::console::words::value::{Command, Value};
use axum::response::Response;
use maud::Markup;

#[derive(Clone, Copy, Debug)]
pub struct Page {
    pub path: &'static str,
    pub ask: fn(&Params) -> Vec<Command>,
    pub more: fn(&Params, &[Value]) -> Vec<Command>,
    pub show: fn(&PageFrame, &Params, &[Value]) -> Markup,
    /// Bodies of jobs are shown whole; elsewhere their beginning does.
    pub whole: bool,
    /// Instead of HTML: a file.
    pub file: Option<fn(&Params, &[Value]) -> Response>,
}

/// All pages for logged-in users.
pub static PAGES: [Page; 12] = [
    overview::PAGE,
    queues::PAGE,
    queue::PAGE,
    job::PAGE,
    job::BODY,
    schedules::PAGE,
    schedules::ONE,
    busy::PAGE,
    history::PAGE,
    clients::PAGE,
    server::PAGE,
    wall::PAGE,
];

pub fn find(path: &str) -> Option<&'static Page> {
    PAGES.iter().find(|page| page.path == path)
}

/// For a page whose first replies are enough.
pub const NO_MORE: fn(&Params, &[Value]) -> Vec<Command> = |_, _| Vec::new();
