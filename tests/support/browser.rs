//! The least of a browser: requests over a connection each, a cookie, and the token of a page.

use crate::support::http::free_port;
use crate::support::patience::limit;
use crate::support::program::{Folder, Program};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

/// An answer; names of headers in small letters.
#[derive(Debug)]
pub struct Page {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub bytes: Vec<u8>,
}

impl Page {
    /// Of all that came over a connection; status 0 if that is no answer.
    pub fn read(all: &[u8]) -> Page {
        let end = all.windows(4).position(|four| four == b"\r\n\r\n");
        let (head, bytes) = end.map_or((all, &b""[..]), |at| (&all[..at], &all[at + 4..]));
        let head = String::from_utf8_lossy(head);
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let header = |line: &str| {
            let (name, value) = line.split_once(": ")?;
            Some((name.to_ascii_lowercase(), value.to_owned()))
        };
        let headers = lines.filter_map(header).collect();
        let mut page = Page { status: status.unwrap_or(0), headers, bytes: bytes.to_vec() };
        if page.header("transfer-encoding") == "chunked" {
            page.bytes = unchunked(bytes);
        }
        page
    }

    /// Empty if it is not there.
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(header, _)| header == name);
        found.map_or("", |(_, value)| value)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// What the session's forms say.
    pub fn token(&self) -> String {
        let text = self.text();
        text.split_once("data-token=\"").expect("a token").1.split('"').next().unwrap().to_owned()
    }

    /// What is told about the last action.
    pub fn message(&self) -> String {
        let text = self.text();
        let told = text.split_once("id=\"message\"").map_or("", |(_, rest)| rest);
        told.split("</p>").next().unwrap().to_owned()
    }
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(at) = rest.windows(2).position(|two| two == b"\r\n") {
        let size = std::str::from_utf8(&rest[..at]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        let from = (at + 2).min(rest.len());
        let until = (from + size).min(rest.len());
        whole.extend(&rest[from..until]);
        rest = &rest[(until + 2).min(rest.len())..];
    }
    whole
}

/// A request as it goes over the wire.
pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if method == "POST" {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    let mut bytes = format!("{head}\r\n").into_bytes();
    bytes.extend(body);
    bytes
}

/// Sends it and reads until the end.
pub fn exchange(mut stream: impl Read + Write, bytes: &[u8]) -> Page {
    // One that is refused early may be closed before all of it is sent.
    let _ = stream.write_all(bytes);
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    Page::read(&all)
}

/// All bytes as `%NN`.
pub fn encoded(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("%{byte:02X}")).collect()
}

/// A server with a console.
#[derive(Debug)]
pub struct Console {
    pub program: Program,
    pub port: u16,
    folder: Folder,
}

impl Console {
    pub fn start(options: &[&str]) -> Console {
        let (folder, port) = (Folder::new("console"), free_port());
        let port_text = port.to_string();
        let mut all = vec!["--console-port", &port_text, "--appendonly", "no"];
        all.extend(options);
        let program = Program::start(&folder.0, &all);
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < limit(), "there is no console");
        }
        Console { program, port, folder }
    }

    pub fn connect(&self) -> TcpStream {
        crate::support::http::connect(self.port)
    }

    /// Of a server whose default user has no password: what the link in its folder shows.
    pub fn entry_token(&self) -> Option<String> {
        let link = std::fs::read_to_string(self.folder.0.join("console-link")).ok()?;
        Some(link.trim_end().split_once("token=").expect("a token").1.to_owned())
    }

    /// What [`Console::request`] writes, and its answer.
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Page {
        exchange(self.connect(), &self.request(method, path, headers, body))
    }

    /// By the console's address, and with no cookie. What goes to the API shows the token, if there is one and
    /// nothing else is shown.
    pub fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Vec<u8> {
        let host = format!("127.0.0.1:{}", self.port);
        let mut all = vec![("Host", host.as_str())];
        all.extend(headers);
        let says = |name| headers.iter().any(|(header, _)| *header == name);
        let is_bare = path.starts_with("/api/") && !says("Authorization") && !says("Cookie");
        let token = self.entry_token().filter(|_| is_bare).map(|token| format!("Bearer {token}"));
        all.extend(token.as_deref().map(|token| ("Authorization", token)));
        request(method, path, &all, body)
    }

    pub fn log_in(&self, user: &str, password: &str) -> Page {
        let form = format!("user={user}&password={password}&back=%2Fqueues");
        self.send("POST", "/login", &[], form.as_bytes())
    }

    /// Of a user who is logged in.
    pub fn visitor(&self, user: &str, password: &str) -> Visitor<'_> {
        let page = self.log_in(user, password);
        assert_eq!(page.status, 303, "{}", page.text());
        Visitor::of(self, &page)
    }

    /// Of the default user, who has no password, by the link.
    pub fn guest(&self) -> Visitor<'_> {
        Visitor::of(self, &self.enter())
    }

    /// The link is opened.
    pub fn enter(&self) -> Page {
        let token = self.entry_token().expect("the link's file is there");
        self.send("GET", &format!("/login?token={token}"), &[], b"")
    }

    /// Bytes as they are, and what comes back until the end.
    pub fn exchange(&self, bytes: &str) -> Page {
        exchange(self.connect(), bytes.as_bytes())
    }

    pub fn folder(&self) -> &Folder {
        &self.folder
    }
}

/// Somebody with a session.
#[derive(Debug)]
pub struct Visitor<'a> {
    console: &'a Console,
    pub cookie: String,
}

impl<'a> Visitor<'a> {
    pub fn of(console: &'a Console, page: &Page) -> Visitor<'a> {
        let cookie = page.header("set-cookie").split(';').next().unwrap().to_owned();
        assert!(cookie.contains('='), "no cookie in {page:?}");
        Visitor { console, cookie }
    }

    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Page {
        let mut all = vec![("Cookie", self.cookie.as_str())];
        all.extend(headers);
        self.console.send(method, path, &all, body)
    }

    pub fn get(&self, path: &str) -> Page {
        self.send("GET", path, &[], b"")
    }

    /// A page that must be there.
    pub fn page(&self, path: &str) -> String {
        let page = self.get(path);
        assert_eq!(page.status, 200, "{path}: {}", page.text());
        page.text()
    }

    pub fn token(&self) -> String {
        self.get("/").token()
    }

    /// Sends a form of the session, and says what is told then.
    pub fn act(&self, path: &str, form: &str) -> String {
        let form = format!("token={}&back=%2Fqueues&{form}", self.token());
        let page = self.send("POST", path, &[], form.as_bytes());
        assert_eq!((page.status, page.header("location")), (303, "/queues"), "{}", page.text());
        self.get("/queues").message()
    }
}
