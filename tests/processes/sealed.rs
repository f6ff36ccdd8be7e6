//! Nodes that speak TLS with each other: everything goes over it, and nobody else gets in.

use crate::processes::nodes::{Nodes, name};
use crate::processes::trio::wait_until;
use crate::support::program::{Folder, Reply};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// The files of an authority and of a certificate that it has issued, and the options that name them.
struct Certificates {
    folder: Folder,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Certificates {
    fn new() -> Certificates {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let certificates = Certificates { folder: Folder::new("certificates"), issuer };
        certificates.write("ca.crt", &certificates.issuer.pem());
        certificates.issue();
        certificates
    }

    /// A new one, in the place of that before.
    fn issue(&self) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["delayd".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        self.write("node.crt", &certificate.pem());
        self.write("node.key", &key.serialize_pem());
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.0.join(name), text).unwrap();
    }

    fn options(&self) -> Vec<String> {
        let path = |name: &str| self.folder.0.join(name).to_str().unwrap().to_owned();
        let files = ["node.crt", "node.key", "ca.crt"].map(path);
        let names = ["--tls-cert-file", "--tls-key-file", "--tls-ca-cert-file"].map(str::to_owned);
        let named = names.into_iter().zip(files).flat_map(|(name, file)| [name, file]);
        ["--tls-cluster".to_owned(), "yes".to_owned()].into_iter().chain(named).collect()
    }
}

/// Everything that passes on the way to a port, in either direction.
fn tap(target: u16) -> (u16, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let heard = Arc::<Mutex<Vec<u8>>>::default();
    let tapped = Arc::clone(&heard);
    // Ends with the process of the test.
    std::thread::spawn(move || {
        for caller in listener.incoming().map_while(Result::ok) {
            let Ok(called) = TcpStream::connect(("127.0.0.1", target)) else { continue };
            let back = (called.try_clone().unwrap(), caller.try_clone().unwrap());
            for (mut from, mut to) in [(caller, called), back] {
                let tapped = Arc::clone(&tapped);
                std::thread::spawn(move || {
                    let mut bytes = vec![0; 1 << 16];
                    while let Ok(count @ 1..) = from.read(&mut bytes) {
                        tapped.lock().unwrap().extend_from_slice(&bytes[..count]);
                        if to.write_all(&bytes[..count]).is_err() {
                            break;
                        }
                    }
                    let _ = to.shutdown(Shutdown::Both);
                });
            }
        }
    });
    (port, heard)
}

fn holds(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|window| window == what)
}

const BODY: &str = "a-body-that-nobody-is-to-read-on-the-way";

/// Entries, large ones, a base, a change of leader, and certificates that are renewed: all of it under TLS, and with it
/// nothing of a job is seen between the nodes. Without it everything is, which shows that the tap works.
#[test]
fn nothing_of_a_job_is_seen_between_nodes_that_speak_tls() {
    for is_sealed in [false, true] {
        let certificates = Certificates::new();
        let mut nodes = Nodes::new("sealed", 3);
        if is_sealed {
            nodes.options = certificates.options();
        }
        // A base takes the place of what the log has.
        let short = ["--journal-segment-size", "1mb", "--cluster-log-keep", "0"];
        nodes.options.extend(short.map(str::to_owned));
        let taps: Vec<_> = nodes.peers.iter().map(|port| tap(*port)).collect();
        let own: Vec<u16> = nodes.peers.clone();
        // Each is reached through a tap.
        nodes.peers = taps.iter().map(|(port, _)| *port).collect();
        let all = [0, 1, 2];
        let begin = |nodes: &mut Nodes, node: usize| {
            let (port, tapped) = (own[node].to_string(), nodes.peers[node].to_string());
            let ports = ["--cluster-port", &port, "--cluster-announce-bus-port", &tapped];
            nodes.begin_with(node, &all, &ports);
        };
        all.iter().for_each(|node| begin(&mut nodes, *node));
        nodes.wait_for_voters(&all);
        let add = |nodes: &Nodes, count: usize, body: &str| {
            for _ in 0..count {
                let line = format!("DELAY.ADD q 1h {body}");
                let added = wait_until("it is answered", || nodes.try_ask(&line));
                assert!(matches!(added, Reply::Bulk(_)), "{added:?}");
            }
        };
        add(&nodes, 20, BODY);
        add(&nodes, 1, &format!("{BODY}{}", "x".repeat(5_000_000)));
        let away = (nodes.leader() + 1) % 3;
        nodes.kill(away);
        add(&nodes, 30, &format!("{BODY}{}", "x".repeat(50_000)));
        for node in all.iter().filter(|node| **node != away) {
            let mut wire = nodes.wire(*node).unwrap();
            wire.ask("BGSAVE");
            wire.wait_for("rdb_bgsave_in_progress", |running| running == "0");
        }
        add(&nodes, 30, &format!("{BODY}{}", "x".repeat(50_000)));
        if is_sealed {
            certificates.issue();
            let file = certificates.folder.0.join("node.crt");
            for node in all.iter().filter(|node| **node != away) {
                let line = format!("CONFIG SET tls-cert-file {}", file.display());
                assert_eq!(nodes.wire(*node).unwrap().ask(&line), Reply::Simple("OK".to_owned()));
            }
        }
        begin(&mut nodes, away);
        nodes.wait_for_jobs(&all, 81);
        let leader = nodes.leader();
        nodes.kill(leader);
        add(&nodes, 1, BODY);
        let heard: Vec<u8> =
            taps.iter().flat_map(|(_, heard)| heard.lock().unwrap().clone()).collect();
        assert!(heard.len() > 5_000_000, "{}", heard.len());
        assert_eq!(holds(&heard, BODY.as_bytes()), !is_sealed);
        let log = nodes.programs[away].as_ref().expect("it runs").log();
        assert!(log.contains("a base was received"), "{log}");
    }
}

/// Who has no certificate, or speaks no TLS, is refused in words that say what is to be done.
#[test]
fn who_does_not_speak_tls_is_not_let_in() {
    let certificates = Certificates::new();
    let mut nodes = Nodes::new("unsealed", 3);
    nodes.options = certificates.options();
    let all = [0, 1, 2];
    nodes.begin(0, &all);
    nodes.begin(1, &all);
    nodes.options.clear();
    nodes.begin(2, &all);
    for node in [0, 2] {
        wait_until(format!("{} says why", name(node)), || {
            let log = nodes.programs[node].as_ref().expect("it runs").log();
            log.contains("tls-cluster must be the same on all nodes").then_some(())
        });
    }
    let forming = nodes.wire(0).unwrap().ask("DELAY.LEN q");
    assert!(forming.is_error("LOADING"), "{forming:?}");
    nodes.kill(2);
    nodes.options = certificates.options();
    nodes.begin(2, &all);
    nodes.wait_for_voters(&all);
}
