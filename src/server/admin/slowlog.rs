//! SLOWLOG.

use crate::ids::ClientId;
use crate::server::core::Core;

/// SLOWLOG GET: the newest `count` entries, newest first.
pub fn write(core: &mut Core, client: ClientId, count: usize) {
    let mut out = core.outputs.encoder(client);
    let log = &core.watch.slow_log;
    out.array(log.len().min(count));
    for entry in log.newest(count) {
        out.array(6);
        out.unsigned(entry.id);
        out.unsigned(entry.at_s);
        out.unsigned(entry.took_us);
        out.array(entry.args.len());
        entry.args.iter().for_each(|arg| out.bulk(arg));
        out.bulk(entry.addr.as_bytes());
        out.bulk(&entry.name);
    }
}
