//! The arguments of one framed command, read where they lie in the buffer.

/// One argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arg<'a> {
    /// The bytes as sent; of an inline command, with its quotes resolved.
    Bytes(&'a [u8]),
    /// Longer than `argument_bytes_max`: the bytes are gone, only their number is known. A command
    /// answers it with an error that names the size and the limit.
    Oversized {
        /// Announced and discarded bytes.
        len: u32,
    },
}

impl<'a> Arg<'a> {
    /// The bytes, or `None` if they were discarded.
    pub fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Oversized { .. } => None,
        }
    }
}

/// All arguments of one command, its name first. A pair of slices: copying is free, nothing is
/// allocated, `get` is O(1).
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    buf: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Args<'a> {
    pub(super) fn new(buf: &'a [u8], spans: &'a [Span]) -> Self {
        Self { buf, spans }
    }

    /// How many arguments, the name included; at least 1 in a finished command.
    pub fn len(self) -> usize {
        self.spans.len()
    }

    /// Whether there are none, which holds only while no command is finished.
    pub fn is_empty(self) -> bool {
        self.spans.is_empty()
    }

    /// Argument `index`; 0 is the name.
    pub fn get(self, index: usize) -> Option<Arg<'a>> {
        self.spans.get(index).map(|span| span.read(self.buf))
    }

    /// The arguments in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = Arg<'a>> + DoubleEndedIterator + Clone {
        self.spans.iter().map(move |span| span.read(self.buf))
    }
}

/// Where an argument lies, relative to the start of the buffer. 8 bytes, so that the half million
/// elements of a large batch take 4 MiB; `command_bytes_max` being a `u32` makes all offsets fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    start: u32,
    len: u32,
}

/// `start` of an argument that was discarded. No kept argument can start there: its line end would
/// lie beyond the largest `command_bytes_max`.
const DISCARDED: u32 = u32::MAX;

impl Span {
    pub(super) fn kept(start: u32, len: u32) -> Self {
        debug_assert!(start != DISCARDED);
        Self { start, len }
    }

    pub(super) fn discarded(len: u32) -> Self {
        Self { start: DISCARDED, len }
    }

    /// The byte range, or `None` for a discarded argument.
    pub(super) fn range(self) -> Option<std::ops::Range<usize>> {
        let start = self.start as usize;
        (self.start != DISCARDED).then_some(start..start + self.len as usize)
    }

    #[inline]
    fn read(self, buf: &[u8]) -> Arg<'_> {
        match self.range() {
            Some(range) => Arg::Bytes(&buf[range]),
            None => Arg::Oversized { len: self.len },
        }
    }
}
