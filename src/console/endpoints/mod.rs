//! Everything that is not a page: logging in, actions of forms, searches, exports, the event stream of a page, commands
//! over HTTP.

pub mod act;
pub mod api;
pub mod export;
pub mod login;
pub mod search;
