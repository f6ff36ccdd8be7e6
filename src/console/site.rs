//! The console as one value: what it was told to be, who is logged in, and what each request comes to.

use super::frame::{Frame, State};
use super::guard;
use super::kept::{Kept, good_for};
use super::link::{Connector, Ends};
use super::params::Params;
use super::proxy::Proxies;
use super::session::{Session, Sessions};
use super::token::Token;
use super::tries::Tries;
use super::value::{Command, Value, command};
use super::{act, api, assets, export, live, login, pages, search};
use crate::limits::{
    CONSOLE_EXCERPT_BYTES, CONSOLE_FILES_MAX, CONSOLE_PIPELINE_MAX, CONSOLE_REQUEST_TIME,
    CONSOLE_RETRY_S, CONSOLE_STREAMS_MAX,
};
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State as Given};
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::response::{Html, IntoResponse, Redirect, Response};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::Semaphore;

/// How the console is to be.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Names it is reached by, beside its addresses.
    pub hosts: Vec<String>,
    /// It speaks TLS.
    pub tls: bool,
    /// Passwords are taken without TLS from other machines.
    pub insecure: bool,
    /// Proxies that are believed.
    pub proxies: Proxies,
    /// What lets the default user in while that has no password; none where it had one at the start.
    pub token: Option<Token>,
    /// Nothing is changed by it.
    pub readonly: bool,
    /// Origins whose pages may call the API.
    pub cors: Vec<String>,
    /// How long a command over HTTP may wait for a job.
    pub wait: Duration,
    /// A dashboard elsewhere; empty without one.
    pub grafana: String,
    /// How a shell reaches the server.
    pub redis_cli: String,
    /// The port it listens on, which tells its cookie from that of another console on the same machine.
    pub port: u16,
    /// Connections at a time.
    pub connections_max: usize,
}

/// See the module.
#[derive(Debug)]
#[allow(missing_docs, reason = "each is what its type says")]
pub struct Site {
    pub options: Options,
    pub connector: Connector,
    pub sessions: Sessions,
    pub tries: Tries,
    /// Streams that may be open.
    pub streams: Arc<Semaphore>,
    pub samples: live::Samples,
    /// Bodies that may be downloaded at a time.
    pub files: Arc<Semaphore>,
    pub kept: Kept,
}

/// Jobs asked for at once with their bodies.
const JOBS_AT_ONCE: usize = 3;

/// Bytes, and what is held until the last of them is in the kernel's hands.
struct Held<T> {
    bytes: Bytes,
    _held: T,
}

impl<T> AsRef<[u8]> for Held<T> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The same answer, with which `held` is given back only when all of it was sent: a body alone is dropped as soon as
/// its bytes wait to be written.
pub async fn holding<T: Send + 'static>(response: Response, held: T) -> Response {
    let (head, body) = response.into_parts();
    // All of it is there: nothing is copied or waited for.
    let bytes = to_bytes(body, usize::MAX).await.unwrap_or_default();
    Response::from_parts(head, Body::from(held_with(bytes, held)))
}

/// The same bytes, with which `held` is given back.
pub fn held_with<T: Send + 'static>(bytes: Bytes, held: T) -> Bytes {
    Bytes::from_owner(Held { bytes, _held: held })
}

/// A request whose sender is known.
#[derive(Debug)]
#[allow(missing_docs, reason = "each is what its name says")]
pub struct Asked {
    pub site: Arc<Site>,
    pub session: Arc<Session>,
    pub method: Method,
    pub path: String,
    /// The path and the query: a link to the page itself.
    pub here: String,
    pub params: Params,
    pub headers: HeaderMap,
    /// Of a form.
    pub body: Bytes,
}

impl Site {
    /// A console that reaches the server by `connector`.
    pub fn new(options: Options, connector: Connector, samples: live::Samples) -> Site {
        Site {
            options,
            connector,
            sessions: Sessions::default(),
            tries: Tries::new(),
            streams: Arc::new(Semaphore::new(CONSOLE_STREAMS_MAX)),
            samples,
            files: Arc::new(Semaphore::new(CONSOLE_FILES_MAX)),
            kept: Kept::default(),
        }
    }

    /// All of it as a service.
    pub fn router(self: Arc<Site>) -> Router {
        Router::new().fallback(answer).with_state(self)
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

    /// Whether this is the token.
    pub fn is_token(&self, said: &[u8]) -> bool {
        self.options.token.as_ref().is_some_and(|token| token.is(said))
    }
}

/// What a cookie says.
pub fn cookie_of<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs =
        cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(|(key, _)| *key == name).map(|(_, value)| value).next()
}

async fn answer(Given(site): Given<Arc<Site>>, request: Request) -> Response {
    let mut response = match request.extensions().get::<Ends>().copied() {
        Some(ends) => {
            let ends = site.options.proxies.ends(ends, request.headers());
            route(site, request, ends).await
        }
        None => refused(
            request.uri().path(),
            StatusCode::INTERNAL_SERVER_ERROR,
            "the connection is not known",
        ),
    };
    finish(&mut response);
    response
}

/// Adds what all answers say.
fn finish(response: &mut Response) {
    let later = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
    let later = later.contains(&response.status());
    let headers = response.headers_mut();
    if later {
        headers.entry(header::RETRY_AFTER).or_insert(HeaderValue::from(CONSOLE_RETRY_S));
    }
    guard::protect(headers);
}

/// Whether a program asks, which reads JSON.
fn is_api(path: &str) -> bool {
    path == "/api" || path.starts_with("/api/")
}

/// Why there is no answer, in the form that the path's are in.
fn refused(path: &str, status: StatusCode, text: &str) -> Response {
    if is_api(path) { api::refusal(status, &format!("ERR {text}")) } else { problem(status, text) }
}

/// The answer on a connection for which there is no place.
pub fn crowded(path: &str) -> Response {
    let text = "too many requests are being answered; try again later";
    let mut response = refused(path, StatusCode::SERVICE_UNAVAILABLE, text);
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    finish(&mut response);
    response
}

/// What a request comes to, before headers that all answers have.
async fn route(site: Arc<Site>, request: Request, ends: Ends) -> Response {
    if let Some((status, why)) = guard::refusal(&request, &site.options.hosts) {
        return refused(request.uri().path(), status, why);
    }
    let path = request.uri().path().to_owned();
    if let Some(name) = path.strip_prefix("/assets/") {
        return assets::answer(name, request.headers());
    }
    if is_api(&path) {
        return api::answer(site, request, ends).await;
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD | Method::POST) {
        let mut response = problem(StatusCode::METHOD_NOT_ALLOWED, "only GET, HEAD and POST");
        let allowed = HeaderValue::from_static("GET, HEAD, POST");
        response.headers_mut().insert(header::ALLOW, allowed);
        return response;
    }
    if request.method() == Method::POST && guard::is_of_another_site(request.headers()) {
        return problem(
            StatusCode::FORBIDDEN,
            "Another site made your browser ask this, so nothing was done.",
        );
    }
    if path == "/live" {
        return live::answer(&site, request.headers());
    }
    let late =
        || problem(StatusCode::SERVICE_UNAVAILABLE, "The server did not answer within 10 s.");
    let answered =
        tokio::time::timeout(CONSOLE_REQUEST_TIME, read_and_answer(site, request, ends)).await;
    answered.unwrap_or_else(|_| late())
}

async fn read_and_answer(site: Arc<Site>, request: Request, ends: Ends) -> Response {
    let (head, body) = request.into_parts();
    let body = match guard::whole(body).await {
        Ok(body) => body,
        Err((status, why)) => return problem(status, &format!("There was no answer: {why}.")),
    };
    let query = Params::read(head.uri.query().unwrap_or_default().as_bytes());
    let path = head.uri.path().to_owned();
    let mut params =
        if head.method == Method::POST { query.and(Params::read(&body)) } else { query };
    params.now_ms = now_ms();
    params.parts = head.headers.contains_key("x-delayd-parts");
    if params.names_no_db() {
        return problem(StatusCode::BAD_REQUEST, "There are the databases 0 to 15.");
    }
    match (path.as_str(), &head.method) {
        ("/login", &Method::POST) => {
            return login::log_in(&site, ends, &head.headers, &params).await;
        }
        ("/login", _) => return login::form(&site, ends, &head.headers, &params).await,
        _ => {}
    }
    let Some(session) = site.session_of(&head.headers) else {
        return login::ask_for(&head.method, &head.headers, &head.uri);
    };
    let here = head.uri.path_and_query().map_or("/", |here| here.as_str()).to_owned();
    let (method, headers) = (head.method, head.headers);
    let asked = Asked { site, session, method, path, here, params, headers, body };
    if asked.method == Method::POST {
        return match asked.is_own() {
            true => act::answer(asked).await,
            false => problem(
                StatusCode::FORBIDDEN,
                "The form was made for an earlier session. Go back, load the page again and repeat it.",
            ),
        };
    }
    if asked.path == "/export" {
        return export::answer(asked).await;
    }
    if asked.path == "/search" {
        return search::answer(asked).await;
    }
    asked.page().await
}

impl Asked {
    /// Whether the form was made for this session: another site cannot know its token.
    fn is_own(&self) -> bool {
        let told = self.params.text("token");
        let told = told.or_else(|| self.headers.get("x-delayd-token")?.to_str().ok());
        told.is_some_and(|told| {
            subtle::ConstantTimeEq::ct_eq(told.as_bytes(), self.session.token.as_bytes()).into()
        })
    }

    /// The page of the path.
    async fn page(self) -> Response {
        let Some(page) = pages::find(&self.path) else {
            return problem(StatusCode::NOT_FOUND, "There is no such page.");
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
        if !more.is_empty() {
            let Some(found) = self.fetch(more, whole).await else { return self.over() };
            replies.extend(found);
        }
        let frame = self.frame(&info);
        if let Some(file) = page.file {
            return holding(file(params, &replies), permit).await;
        }
        let markup = (page.show)(&frame, params, &replies);
        Html(markup.into_string()).into_response()
    }

    /// Replies to commands in their order, those that are kept with the others; none if the session is over. Bodies are
    /// cut unless they are wanted `whole`.
    pub async fn fetch(&self, commands: Vec<Command>, whole: bool) -> Option<Vec<Value>> {
        debug_assert!(commands.len() <= CONSOLE_PIPELINE_MAX);
        let (user, db, kept) = (&self.session.user, self.params.db(), &self.site.kept);
        let mut replies: Vec<Option<Value>> =
            commands.iter().map(|asked| kept.find(user, db, asked)).collect();
        // What is dear goes alone, so that its time is known; the rest at once, but for jobs: their bodies may be large.
        let (dear, cheap): (Vec<usize>, Vec<usize>) = (0..commands.len())
            .filter(|at| replies[*at].is_none())
            .partition(|at| good_for(&commands[*at]).is_some());
        let (jobs, cheap): (Vec<usize>, Vec<usize>) =
            cheap.into_iter().partition(|at| whole || &commands[*at][0][..] == b"DELAY.GET");
        for some in std::iter::once(&cheap[..]).chain(jobs.chunks(JOBS_AT_ONCE)) {
            let asked = some.iter().map(|at| commands[*at].clone()).collect();
            for (at, mut reply) in some.iter().zip(self.session.ask(db, asked).await.ok()?) {
                let of_jobs = [&b"DELAY.GET"[..], b"DELAY.PEEK"].contains(&&commands[*at][0][..]);
                if of_jobs && !whole {
                    reply.cut_bodies(CONSOLE_EXCERPT_BYTES);
                }
                replies[*at] = Some(reply);
            }
        }
        for at in dear {
            let (began, asked) = (Instant::now(), commands[at].clone());
            let reply = self.session.ask(db, vec![asked.clone()]).await.ok()?.pop()?;
            replies[at] = Some(kept.keep(user, db, asked, reply, now_ms(), began.elapsed()));
        }
        replies.into_iter().collect()
    }

    /// What stands around a page.
    pub fn frame(&self, info: &Value) -> Frame {
        let options = &self.site.options;
        // What is fetched beside a page is shown to nobody who would read a message twice.
        let message = self.session.take_message();
        Frame {
            now_ms: now_ms(),
            here: self.here.clone(),
            user: self.session.user.clone(),
            token: self.session.token.clone(),
            theme: cookie_of(&self.headers, "delayd_theme").unwrap_or_default().to_owned(),
            readonly: options.readonly,
            redis_cli: options.redis_cli.clone(),
            grafana: options.grafana.clone(),
            message,
            may: self.session.may.clone(),
            state: State::read(info),
            db: self.params.db(),
            samples: self.site.samples.newest(),
        }
    }

    /// The session has ended on the server's side.
    pub fn over(&self) -> Response {
        self.site.sessions.end(&self.session.key);
        Redirect::to("/login?over=1").into_response()
    }
}

/// Wall clock, ms.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// A page that says why there is no page.
pub fn problem(status: StatusCode, text: &str) -> Response {
    let markup = super::layout::bare(
        "delayd",
        maud::html! { h1 { (status.as_u16()) } p { (text) } p { a href="/" { "to the overview" } } },
    );
    (status, Html(markup.into_string())).into_response()
}

/// A file to be kept, not shown.
pub fn attachment(name: &str, content_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    let disposition = HeaderValue::from_str(&format!("attachment; filename=\"{name}\""));
    headers.insert(
        header::CONTENT_DISPOSITION,
        disposition.unwrap_or(HeaderValue::from_static("attachment")),
    );
    response
}
