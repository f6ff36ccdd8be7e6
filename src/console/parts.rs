//! What pages are made of.
//!
//! Links and hidden fields carry names of any bytes, encoded by [`shown::query`](super::shown::query); handlers get
//! them back by [`shown::unquery`](super::shown::unquery).

mod forms;
mod numbers;
mod pieces;
mod tables;

pub use forms::{
    Choice, Confirm, action, action_toned, filter, form, offered, select, selected_count,
    text_input,
};
pub use numbers::{ago, bytes, duration, grouped, micros, moment, number, share, span};
pub use pieces::{
    Tone, alert, badge, card, commands, copy, empty, facts, figure, job_href, job_link, lead,
    pager, part, queue_href, queue_link, schedule_href, state, tabs,
};
pub use tables::{Column, Row, Table, cell_number};
