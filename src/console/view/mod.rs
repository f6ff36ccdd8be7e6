//! The building blocks of pages: chrome, parts, charts, stylesheet and script.

pub mod assets;
pub mod chart;
pub mod chrome;
pub mod layout;
pub mod node;
pub mod parts;
pub mod response;
