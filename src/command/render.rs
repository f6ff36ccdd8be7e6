//! How the engine's replies look on the wire.

use crate::engine::reply::Reply;
use crate::resp::Encoder;

/// Writes the engine's reply.
pub fn render(_reply: &Reply<'_>, _encoder: &mut Encoder<'_>) {
    unimplemented!()
}
