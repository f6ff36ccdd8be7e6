//! Data written to a socket under TLS is read from the other one, whatever the connection below accepts at a time.

use super::site::{Site, claims, heartbeat};
use crate::config::Config;
use crate::patience::limit;
use crate::server::cluster::peer_tls::PeerTls;
use crate::server::cluster::socket::Socket;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

fn pair(caller: &PeerTls, called: &PeerTls) -> (Socket, Socket) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (other, _) = listener.accept().unwrap();
    for stream in [&one, &other] {
        stream.set_nonblocking(true).unwrap();
        // Less than a record has, so that writes end in the middle of one.
        socket2::SockRef::from(stream).set_send_buffer_size(4 << 10).unwrap();
    }
    (Socket::dialled(caller, one).unwrap(), Socket::accepted(called, other).unwrap())
}

/// The result of a call that would wait: nothing.
fn now(done: std::io::Result<usize>) -> usize {
    match done {
        Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
        other => other.unwrap(),
    }
}

#[test]
fn bytes_arrive_as_they_were_written_in_both_directions() {
    let authority = Authority::new();
    for (seed, tls) in [(1, authority.tls()), (2, authority.tls()), (3, PeerTls::default())] {
        let mut random = SmallRng::seed_from_u64(seed);
        let (mut one, mut other) = pair(&tls, &tls);
        let sent: Vec<Vec<u8>> = (0..2).map(|at| vec![at + 1; 300_000]).collect();
        let (mut written, mut read) = ([0; 2], [0; 2]);
        let mut bytes = vec![0; 100_000];
        while read != [sent[1].len(), sent[0].len()] {
            for (at, socket) in [&mut one, &mut other].into_iter().enumerate() {
                let left = &sent[at][written[at]..];
                let (first, second) =
                    left.split_at(random.random_range(0..=left.len().min(70_000)));
                if !left.is_empty() && socket.takes() {
                    let parts = [IoSlice::new(first), IoSlice::new(second)];
                    written[at] += now(socket.write_vectored(&parts));
                } else if socket.holds() {
                    let _ = socket.flush();
                }
                let most = random.random_range(1..bytes.len());
                let count = now(socket.read(&mut bytes[..most]));
                assert!(bytes[..count].iter().all(|byte| *byte == sent[1 - at][0]));
                read[at] += count;
            }
        }
        assert_eq!(written, [sent[0].len(), sent[1].len()]);
        drop(one);
        let end = other.read(&mut bytes);
        let is_end = |kind| [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset].contains(&kind);
        assert!(
            end.as_ref().is_ok_and(|count| *count == 0)
                || end.is_err_and(|error| is_end(error.kind()))
        );
    }
}

#[test]
fn nodes_meet_if_both_were_signed_by_one_authority() {
    let (authority, other) = (Authority::new(), Authority::new());
    let plain = PeerTls::default;
    let cases = [
        (authority.tls(), authority.tls(), None),
        (plain(), plain(), None),
        (plain(), authority.tls(), Some("TLS")),
        (authority.tls(), plain(), Some("TLS")),
        // It takes what the called one shows, and shows what that does not take; and the other way round.
        (other.tls_that_trusts(&authority), authority.tls(), Some("TLS: ")),
        (authority.tls(), other.tls_that_trusts(&authority), Some("TLS: ")),
    ];
    for (caller, called, refused) in cases {
        let (n1, n2) = (
            Site::start_sealed(claims("n1", 1), caller),
            Site::start_sealed(claims("n2", 2), called),
        );
        n1.knows(&[(Some(2), "n2", &n2.address)]);
        let Some(text) = refused else {
            n1.meets("n2");
            n1.send(vec![heartbeat(1, 2, 5)]);
            n2.hears();
            continue;
        };
        let began = Instant::now();
        while [&n1, &n2].iter().all(|node| node.log().warnings(text).is_empty()) {
            assert!(began.elapsed() < limit(), "no {text}: {}", n1.log().text());
            std::thread::yield_now();
        }
        assert!(n1.rest().is_empty() && n2.rest().is_empty());
    }
}

/// A certificate that runs out is replaced while nodes talk: connections that begin after that have the new one.
#[test]
fn new_certificates_are_taken_without_a_restart() {
    let (old, new) = (Authority::new(), Authority::new());
    let (one, other) = (old.tls(), old.tls());
    let n1 = Site::start_sealed(claims("n1", 1), one.clone());
    let n2 = Site::start_sealed(claims("n2", 2), other.clone());
    n1.knows(&[(Some(2), "n2", &n2.address)]);
    n1.meets("n2");
    one.set(new.tls().keys());
    other.set(new.tls().keys());
    n1.send(vec![heartbeat(1, 2, 5)]);
    n2.hears();
    n1.knows(&[]);
    n1.loses(2);
    n1.knows(&[(Some(2), "n2", &n2.address)]);
    n1.meets("n2");
}

/// An authority for certificates, in a folder that is removed at the end.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
}

impl Authority {
    pub fn new() -> Authority {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("delayd-authority-{}-{count}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(folder.join("ca.crt"), issuer.pem()).unwrap();
        Authority { issuer, folder }
    }

    /// The keys of a node with a certificate from this authority, for some name.
    pub fn tls(&self) -> PeerTls {
        self.tls_that_trusts(self)
    }

    /// For a node that accepts certificates of another authority.
    pub fn tls_that_trusts(&self, other: &Authority) -> PeerTls {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["a-name-that-no-node-has".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let path = |of: &Authority, name: &str| of.folder.join(name).to_str().unwrap().to_owned();
        let files = [path(self, "node.crt"), path(self, "node.key"), path(other, "ca.crt")];
        std::fs::write(&files[0], certificate.pem()).unwrap();
        std::fs::write(&files[1], key.serialize_pem()).unwrap();
        let mut config = Config::default();
        config.set("tls-cluster", &["yes".to_owned()]).unwrap();
        for (option, file) in
            ["tls-cert-file", "tls-key-file", "tls-ca-cert-file"].iter().zip(files)
        {
            config.set(option, &[file]).unwrap();
        }
        PeerTls::of(&config).unwrap()
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
