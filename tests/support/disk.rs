//! Disks that fail: small ones that are mounted where nobody else sees them, and a shim in C that
//! stands between the program and the system.

use crate::support::program::{Folder, Program};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What stands between the program and the system; its trigger files are in a folder of its own.
#[derive(Debug)]
pub struct Shim {
    library: PathBuf,
    triggers: Folder,
}

impl Shim {
    /// None, and says why, if there is no compiler.
    pub fn build() -> Option<Shim> {
        let triggers = Folder::new("shim");
        let library = triggers.0.join("shim.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/shim.c");
        let mut command = Command::new("cc");
        command.args(["-Wall", "-Werror", "-shared", "-fPIC", "-O1", "-o"]);
        match command.arg(&library).arg(source).status() {
            Ok(status) => assert!(status.success(), "cc: {status}"),
            Err(error) => {
                println!("SKIPPED: no C compiler: {error}");
                return None;
            }
        }
        Some(Shim { library, triggers })
    }

    /// The program behind the shim.
    pub fn start(&self, folder: &Path, options: &[&str]) -> Program {
        let mut command = Program::command(folder, options);
        self.stand_before(&mut command);
        Program::start_as(command)
    }

    /// What the command starts is behind the shim.
    pub fn stand_before(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library).env("SHIM_DIR", &self.triggers.0);
    }

    /// From here on this fails.
    pub fn set(&self, what: &str) {
        fs::write(self.triggers.0.join(what), "").unwrap();
    }

    /// From here on this, with what it takes: written whole before it is seen.
    pub fn set_to(&self, what: &str, value: i64) {
        let (new, path) = (self.triggers.0.join("new"), self.triggers.0.join(what));
        fs::write(&new, value.to_string()).unwrap();
        fs::rename(new, path).unwrap();
    }

    pub fn clear(&self, what: &str) {
        fs::remove_file(self.triggers.0.join(what)).unwrap();
    }

    /// As [`clear`](Shim::clear), whether it was set or not.
    pub fn clear_if_set(&self, what: &str) {
        let _ = fs::remove_file(self.triggers.0.join(what));
    }

    /// How often the shim did something.
    pub fn count(&self, what: &str) -> u64 {
        fs::metadata(self.triggers.0.join(what)).map_or(0, |file| file.len())
    }
}

/// A file system of a few MiB in a mount namespace that lives as long as this.
#[derive(Debug)]
pub struct SmallDisk {
    folder: Folder,
    /// Waits for the end of its input.
    holder: Child,
    enter: Vec<String>,
}

impl SmallDisk {
    /// None, and says why, if nothing can be mounted here.
    pub fn mount(bytes: u64) -> Option<SmallDisk> {
        let folder = Folder::new("disk");
        let path = folder.text().to_owned();
        let script = format!("mount -t tmpfs -o size={bytes} none '{path}' && echo ready && cat");
        // As root; else in a namespace of users, where one is.
        for (flags, enter) in [("-m", "-m"), ("-Urm", "-Um")] {
            let mut command = Command::new("unshare");
            command.args([flags, "sh", "-c", &script]).stderr(Stdio::null());
            let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
            let Ok(mut holder) = spawned else { continue };
            let mut line = String::new();
            let mut output = BufReader::new(holder.stdout.take().unwrap());
            if output.read_line(&mut line).is_ok() && line == "ready\n" {
                let target = holder.id().to_string();
                let mut enter: Vec<String> =
                    ["nsenter", "-t", &target, enter].map(str::to_owned).to_vec();
                if flags == "-Urm" {
                    enter.push("--preserve-credentials".to_owned());
                }
                return Some(SmallDisk { folder, holder, enter });
            }
            let _ = holder.kill();
            holder.wait().unwrap();
        }
        None
    }

    pub fn start(&self, options: &[&str]) -> Program {
        Program::start_as(self.inside(&Program::command(self.folder(), options)))
    }

    /// The command, run where this is mounted; without its environment.
    pub fn inside(&self, plain: &Command) -> Command {
        let mut command = Command::new(&self.enter[0]);
        command.args(&self.enter[1..]).arg(plain.get_program()).args(plain.get_args());
        command
    }

    /// The folder as seen from inside of the namespace.
    pub fn folder(&self) -> &Path {
        &self.folder.0
    }

    /// The folder as seen from outside of the namespace.
    pub fn path(&self) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        root.join(self.folder.0.strip_prefix("/").unwrap())
    }

    /// Takes all the room there is.
    pub fn fill(&self) {
        let mut file = fs::File::create(self.path().join("ballast")).unwrap();
        let mut piece = vec![0; 1 << 16];
        while !piece.is_empty() {
            if file.write_all(&piece).is_err() {
                piece.truncate(piece.len() / 2);
            }
        }
    }

    /// Gives it back.
    pub fn free(&self) {
        fs::remove_file(self.path().join("ballast")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
