//! A backup made a journal: its jobs are there, whatever crash comes, and no token from before is taken.

use crate::journal::batches::OPTIONS;
use crate::journal::refound::founder;
use crate::journal::upgrade::desk::{BEGIN, Desk, add, name, reserve};
use crate::support::lossy::{Fault, Lossy};
use crate::support::program::{Folder, seed};
use crate::support::seeds::Telltale;
use delayd::engine::model::reply::{Outbox, Reply};
use delayd::engine::model::request::{Nack, Request};
use delayd::engine::model::token::floor_at;
use delayd::engine::{Engine, Facts, Settings, Turn};
use delayd::ids::{ClientId, Index, Token};
use delayd::journal::base::index_of;
use delayd::journal::offline::restore::{HeldFolder, begin, read_backup};
use delayd::journal::recovery::{Progress, Recovered, recover};
use delayd::journal::{BaseId, Incoming, JournalError, Offer, Storage, part_in};
use delayd::limits::RESTORED_TOKENS_MS;
use delayd::server::cluster::start::{check_alone, node_start};
use delayd::time::Micros;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// A minute after the backup.
const WALL: Micros = Micros(BEGIN.0 + 90_000_000);

/// Of jobs, by their id.
type Tokens = Vec<(&'static [u8], Token)>;

/// The files of a journal with jobs in every state, and all tokens that were handed out with their ids. The base covers all of
/// it.
fn journal() -> (BTreeMap<String, Vec<u8>>, Tokens) {
    let scratch = Folder::new("restore");
    let mut desk = Desk::new(&scratch.journal());
    let q = name(0, b"q");
    for id in
        [&b"nacked"[..], b"ran-out", b"died", b"leased", b"bound", b"followed", b"ready", b"later"]
    {
        let in_ms = if id == b"later" { 3_600_000 } else { 0 };
        let attempts = if id == b"died" { 1 } else { 20 };
        desk.add(delayd::engine::model::request::Add {
            attempts: Some(attempts),
            ..add(q, id, in_ms)
        });
    }
    let mut tokens = Vec::new();
    let mut take = |desk: &mut Desk, id: &'static [u8], lease_ms, bound| {
        let queues: &[&[u8]] = &[b"q"];
        let taken = delayd::engine::model::request::Reserve {
            lease_ms: Some(lease_ms),
            bound,
            ..reserve(0, queues)
        };
        desk.served(1, &Request::Reserve(taken));
        tokens.push((id, desk.token(id)));
    };
    take(&mut desk, b"nacked", 60_000, false);
    take(&mut desk, b"ran-out", 1_000, false);
    take(&mut desk, b"died", 1_000, false);
    take(&mut desk, b"leased", 3_600_000, false);
    take(&mut desk, b"bound", 3_600_000, true);
    take(&mut desk, b"followed", 3_600_000, false);
    desk.add(delayd::engine::model::request::Add {
        taken: delayd::engine::model::request::Taken::Latest,
        body: b"newer",
        ..add(q, b"followed", 0)
    });
    let token = desk.token(b"nacked");
    let (when, bury, uncounted) = (None, false, false);
    let (priority, error) = (None, None);
    let id = &b"nacked"[..];
    desk.ask(
        1,
        &Request::Nack(Nack { queue: q, id, token, when, bury, uncounted, priority, error }),
    );
    desk.pass(2_000);
    desk.base();
    (files(&scratch.journal()), tokens)
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let named = |path: std::path::PathBuf| {
        (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap())
    };
    entries.map(named).collect()
}

/// The backup alone: its base.
fn backup() -> (Arc<Lossy>, Vec<(&'static [u8], Token)>) {
    let (mut files, tokens) = journal();
    files.retain(|name, _| index_of(name).is_some());
    assert_eq!(files.len(), 1);
    (Lossy::of(&files), tokens)
}

fn held(storage: &Lossy) -> HeldFolder {
    read_backup(storage, "b", &Progress::default()).unwrap()
}

fn opened(storage: &Arc<Lossy>) -> Recovered<Lossy> {
    recover(storage, OPTIONS, Settings::default(), &Progress::default()).unwrap()
}

/// What a request answers.
#[derive(Default)]
struct Answers(Vec<String>, Vec<(Vec<u8>, Token, u32)>);

impl Outbox for Answers {
    fn reply(&mut self, _: ClientId, reply: Reply<'_>) {
        if let Reply::Reserved(jobs) = &reply {
            let taken = jobs.iter().map(|job| (job.id.to_vec(), job.token.unwrap(), job.attempt));
            self.1.extend(taken);
        }
        self.0.push(format!("{reply:?}"));
    }
}

fn ask(engine: &mut Engine, request: &Request<'_>) -> Answers {
    let (mut facts, mut outbox) = (Facts::default(), Answers::default());
    let turn = &mut Turn { facts: &mut facts, outbox: &mut outbox };
    engine.handle(WALL, ClientId(9), request, turn);
    engine.sent(ClientId(9));
    outbox
}

#[test]
fn no_token_from_before_is_taken_and_all_later_ones_are_greater() {
    let (storage, tokens) = backup();
    assert_eq!(tokens.len(), 6);
    let mut restored = held(&storage);
    let before = restored.engine.job_counts();
    assert_eq!(
        before,
        [1, 3, 3, 1],
        "later; nacked, ran-out, ready; leased, bound, followed; died"
    );
    restored.void_tokens(WALL);
    let into = Lossy::new();
    begin(&into, &mut restored, None, None).unwrap();
    let Recovered { mut engine, .. } = opened(&into);
    let q = name(0, b"q");
    for (id, token) in &tokens {
        let (id, token) = (*id, *token);
        let answers = [
            ask(&mut engine, &Request::Ack { queue: q, jobs: vec![(id, token)] }),
            ask(&mut engine, &Request::Extend { queue: q, id, token, lease_ms: 9_000 }),
        ];
        let words: Vec<&String> = answers.iter().flat_map(|answers| &answers.0).collect();
        assert_eq!(words, ["Integer(0)", "Nil"], "{}", id.escape_ascii());
    }
    let queues: &[&[u8]] = &[b"q"];
    let mut taken = Vec::new();
    while let [job] = &ask(&mut engine, &Request::Reserve(reserve(0, queues))).1[..] {
        taken.push(job.clone());
    }
    let ids: Vec<&[u8]> = taken.iter().map(|(id, _, _)| &id[..]).collect();
    // At their old places; what was nacked came from delayed, behind the others, and what follows another is new.
    let wanted = ["ran-out", "leased", "bound", "ready", "nacked", "followed"];
    assert_eq!(ids, wanted.map(str::as_bytes));
    let (_, _, attempt) = taken.iter().find(|(id, _, _)| id == b"leased").unwrap();
    assert_eq!(*attempt, 1, "the attempt that nothing is known of does not count");
    let floor = floor_at(WALL.0 / 1_000 + RESTORED_TOKENS_MS);
    for (id, token, _) in &taken {
        assert!(token.0 > floor, "{} has {token:?}", id.escape_ascii());
        assert!(tokens.iter().all(|(_, earlier)| earlier < token));
    }
}

/// With a death at every operation, four times each; for a server alone, and for the first node of a cluster.
#[test]
fn a_journal_is_restored_or_can_be_whatever_crash_comes() {
    let (storage, _) = backup();
    let digest = {
        let mut restored = held(&storage);
        restored.void_tokens(WALL);
        restored.engine.digest()
    };
    for node in [0, 70] {
        let founder = || (node > 0).then(|| founder(node));
        for operation in 0.. {
            let _telltale = Telltale(format!("node {node}, operation {operation}"));
            let mut rng = SmallRng::seed_from_u64(operation);
            let into = Lossy::new();
            into.fail_after(operation / 4, Fault::Death);
            let mut restored = held(&storage);
            restored.void_tokens(WALL);
            let index = restored.at.index;
            let done = begin(&into, &mut restored, founder(), None);
            let into = into.crash(&mut rng);
            let has_base = into.list().unwrap().iter().any(|name| index_of(name).is_some());
            if has_base {
                let found = opened(&into);
                assert_eq!((found.engine.digest(), found.index), (digest, index.next()));
                match node {
                    0 => check_alone(&found.log).unwrap(),
                    _ => {
                        let start = node_start(&found, node, 1).unwrap();
                        assert_eq!(start.members.voters, [node]);
                        assert_eq!(start.vote.term, start.base.term);
                    }
                }
            } else {
                assert!(done.is_err(), "it was said to be done");
            }
            if done.is_ok() && operation % 4 == 3 {
                break;
            }
        }
    }
}

#[test]
fn a_folder_with_batches_is_left_alone() {
    let (storage, _) = backup();
    let into = Lossy::of(&journal().0);
    let before = opened(&into).engine.digest();
    let error = begin(&into, &mut held(&storage), None, None).unwrap_err();
    assert!(error.to_string().contains("it has batches"), "{error}");
    assert_eq!(opened(&into).engine.digest(), before);
}

/// Whatever byte is changed or cut off, it is found, and told with its file and its place.
#[test]
fn a_damaged_backup_is_refused_with_its_place() {
    let (storage, _) = backup();
    let files = storage.files();
    let (file, bytes) = files.first_key_value().unwrap();
    let mut rng = SmallRng::seed_from_u64(seed());
    for case in 0..300 {
        let mut damaged = bytes.clone();
        // Behind the zeros that fill the block of the header.
        let at = rng.random_range(4_096..damaged.len());
        match case % 3 {
            0 => damaged.truncate(at),
            1 => damaged.push(0),
            _ => damaged[at] ^= 1 << rng.random_range(0..8),
        }
        let _telltale = Telltale(format!("case {case}, offset {at}"));
        let storage = Lossy::of(&BTreeMap::from([(file.clone(), damaged)]));
        match read_backup(&*storage, "b", &Progress::default()) {
            Err(JournalError::Damaged { file: told, offset, .. }) => {
                assert_eq!(&told, file);
                let to = if case % 3 == 1 { bytes.len() } else { at };
                // A record begins at a multiple of 8.
                assert!(offset <= (to as u64).next_multiple_of(8), "told at {offset}");
            }
            // What fills a record up to the next one is covered by no checksum, and means nothing.
            Ok(_) if case % 3 == 2 && is_padding(bytes, at) => {}
            other => panic!("{other:?}"),
        }
    }
    let none = read_backup(&*Lossy::new(), "b", &Progress::default()).unwrap_err();
    assert!(none.to_string().contains("there is no complete backup in it"), "{none}");
}

/// Whether no record has this byte.
fn is_padding(bytes: &[u8], offset: usize) -> bool {
    let mut at = 4_096;
    while at < bytes.len() {
        let length = u32::from_le_bytes(bytes[at + 76..at + 80].try_into().unwrap()) as usize;
        let (end, next) = (at + 88 + length, at + (88 + length).next_multiple_of(8));
        if offset < next {
            return offset >= end;
        }
        at = next;
    }
    false
}

/// In pieces, broken off between any two, in a folder that has an older backup: that stays until the new one is whole.
#[test]
fn a_transfer_goes_on_where_it_was_and_the_older_backup_stays_until_then() {
    let (from, _) = backup();
    let (offer, _) = Offer::of_newest(&*from).unwrap();
    let bytes = from.files().first_key_value().unwrap().1.clone();
    let older = Offer { index: Index(1), salt: 3, bytes: 8_192 };
    let storage = Lossy::of(&BTreeMap::from([(
        "base-0000-00000000000000000001.base".to_owned(),
        vec![7; 10],
    )]));
    let mut begun = Incoming::begin(&storage, older, &|_| false).unwrap();
    begun.write(&[0; 99]).unwrap();
    drop(begun);
    assert_eq!(part_in(&*storage).unwrap(), Some(older.id()));
    let mut at = 0;
    while at < bytes.len() {
        let mut incoming = Incoming::begin(&storage, offer, &|_| false).unwrap();
        assert_eq!((incoming.bytes(), part_in(&*storage).unwrap()), (at as u64, Some(offer.id())));
        let end = bytes.len().min(at + 300);
        incoming.write(&bytes[at..end]).unwrap();
        at = end;
        assert_eq!(storage.list().unwrap().len(), 2, "the older one, and the part");
    }
    let incoming = Incoming::begin(&storage, offer, &|_| false).unwrap();
    let mut arrived = incoming.finish(&mut |_, _| ()).unwrap();
    arrived.put_in_place(&*storage).unwrap();
    assert_eq!(storage.files(), from.files());
}

#[test]
fn ids_of_bases_are_read_as_they_are_written() {
    let id = BaseId { index: Index(42), salt: 255 };
    assert_eq!(id.to_string(), "42-00000000000000ff");
    assert_eq!(BaseId::read("42-00000000000000ff"), Some(id));
    for wrong in
        ["", "42", "42-ff", "42-00000000000000FF", "x-00000000000000ff", "-1-00000000000000ff"]
    {
        assert_eq!(BaseId::read(wrong), None, "{wrong}");
    }
}
