//! Users, their rules and what they may do, without a server.

use delayd::command::table;
use delayd::limits::{ACL_USERS_MAX, NAME_BYTES_MAX, PASSWORD_BYTES_MAX};
use delayd::session::acl::selector::Denied;
use delayd::session::acl::{Acl, User};
use proptest::prelude::*;
use std::sync::Arc;

fn words(line: &str) -> Vec<&[u8]> {
    line.split(' ').filter(|word| !word.is_empty()).map(str::as_bytes).collect()
}

fn user(rules: &str) -> User {
    Acl::default().user_with(b"u", &words(rules)).unwrap_or_else(|e| panic!("{rules}: {e}"))
}

/// What a fresh user becomes by these rules, as ACL LIST shows it.
fn described(rules: &str) -> String {
    String::from_utf8(user(rules).describe_rules()).unwrap()
}

fn check(user: &User, command: &str) -> Result<(), Denied> {
    let args = words(command);
    user.check(table::resolve(&args).unwrap(), &args)
}

/// Each was tried on Redis 7.0.15, but for the commands, which Redis 7.2 and later describe in the
/// order in which they were given.
#[test]
fn rules_are_described_as_by_redis() {
    for (rules, expected) in [
        ("", "off resetchannels -@all"),
        ("on nopass", "on nopass resetchannels -@all"),
        ("ON AllKeys +@ALL +GET", "on ~* resetchannels +@all +get"),
        ("~a ~b ~a", "off ~a ~b resetchannels -@all"),
        ("%R~a %W~a %rw~b", "off ~a ~b resetchannels -@all"),
        ("%R~a ~*", "off ~* resetchannels -@all"),
        ("~* resetkeys ~a", "off ~a resetchannels -@all"),
        ("%R~* %W~*", "off ~* resetchannels -@all"),
        ("&a &*", "off &* -@all"),
        ("~", "off ~ resetchannels -@all"),
        ("~x)", "off ~x) resetchannels -@all"),
        ("()", "off resetchannels -@all (resetchannels -@all)"),
        (
            "(+get ~x %R~y) (~q +config)",
            "off resetchannels -@all (~x %R~y resetchannels -@all +get) (~q resetchannels -@all +config)",
        ),
        (
            ">pw +get <pw >pw",
            "off #30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4 resetchannels -@all +get",
        ),
        ("nopass >pw resetpass", "off resetchannels -@all"),
        (">pw nopass", "off nopass resetchannels -@all"),
        ("on nopass ~a +get reset", "off resetchannels -@all"),
        ("skip-sanitize-payload", "off skip-sanitize-payload resetchannels -@all"),
        // A rule that a later one makes void is dropped.
        ("+get -get +get", "off resetchannels -@all +get"),
        ("+config|get +config", "off resetchannels -@all +config"),
        ("+config -config|set", "off resetchannels -@all +config -config|set"),
        ("-@all +@admin -config +@admin", "off resetchannels -@all -config +@admin"),
        ("+select|0 +select|1", "off resetchannels -@all +select|0 +select|1"),
        ("+select|0 -select", "off resetchannels -@all -select"),
        ("+@all -@admin allcommands", "off resetchannels +@all"),
    ] {
        assert_eq!(described(rules), expected, "{rules}");
    }
}

#[test]
fn the_last_rule_counts() {
    for (rules, command, allowed) in [
        ("+@all", "CONFIG SET a b", true),
        ("+@all -config|set", "CONFIG SET a b", false),
        ("+@all -config|set", "CONFIG GET a", true),
        ("+@all -config", "CONFIG GET a", false),
        ("+@all -config +config|get", "CONFIG GET a", true),
        ("-config|get +@admin", "CONFIG GET a", true),
        ("+@admin -@dangerous", "CONFIG GET a", false),
        ("+@delay -@admin", "DELAY.LEN q", true),
        ("+@delay -@admin", "ACL LIST", false),
        ("+@delay", "DELAY.CLUSTER", false),
        ("+@delay", "DELAY.CLUSTER REMOVE n2", false),
        ("+@delay", "DELAY.BACKUP BEGIN", false),
        ("+@delay", "PING", false),
        ("+@connection", "PING", true),
        ("+@connection", "ACL LIST", false),
        ("+select|0", "SELECT 0", true),
        ("+select|0", "SELECT 1", false),
        ("+select|0 -select", "SELECT 0", false),
        ("-@all", "AUTH x", true),
        ("-@all", "HELLO 3", true),
        ("-@all", "RESET", true),
        ("-@all", "QUIT", true),
    ] {
        let got = check(&user(&format!("allkeys {rules}")), command);
        assert_eq!(got.is_ok(), allowed, "{rules}: {command}");
    }
}

/// Every category gives what it takes away, and nothing but that.
#[test]
fn categories_are_what_the_table_says() {
    for category in delayd::command::spec::CATEGORIES {
        let (only, but) = (user(&format!("+@{category}")), user(&format!("+@all -@{category}")));
        for spec in table::all_with_subcommands() {
            let early = spec.has(delayd::command::spec::Flag::NoAuth);
            let inside = spec.all_categories().contains(&category);
            let allows = |user: &User| !matches!(user.check(spec, &[]), Err(Denied::Command));
            assert_eq!(allows(&only), inside || early, "+@{category}: {}", spec.name);
            assert_eq!(allows(&but), !inside || early, "-@{category}: {}", spec.name);
        }
    }
}

#[test]
fn a_key_must_be_given_what_the_command_needs_of_it() {
    let denied_key = |at| Err(Denied::Key(at));
    for (rules, command, expected) in [
        ("~mail:*", "DELAY.ADD mail:x 0 b", Ok(())),
        ("~mail:*", "DELAY.ADD post:x 0 b", denied_key(1)),
        ("", "DELAY.LEN q", denied_key(1)),
        ("%R~q", "DELAY.LEN q", Ok(())),
        ("%W~q", "DELAY.LEN q", Ok(())),
        ("%R~q", "DELAY.PEEK q", Ok(())),
        ("%W~q", "DELAY.PEEK q", denied_key(1)),
        ("%R~q", "DELAY.ADD q 0 b", denied_key(1)),
        ("%W~q", "DELAY.ADD q 0 b", Ok(())),
        ("%W~q", "DELAY.POP q 0", denied_key(1)),
        // One pattern has to give all of it.
        ("%W~q* %R~*q", "DELAY.POP q 0", denied_key(1)),
        ("%W~q %R~q", "DELAY.POP q 0", Ok(())),
        ("~a ~b", "DELAY.POP a b c 0", denied_key(3)),
        ("~a ~b", "DELAY.RESERVE 0 3 a c b", denied_key(4)),
        ("~a", "DEL a b", denied_key(2)),
        ("~a", "PING", Ok(())),
        // Each selector is tried by itself.
        ("-@all (+delay.len ~x) (+delay.add ~y)", "DELAY.LEN x", Ok(())),
        ("-@all (+delay.len ~x) (+delay.add ~y)", "DELAY.ADD x 0 b", denied_key(1)),
        ("-@all (+delay.len ~x) (+delay.add ~y)", "DELAY.POP x 0", Err(Denied::Command)),
        ("-@all (+del ~a) (+del ~b)", "DEL a b", denied_key(2)),
    ] {
        assert_eq!(
            check(&user(&format!("+@all {rules}")), command),
            expected,
            "{rules}: {command}"
        );
    }
}

/// A pattern with stars and a key of megabytes: it is no queue's name, so nothing is compared.
#[test]
fn keys_too_long_for_a_queue_are_denied_at_once() {
    let user = user("+@all ~*a*b*c*d*");
    let key = b"abcd".repeat(NAME_BYTES_MAX / 4);
    let len = table::find(b"delay.len").unwrap();
    assert_eq!(user.check(len, &[b"DELAY.LEN", &key]), Ok(()));
    let key = b"abcd".repeat(4 << 20);
    assert_eq!(user.check(len, &[b"DELAY.LEN", &key]), Err(Denied::Key(1)));
}

#[test]
fn who_may_do_everything_is_known() {
    assert!(User::default_user().is_unrestricted());
    assert!(user("+@all ~* &*").is_unrestricted());
    for rules in ["+@all ~*", "+@all &* ~a*", "~* &* +@all -ping", "~* &*"] {
        assert!(!user(rules).is_unrestricted(), "{rules}");
    }
    // What was taken away and given again stands in the rules, but everything is allowed.
    assert!(user("~* &* +@all -ping +ping").is_unrestricted());
}

#[test]
fn passwords() {
    let mut acl = Acl::default();
    let hash = "#30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4";
    acl.set_user(b"u", &[b"on", b">one", hash.as_bytes()]).unwrap();
    for (password, right) in [("one", true), ("pw", true), ("", false), ("One", false)] {
        assert_eq!(acl.authenticate(b"u", password.as_bytes()).is_some(), right, "{password}");
    }
    assert!(acl.authenticate(b"U", b"one").is_none(), "names are compared byte by byte");
    acl.set_user(b"u", &[b"<one"]).unwrap();
    assert!(acl.authenticate(b"u", b"one").is_none());
    acl.set_user(b"u", &[b"off"]).unwrap();
    assert!(acl.authenticate(b"u", b"pw").is_none(), "off");
    acl.set_user(b"u", &[b"nopass"]).unwrap();
    assert!(acl.authenticate(b"u", b"any").is_none(), "still off");
    acl.set_user(b"u", &[b"on"]).unwrap();
    assert!(acl.authenticate(b"u", b"any").is_some());
    acl.set_user(b"u", &[b"resetpass"]).unwrap();
    assert!(acl.authenticate(b"u", b"").is_none(), "without a password none is right");

    let long = [b">".as_slice(), &vec![b'x'; PASSWORD_BYTES_MAX + 1]].concat();
    let error = acl.set_user(b"u", &[&long]).unwrap_err();
    assert!(!error.of_setuser().contains("xxx"), "{}", error.of_setuser());
    assert!(acl.authenticate(b"u", &long[1..]).is_none());
}

#[test]
fn the_default_user_needs_a_password_once_it_has_one() {
    let mut acl = Acl::default();
    assert!(!acl.needs_password());
    acl.set_default_password(b"hunter2");
    assert!(acl.needs_password() && acl.authenticate(b"default", b"hunter2").is_some());
    acl.set_default_password(b"");
    assert!(!acl.needs_password());
    acl.set_user(b"default", &[b"off"]).unwrap();
    assert!(acl.needs_password(), "nobody is logged in as a user that is off");
    assert!(!acl.remove(b"default"));
}

/// Connections tell by that whether they have to be looked at.
#[test]
fn a_user_that_is_as_before_is_the_same() {
    let mut acl = Acl::default();
    let same = |acl: &Acl, then: &Arc<User>| Arc::ptr_eq(acl.get(b"u").unwrap(), then);
    acl.set_user(b"u", &words("on ~q +get")).unwrap();
    let then = Arc::clone(acl.get(b"u").unwrap());
    acl.set_user(b"u", &words("on ~q")).unwrap();
    assert!(same(&acl, &then));
    let text = acl.describe().join(&b'\n');
    acl.load(&text, "users.acl", b"").unwrap();
    assert!(same(&acl, &then));
    acl.set_user(b"u", &words("-get")).unwrap();
    assert!(!same(&acl, &then));
}

/// `reset` and parentheses begin with the channels of `acl-pubsub-default` as it is now, not as it was
/// when the user was made.
#[test]
fn channels_begin_as_the_default_says_today() {
    let mut acl = Acl::default();
    let channels = |acl: &mut Acl, rules: &str| {
        acl.set_user(b"u", &words(rules)).unwrap();
        let user = acl.get(b"u").unwrap();
        let inner = user.selectors().first().map(|inner| inner.describe_channels());
        let shown = |text: Vec<u8>| String::from_utf8(text).unwrap();
        (shown(user.root().describe_channels()), inner.map(shown))
    };
    assert_eq!(channels(&mut acl, "on"), (String::new(), None));
    acl.set_all_channels(true);
    assert_eq!(channels(&mut acl, "+ping"), (String::new(), None), "what is said already stays");
    assert_eq!(channels(&mut acl, "reset (+get)"), ("&*".into(), Some("&*".into())));
    acl.set_all_channels(false);
    assert_eq!(channels(&mut acl, "clearselectors (+get)"), ("&*".into(), Some(String::new())));
    assert_eq!(channels(&mut acl, "reset"), (String::new(), None));
}

#[test]
fn users_are_bounded() {
    let mut acl = Acl::default();
    for number in 1..ACL_USERS_MAX {
        acl.set_user(number.to_string().as_bytes(), &[]).unwrap();
    }
    let error = acl.set_user(b"one more", &[]).unwrap_err();
    assert!(error.of_setuser().contains("spaces"), "{}", error.of_setuser());
    let error = acl.set_user(b"one-more", &[]).unwrap_err().of_setuser();
    assert_eq!(error, format!("there are at most {ACL_USERS_MAX} users"));
    acl.set_user(b"7", &[b"on"]).unwrap();
    let error = acl.set_user(&[b'x'; NAME_BYTES_MAX + 1], &[]).unwrap_err().of_setuser();
    assert_eq!(error, format!("a username has at most {NAME_BYTES_MAX} bytes"));
}

#[test]
fn files_are_taken_whole_or_not_at_all() {
    let mut acl = Acl::default();
    acl.set_user(b"old", &[b"on"]).unwrap();
    let text = b"user default on nopass ~* &* +@all\nuser a on (+get\nuser b foo\nfoo\nuser c on\nuser c off\n";
    let error = acl.load(text, "users.acl", b"").unwrap_err();
    assert_eq!(
        error,
        "users.acl:2: Unmatched parenthesis in acl selector starting at '(+get'.. \
         users.acl:3: Error in applying operation 'foo': Syntax error. \
         users.acl:4 should start with user keyword followed by username. \
         users.acl:6: Duplicate user 'c' found. A user can only be defined once in config files. \
         WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
    );
    assert!(acl.get(b"old").is_some() && acl.get(b"c").is_none());

    acl.load(b"\n user  a\ton >pw (+get ~x) \r\n\n", "users.acl", b"hunter2").unwrap();
    let names: Vec<&[u8]> = acl.users().map(|user| user.name()).collect();
    assert_eq!(names, [b"a".as_slice(), b"default"]);
    assert!(acl.needs_password(), "the file says nothing of the default user");
    acl.load(b"user default on nopass +ping\n", "users.acl", b"hunter2").unwrap();
    assert!(!acl.needs_password(), "the file has the last word");
}

fn rule() -> impl Strategy<Value = String> {
    let pattern = "[a-z0-9:*?\\[\\]]{1,6}";
    let names: Vec<&str> = table::all_with_subcommands().map(|spec| spec.name).collect();
    let simple = prop_oneof![
        Just("allkeys".to_owned()),
        Just("resetkeys".to_owned()),
        Just("allchannels".to_owned()),
        Just("resetchannels".to_owned()),
        Just("allcommands".to_owned()),
        Just("nocommands".to_owned()),
        Just("+select|1".to_owned()),
        ("[+-]", proptest::sample::select(names)).prop_map(|(sign, name)| sign + name),
        ("[+-]@", proptest::sample::select(delayd::command::spec::CATEGORIES.to_vec()))
            .prop_map(|(sign, name)| sign + name),
        ("(~|%R~|%W~|%RW~|&)", pattern).prop_map(|(kind, pattern)| kind + &pattern),
    ];
    prop_oneof![
        8 => simple.clone(),
        1 => proptest::collection::vec(simple, 0..4).prop_map(|rules| format!("({})", rules.join(" "))),
        1 => "(on|off|nopass|resetpass|>[a-z]{1,4}|<[a-z]{1,2}|clearselectors|reset|skip-sanitize-payload)",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// What is written is read as the same user; rules that are refused change nothing.
    #[test]
    fn a_description_makes_the_same_user(rules in proptest::collection::vec(rule(), 0..24)) {
        let mut acl = Acl::default();
        for rule in &rules {
            let before = acl.get(b"u").map(|user| user.describe());
            if acl.set_user(b"u", &[rule.as_bytes()]).is_err() {
                prop_assert_eq!(acl.get(b"u").map(|user| user.describe()), before);
            }
        }
        let mut text = acl.describe().join(&b'\n');
        text.push(b'\n');
        let mut read = Acl::default();
        read.load(&text, "users.acl", b"").unwrap();
        prop_assert_eq!(read.users().collect::<Vec<_>>(), acl.users().collect::<Vec<_>>());
    }
}
