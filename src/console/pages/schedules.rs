//! Schedules of all queues.

use crate::console::frame::Frame;
use crate::console::value::Value;
use maud::{Markup, html};

/// The schedules of a queue as DELAY.SCHEDULE LIST tells of them.
pub fn table(_frame: &Frame, _queue: &[u8], _listed: &Value) -> Markup {
    html! {}
}
