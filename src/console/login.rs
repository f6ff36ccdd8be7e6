//! Logging in and out.

use super::frame::Frame;
use super::link::Ends;
use super::params::Params;
use super::session::{Denied, Session};
use super::site::{Site, cookie_of, problem};
use super::{guard, layout, pages};
use crate::limits::CONSOLE_WRONG_TIME;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{Html, IntoResponse, Redirect, Response};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::sync::Arc;
use std::time::Instant;

/// To whoever is not logged in: the way there, and back afterwards.
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

/// The form; who needs no password is let in without one.
pub async fn form(site: &Site, ends: Ends, headers: &HeaderMap, params: &Params) -> Response {
    let back = way_back(params);
    if site.session_of(headers).is_some() {
        return Redirect::to(back).into_response();
    }
    let over = params
        .has("over")
        .then_some("The session is over: it was ended by the server, or idle for too long.");
    // A picture or a frame on another site is no visit: thousands would push out those who work.
    let is_visit = !guard::is_of_another_site(headers)
        || headers.get("sec-fetch-dest").is_some_and(|dest| dest == "document");
    if over.is_some() || params.has("other") || !is_visit || !guard::is_direct(headers) {
        return shown(site, ends, headers, params, StatusCode::OK, over);
    }
    match site.sessions.begin(&site.connector, ends, None).await {
        // Not redirected: of a link on another site that would be the same visit still, on which the browser does
        // not send the cookie.
        Ok(session) => {
            let mut response = Html(layout::onward(back).into_string()).into_response();
            set_cookie(site, &session, &mut response);
            response
        }
        Err(Denied::Wrong) => shown(site, ends, headers, params, StatusCode::OK, None),
        Err(Denied::Refused(why)) => {
            shown(site, ends, headers, params, StatusCode::SERVICE_UNAVAILABLE, Some(&why))
        }
    }
}

/// The form was sent.
pub async fn log_in(site: &Site, ends: Ends, headers: &HeaderMap, params: &Params) -> Response {
    if !site.takes_passwords(ends) {
        return shown(site, ends, headers, params, StatusCode::FORBIDDEN, Some(INSECURE));
    }
    let address = ends.peer.ip().to_canonical();
    if site.wrong.is_full(address, Instant::now()) {
        return shown(site, ends, headers, params, StatusCode::TOO_MANY_REQUESTS, Some(SLOWED));
    }
    site.wrong.count(address, Instant::now());
    let user = params.bytes("user").unwrap_or(b"default");
    let password = params.bytes("password").unwrap_or_default();
    match site.sessions.begin(&site.connector, ends, Some((user, password))).await {
        Ok(session) => {
            site.wrong.forgive(address);
            tracing::info!(user = %user.escape_ascii(), address = %ends.peer, "console: logged in");
            if let Some(old) = cookie_of(headers, &site.cookie()) {
                site.sessions.end(old);
            }
            let mut response = Redirect::to(way_back(params)).into_response();
            set_cookie(site, &session, &mut response);
            response
        }
        Err(Denied::Wrong) => {
            tokio::time::sleep(CONSOLE_WRONG_TIME).await;
            let text = "The user or the password is wrong.";
            shown(site, ends, headers, params, StatusCode::UNAUTHORIZED, Some(text))
        }
        Err(Denied::Refused(why)) => {
            site.wrong.forgive(address);
            shown(site, ends, headers, params, StatusCode::SERVICE_UNAVAILABLE, Some(&why))
        }
    }
}

const INSECURE: &str = "A password would cross the network as plain text. Set up TLS (tls-port and its files), come through \
    a tunnel to this machine, or, behind a proxy that speaks TLS, start with --console-insecure yes.";
const SLOWED: &str = "Too many wrong passwords came from this address. Wait for a minute.";

/// Ends the session, and shows the form.
pub fn log_out(site: &Site, session: &Arc<Session>) -> Response {
    site.sessions.end(&session.key);
    let mut response = Redirect::to("/login?other=1").into_response();
    set(&mut response, &format!("{}=; Max-Age=0{}", site.cookie(), attributes(site)));
    response
}

/// A cookie with the look of pages.
pub fn set_theme(site: &Site, params: &Params) -> Response {
    let theme = params.text("theme").filter(|theme| ["light", "dark"].contains(theme));
    let mut response = Redirect::to(way_back(params)).into_response();
    let age = if theme.is_some() { 31_536_000 } else { 0 };
    set(
        &mut response,
        &format!("delayd_theme={}; Max-Age={age}{}", theme.unwrap_or(""), attributes(site)),
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

fn shown(
    site: &Site,
    ends: Ends,
    headers: &HeaderMap,
    params: &Params,
    status: StatusCode,
    text: Option<&str>,
) -> Response {
    let frame = Frame {
        theme: cookie_of(headers, "delayd_theme").unwrap_or_default().to_owned(),
        here: format!("/login?back={}", utf8_percent_encode(way_back(params), NON_ALPHANUMERIC)),
        ..Frame::default()
    };
    let takes = site.takes_passwords(ends);
    let user = params.text("user").unwrap_or("default");
    let markup =
        pages::login::show(&frame, way_back(params), user, text.or((!takes).then_some(INSECURE)));
    (status, Html(markup.into_string())).into_response()
}

fn attributes(site: &Site) -> &'static str {
    match site.options.tls {
        true => "; Path=/; HttpOnly; SameSite=Strict; Secure",
        false => "; Path=/; HttpOnly; SameSite=Strict",
    }
}

fn set_cookie(site: &Site, session: &Session, response: &mut Response) {
    set(response, &format!("{}={}{}", site.cookie(), session.key, attributes(site)));
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
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "evil",
            "/a\r\nx: y",
            "/login?back=/",
            "",
        ] {
            assert_eq!(back(other), "/", "{other}");
        }
    }
}
