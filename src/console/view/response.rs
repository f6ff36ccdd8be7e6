//! Answers that are not pages: errors, files, and resources held until an answer has been sent.

use crate::console::view::layout;
use axum::body::{Body, Bytes, to_bytes};
use axum::http::StatusCode;
use axum::http::header::{self, HeaderValue};
use axum::response::{Html, IntoResponse, Response};

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
