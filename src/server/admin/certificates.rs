//! Certificates that are read anew while the server runs.

use crate::config::Config;
use crate::server::cluster::peer_tls;
use crate::server::connection::tls;
use crate::server::core::Users;

/// Reads the certificates for clients, for the console and for peers anew. Connections that begin from here on use them.
///
/// # Errors
/// One of the files is missing or invalid: which and why. All certificates stay as they were.
pub fn read_again(users: &mut Users, config: &Config) -> Result<(), String> {
    let clients = tls::server_config(config)?;
    let peers = peer_tls::keys(config)?;
    let console = tls::console_config(config)?;
    users.tls = clients;
    users.peer_tls.set(peers);
    if let (Some(used), Some(read)) = (&users.console_tls, console) {
        used.send_replace(read);
    }
    Ok(())
}
