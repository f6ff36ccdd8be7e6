//! Replies as a client reads them.

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Line(String),
    Error(String),
    Integer(i64),
    Bulk(String),
    Nil,
    Array(Vec<Reply>),
}

/// The first whole reply, which is taken out of what has come.
pub fn take(input: &mut Vec<u8>) -> Option<Reply> {
    let mut at = 0;
    let reply = read(input, &mut at)?;
    input.drain(..at);
    Some(reply)
}

fn read(input: &[u8], at: &mut usize) -> Option<Reply> {
    let rest = &input[*at..];
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    let line = str::from_utf8(&rest[..end]).expect("text");
    *at += end + 2;
    let (kind, text) = line.split_at(1);
    let number = || text.parse::<i64>().expect("a number");
    Some(match kind {
        "+" => Reply::Line(text.to_owned()),
        "-" => Reply::Error(text.to_owned()),
        ":" => Reply::Integer(number()),
        "$" | "*" if number() < 0 => Reply::Nil,
        "$" => {
            let length = number() as usize;
            let bytes = input.get(*at..*at + length + 2)?;
            *at += length + 2;
            Reply::Bulk(String::from_utf8(bytes[..length].to_vec()).expect("text"))
        }
        "*" => Reply::Array((0..number()).map(|_| read(input, at)).collect::<Option<_>>()?),
        other => panic!("{other} begins no reply"),
    })
}

impl Reply {
    pub fn text(&self) -> &str {
        let Reply::Bulk(text) = self else { panic!("{self:?} is no bulk string") };
        text
    }

    pub fn number(&self) -> u64 {
        let Reply::Integer(number) = self else { panic!("{self:?} is no integer") };
        u64::try_from(*number).expect("not negative")
    }

    pub fn array(&self) -> &[Reply] {
        let Reply::Array(all) = self else { panic!("{self:?} is no array") };
        all
    }
}
