//! Finds one request after another in a read buffer that grows by pieces.

use bytes::{Buf, BytesMut};

use super::args::{Args, Span};
use super::error::ProtocolError;
use super::inline;
use super::number::parse_i64;
use crate::resp::error::{
    ELEMENTS_MAX, FrameLimits, LINE_BYTES_MAX, UNAUTHENTICATED_BULK_BYTES_MAX,
    UNAUTHENTICATED_ELEMENTS_MAX,
};

/// Spans kept allocated between commands: 8 KiB per connection. A larger batch gives its back.
const SPANS_KEPT: usize = 1024;

/// The least [`Framer::wanted`] asks for when it knows that more is coming.
const WANTED_BYTES_STEP: usize = 64 * 1024;

/// The result of [`Framer::next`] at the start of the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Framed {
    /// No whole request yet: read more, then ask again.
    Incomplete,
    /// A whole command: read [`Framer::args`], then [`Framer::consume`] it.
    Command,
    /// `POST` or `Host:` as a command name, in either framing and any case: a web browser was made
    /// to talk to this port. Close without a reply, replies not yet sent included, and log it.
    Attack,
    /// Send the text as an error after the replies before it, then close.
    Error(ProtocolError),
}

/// The place one connection's requests have been read up to.
///
/// All bytes before `at` are understood and never looked at again. A request of three elements that
/// arrives in two pieces, `|` being the place:
///
/// ```text
/// *3..$3..SET..$1..k..$20                    two elements found, third header unfinished
///                    |
/// *3..$3..SET..$1..k..$20000000..xxxxxxx     if 20 MB are allowed: bulk awaited at `|`
///                              |
/// *3..$3..SET..$1..k..$20000000..            if not: what came is cut off, `left` bytes to come
///                              |
/// ```
///
/// Cost: 28 ns for a command of six arguments and 192 bytes in the buffer, no allocation once
/// the spans have grown to the widest command; each byte of a header is looked at once, argument
/// bytes never, however the request is cut into pieces.
///
/// ```
/// use bytes::BytesMut;
/// use delayd::resp::{Framed, FrameLimits, Framer};
///
/// let limits = FrameLimits::DEFAULT;
/// let mut framer = Framer::new();
/// let mut buf = BytesMut::from("PING 'a b'\r\n*1\r\n$4\r\nQU");
///
/// assert_eq!(framer.next(&mut buf, &limits), Framed::Command);
/// assert_eq!(framer.args(&buf).get(1).and_then(|arg| arg.bytes()), Some(&b"a b"[..]));
/// framer.consume(&mut buf);
///
/// assert_eq!(framer.next(&mut buf, &limits), Framed::Incomplete);
/// buf.extend_from_slice(b"IT\r\n");
/// assert_eq!(framer.next(&mut buf, &limits), Framed::Command);
/// ```
#[derive(Debug, Default)]
pub struct Framer {
    state: FramerState,
    /// Start of the first byte not yet understood, from the start of the buffer.
    at: usize,
    /// Up to here the search for the end of the line that starts at `at` has come. Smaller than
    /// `at`: not begun.
    searched: usize,
    /// Elements that are not complete yet.
    elements_left: u32,
    /// Bytes of this request that count against `command_bytes_max`: all but discarded ones.
    counted: usize,
    spans: Vec<Span>,
    /// The first argument this call of `next` stepped over in the buffer instead of keeping.
    gap: Option<Gap>,
    /// Bytes looked at, at most: what searches for line ends passed, 6 for every plain header, and
    /// 11 for every attempt at a short number.
    #[cfg(test)]
    looked_at: usize,
}

#[derive(Debug, Clone, Copy, Default)]
enum FramerState {
    /// Between requests.
    #[default]
    Start,
    /// Within an array: the header of the next element is awaited.
    Header,
    /// Within an array: `len` bytes and their line end are awaited at `at`.
    Bulk { len: u32 },
    /// Within an array: `left` more bytes of an oversized element, line end included, must be
    /// discarded on arrival.
    Discard { left: usize },
    /// A command is complete and ends at `at`.
    Complete,
    /// The connection is over; the verdict is final.
    Over(Framed),
}

/// Where discarded bytes begin in the buffer, and the element after which they do.
#[derive(Debug, Clone, Copy)]
struct Gap {
    at: usize,
    next_span: usize,
}

impl Framer {
    /// A framer at the start of a connection. Allocates nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks for the next request in `buf`, which must be the same buffer each time, changed only
    /// by the reader appending to it and by this framer.
    ///
    /// Empty lines and arrays of no or negative length are skipped, as in Redis. A command not yet
    /// consumed is reported again, and so is the end of the connection. May cut off bytes at the end
    /// of `buf` that belong to an oversized argument.
    pub fn next(&mut self, buf: &mut BytesMut, limits: &FrameLimits) -> Framed {
        let frame = match self.state {
            FramerState::Complete => return Framed::Command,
            FramerState::Over(frame) => return frame,
            FramerState::Start => self.start(buf, limits),
            _ => self.elements(buf, limits),
        };
        match frame {
            Ok(true) if self.is_attack(buf) => {
                self.state = FramerState::Over(Framed::Attack);
                Framed::Attack
            }
            Ok(true) => {
                self.state = FramerState::Complete;
                Framed::Command
            }
            Ok(false) => Framed::Incomplete,
            Err(error) => {
                self.state = FramerState::Over(Framed::Error(error));
                Framed::Error(error)
            }
        }
    }

    /// The arguments of the command that [`next`](Self::next) found in `buf`; none at other times.
    #[inline]
    pub fn args<'a>(&'a self, buf: &'a [u8]) -> Args<'a> {
        match self.state {
            FramerState::Complete => Args::new(buf, &self.spans),
            _ => Args::new(buf, &[]),
        }
    }

    /// Drops the command that [`next`](Self::next) found from `buf`, in O(1): the bytes stay where
    /// they are until the buffer needs the room. Without a finished command, does nothing.
    #[inline]
    pub fn consume(&mut self, buf: &mut BytesMut) {
        if let FramerState::Complete = self.state {
            buf.advance(self.at);
            self.reset();
            self.state = FramerState::Start;
        }
    }

    /// How many bytes the reader may well make room for; 0 if any amount will do.
    ///
    /// An announced size is only believed as far as the client has gone to the expense of sending:
    /// the rest of the awaited element, but at most 64 KiB or as much as has arrived of it, whichever
    /// is more. So 12 bytes of input hold 64 KiB at most, and a body of 16 MiB is read with 9
    /// reservations.
    pub fn wanted(&self, buf: &BytesMut) -> usize {
        match self.state {
            FramerState::Bulk { len } => {
                let arrived = buf.len().saturating_sub(self.at);
                let missing = (len as usize + 2).saturating_sub(arrived);
                missing.min(arrived.max(WANTED_BYTES_STEP))
            }
            FramerState::Discard { left } => left.min(WANTED_BYTES_STEP),
            _ => 0,
        }
    }

    /// Reads the first line of a request, skipping empty ones. `Ok(true)`: a command is complete.
    fn start(&mut self, buf: &mut BytesMut, limits: &FrameLimits) -> Result<bool, ProtocolError> {
        loop {
            match buf.first() {
                None => return Ok(false),
                Some(b'*') => {
                    let Some((elements, end)) = self.element_count(buf, limits)? else {
                        return Ok(false);
                    };
                    if elements > 0 {
                        self.at = end;
                        self.counted = end;
                        self.elements_left = elements;
                        self.state = FramerState::Header;
                        return self.elements(buf, limits);
                    }
                    self.at = end;
                }
                Some(_) => {
                    if !self.inline_line(buf, limits)? {
                        return Ok(false);
                    }
                    if !self.spans.is_empty() {
                        return Ok(true);
                    }
                }
            }
            buf.advance(self.at);
            self.reset();
        }
    }

    /// The number after `*` and where its line ends; 0 for a negative one.
    fn element_count(
        &mut self,
        buf: &[u8],
        limits: &FrameLimits,
    ) -> Result<Option<(u32, usize)>, ProtocolError> {
        let found = match short_number(buf, 1) {
            Some((number, end)) => Some((i64::from(number), end)),
            None => match self.header_end(buf, ProtocolError::CountTooLong)? {
                None => None,
                Some(end) => {
                    let number = parse_i64(&buf[1..end]).ok_or(ProtocolError::InvalidCount)?;
                    Some((number, end + 2))
                }
            },
        };
        match found {
            Some((count, _)) if count > i64::from(ELEMENTS_MAX) => Err(ProtocolError::InvalidCount),
            Some((count, _))
                if !limits.authenticated && count > i64::from(UNAUTHENTICATED_ELEMENTS_MAX) =>
            {
                Err(ProtocolError::UnauthenticatedCount)
            }
            // In range after the two checks above, the negative ones excepted.
            Some((count, end)) => Ok(Some((u32::try_from(count).unwrap_or(0), end))),
            None => Ok(None),
        }
    }

    /// Splits an inline command, if its line end has arrived. `at` is then after it.
    fn inline_line(
        &mut self,
        buf: &mut BytesMut,
        limits: &FrameLimits,
    ) -> Result<bool, ProtocolError> {
        let Some(line_end) = self.find(buf, b'\n') else {
            return if buf.len() > LINE_BYTES_MAX {
                Err(ProtocolError::InlineTooLong)
            } else {
                Ok(false)
            };
        };
        if line_end >= limits.command_bytes_max as usize {
            return Err(ProtocolError::CommandTooLong { bytes_max: limits.command_bytes_max });
        }
        self.at = line_end + 1;
        let line = buf[..line_end].strip_suffix(b"\r").unwrap_or(&buf[..line_end]);
        let end = line.len() as u32;
        inline::split(buf, end, limits.argument_bytes_max, &mut self.spans)?;
        Ok(true)
    }

    /// Goes on with the elements of an array. `Ok(true)`: the last one is complete.
    fn elements(
        &mut self,
        buf: &mut BytesMut,
        limits: &FrameLimits,
    ) -> Result<bool, ProtocolError> {
        let complete = self.scan(buf, limits)?;
        if !complete && let Some(gap) = self.gap {
            self.close_gaps(buf, gap);
        }
        self.gap = None;
        Ok(complete)
    }

    /// Goes from element to element, touching only headers.
    fn scan(&mut self, buf: &[u8], limits: &FrameLimits) -> Result<bool, ProtocolError> {
        loop {
            let len = match self.state {
                FramerState::Bulk { len } => len,
                FramerState::Discard { left } => {
                    if !self.discard(buf, left) {
                        return Ok(false);
                    }
                    continue;
                }
                _ if self.elements_left == 0 => return Ok(true),
                _ => {
                    self.scan_plain(buf, limits);
                    if self.elements_left == 0 {
                        return Ok(true);
                    }
                    let Some((len, end)) = self.bulk_length(buf, limits)? else {
                        return Ok(false);
                    };
                    self.counted += end - self.at;
                    self.at = end;
                    if len > limits.argument_bytes_max {
                        self.spans.push(Span::discarded(len));
                        self.check_counted(0, limits)?;
                        self.state = FramerState::Discard { left: len as usize + 2 };
                        continue;
                    }
                    self.check_counted(len as usize + 2, limits)?;
                    len
                }
            };
            let end = self.at + len as usize + 2;
            if buf.len() < end {
                self.state = FramerState::Bulk { len };
                return Ok(false);
            }
            // Like Redis, this steps over the two bytes after a bulk string without a look: a wrong
            // length shows at the next header.
            self.push_kept(len, limits)?;
            self.counted += len as usize + 2;
            self.at = end;
            self.elements_left -= 1;
            self.state = FramerState::Header;
        }
    }

    /// The hot loop: takes elements of up to 999 bytes that are here as a whole and break no limit,
    /// and stops before any other. Kept apart with its state in registers it
    /// takes 28 ns for a command of six arguments; as one with the careful loop it took 86.
    #[inline]
    fn scan_plain(&mut self, buf: &[u8], limits: &FrameLimits) {
        let mut len_max = limits.bulk_bytes_max.min(limits.argument_bytes_max);
        if !limits.authenticated {
            len_max = len_max.min(UNAUTHENTICATED_BULK_BYTES_MAX);
        }
        // One bound for both: the bytes that are here, and those that may count. Every offset below
        // it fits a `u32` unless bytes were stepped over in a buffer of more than 4 GiB.
        let may_count = (limits.command_bytes_max as usize).saturating_sub(self.counted);
        let end_max = (self.at + may_count).min(buf.len()).min(u32::MAX as usize);
        let start = self.at;
        let (mut at, mut left) = (self.at, self.elements_left);
        while left > 0
            && let Some((len, content)) = plain_header(buf, at)
            && len <= len_max
            && content + len as usize + 2 <= end_max
        {
            self.spans.push(Span::kept(content as u32, len));
            at = content + len as usize + 2;
            left -= 1;
        }
        #[cfg(test)]
        {
            self.looked_at += 6 * (self.elements_left - left) as usize;
        }
        self.counted += at - start;
        self.at = at;
        self.elements_left = left;
    }

    /// Notes the element of `len` bytes at `at`.
    #[inline]
    fn push_kept(&mut self, len: u32, limits: &FrameLimits) -> Result<(), ProtocolError> {
        match u32::try_from(self.at) {
            Ok(start) if start < u32::MAX => {
                self.spans.push(Span::kept(start, len));
                Ok(())
            }
            // Only bytes stepped over in a buffer of more than 4 GiB lead here.
            _ => Err(ProtocolError::CommandTooLong { bytes_max: limits.command_bytes_max }),
        }
    }

    #[inline]
    fn check_counted(&self, more: usize, limits: &FrameLimits) -> Result<(), ProtocolError> {
        if self.counted + more > limits.command_bytes_max as usize {
            return Err(ProtocolError::CommandTooLong { bytes_max: limits.command_bytes_max });
        }
        Ok(())
    }

    /// The number after `$` at `at` and where its line ends.
    #[inline]
    fn bulk_length(
        &mut self,
        buf: &[u8],
        limits: &FrameLimits,
    ) -> Result<Option<(u32, usize)>, ProtocolError> {
        #[cfg(test)]
        {
            self.looked_at += 11;
        }
        if buf.get(self.at) == Some(&b'$')
            && let Some((len, end)) = short_number(buf, self.at + 1)
        {
            self.check_length(len, limits)?;
            return Ok(Some((len, end)));
        }
        self.unusual_length(buf, limits)
    }

    /// As `bulk_length`, when the line is unfinished, wrong, or of ten digits and more.
    #[cold]
    fn unusual_length(
        &mut self,
        buf: &[u8],
        limits: &FrameLimits,
    ) -> Result<Option<(u32, usize)>, ProtocolError> {
        let Some(end) = self.header_end(buf, ProtocolError::LengthTooLong)? else {
            return Ok(None);
        };
        // The line end is found, but it may be the very first byte.
        let got = buf[self.at];
        if got != b'$' {
            return Err(ProtocolError::ExpectedBulk { got });
        }
        let number = parse_i64(&buf[self.at + 1..end]).ok_or(ProtocolError::InvalidLength)?;
        let len = u32::try_from(number).map_err(|_| ProtocolError::InvalidLength)?;
        self.check_length(len, limits)?;
        Ok(Some((len, end + 2)))
    }

    #[inline]
    fn check_length(&self, len: u32, limits: &FrameLimits) -> Result<(), ProtocolError> {
        if len > limits.bulk_bytes_max {
            return Err(ProtocolError::InvalidLength);
        }
        if !limits.authenticated && len > UNAUTHENTICATED_BULK_BYTES_MAX {
            return Err(ProtocolError::UnauthenticatedLength);
        }
        Ok(())
    }

    /// The place of the CR of the header line at `at`, once the byte after it, whatever it may be,
    /// has come too.
    fn header_end(
        &mut self,
        buf: &[u8],
        too_long: ProtocolError,
    ) -> Result<Option<usize>, ProtocolError> {
        match self.find(buf, b'\r') {
            Some(end) if end + 1 < buf.len() => Ok(Some(end)),
            Some(_) => Ok(None),
            None if buf.len() - self.at > LINE_BYTES_MAX => Err(too_long),
            None => Ok(None),
        }
    }

    /// The first `wanted` from `at` on, going on where the last search for it ended.
    fn find(&mut self, buf: &[u8], wanted: u8) -> Option<usize> {
        let from = self.searched.max(self.at);
        let found = buf[from..].iter().position(|&byte| byte == wanted);
        self.searched = found.map_or(buf.len(), |offset| from + offset);
        #[cfg(test)]
        {
            self.looked_at += self.searched - from;
        }
        found.map(|offset| from + offset)
    }

    /// Steps over up to `left` bytes of an oversized element. Returns whether it has ended.
    fn discard(&mut self, buf: &[u8], left: usize) -> bool {
        let here = left.min(buf.len() - self.at);
        if here > 0 && self.gap.is_none() {
            self.gap = Some(Gap { at: self.at, next_span: self.spans.len() });
        }
        self.at += here;
        if here < left {
            self.state = FramerState::Discard { left: left - here };
            return false;
        }
        self.elements_left -= 1;
        self.state = FramerState::Header;
        true
    }

    /// Takes the bytes stepped over by this call out of an unfinished request, by moving down what
    /// was kept since. A call moves at most what it has read, so all calls together are linear, and
    /// between calls the buffer holds no more than `command_bytes_max` and one read.
    #[cold]
    fn close_gaps(&mut self, buf: &mut BytesMut, gap: Gap) {
        let mut write = gap.at;
        for span in &mut self.spans[gap.next_span..] {
            if let Some(range) = span.range() {
                let len = range.len();
                buf.copy_within(range, write);
                // Fits: it only moves down.
                *span = Span::kept(write as u32, len as u32);
                write += len;
            }
        }
        let tail = buf.len() - self.at;
        buf.copy_within(self.at.., write);
        buf.truncate(write + tail);
        self.searched = self.searched.max(self.at) - self.at + write;
        self.at = write;
    }

    /// Whether the finished command is named `POST` or `Host:`.
    #[inline]
    fn is_attack(&self, buf: &[u8]) -> bool {
        let name = Args::new(buf, &self.spans).get(0).and_then(|name| name.bytes());
        name.is_some_and(|name| match name.len() {
            4 => name.eq_ignore_ascii_case(b"post"),
            5 => name.eq_ignore_ascii_case(b"host:"),
            _ => false,
        })
    }

    /// Forgets the request that has just been taken out of the buffer, but not the state.
    #[inline]
    fn reset(&mut self) {
        self.at = 0;
        self.searched = 0;
        self.counted = 0;
        self.spans.clear();
        if self.spans.capacity() > SPANS_KEPT {
            self.spans = Vec::new();
        }
    }
}

/// The number and the end of an element header of one to three digits at `at`, if the six bytes that
/// the shortest whole element has are there. Read without a loop or a bounds check per byte.
#[inline]
fn plain_header(buf: &[u8], at: usize) -> Option<(u32, usize)> {
    let head: &[u8; 6] = buf.get(at..)?.first_chunk()?;
    let digit = |index: usize| u32::from(head[index].wrapping_sub(b'0'));
    let (first, second, third) = (digit(1), digit(2), digit(3));
    if head[0] != b'$' || first > 9 {
        return None;
    }
    if head[2] == b'\r' {
        return Some((first, at + 4));
    }
    if first == 0 || second > 9 {
        return None;
    }
    if head[3] == b'\r' {
        return Some((first * 10 + second, at + 5));
    }
    (third <= 9 && head[4] == b'\r').then_some((first * 100 + second * 10 + third, at + 6))
}

/// A number of one to nine digits without leading zeros and where its line ends, if all of it and
/// the byte after its CR are in the buffer. Anything else is left to the careful path. A loop over
/// digits beats searching for the CR first, as lengths mostly have one to three.
#[inline]
fn short_number(buf: &[u8], at: usize) -> Option<(u32, usize)> {
    let text = buf.get(at..)?;
    let mut number = 0u32;
    for (index, &byte) in text.iter().take(10).enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit < 10 && index < 9 {
            number = number * 10 + u32::from(digit);
        } else if byte == b'\r'
            && index > 0
            && (text[0] != b'0' || index == 1)
            && text.len() > index + 1
        {
            return Some((number, at + index + 2));
        } else {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `data` in reads of `piece_bytes`; returns the last outcome and the bytes looked at.
    fn feed(data: &[u8], piece_bytes: usize) -> (Framed, usize) {
        let (mut framer, mut buf) = (Framer::new(), BytesMut::new());
        let mut last = Framed::Incomplete;
        for piece in data.chunks(piece_bytes) {
            buf.extend_from_slice(piece);
            last = framer.next(&mut buf, &FrameLimits::DEFAULT);
        }
        (last, framer.looked_at)
    }

    // Starting over at each read would look at 400,000 headers some 950 times: 2 billion bytes.
    #[test]
    fn a_large_request_is_looked_at_once() {
        let element = [&b"$32\r\n"[..], &[b'x'; 32], b"\r\n"].concat();
        let data = [&b"*400000\r\n"[..], &element.repeat(400_000)].concat();
        let pieces = data.len().div_ceil(16 * 1024);
        let (last, looked_at) = feed(&data, 16 * 1024);
        assert_eq!(last, Framed::Command);
        assert!(looked_at <= (400_000 + pieces) * 16, "{looked_at} bytes in {pieces} reads");
    }

    #[test]
    fn a_line_is_searched_once() {
        let mut line = vec![b'x'; LINE_BYTES_MAX - 2];
        line.push(b'\n');
        for start in [&b""[..], b"*", b"*1\r\n$"] {
            let data = [start, &line[start.len()..]].concat();
            let (_, looked_at) = feed(&data, 1);
            // One byte each time, and the attempt at a short number.
            assert!(looked_at <= data.len() * 12, "{looked_at}");
        }
    }

    #[test]
    fn spans_of_a_large_request_are_given_back() {
        let (mut framer, limits) = (Framer::new(), FrameLimits::DEFAULT);
        for (args, kept) in [(SPANS_KEPT, true), (SPANS_KEPT + 1, false)] {
            let mut buf = BytesMut::from("a ".repeat(args).as_bytes());
            buf.extend_from_slice(b"\n");
            assert_eq!(framer.next(&mut buf, &limits), Framed::Command);
            assert_eq!(framer.args(&buf).len(), args);
            framer.consume(&mut buf);
            assert_eq!(framer.spans.capacity() > 0, kept);
        }
    }
}
