//! One connection that does not block, how requests are written and how whole replies are told apart.
//! Cheap, since the generator shares the machine with the server: nothing is allocated per request.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};

/// What the other side speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// RESP2.
    Resp,
    /// beanstalkd's lines.
    Beanstalk,
    /// NATS, of which messages alone count as replies.
    Nats,
}

/// A connection with requests on their way out and replies on their way in.
pub struct Wire {
    pub stream: TcpStream,
    protocol: Protocol,
    out: Vec<u8>,
    sent: usize,
    /// What was read stands in `at..end`; the rest is room.
    input: Vec<u8>,
    at: usize,
    end: usize,
    /// How far into the reply at `at` it was looked at, and how many values it lacks from there on: a
    /// long one that comes in pieces is gone through once.
    looked: (usize, u64),
    /// Replies that have not come.
    pub pending: usize,
}

impl Wire {
    pub fn connect(port: u16, protocol: Protocol) -> Wire {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
        Wire::over(stream, protocol)
    }

    /// Of a connection that is there.
    pub fn over(stream: TcpStream, protocol: Protocol) -> Wire {
        stream.set_nodelay(true).expect("an option of every socket");
        stream.set_nonblocking(true).expect("an option of every socket");
        let (out, input) = (Vec::new(), vec![0; 1 << 10]);
        Wire { stream, protocol, out, sent: 0, input, at: 0, end: 0, looked: (0, 1), pending: 0 }
    }

    /// Hands over requests that `replies` replies answer.
    pub fn send(&mut self, replies: usize, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.out);
        self.pending += replies;
        self.flush();
    }

    /// The same for requests that stand there already.
    pub fn send_bytes(&mut self, replies: usize, bytes: &[u8]) {
        self.pending += replies;
        let taken = if self.is_blocked() { 0 } else { write_some(&mut self.stream, bytes) };
        self.out.extend_from_slice(&bytes[taken..]);
    }

    /// Whether requests wait for the socket.
    pub fn is_blocked(&self) -> bool {
        self.sent < self.out.len()
    }

    /// Sends what the socket takes.
    pub fn flush(&mut self) {
        while self.is_blocked() {
            match write_some(&mut self.stream, &self.out[self.sent..]) {
                0 => return,
                count => self.sent += count,
            }
        }
        (self.sent, _) = (0, self.out.clear());
    }

    /// Reads what is there.
    pub fn fill(&mut self) {
        loop {
            self.make_room();
            match self.stream.read(&mut self.input[self.end..]) {
                Ok(0) => panic!("the server closed the connection"),
                Ok(count) => self.end += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => panic!("the server closed the connection: {error}"),
            }
            if self.end < self.input.len() {
                return;
            }
        }
    }

    fn make_room(&mut self) {
        self.input.copy_within(self.at..self.end, 0);
        (self.end, self.at) = (self.end - self.at, 0);
        if self.end == self.input.len() {
            self.input.resize(self.end * 2, 0);
        }
    }

    /// The next whole reply, as it stands on the wire. An error ends the bench: the work was not done.
    pub fn reply(&mut self) -> Option<&[u8]> {
        // It asks whether anybody is there: after two minutes without an answer it would mind.
        while self.protocol == Protocol::Nats
            && self.input[self.at..self.end].starts_with(b"PING\r\n")
        {
            self.at += b"PING\r\n".len();
        }
        let rest = &self.input[self.at..self.end];
        let length = match self.protocol {
            Protocol::Resp => resp_length(rest, &mut self.looked)?,
            Protocol::Beanstalk => beanstalk_length(rest)?,
            Protocol::Nats => nats_length(rest)?,
        };
        self.looked = (0, 1);
        let reply = &self.input[self.at..self.at + length];
        self.at += length;
        self.pending -= 1;
        let failed = self.protocol == Protocol::Resp && reply[0] == b'-';
        assert!(!failed, "{}", String::from_utf8_lossy(reply));
        Some(reply)
    }
}

/// Bytes that the socket took now.
fn write_some(stream: &mut TcpStream, bytes: &[u8]) -> usize {
    match stream.write(bytes) {
        Ok(count) => count,
        Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
        Err(error) => panic!("the server closed the connection: {error}"),
    }
}

/// A word of a request: text, or a number in decimal.
#[derive(Clone, Copy)]
pub enum Word<'a> {
    Text(&'a [u8]),
    Number(u64),
}

impl<'a> From<&'a str> for Word<'a> {
    fn from(text: &'a str) -> Word<'a> {
        Word::Text(text.as_bytes())
    }
}

impl<'a> From<&'a [u8]> for Word<'a> {
    fn from(text: &'a [u8]) -> Word<'a> {
        Word::Text(text)
    }
}

impl From<u64> for Word<'_> {
    fn from(number: u64) -> Self {
        Word::Number(number)
    }
}

/// Appends a request in RESP.
pub fn request(out: &mut Vec<u8>, words: &[Word<'_>]) {
    request_of(out, words.len());
    words.iter().for_each(|one| word(out, *one));
}

/// Appends the head of a request of so many words.
pub fn request_of(out: &mut Vec<u8>, words: usize) {
    head(out, b'*', words as u64);
}

/// Appends one word of a request.
pub fn word(out: &mut Vec<u8>, word: Word<'_>) {
    let mut room = [0; 20];
    let text = match word {
        Word::Text(text) => text,
        Word::Number(number) => digits(number, &mut room),
    };
    head(out, b'$', text.len() as u64);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

fn head(out: &mut Vec<u8>, kind: u8, count: u64) {
    out.push(kind);
    out.extend_from_slice(digits(count, &mut [0; 20]));
    out.extend_from_slice(b"\r\n");
}

/// `number` in decimal.
pub fn digits(mut number: u64, room: &mut [u8; 20]) -> &[u8] {
    let mut at = room.len();
    loop {
        at -= 1;
        room[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &room[at..];
        }
    }
}

/// The first line without its end, and where the next one begins.
pub fn line(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((&bytes[..end - 1], end + 1))
}

/// A whole decimal number.
pub fn number(digits: &[u8]) -> i64 {
    let (minus, digits) = match digits {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let mut value = 0i64;
    for digit in digits {
        assert!(digit.is_ascii_digit(), "a whole number");
        value = value * 10 + i64::from(digit - b'0');
    }
    if minus { -value } else { value }
}

fn resp_length(bytes: &[u8], looked: &mut (usize, u64)) -> Option<usize> {
    let (at, left) = looked;
    while *left > 0 {
        let (head, next) = line(bytes.get(*at..)?)?;
        *at += next;
        *left -= 1;
        let counted = |digits: &[u8]| u64::try_from(number(digits)).unwrap_or(0);
        match head[0] {
            b'*' => *left += counted(&head[1..]),
            b'$' if head[1] != b'-' => *at += counted(&head[1..]) as usize + 2,
            _ => {}
        }
    }
    (*at <= bytes.len()).then_some(*at)
}

fn beanstalk_length(bytes: &[u8]) -> Option<usize> {
    let (head, next) = line(bytes)?;
    let mut words = head.split(|byte| *byte == b' ');
    let body = match words.next()? {
        b"RESERVED" | b"FOUND" => number(words.nth(1)?) as usize + 2,
        b"OK" => number(words.next()?) as usize + 2,
        b"INSERTED" | b"DELETED" | b"USING" | b"WATCHING" | b"TIMED_OUT" | b"DEADLINE_SOON" => 0,
        _ => panic!("beanstalkd: {}", String::from_utf8_lossy(head)),
    };
    (bytes.len() >= next + body).then_some(next + body)
}

fn nats_length(bytes: &[u8]) -> Option<usize> {
    let (head, next) = line(bytes)?;
    assert!(head.starts_with(b"MSG "), "NATS: {}", String::from_utf8_lossy(head));
    let length = head.rsplit(|byte| *byte == b' ').next().expect("a word");
    let whole = next + number(length) as usize + 2;
    (bytes.len() >= whole).then_some(whole)
}

/// A value of a reply: bulk strings and integers in order, however deep; nils are passed over.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    Bulk(&'a [u8]),
    Integer(i64),
}

/// The values of a reply.
pub fn values(reply: &[u8]) -> impl Iterator<Item = Value<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < reply.len() {
            let (head, next) = line(&reply[at..])?;
            at += next;
            match head[0] {
                b':' => return Some(Value::Integer(number(&head[1..]))),
                b'$' if head[1] != b'-' => {
                    let bulk = &reply[at..at + number(&head[1..]) as usize];
                    at += bulk.len() + 2;
                    return Some(Value::Bulk(bulk));
                }
                _ => {}
            }
        }
        None
    })
}

/// The bulk strings of a reply, in order.
pub fn bulks(reply: &[u8]) -> impl Iterator<Item = &[u8]> {
    values(reply).filter_map(|value| match value {
        Value::Bulk(bulk) => Some(bulk),
        Value::Integer(_) => None,
    })
}
