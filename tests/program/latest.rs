//! What follows a leased job, in the real program, over kill -9 and orderly stops.

use crate::support::program::{Folder, Program, Reply, Wire};

const JOBS: usize = 300;

/// The tokens of all jobs that may be taken, by the number in their ids.
fn taken(wire: &mut Wire) -> Vec<String> {
    let jobs = wire.ask(&format!("DELAY.RESERVE NOWAIT 1 q COUNT {JOBS} LEASE 1h"));
    let mut tokens = vec![String::new(); JOBS];
    for job in jobs.array().expect("some") {
        let job = job.array().expect("a job");
        tokens[job[1].text().parse::<usize>().expect("a number")] = job[3].text().to_owned();
    }
    assert!(tokens.iter().all(|token| !token.is_empty()), "not all of them came");
    tokens
}

/// The body and the state of each job, and whether something follows it.
fn jobs(wire: &mut Wire) -> Vec<(String, String, bool)> {
    let job = |id| {
        let view = wire.ask(&format!("DELAY.GET q {id}"));
        let view = view.array().expect("it is there");
        let follows = view.iter().any(|word| *word == Reply::Bulk(b"latest".to_vec()));
        (view[5].text().to_owned(), view[3].text().to_owned(), follows)
    };
    (0..JOBS).map(job).collect()
}

#[test]
fn the_last_change_is_there_after_every_way_of_ending() {
    let folder = Folder::new("latest");
    let start = || Program::start(&folder.0, &["--appendfsync", "always"]);
    let mut program = start();
    let mut wire = program.connect();
    for id in 0..JOBS {
        wire.ask(&format!("DELAY.ADD q 0 0 ID {id}"));
    }
    for (round, kills) in [(1, true), (2, false), (3, true), (4, false)] {
        let tokens = taken(&mut wire);
        for id in 0..JOBS {
            // Of each third job something follows, of some the second one.
            for change in 0..id % 3 {
                wire.ask(&format!("DELAY.ADD q 0 {round}{change} ID {id} LATEST"));
            }
        }
        // Half of the deliveries end before the program does, half after it.
        let end = |wire: &mut Wire, ids: std::ops::Range<usize>| {
            for id in ids {
                let token = &tokens[id];
                let how = match id % 4 {
                    0 => format!("DELAY.ACK q {id} {token}"),
                    1 => format!("DELAY.NACK q {id} {token} BURY"),
                    _ => format!("DELAY.NACK q {id} {token} IN 1h"),
                };
                assert_eq!(wire.ask(&how), Reply::Number(1), "{how}");
                if id % 3 == 0 {
                    wire.ask(&format!("DELAY.ADD q 0 {round} ID {id} REPLACE"));
                }
            }
        };
        end(&mut wire, 0..JOBS / 2);
        let before = jobs(&mut wire);
        if kills {
            program.kill();
        } else {
            wire.ask("SAVE");
            program.stop();
        }
        program = start();
        wire = program.connect();
        assert_eq!(jobs(&mut wire), before, "killed: {kills}");
        end(&mut wire, JOBS / 2..JOBS);
        for (id, (body, state, follows)) in jobs(&mut wire).into_iter().enumerate() {
            let last = match id % 3 {
                0 => format!("{round}"),
                changes => format!("{round}{}", changes - 1),
            };
            assert_eq!((body, &state[..], follows), (last, "ready", false), "{id} in {round}");
        }
    }
}
