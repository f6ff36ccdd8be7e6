//! The stylesheet, the script and the mark: part of the binary, compressed once.
//!
//! Their names carry a hash of their content, so they may be kept by browsers for ever, and a page of a newer server
//! never meets the script of an older one.

use crate::console::view::response::{gzip, takes_gzip};
use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flate2::Compression;
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

#[derive(Clone, Debug)]
pub struct Asset {
    /// Where it is: `/assets/console-0a1b2c3d.css`.
    pub path: String,
    /// Its `content-type`.
    pub kind: &'static str,
    /// Its content.
    pub plain: &'static [u8],
    /// The same, gzipped, for all that say they take it.
    pub gzipped: Bytes,
}

/// For `cache-control` of all of them.
pub const KEPT: &str = "public, max-age=31536000, immutable";

pub fn all() -> &'static [Asset] {
    &*ASSETS
}

/// The one at a path; none where it is of another version.
pub fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

/// The answer to a request for one, below `/assets/`.
pub fn answer(name: &str, headers: &HeaderMap) -> Response {
    let Some(asset) = find(&format!("/assets/{name}")) else {
        return (StatusCode::NOT_FOUND, "no such file; the page is from another version")
            .into_response();
    };
    let zips = takes_gzip(headers);
    let body = if zips { asset.gzipped.clone() } else { Bytes::from_static(asset.plain) };
    let mut response = Response::new(Body::from(body));
    let said = response.headers_mut();
    said.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.kind));
    said.insert(header::CACHE_CONTROL, HeaderValue::from_static(KEPT));
    said.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if zips {
        said.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

pub fn css_path() -> &'static str {
    &ASSETS[0].path
}

pub fn js_path() -> &'static str {
    &ASSETS[1].path
}

/// Path of the mark, for tabs.
pub fn icon_path() -> &'static str {
    &ASSETS[2].path
}

static ASSETS: LazyLock<[Asset; 3]> = LazyLock::new(|| {
    [
        asset("console", "css", "text/css; charset=utf-8", include_bytes!("assets/console.css")),
        asset(
            "console",
            "js",
            "text/javascript; charset=utf-8",
            include_bytes!("assets/console.js"),
        ),
        asset("delayd", "svg", "image/svg+xml", include_bytes!("assets/delayd.svg")),
    ]
});

fn asset(name: &str, ending: &str, kind: &'static str, plain: &'static [u8]) -> Asset {
    let digest = Sha256::digest(plain);
    let hash = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
    Asset {
        path: format!("/assets/{name}-{hash:08x}.{ending}"),
        kind,
        plain,
        gzipped: gzip(plain, Compression::best()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn they_are_small() {
        for asset in all() {
            let bytes = asset.gzipped.len();
            assert!((20..=8 << 10).contains(&bytes), "{} has {bytes} bytes gzipped", asset.path);
        }
        let lines = include_str!("assets/console.js").lines().count();
        assert!(lines <= 300, "the script has {lines} lines");
    }

    #[test]
    fn they_are_found_by_names_with_the_hash_of_their_content() {
        for path in [css_path(), js_path(), icon_path()] {
            let asset = find(path).expect("there");
            let mut plain = Vec::new();
            let mut decoder = flate2::read::GzDecoder::new(&asset.gzipped[..]);
            decoder.read_to_end(&mut plain).expect("gzip");
            assert_eq!(plain, asset.plain);
        }
        assert!(find("/assets/console-00000000.css").is_none());
        let one = asset("a", "css", "text/css", b"a{}");
        let other = asset("a", "css", "text/css", b"b{}");
        assert_ne!(one.path, other.path);
        assert_eq!(one.path.len(), "/assets/a-00000000.css".len());
    }

    /// The policy of the console forbids all of it; a browser would only be silent.
    #[test]
    fn nothing_in_them_needs_what_the_policy_forbids() {
        let script = include_str!("assets/console.js");
        for word in [
            "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
            "new Function",
        ] {
            assert!(!script.contains(word), "{word}");
        }
        let style = include_str!("assets/console.css");
        assert!(!style.contains("http") && !style.contains("@import"));
    }
}
