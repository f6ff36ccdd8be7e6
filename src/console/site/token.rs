//! Secrets that cannot be guessed: keys of sessions, and the token that opens a console whose user has no password.

use std::fmt;
use subtle::ConstantTimeEq;

/// 256 bits, in hex.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// A fresh one.
    pub fn draw() -> Token {
        Token(secret())
    }

    /// For a link.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the texts are equal. The time this takes does not reveal where they differ.
    pub fn is(&self, said: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(said).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// 256 bits of the system's chance, in hex.
pub fn secret() -> String {
    let mut bytes = [0_u8; 32];
    let mut filled = 0;
    while filled < bytes.len() {
        let got =
            rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty());
        filled += got.expect("the system has chance once it has started");
    }
    bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        use fmt::Write;
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_right() {
        let token = Token::draw();
        let text = token.as_str().to_owned();
        assert!(text.len() == 64 && token.is(text.as_bytes()));
        for wrong in ["", &text[1..], &format!("{text}0"), Token::draw().as_str()] {
            assert!(!token.is(wrong.as_bytes()), "{wrong}");
        }
        assert_eq!(format!("{token:?}"), "Token", "it is in no log by mistake");
    }
}
