//! Login sessions: a session is a connection of its own to the server, which has sent AUTH. It ends with that
//! connection, so CLIENT KILL and a deleted user log out.

use super::relay::Relay;
use super::token::secret;
use crate::console::site::client::{Connector, Ends, Link};
use crate::console::view::chrome::{ActionResult, May};
use crate::console::words::value::{Command, Value, command};
use crate::limits::{CONSOLE_IDLE_TIME, CONSOLE_SESSION_TIME};
use crate::lock::lock;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// A logged-in user.
#[derive(Debug)]
pub struct Session {
    /// The value of the browser's cookie.
    pub key: String,
    /// An additional field of every form, which no other site can know.
    pub token: String,
    /// The user's name.
    pub user: Vec<u8>,
    /// Where the user came from, for the log.
    pub ends: Ends,
    /// The commands the user may run.
    pub may: May,
    /// Held while a search of the session runs: one at a time.
    pub searching: tokio::sync::Mutex<()>,
    /// None once the server has ended it.
    line: Arc<tokio::sync::Mutex<Option<SessionLink>>>,
    began: Instant,
    used: Mutex<Instant>,
    message: Mutex<Option<ActionResult>>,
}

/// The connection of a session, and the database it is in.
#[derive(Debug)]
struct SessionLink {
    link: Link,
    connector: Connector,
    db: u8,
}

/// All sessions, in memory: a restart logs all users out.
#[derive(Debug, Default)]
pub struct Sessions(Mutex<HashMap<String, Arc<Session>>>);

/// Why a login failed.
#[derive(Debug)]
pub enum Denied {
    /// The user or the password is wrong; or one is needed.
    Wrong,
    /// The server's answer when it refused the connection: too many clients, protected mode, loading.
    Refused(String),
}

impl Session {
    /// Sends commands to the database `db`; the replies, or why there are none: the session is over. Where the user
    /// may not go to that database, the refusal is the reply to each of them.
    ///
    /// A browser that leaves midway ends nothing: the replies are read to their end by a task.
    ///
    /// # Errors
    /// The server ended the connection.
    pub async fn ask(&self, db: u8, commands: Vec<Command>) -> io::Result<Vec<Value>> {
        let count = commands.len();
        Ok(self.ask_once(db, commands).await?.unwrap_or_else(|| vec![unsure(); count]))
    }

    /// The same for commands that only look: they are sent again if a node of a cluster stopped leading meanwhile.
    ///
    /// # Errors
    /// The server ended the connection.
    pub async fn look(&self, db: u8, commands: Vec<Command>) -> io::Result<Vec<Value>> {
        match self.ask_once(db, commands.clone()).await? {
            Some(replies) => Ok(replies),
            None => self.ask(db, commands).await,
        }
    }

    /// None if the connection had to be made anew: some of the commands may have been run.
    async fn ask_once(&self, db: u8, commands: Vec<Command>) -> io::Result<Option<Vec<Value>>> {
        let line = Arc::clone(&self.line);
        let task = tokio::spawn(async move {
            let mut line = line.lock().await;
            let Some(asked) = line.as_mut() else { return Err(io::ErrorKind::BrokenPipe.into()) };
            let replies = asked.ask(db, &commands).await;
            drop(asked.link.take_permit());
            if replies.is_ok() || asked.resume().await {
                return Ok(replies.ok());
            }
            *line = None;
            replies.map(Some)
        });
        task.await.map_err(io::Error::other)?
    }

    /// Kept until the next page is shown.
    pub fn say(&self, message: ActionResult) {
        *lock(&self.message) = Some(message);
    }

    /// The pending message, once.
    pub fn take_message(&self) -> Option<ActionResult> {
        lock(&self.message).take()
    }

    fn is_over(&self, now: Instant) -> bool {
        let idle = now.duration_since(*lock(&self.used));
        // One that is asked something just now is there.
        let open = |mut line: tokio::sync::MutexGuard<'_, Option<SessionLink>>| {
            line.as_mut().is_some_and(|line| line.link.is_open())
        };
        let closed = self.line.try_lock().is_ok_and(|line| !open(line));
        closed || idle > CONSOLE_IDLE_TIME || now.duration_since(self.began) > CONSOLE_SESSION_TIME
    }
}

impl SessionLink {
    /// Nothing is sent before it is certain where it goes: what is meant for one database is not done in another.
    async fn ask(&mut self, db: u8, commands: &[Command]) -> io::Result<Vec<Value>> {
        if db != self.db {
            let selected = self.link.ask(&[command!["SELECT", db.to_string()]]).await?.pop();
            if let Some(refused) = selected.filter(|reply| reply.error().is_some()) {
                return Ok(vec![refused; commands.len()]);
            }
            self.db = db;
        }
        self.link.ask(commands).await
    }

    /// Goes on with another connection, if the server ended this one for a reason of its own.
    async fn resume(&mut self) -> bool {
        if !self.link.relay().is_left() {
            return false;
        }
        let Ok(mut link) = self.connector.open_after(&self.link) else { return false };
        let greeted = link.ask(&[command!["HELLO", "3", "SETNAME", "console"]]).await;
        let is_greeted = greeted.is_ok_and(|replies| matches!(replies[..], [Value::Map(_)]));
        (self.link, self.db) = (link, 0);
        is_greeted
    }
}

/// In place of a reply that did not come.
pub fn unsure() -> Value {
    let text =
        "UNSURE this node stopped leading, or commits nothing: whether this was done is not known";
    Value::Error(text.into())
}

pub fn is_unsure(reply: &Value) -> bool {
    reply.error().is_some_and(|text| text.starts_with("UNSURE"))
}

impl Sessions {
    /// Begins one of `link`, on which `named` has logged in; beyond the connector's `sessions_max` another one ends.
    ///
    /// # Errors
    /// The server ended the connection.
    pub async fn begin(
        &self,
        mut link: Link,
        ends: Ends,
        named: &[u8],
        connector: &Connector,
    ) -> io::Result<Arc<Session>> {
        let who = link.ask(&[command!["ACL", "WHOAMI"]]).await?;
        // A user that may not even ask for its name is called as at login.
        let user = who.first().and_then(Value::bytes).unwrap_or(named).to_vec();
        let may = May::read(&link.ask(&May::ask(&user)).await?);
        let now = Instant::now();
        let session = Arc::new(Session {
            key: secret(),
            token: secret(),
            user,
            ends,
            may,
            searching: tokio::sync::Mutex::new(()),
            line: Arc::new(tokio::sync::Mutex::new(Some(SessionLink {
                link,
                connector: connector.clone(),
                db: 0,
            }))),
            began: now,
            used: Mutex::new(now),
            message: Mutex::default(),
        });
        let mut sessions = lock(&self.0);
        sessions.retain(|_, session| !session.is_over(now));
        if sessions.len() >= connector.sessions_max {
            make_room(&mut sessions);
        }
        sessions.insert(session.key.clone(), Arc::clone(&session));
        Ok(session)
    }

    /// The session of a cookie, used now.
    pub fn find(&self, key: &str) -> Option<Arc<Session>> {
        let now = Instant::now();
        let mut sessions = lock(&self.0);
        let session = sessions.get(key)?;
        if session.is_over(now) {
            sessions.remove(key);
            return None;
        }
        *lock(&session.used) = now;
        Some(Arc::clone(session))
    }

    /// Whether it is there still; does not count as use.
    pub fn has(&self, key: &str) -> bool {
        lock(&self.0).get(key).is_some_and(|session| !session.is_over(Instant::now()))
    }

    /// Ends those that are over: the server counts their connections as clients until then.
    pub fn sweep(&self) {
        let now = Instant::now();
        lock(&self.0).retain(|_, session| !session.is_over(now));
    }

    /// Logs out.
    pub fn end(&self, key: &str) {
        lock(&self.0).remove(key);
    }
}

/// A connection that has logged in, and its user.
///
/// # Errors
/// See [`Denied`].
pub async fn connect(
    connector: &Connector,
    ends: Ends,
    login: Option<(&[u8], &[u8])>,
    relay: Relay,
) -> Result<Link, Denied> {
    let refused = |error: io::Error| Denied::Refused(error.to_string());
    let mut link = connector.open(ends, relay).map_err(refused)?;
    let mut hello = command!["HELLO", "3"];
    if let Some((user, password)) = login {
        hello.extend(command!["AUTH", user, password]);
    }
    hello.extend(command!["SETNAME", "console"]);
    let replies = link.ask(&[hello]).await.map_err(refused)?;
    match replies.first() {
        Some(Value::Map(_)) => Ok(link),
        Some(Value::Error(text)) => {
            let text = String::from_utf8_lossy(text);
            let wrong = ["WRONGPASS", "NOAUTH"].iter().any(|class| text.starts_with(class));
            Err(if wrong { Denied::Wrong } else { Denied::Refused(text.into_owned()) })
        }
        _ => Err(Denied::Refused("the server gave no answer".to_owned())),
    }
}

/// Ends the idlest session of the user with most of them: one user's logins log no other user out.
fn make_room(sessions: &mut HashMap<String, Arc<Session>>) {
    let mut counts: HashMap<&[u8], usize> = HashMap::new();
    sessions.values().for_each(|session| *counts.entry(&session.user).or_default() += 1);
    let last = sessions
        .values()
        .min_by_key(|session| (Reverse(counts[&session.user[..]]), *lock(&session.used)));
    if let Some(key) = last.map(|session| session.key.clone()) {
        sessions.remove(&key);
    }
}
