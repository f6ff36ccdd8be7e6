//! Several partitions in a process: what their options must fit.

use super::options::{self, Name};
use super::{Config, RefusedOptions};

/// Options that name the first of several ports, one for each partition, on which this machine listens. Metrics are those
/// of all.
const LISTENED: [Name; 5] =
    [Name::Port, Name::TlsPort, Name::ClusterPort, Name::ConsolePort, Name::MetricsPort];

/// Those that are only told to others.
const ANNOUNCED: [Name; 3] =
    [Name::ClusterAnnouncePort, Name::ClusterAnnounceTlsPort, Name::ClusterAnnounceBusPort];

/// Whether the options go with the number of partitions.
///
/// # Errors
/// Ports overlap or end above 65535; an option that stands for one server is set.
pub fn check(config: &Config) -> Result<(), RefusedOptions> {
    let count = config.partitions();
    if count == 1 {
        return Ok(());
    }
    let refused = |name: Name, reason: String| {
        let spec = options::spec(name);
        Err(RefusedOptions::value(spec.word(), &[config.shown(spec)], reason))
    };
    let whole = "is for a process with one partition, and cluster-partitions is";
    if !config.text(Name::UnixSocket).is_empty() {
        return refused(Name::UnixSocket, format!("{whole} {count}"));
    }
    if config.clustering_set && !config.flag(Name::ClusterEnabled) {
        let reason = format!(
            "clients find the partition of a queue as in a Redis Cluster, and cluster-partitions is {count}"
        );
        return refused(Name::ClusterEnabled, reason);
    }
    if config.number(Name::SentinelPort) != 0 {
        let reason = format!(
            "{whole} {count}: clients of several speak as to a Redis Cluster (cluster-enabled) and need no Sentinel"
        );
        return refused(Name::SentinelPort, reason);
    }
    let last = |name| config.number(name) + u64::from(ports(name, count)) - 1;
    for name in LISTENED.into_iter().chain(ANNOUNCED) {
        if config.number(name) != 0 && last(name) > 65_535 {
            let last = last(name);
            return refused(name, format!("the ports of {count} partitions would end at {last}"));
        }
    }
    let listened = LISTENED.into_iter().filter(|name| config.number(*name) != 0);
    for (at, name) in listened.clone().enumerate() {
        let (first, last_own) = (config.number(name), last(name));
        let overlaps = |other: &Name| first <= last(*other) && config.number(*other) <= last_own;
        if let Some(other) = listened.clone().skip(at + 1).find(overlaps) {
            let (word, from, to) = (options::spec(other).word(), config.number(other), last(other));
            let reason = format!(
                "{count} partitions have as many ports each, which overlap with those of {word}, {from} to {to}"
            );
            return refused(name, reason);
        }
    }
    Ok(())
}

/// How many ports follow from the option.
fn ports(name: Name, count: u16) -> u16 {
    if name == Name::MetricsPort { 1 } else { count }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(options: &[(&str, &str)]) -> Config {
        let mut config = Config::default();
        for (word, value) in options {
            config.set(word, &[(*value).to_owned()]).unwrap();
        }
        config
    }

    fn refused(options: &[(&str, &str)]) -> String {
        config(options).check().unwrap_err().to_string()
    }

    #[test]
    fn the_ports_of_partitions_follow_each_other_and_do_not_overlap() {
        let four = ("cluster-partitions", "4");
        let spread = Config { partition: 3, ..config(&[four, ("port", "7000")]) };
        assert_eq!((spread.port(Name::Port), spread.port(Name::TlsPort)), (7_003, 0));
        config(&[four, ("port", "7000"), ("tls-port", "7004")]).check().unwrap();
        config(&[four, ("port", "7000"), ("metrics-port", "6999")]).check().unwrap();
        let text = refused(&[four, ("port", "7000"), ("tls-port", "7003")]);
        assert!(text.starts_with("port 7000: 4 partitions") && text.contains("tls-port, 7003 to"));
        let text = refused(&[four, ("port", "7000"), ("metrics-port", "7003")]);
        assert!(text.starts_with("port 7000: 4 partitions"), "{text}");
        let text = refused(&[four, ("cluster-announce-port", "65533")]);
        assert!(text.ends_with("the ports of 4 partitions would end at 65536"), "{text}");
        assert!(refused(&[four, ("unixsocket", "/s")]).starts_with("unixsocket /s: is for a"));
        let text = refused(&[four, ("cluster-enabled", "no")]);
        assert!(text.starts_with("cluster-enabled no: clients find the partition"), "{text}");
        config(&[four, ("cluster-enabled", "yes")]).check().unwrap();
        config(&[("cluster-enabled", "no")]).check().unwrap();
        let text = refused(&[four, ("sentinel-port", "9")]);
        assert!(text.starts_with("sentinel-port 9: is for a") && text.contains("cluster-enabled"));
        config(&[("port", "7000"), ("tls-port", "7001"), ("unixsocket", "/s")]).check().unwrap();
    }

    #[test]
    fn numbers_of_the_process_are_divided_down_to_a_least() {
        let of = |partitions, least| {
            config(&[("cluster-partitions", partitions)]).part(Name::JournalSegmentSize, least)
        };
        assert_eq!(
            (of("1", 4 << 20), of("4", 4 << 20), of("64", 4 << 20)),
            (64 << 20, 16 << 20, 4 << 20)
        );
        assert_eq!(of("64", 128 << 20), 64 << 20, "never more than the whole");
    }

    #[test]
    fn only_powers_of_two_divide_the_slots() {
        for wrong in ["0", "3", "128"] {
            let error =
                Config::default().set("cluster-partitions", &[wrong.to_owned()]).unwrap_err();
            assert!(error.to_string().contains("1, 2, 4, 8, 16, 32, 64"), "{error}");
        }
    }
}
