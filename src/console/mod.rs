//! The console: pages for people, made on the server, and the HTTP API that speaks commands.
//!
//! It is a client of the server like any other: each session is a connection of its own. The server's turn holds one end
//! of a socket pair, and commands and replies go over it as RESP3. So user rules, limits, MONITOR, the slow log and CLIENT
//! KILL apply without a second path.
//!
//! A page is three pure functions in a file of its own below [`pages`]: `ask` says which commands it wants, `read`
//! turns the replies into plain data, `page` turns the data into HTML. None of them sees a socket.
//!
//! Rooms, each of which may use those before it: `words`, `view`, `pages`, `site`, `endpoints`, `http`.

pub mod endpoints;
pub mod http;
pub mod pages;
pub mod site;
pub mod view;
pub mod words;
