//! Fields in the form of facts and images: little-endian, byte strings after a u32 length.

use crate::engine::model::fact::{Destination, Image};
use crate::engine::model::group::{GroupRate, GroupRetry, GroupSettings, OwnGroup};
use crate::engine::model::meta::{Meta, OwnMeta};
use crate::engine::model::policy::{Backoff, Policy, Steps};
use crate::engine::model::queue_settings::{Later, Pause, Pauses, QueueSettings, Setting, Side};
use crate::engine::model::reply::Reason;
use crate::engine::model::schedule::{
    Coming, Definition, JobOptions, Overlap, Rule, ScheduleTerms,
};
use crate::ids::{PolicyNo, QueueNo};
use crate::limits::{GROUP_WEIGHT_MAX, NAME_BYTES_MAX};
use crate::time::Millis;

/// Bytes that are no fact, or no image of a base file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("malformed at byte {at}")]
pub struct Malformed {
    /// Offset at which reading stopped.
    pub at: usize,
}

// Kinds of rules.
const EVERY: u8 = 0;
const CRON: u8 = 1;

pub trait Sink {
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Only counts them.
pub(in crate::engine) struct ByteCount(u64);

impl Sink for ByteCount {
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len() as u64;
    }
}

impl ByteCount {
    /// How many bytes `encode` makes.
    pub(in crate::engine) fn of(encode: impl FnOnce(&mut ByteCount)) -> u64 {
        let mut counted = ByteCount(0);
        encode(&mut counted);
        counted.0
    }
}

pub(in crate::engine) struct Writer<'w, S>(pub(in crate::engine) &'w mut S);

impl<S: Sink> Writer<'_, S> {
    pub(in crate::engine) fn head(&mut self, tag: u8, queue: QueueNo) -> &mut Self {
        let mut head = [tag, 0, 0, 0, 0];
        head[1..].copy_from_slice(&queue.0.to_le_bytes());
        self.0.put(&head);
        self
    }

    pub(in crate::engine) fn u8(&mut self, value: u8) -> &mut Self {
        self.0.put(&[value]);
        self
    }

    fn u16(&mut self, value: u16) -> &mut Self {
        self.0.put(&value.to_le_bytes());
        self
    }

    pub(in crate::engine) fn u32(&mut self, value: u32) -> &mut Self {
        self.0.put(&value.to_le_bytes());
        self
    }

    pub(in crate::engine) fn u64(&mut self, value: u64) -> &mut Self {
        self.0.put(&value.to_le_bytes());
        self
    }

    pub(in crate::engine) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        // Ids are at most 512 bytes and bodies at most 512 MiB, so the length fits.
        self.u32(bytes.len() as u32);
        self.0.put(bytes);
        self
    }

    pub(super) fn destination(&mut self, to: Destination) -> &mut Self {
        match to {
            Destination::Ready => self.u8(0),
            Destination::Delayed { due } => self.u8(1).u64(due.0),
            Destination::Dead { reason, kept_until } => {
                self.u8(2).u8(reason as u8).u64(kept_until.0)
            }
        }
    }

    pub(super) fn image(&mut self, image: &Image<'_>) -> &mut Self {
        self.bytes(image.id).bytes(image.body).u32(image.policy.0).u8(image.priority);
        self.u64(image.added.0).u64(image.due.0).u64(image.place as u64);
        self.u8(image.history.is_some().into());
        for count in image.history.unwrap_or_default() {
            self.u32(count);
        }
        self.u8(image.error.is_some().into()).bytes(image.error.unwrap_or_default())
    }

    pub(in crate::engine) fn policy(&mut self, policy: &Policy) -> &mut Self {
        self.u32(policy.attempts).u64(policy.lease_ms).u64(policy.ttl_ms).u64(policy.unique_ms);
        self.backoff(&policy.backoff)
    }

    /// A bit for each setting that is there, then those settings in the order of their bits. A later
    /// version gives its settings the next bits.
    pub(in crate::engine) fn settings(&mut self, settings: &QueueSettings) -> &mut Self {
        let bits = Setting::ALL.into_iter().enumerate();
        self.u16(bits.map(|(bit, setting)| u16::from(setting.is_set(settings)) << bit).sum());
        let QueueSettings { attempts, backoff, lease_ms, priority, ttl_ms, .. } = settings;
        let QueueSettings { max_jobs, max_leased, rate, dead_retention_ms, dead_max, .. } =
            settings;
        self.optional(*attempts, Self::u32).optional(backoff.as_ref(), Self::backoff);
        self.optional(*lease_ms, Self::u64).optional(*priority, Self::u8);
        self.optional(*ttl_ms, Self::u64).optional(*max_jobs, Self::u64);
        self.optional(*max_leased, Self::u64).optional(*rate, Self::u32);
        self.optional(*dead_retention_ms, Self::u64).optional(*dead_max, Self::u64);
        self.optional(settings.due_enters.map(|side| side as u8), Self::u8);
        self.optional(settings.group_weight.0, Self::u32);
        self.optional(settings.group_max_leased.0, Self::u32);
        self.optional(settings.group_retry.0.map(|retry| retry as u8), Self::u8);
        self.optional(settings.group_rate.0, Self::rate);
        self.optional(settings.group_max_jobs.0, Self::u32)
    }

    /// As those of a queue.
    pub(in crate::engine) fn group_settings(&mut self, settings: GroupSettings) -> &mut Self {
        let GroupSettings { weight, max_leased, retry, rate, max_jobs, pause } = settings;
        let pause = Some(pause.number()).filter(|pause| *pause != 0);
        let (limits, retries) = ([weight.is_some(), max_leased.is_some()], retry.is_some());
        let later = [rate.0.is_some(), max_jobs.0.is_some()];
        let bits = limits.into_iter().chain([pause.is_some(), retries]).chain(later);
        self.u8(bits.enumerate().map(|(bit, set)| u8::from(set) << bit).sum());
        self.optional(weight, Self::u32).optional(max_leased, Self::u32);
        self.optional(pause, Self::u64).optional(retry.map(|retry| retry as u8), Self::u8);
        self.optional(rate.0, Self::rate).optional(max_jobs.0, Self::u32)
    }

    fn rate(&mut self, rate: GroupRate) -> &mut Self {
        self.u32(rate.count).u32(rate.span_ms)
    }

    fn optional<T>(
        &mut self,
        value: Option<T>,
        write: impl for<'s> FnOnce(&'s mut Self, T) -> &'s mut Self,
    ) -> &mut Self {
        match value {
            Some(value) => write(self, value),
            None => self,
        }
    }

    pub(in crate::engine) fn pauses(&mut self, pauses: Pauses) -> &mut Self {
        self.u64(pauses.into.number()).u64(pauses.out.number())
    }

    /// The next instant; zeros for none.
    pub(in crate::engine) fn coming(&mut self, coming: Option<Coming>) -> &mut Self {
        let (nominal, due) = coming.map_or((0, 0), |coming| (coming.nominal.0, coming.due.0));
        self.u64(nominal).u64(due)
    }

    pub(in crate::engine) fn definition(&mut self, definition: &Definition) -> &mut Self {
        match &definition.rule {
            Rule::Every { ms } => self.u8(EVERY).u64(*ms),
            Rule::Cron { pattern, zone } => {
                self.u8(CRON).bytes(pattern.as_bytes()).bytes(zone.as_bytes())
            }
        };
        let &ScheduleTerms {
            from,
            until,
            runs,
            catchup,
            spread_ms,
            grace_ms,
            overlap,
            ref options,
            group: _,
            meta: _,
        } = definition.terms();
        self.u64(from.0).u64(until.0).u32(runs).u32(catchup).u64(spread_ms).u64(grace_ms);
        self.u8(overlap as u8);
        let JobOptions { priority, attempts, backoff, lease_ms, ttl_ms } = options;
        let set = [
            priority.is_some(),
            attempts.is_some(),
            backoff.is_some(),
            lease_ms.is_some(),
            ttl_ms.is_some(),
        ];
        self.u8(set.into_iter().enumerate().map(|(bit, set)| u8::from(set) << bit).sum());
        self.optional(*priority, Self::u8).optional(*attempts, Self::u32);
        self.optional(backoff.as_ref(), Self::backoff).optional(*lease_ms, Self::u64);
        self.optional(*ttl_ms, Self::u64)
    }

    pub(in crate::engine) fn backoff(&mut self, backoff: &Backoff) -> &mut Self {
        self.u8(backoff.jitter.into());
        match &backoff.steps {
            Steps::Ladder(steps) => {
                self.u8(0).u32(steps.len() as u32);
                for step in steps {
                    self.u64(*step);
                }
                self
            }
            Steps::Exponential { first, max, factor } => {
                self.u8(1).u64(*first).u64(*max).u32(*factor)
            }
        }
    }
}

#[derive(Debug)]
pub struct FactReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> FactReader<'a> {
    pub fn new(bytes: &'a [u8]) -> FactReader<'a> {
        FactReader { bytes, at: 0 }
    }

    pub(super) fn from(bytes: &'a [u8], at: usize) -> FactReader<'a> {
        FactReader { bytes, at }
    }

    pub fn is_done(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// The offset of the next byte.
    pub(in crate::engine) fn at(&self) -> usize {
        self.at
    }

    pub(in crate::engine) fn malformed(&mut self) -> Malformed {
        // Nothing after a malformed fact can be trusted: an iterator over the facts ends here.
        let at = std::mem::replace(&mut self.at, self.bytes.len());
        Malformed { at }
    }

    pub(in crate::engine) fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        match self.bytes[self.at..].get(..length) {
            Some(taken) => {
                self.at += length;
                Ok(taken)
            }
            None => Err(self.malformed()),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(in crate::engine) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    pub(in crate::engine) fn flag(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.malformed()),
        }
    }

    pub(in crate::engine) fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(in crate::engine) fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(in crate::engine) fn millis(&mut self) -> Result<Millis, Malformed> {
        Ok(Millis(self.u64()?))
    }

    pub(in crate::engine) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.u32()? as usize;
        self.take(length)
    }

    /// META, which is there.
    pub(in crate::engine) fn meta(&mut self) -> Result<Meta<'a>, Malformed> {
        let block = self.bytes()?;
        Meta::read(block).filter(|meta| !meta.is_none()).ok_or_else(|| self.malformed())
    }

    pub(super) fn destination(&mut self) -> Result<Destination, Malformed> {
        Ok(match self.u8()? {
            0 => Destination::Ready,
            1 => Destination::Delayed { due: self.millis()? },
            2 => {
                let reason = Reason::from_byte(self.u8()?).ok_or_else(|| self.malformed())?;
                Destination::Dead { reason, kept_until: self.millis()? }
            }
            _ => return Err(self.malformed()),
        })
    }

    pub(super) fn image(&mut self) -> Result<Image<'a>, Malformed> {
        let (id, body, policy) = (self.bytes()?, self.bytes()?, PolicyNo(self.u32()?));
        let (priority, added, due) = (self.u8()?, self.millis()?, self.millis()?);
        let (place, present) = (self.u64()? as i64, self.flag()?);
        let mut counts = [0; 6];
        for count in &mut counts {
            *count = self.u32()?;
        }
        let history = present.then_some(counts);
        let (present, error) = (self.flag()?, self.bytes()?);
        let error = present.then_some(error);
        let (group, meta) = (None, Meta::NONE);
        Ok(Image { id, body, group, meta, policy, priority, added, due, place, history, error })
    }

    pub(in crate::engine) fn policy(&mut self) -> Result<Policy, Malformed> {
        let (attempts, lease_ms, ttl_ms) = (self.u32()?, self.u64()?, self.u64()?);
        let (unique_ms, backoff) = (self.u64()?, self.backoff()?);
        Ok(Policy { attempts, backoff, lease_ms, ttl_ms, unique_ms })
    }

    pub(in crate::engine) fn settings(&mut self) -> Result<QueueSettings, Malformed> {
        let mask = u16::from_le_bytes(self.array()?);
        if u32::from(mask) >> Setting::ALL.len() != 0 {
            return Err(self.malformed());
        }
        let has = |bit: u32| mask & (1 << bit) != 0;
        let settings = QueueSettings {
            attempts: has(0).then(|| self.u32()).transpose()?,
            backoff: has(1).then(|| self.backoff()).transpose()?,
            lease_ms: has(2).then(|| self.u64()).transpose()?,
            priority: has(3).then(|| self.u8()).transpose()?,
            ttl_ms: has(4).then(|| self.u64()).transpose()?,
            max_jobs: has(5).then(|| self.u64()).transpose()?,
            max_leased: has(6).then(|| self.u64()).transpose()?,
            rate: has(7).then(|| self.u32()).transpose()?,
            dead_retention_ms: has(8).then(|| self.u64()).transpose()?,
            dead_max: has(9).then(|| self.u64()).transpose()?,
            due_enters: has(10)
                .then(|| self.flag())
                .transpose()?
                .map(|left| if left { Side::Left } else { Side::Right }),
            group_weight: Later(has(11).then(|| self.weight()).transpose()?),
            group_max_leased: Later(has(12).then(|| self.u32()).transpose()?),
            group_retry: Later(has(13).then(|| self.retry()).transpose()?),
            group_rate: Later(has(14).then(|| self.rate()).transpose()?),
            group_max_jobs: Later(has(15).then(|| self.u32()).transpose()?),
        };
        Ok(settings)
    }

    pub(in crate::engine) fn group_settings(&mut self) -> Result<GroupSettings, Malformed> {
        let mask = self.u8()?;
        let has = |bit: u32| mask & (1 << bit) != 0;
        let weight = has(0).then(|| self.weight()).transpose()?;
        let max_leased = has(1).then(|| self.u32()).transpose()?;
        let pause = Pause::of_number(has(2).then(|| self.u64()).transpose()?.unwrap_or(0));
        let retry = has(3).then(|| self.retry()).transpose()?;
        let rate = Later(has(4).then(|| self.rate()).transpose()?);
        let max_jobs = Later(has(5).then(|| self.u32()).transpose()?);
        let holds = mask >> 6 == 0 && has(2) == (pause != Pause::None);
        let settings = GroupSettings { weight, max_leased, retry, rate, max_jobs, pause };
        if holds { Ok(settings) } else { Err(self.malformed()) }
    }

    fn retry(&mut self) -> Result<GroupRetry, Malformed> {
        Ok(if self.flag()? { GroupRetry::Block } else { GroupRetry::Pass })
    }

    fn rate(&mut self) -> Result<GroupRate, Malformed> {
        let rate = GroupRate { count: self.u32()?, span_ms: self.u32()? };
        if rate.holds() { Ok(rate) } else { Err(self.malformed()) }
    }

    fn weight(&mut self) -> Result<u32, Malformed> {
        let weight = self.u32()?;
        let holds = (1..=GROUP_WEIGHT_MAX).contains(&weight);
        if holds { Ok(weight) } else { Err(self.malformed()) }
    }

    /// The name of a group.
    pub(in crate::engine) fn group(&mut self) -> Result<&'a [u8], Malformed> {
        let name = self.bytes()?;
        let holds = (1..=NAME_BYTES_MAX).contains(&name.len());
        if holds { Ok(name) } else { Err(self.malformed()) }
    }

    pub(in crate::engine) fn pauses(&mut self) -> Result<Pauses, Malformed> {
        let (into, out) = (Pause::of_number(self.u64()?), Pause::of_number(self.u64()?));
        Ok(Pauses { into, out })
    }

    pub(in crate::engine) fn coming(&mut self) -> Result<Option<Coming>, Malformed> {
        let (nominal, due) = (self.millis()?, self.millis()?);
        match nominal.0 {
            0 if due.0 == 0 => Ok(None),
            0 => Err(self.malformed()),
            _ if due < nominal => Err(self.malformed()),
            _ => Ok(Some(Coming { nominal, due })),
        }
    }

    pub(in crate::engine) fn definition(&mut self) -> Result<Definition, Malformed> {
        let rule = match self.u8()? {
            EVERY => Rule::Every { ms: self.u64()? },
            CRON => Rule::Cron { pattern: self.text()?.into(), zone: self.text()?.into() },
            _ => return Err(self.malformed()),
        };
        if rule == (Rule::Every { ms: 0 }) {
            return Err(self.malformed());
        }
        let (from, until, runs, catchup) =
            (self.millis()?, self.millis()?, self.u32()?, self.u32()?);
        let (spread_ms, grace_ms, overlap) = (self.u64()?, self.u64()?, self.u8()?);
        let overlap = Overlap::ALL.into_iter().find(|known| *known as u8 == overlap);
        let (Some(overlap), true) = (overlap, catchup > 0) else { return Err(self.malformed()) };
        let options = self.job_options()?;
        let terms = ScheduleTerms {
            from,
            until,
            runs,
            catchup,
            spread_ms,
            grace_ms,
            overlap,
            options,
            group: OwnGroup::NONE,
            meta: OwnMeta::NONE,
        };
        Ok(terms.with(rule))
    }

    fn job_options(&mut self) -> Result<JobOptions, Malformed> {
        let mask = self.u8()?;
        if mask >> 5 != 0 {
            return Err(self.malformed());
        }
        let has = |bit: u32| mask & (1 << bit) != 0;
        Ok(JobOptions {
            priority: has(0).then(|| self.u8()).transpose()?,
            attempts: has(1).then(|| self.u32()).transpose()?,
            backoff: has(2).then(|| self.backoff()).transpose()?,
            lease_ms: has(3).then(|| self.u64()).transpose()?,
            ttl_ms: has(4).then(|| self.u64()).transpose()?,
        })
    }

    fn text(&mut self) -> Result<&'a str, Malformed> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|_| self.malformed())
    }

    fn backoff(&mut self) -> Result<Backoff, Malformed> {
        let jitter = self.flag()?;
        let steps = match self.u8()? {
            0 => {
                let length = self.u32()? as usize;
                if length == 0 || length > crate::limits::LADDER_STEPS_MAX {
                    return Err(self.malformed());
                }
                let steps: Result<Vec<u64>, Malformed> = (0..length).map(|_| self.u64()).collect();
                Steps::Ladder(steps?.into())
            }
            1 => Steps::Exponential { first: self.u64()?, max: self.u64()?, factor: self.u32()? },
            _ => return Err(self.malformed()),
        };
        Ok(Backoff { steps, jitter })
    }
}
