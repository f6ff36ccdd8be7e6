//! Proves that frames on a plain connection come from the peer: each carries a *seal*, an HMAC-SHA256 of its number and
//! its bytes, cut to half, under a key of this connection and direction. A frame that is injected, dropped, changed or
//! repeated ends the connection. It does not encrypt: use `tls-cluster` for that, under which there are no seals.

use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

pub const SEAL_BYTES: usize = 16;

/// Seals the frames of one direction, in order, or checks their seals.
#[derive(Clone)]
pub struct Sealer {
    key: Hmac<Sha256>,
    count: u64,
}

impl Sealer {
    /// With a key that both sides have derived from the handshake.
    pub fn new(key: &[u8]) -> Sealer {
        let key = Hmac::new_from_slice(key).expect("a key may be of any length");
        Sealer { key, count: 0 }
    }

    pub fn seal<'a>(&mut self, parts: impl IntoIterator<Item = &'a Bytes>) -> Bytes {
        let mut code = self.next();
        parts.into_iter().for_each(|part| code.update(part));
        Bytes::copy_from_slice(&code.finalize().into_bytes()[..SEAL_BYTES])
    }

    pub fn is_sealed(&mut self, frame: &[u8], seal: &[u8]) -> bool {
        let mut code = self.next();
        code.update(frame);
        seal.len() == SEAL_BYTES && code.verify_truncated_left(seal).is_ok()
    }

    fn next(&mut self) -> Hmac<Sha256> {
        let mut code = self.key.clone();
        code.update(&self.count.to_le_bytes());
        self.count += 1;
        code
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_is_good_for_one_frame_at_its_place() {
        let (mut sealer, mut looks) = (Sealer::new(b"key"), Sealer::new(b"key"));
        let frames: Vec<Bytes> = (0..4u8).map(|at| Bytes::from(vec![at; 100])).collect();
        let seals: Vec<Bytes> = frames.iter().map(|frame| sealer.seal([frame])).collect();
        let at_zero = || Sealer::new(b"key");
        assert!(at_zero().is_sealed(&frames[0], &seals[0]));
        assert!(!at_zero().is_sealed(&frames[1], &seals[1]), "one was left out");
        assert!(!at_zero().is_sealed(&frames[1], &seals[0]), "it was changed");
        assert!(!at_zero().is_sealed(&frames[0], &seals[0][..8]), "it was cut");
        assert!(!Sealer::new(b"other").is_sealed(&frames[0], &seals[0]));
        for (frame, seal) in frames.iter().zip(&seals) {
            assert!(looks.is_sealed(frame, seal));
        }
        assert!(!looks.is_sealed(&frames[3], &seals[3]), "it came again");
    }
}
