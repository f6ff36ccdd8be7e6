//! The console: pages for people, made on the server, and the HTTP API that speaks commands.
//!
//! It is a client of the server like any other: each session is a connection of its own, handed to the turn by
//! one end of a socket pair, over which commands and replies go as RESP3. So rules of users, limits, MONITOR, the
//! slow log and CLIENT KILL hold without a second path.
//!
//! A page is three pure functions in a file of its own below [`pages`]: `ask` says which commands it wants, `read`
//! makes plain data of their replies, `page` makes HTML of the data. None of them sees a socket.

pub mod act;
pub mod api;
pub mod assets;
pub mod chart;
pub mod enter;
pub mod export;
pub mod frame;
pub mod guard;
pub mod kept;
pub mod layout;
pub mod link;
pub mod live;
pub mod login;
pub mod pages;
pub mod params;
pub mod parts;
pub mod patient;
pub mod proxy;
pub mod relay;
pub mod reply;
pub mod search;
pub mod serve;
pub mod session;
pub mod shown;
pub mod site;
pub mod token;
pub mod tries;
pub mod value;
