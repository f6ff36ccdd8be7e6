//! The console as one value: its options and its sessions; and a request of a logged-in user.

pub mod cache;
pub mod client;
pub mod consoles;
pub mod enter;
pub mod guard;
pub mod live;
pub mod proxy;
pub mod relay;
pub mod session;
pub mod token;
pub mod tries;

use crate::console::pages;
use crate::console::site::cache::{Kept, good_for};
use crate::console::site::client::{Connector, Ends};
use crate::console::site::consoles::Consoles;
use crate::console::site::live::SentPages;
use crate::console::site::proxy::Proxies;
use crate::console::site::session::{Session, Sessions, is_unsure, unsure};
use crate::console::site::token::Token;
use crate::console::site::tries::Tries;
use crate::console::view::chrome::{PageFrame, ServerState};
use crate::console::view::node::{NodeRole, OwnNode};
use crate::console::view::response::{holding, problem};
use crate::console::words::params::Params;
use crate::console::words::value::{Command, Value, command};
use crate::limits::{
    CONSOLE_COLUMN_BYTES, CONSOLE_EXCERPT_BYTES, CONSOLE_FILES_MAX, CONSOLE_PIPELINE_MAX,
    CONSOLE_STREAMS_MAX,
};
use axum::body::Bytes;
use axum::http::header::{self, HeaderMap};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::Semaphore;

/// The console's options.
#[derive(Clone, Debug, Default)]
pub struct ConsoleOptions {
    /// Host names it is reached by, in addition to its addresses.
    pub hosts: Vec<String>,
    pub tls: bool,
    /// Passwords are taken without TLS from other machines.
    pub insecure: bool,
    pub proxies: Proxies,
    /// The token that logs in the default user while it has no password; none if it had one at the start.
    pub token: Option<Token>,
    /// Nothing is changed by it.
    pub readonly: bool,
    /// Origins whose pages may call the API.
    pub cors: Vec<String>,
    /// How long a command over HTTP may wait for a job.
    pub wait: Duration,
    /// A dashboard elsewhere; empty without one.
    pub grafana: String,
    /// The consoles of the cluster's nodes.
    pub nodes: Consoles,
    /// How a shell reaches the server.
    pub redis_cli: String,
    /// The port it listens on, which distinguishes its cookie from that of another console on the same machine.
    pub port: u16,
    /// Connections at a time.
    pub connections_max: usize,
}

#[derive(Debug)]
pub struct Site {
    pub options: ConsoleOptions,
    pub connector: Connector,
    pub sessions: Sessions,
    pub tries: Tries,
    /// Streams that may be open.
    pub streams: Arc<Semaphore>,
    /// Bodies that may be downloaded at a time.
    pub files: Arc<Semaphore>,
    pub kept: Kept,
    pub sent: SentPages,
}

/// Jobs asked for at once with their bodies.
const JOBS_AT_ONCE: usize = 3;

/// A request with a known user.
#[derive(Debug)]
pub struct SessionRequest {
    pub site: Arc<Site>,
    pub session: Arc<Session>,
    pub method: Method,
    pub path: String,
    /// The path and the query: a link to the page itself.
    pub here: String,
    pub params: Params,
    pub headers: HeaderMap,
    /// The body of a form.
    pub body: Bytes,
}

impl Site {
    /// A console that reaches the server by `connector`.
    pub fn new(options: ConsoleOptions, connector: Connector) -> Site {
        Site {
            options,
            connector,
            sessions: Sessions::default(),
            tries: Tries::new(),
            streams: Arc::new(Semaphore::new(CONSOLE_STREAMS_MAX)),
            files: Arc::new(Semaphore::new(CONSOLE_FILES_MAX)),
            kept: Kept::default(),
            sent: SentPages::default(),
        }
    }

    /// The name of the session's cookie.
    pub fn cookie(&self) -> String {
        let host = if self.options.tls { "__Host-" } else { "" };
        format!("{host}delayd_session_{}", self.options.port)
    }

    /// The session that a request's cookie names.
    pub fn session_of(&self, headers: &HeaderMap) -> Option<Arc<Session>> {
        self.sessions.find(cookie_of(headers, &self.cookie())?)
    }

    /// Whether a password may come this way.
    pub fn takes_passwords(&self, ends: Ends) -> bool {
        let is_local = ends.peer.ip().to_canonical().is_loopback();
        self.options.tls || self.options.insecure || ends.is_https || is_local
    }

    pub fn is_token(&self, said: &[u8]) -> bool {
        self.options.token.as_ref().is_some_and(|token| token.is(said))
    }
}

pub fn cookie_of<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs =
        cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(|(key, _)| *key == name).map(|(_, value)| value).next()
}

impl SessionRequest {
    /// Whether the form was made for this session: another site cannot know its token.
    pub fn is_own(&self) -> bool {
        let told = self.params.text("token");
        let told = told.or_else(|| self.headers.get("x-delayd-token")?.to_str().ok());
        told.is_some_and(|told| {
            subtle::ConstantTimeEq::ct_eq(told.as_bytes(), self.session.token.as_bytes()).into()
        })
    }

    pub async fn page(self) -> Response {
        let Some(page) = pages::find(&self.path) else {
            return problem(StatusCode::NOT_FOUND, "No such page.");
        };
        let params = &self.params;
        let mut commands = vec![command!["INFO", "everything"]];
        commands.extend((page.ask)(params));
        let whole = page.whole;
        // Held until the file is read to its end.
        let permit = match page.file {
            Some(_) => Arc::clone(&self.site.files).acquire_owned().await.ok(),
            None => None,
        };
        let Some(mut replies) = self.fetch(commands, whole).await else { return self.over() };
        let info = replies.remove(0);
        let more = (page.more)(params, &replies);
        if replies.iter().any(is_unsure) {
            replies.extend(vec![unsure(); more.len()]);
        } else if !more.is_empty() {
            let Some(found) = self.fetch(more, whole).await else { return self.over() };
            replies.extend(found);
        }
        let frame = self.frame(&info);
        if let Some(file) = page.file {
            return holding(file(params, &replies), permit).await;
        }
        let markup = (page.show)(&frame, params, &replies);
        live::page(&self, markup.into_string())
    }

    /// Replies to commands in their order, those that are kept with the others; none if the session is over. Bodies are
    /// cut unless they are wanted `whole`. What a leader would not answer is not asked for: each would take a second to fail.
    pub async fn fetch(&self, commands: Vec<Command>, whole: bool) -> Option<Vec<Value>> {
        debug_assert!(commands.len() <= CONSOLE_PIPELINE_MAX);
        let (user, db, kept) = (&self.session.user, self.params.db(), &self.site.kept);
        let mut replies: Vec<Option<Value>> =
            commands.iter().map(|asked| kept.find(user, db, asked)).collect();
        let body_bytes_max = match self.params.bytes("columns").is_some() {
            true => CONSOLE_COLUMN_BYTES,
            false => CONSOLE_EXCERPT_BYTES,
        };
        // Expensive commands are sent alone, so that their time is known; the others together, except for jobs: their
        // bodies may be large.
        let (dear, cheap): (Vec<usize>, Vec<usize>) = (0..commands.len())
            .filter(|at| replies[*at].is_none())
            .partition(|at| good_for(&commands[*at]).is_some());
        let (jobs, cheap): (Vec<usize>, Vec<usize>) =
            cheap.into_iter().partition(|at| whole || &commands[*at][0][..] == b"DELAY.GET");
        // INFO waits for nothing, and says whether the others would.
        let (info, cheap): (Vec<usize>, Vec<usize>) =
            cheap.into_iter().partition(|at| &commands[*at][0][..] == b"INFO");
        let together = [&info[..], &cheap[..]].into_iter().chain(jobs.chunks(JOBS_AT_ONCE));
        let mut goes_on = true;
        for some in together.filter(|some| !some.is_empty()) {
            if !goes_on {
                break;
            }
            let asked = some.iter().map(|at| commands[*at].clone()).collect();
            for (at, mut reply) in some.iter().zip(self.session.look(db, asked).await.ok()?) {
                let of_jobs = [&b"DELAY.GET"[..], b"DELAY.PEEK"].contains(&&commands[*at][0][..]);
                if of_jobs && !whole {
                    reply.cut_bodies(body_bytes_max);
                }
                goes_on &= !is_unanswered(&reply);
                replies[*at] = Some(reply);
            }
        }
        for at in dear {
            if !goes_on {
                break;
            }
            let (began, asked) = (Instant::now(), commands[at].clone());
            let reply = self.session.look(db, vec![asked.clone()]).await.ok()?.pop()?;
            goes_on &= !is_unsure(&reply);
            replies[at] = Some(kept.keep(user, db, asked, reply, now_ms(), began.elapsed()));
        }
        Some(replies.into_iter().map(|reply| reply.unwrap_or_else(unsure)).collect())
    }

    /// The chrome around a page.
    pub fn frame(&self, info: &Value) -> PageFrame {
        let options = &self.site.options;
        let state = ServerState::read(info);
        let node = state.as_ref().and_then(OwnNode::of);
        let follower = node.filter(|node| node.role == NodeRole::Follower);
        let leader = follower.map(|node| options.nodes.page(node.leader, &self.here));
        PageFrame {
            now_ms: now_ms(),
            here: self.here.clone(),
            user: self.session.user.clone(),
            token: self.session.token.clone(),
            theme: cookie_of(&self.headers, "delayd_theme").unwrap_or_default().to_owned(),
            readonly: options.readonly,
            redis_cli: options.redis_cli.clone(),
            grafana: options.grafana.clone(),
            on_leader: leader.unwrap_or_default(),
            message: self.session.take_message(),
            may: self.session.may.clone(),
            state,
            db: self.params.db(),
        }
    }

    /// The session has ended on the server's side.
    pub fn over(&self) -> Response {
        self.site.sessions.end(&self.session.key);
        Redirect::to("/login?over=1").into_response()
    }
}

/// Whether a reply did not come, or is of INFO and says that others will not: the node leads and commits nothing.
fn is_unanswered(reply: &Value) -> bool {
    let is_stuck = |state: ServerState| state.number("raft_stuck_ms").is_some();
    is_unsure(reply) || ServerState::read(reply).is_some_and(is_stuck)
}

/// Wall clock, ms.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
