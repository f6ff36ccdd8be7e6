//! Logging in and out.

use crate::console::pages;
use crate::console::site::client::{Ends, Link};
use crate::console::site::enter::{self, RefusedLogin};
use crate::console::site::relay::Relay;
use crate::console::site::session::Session;
use crate::console::site::{Site, cookie_of};
use crate::console::view::chrome::PageFrame;
use crate::console::view::layout;
use crate::console::view::response::problem;
use crate::console::words::params::Params;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{Html, IntoResponse, Redirect, Response};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::sync::Arc;

const INSECURE: &str = "A password would cross the network as plain text. Set up TLS (tls-port and its files), use a \
    tunnel to this machine, or, behind a proxy that speaks TLS, name it in console-trusted-proxies or start with \
    --console-insecure yes.";
const SLOWED: &str =
    "Too many wrong passwords for this user from this address. Wait a few seconds.";
const STALE: &str = "This link does not belong to the running server: each start makes a new one, and it stops \
    working once the default user has a password.";

/// For visitors that are not logged in: the way to the login, and back afterwards.
pub fn ask_for(method: &Method, headers: &HeaderMap, uri: &Uri) -> Response {
    if headers.contains_key("x-delayd-parts") {
        // The script of a page that was open for too long.
        return problem(StatusCode::UNAUTHORIZED, "The session is over.");
    }
    let back = match *method {
        Method::POST => "/",
        _ => uri.path_and_query().map_or("/", |here| here.as_str()),
    };
    Redirect::to(&format!("/login?back={}", utf8_percent_encode(back, NON_ALPHANUMERIC)))
        .into_response()
}

/// A request to the page of the login, and where it came in.
#[derive(Clone, Copy)]
pub struct Visit<'a> {
    pub site: &'a Site,
    pub ends: Ends,
    pub headers: &'a HeaderMap,
    pub params: &'a Params,
}

impl Visit<'_> {
    /// The form; or the login itself, for a link with the token.
    pub async fn form(self) -> Response {
        let back = way_back(self.params);
        if self.site.session_of(self.headers).is_some() {
            return Redirect::to(back).into_response();
        }
        if let Some(token) = self.params.bytes("token") {
            return self.by_link(token).await;
        }
        if self.params.has("entered") {
            // Not redirected: of a link on another site that would be the same visit still, on which the browser does
            // not send the cookie.
            return Html(layout::onward(back).into_string()).into_response();
        }
        let over = "The session is over: the server ended it, or it was idle for too long.";
        self.shown(StatusCode::OK, self.params.has("over").then_some(over))
    }

    /// The link of `delayd console` was opened: a session begins, and the token leaves the address.
    async fn by_link(self, token: &[u8]) -> Response {
        if !self.site.takes_passwords(self.ends) {
            return self.shown(StatusCode::FORBIDDEN, Some(INSECURE));
        }
        if !self.site.is_token(token) {
            // Not counted: any page can send a browser here, and 256 bits cannot be guessed.
            return self.shown(StatusCode::UNAUTHORIZED, Some(STALE));
        }
        match enter::by_token(self.site, self.ends, Relay::for_session()).await {
            Ok(link) => {
                let back = utf8_percent_encode(way_back(self.params), NON_ALPHANUMERIC);
                let onward = format!("/login?entered=1&back={back}");
                self.begin(link, enter::DEFAULT, &onward).await
            }
            Err(refused) => self.denied(&refused),
        }
    }

    /// The form was sent.
    pub async fn log_in(self) -> Response {
        let user = self.params.bytes("user").unwrap_or(enter::DEFAULT);
        let password = self.params.bytes("password").unwrap_or_default();
        let given = Some((user, password));
        match enter::enter(self.site, self.ends, given, Relay::for_session()).await {
            Ok(link) => self.begin(link, user, way_back(self.params)).await,
            Err(refused) => self.denied(&refused),
        }
    }

    /// A session instead of the one before, and on to `onward`.
    async fn begin(self, link: Link, user: &[u8], onward: &str) -> Response {
        let Visit { site, ends, headers, .. } = self;
        let session = match site.sessions.begin(link, ends, user, &site.connector).await {
            Ok(session) => session,
            Err(error) => return self.denied(&RefusedLogin::Server(error.to_string())),
        };
        tracing::info!(user = %user.escape_ascii(), address = %ends.peer, "console: logged in");
        if let Some(old) = cookie_of(headers, &site.cookie()) {
            site.sessions.end(old);
        }
        let mut response = Redirect::to(onward).into_response();
        let cookie = format!("{}={}{}", site.cookie(), session.key, attributes(site, ends));
        set(&mut response, &cookie);
        response
    }

    fn denied(self, refused: &RefusedLogin) -> Response {
        let (status, text) = match refused {
            RefusedLogin::Insecure => (StatusCode::FORBIDDEN, INSECURE),
            RefusedLogin::TooMany => (StatusCode::TOO_MANY_REQUESTS, SLOWED),
            RefusedLogin::Server(why) => (StatusCode::SERVICE_UNAVAILABLE, why.as_str()),
            RefusedLogin::Wrong | RefusedLogin::Missing => {
                (StatusCode::UNAUTHORIZED, "The user or the password is wrong.")
            }
        };
        let mut response = self.shown(status, Some(text));
        if status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(header::RETRY_AFTER, enter::retry_after());
        }
        response
    }

    fn shown(self, status: StatusCode, text: Option<&str>) -> Response {
        let (site, back) = (self.site, way_back(self.params));
        let frame = PageFrame {
            theme: cookie_of(self.headers, "delayd_theme").unwrap_or_default().to_owned(),
            here: format!("/login?back={}", utf8_percent_encode(back, NON_ALPHANUMERIC)),
            ..PageFrame::default()
        };
        let takes = site.takes_passwords(self.ends);
        let user = self.params.text("user").unwrap_or("default");
        let text = text.or((!takes).then_some(INSECURE));
        let markup = pages::login::show(&frame, back, user, text, site.options.token.is_some());
        (status, Html(markup.into_string())).into_response()
    }
}

/// Ends the session, and shows the form.
pub fn log_out(site: &Site, session: &Arc<Session>) -> Response {
    site.sessions.end(&session.key);
    let mut response = Redirect::to("/login?other=1").into_response();
    set(&mut response, &format!("{}=; Max-Age=0{}", site.cookie(), attributes(site, session.ends)));
    response
}

/// A cookie with the look of pages.
pub fn set_theme(site: &Site, ends: Ends, params: &Params) -> Response {
    let theme = params.text("theme").filter(|theme| ["light", "dark"].contains(theme));
    let mut response = Redirect::to(way_back(params)).into_response();
    let age = if theme.is_some() { 31_536_000 } else { 0 };
    set(
        &mut response,
        &format!("delayd_theme={}; Max-Age={age}{}", theme.unwrap_or(""), attributes(site, ends)),
    );
    response
}

/// Where the user was, if that is a page of ours: `//evil.example` is a link elsewhere, and so is `/\evil`.
pub fn way_back(params: &Params) -> &str {
    let is_ours = |back: &&str| {
        back.starts_with('/')
            && !back[1..].starts_with(['/', '\\'])
            && back.bytes().all(|byte| byte.is_ascii_graphic())
            && !back.starts_with("/login")
    };
    params.text("back").filter(is_ours).unwrap_or("/")
}

fn attributes(site: &Site, ends: Ends) -> &'static str {
    match site.options.tls || ends.is_https {
        true => "; Path=/; HttpOnly; SameSite=Strict; Secure",
        false => "; Path=/; HttpOnly; SameSite=Strict",
    }
}

fn set(response: &mut Response, cookie: &str) {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_leads_to_no_other_site() {
        let back = |text: &str| {
            let params = Params::read(
                format!("back={}", utf8_percent_encode(text, NON_ALPHANUMERIC)).as_bytes(),
            );
            way_back(&params).to_owned()
        };
        for fine in ["/", "/queue?db=0&name=a%2Fb", "/job?id=%FF"] {
            assert_eq!(back(fine), fine);
        }
        for other in [
            "//evil.example", "/\\evil.example", "https://evil.example", "evil", "/a\r\nx: y",
            "/login?back=/", "",
        ] {
            assert_eq!(back(other), "/", "{other}");
        }
    }
}
