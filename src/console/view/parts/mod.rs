//! The building blocks of pages.
//!
//! Links and the addresses of forms carry names of any bytes, encoded by
//! [`escape::query`](crate::console::words::escape::query).

mod forms;
mod numbers;
mod pieces;
mod tables;

pub use forms::{
    Choice, Confirm, action, action_toned, filter, form, kept_field, offered, select,
    selected_count, target, text_input,
};
pub use numbers::{
    ago, bytes, clock, clock_time, counted, duration, grouped, measured, micros, moment, number,
    share, span,
};
pub use pieces::{
    Tone, alert, badge, card, commands, copy, empty, facts, figure, figure_with, job_href,
    job_link, lead, pager, part, queue_href, queue_link, schedule_href, state, tabs,
};
pub use tables::{Column, Row, Table, cell_number};
