//! A command that outlives its request.

use crate::command::CommandSpec;

/// Its words one after another, and where each ends.
#[derive(Debug)]
pub struct KeptCommand {
    pub spec: &'static CommandSpec,
    words: Box<[u8]>,
    ends: Box<[u32]>,
}

impl KeptCommand {
    /// Copies a command; `args` begin with its name.
    pub fn new(spec: &'static CommandSpec, args: &[&[u8]]) -> KeptCommand {
        let mut end = 0;
        // A request is limited far below 2^32 bytes.
        let ends = args.iter().map(|arg| {
            end += arg.len() as u32;
            end
        });
        KeptCommand { spec, ends: ends.collect(), words: args.concat().into_boxed_slice() }
    }

    pub fn args(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(&0).chain(self.ends.iter());
        let spans = starts.zip(self.ends.iter());
        spans.map(|(start, end)| &self.words[*start as usize..*end as usize])
    }

    pub fn bytes(&self) -> usize {
        size_of::<KeptCommand>() + self.words.len() + self.ends.len() * size_of::<u32>()
    }
}
