//! What answers have in common: errors, files, compression, and resources held until an answer has been sent.

use crate::console::view::layout;
use axum::body::{Body, Bytes, to_bytes};
use axum::http::StatusCode;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::response::{Html, IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// A page that says why there is no page.
pub fn problem(status: StatusCode, text: &str) -> Response {
    let markup = layout::bare(
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

/// Whether a browser takes answers in gzip: `Accept-Encoding` names it, not with weight 0.
pub fn takes_gzip(headers: &HeaderMap) -> bool {
    let lines =
        headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|one| {
        let one = one.to_ascii_lowercase();
        let (name, weight) = one.split_once(';').unwrap_or((&one, ""));
        let weight = weight.trim().strip_prefix("q=").and_then(|weight| weight.parse::<f32>().ok());
        name.trim() == "gzip" && weight != Some(0.0)
    })
}

pub fn gzip(plain: &[u8], level: Compression) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), level);
    // A Vec takes all that is written.
    let written = encoder.write_all(plain).and_then(|()| encoder.finish());
    Bytes::from(written.unwrap_or_default())
}

/// Compresses a page: 100 KB become 15 in about 1 ms of the console's thread. Its changes are few, so they are compressed
/// harder. Not for a request that another site made, such as a page of another port or of a sister domain, to which the
/// cookie goes as well: a page shows what was asked for beside the session's token, and its length can reveal the token
/// to somebody who sees it on its way.
pub async fn zipped(response: Response) -> Response {
    let is_page = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.to_str().is_ok_and(|kind| kind.starts_with("text/html")));
    let level = match response.status() {
        StatusCode::IM_USED => Compression::default(),
        _ if is_page => Compression::fast(),
        _ => return response,
    };
    let (mut head, body) = response.into_parts();
    // All of it is there: pages are made as a whole.
    let plain = to_bytes(body, usize::MAX).await.unwrap_or_default();
    head.headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    head.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    head.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(head, Body::from(gzip(&plain, level)))
}

/// Bytes, and what is held until the last of them is in the kernel's hands.
struct HeldBytes<T> {
    bytes: Bytes,
    _held: T,
}

impl<T> AsRef<[u8]> for HeldBytes<T> {
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
    Bytes::from_owner(HeldBytes { bytes, _held: held })
}
