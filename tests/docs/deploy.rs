//! The files under `deploy/`: dashboards and alerts ask for what there is.

use delayd::config::options::Name;
use delayd::config::{self, Config};
use delayd::observe::metrics::families::{FAMILIES, Family, MetricKind};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Names of metrics in an expression.
fn names(expr: &str) -> Vec<String> {
    let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    expr.split(word).filter(|word| word.starts_with("delayd_")).map(str::to_owned).collect()
}

/// The family whose samples have this name.
fn family(name: &str) -> Option<&'static Family> {
    let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
    FAMILIES.iter().find(|family| match family.kind {
        MetricKind::Histogram => base == Some(family.name),
        _ => family.name == name,
    })
}

/// Labels that a selector of an expression names: `name{a="x",b=~"y"}`.
fn check_selectors(expr: &str) {
    let from_prometheus = ["instance", "job"];
    for (at, _) in expr.match_indices('{') {
        let name = names(&expr[..at]).pop();
        let Some(name) = name.filter(|name| expr[..at].ends_with(name.as_str())) else { continue };
        let labels = family(&name).unwrap_or_else(|| panic!("no {name}")).labels;
        let within = expr[at + 1..].split('}').next().unwrap();
        for pair in within.split(',').filter(|pair| !pair.is_empty()) {
            let label = pair.split(['=', '!']).next().unwrap();
            let own = labels.split(", ").any(|own| own == label);
            assert!(own || from_prometheus.contains(&label), "{name} has no {label}: {expr}");
        }
    }
}

fn check(expr: &str) {
    let named = names(expr);
    assert!(!named.is_empty() || expr.starts_with("up{"), "it asks for nothing of ours: {expr}");
    for name in named {
        let family = family(&name).unwrap_or_else(|| panic!("no metric {name}: {expr}"));
        let counted = family.kind != MetricKind::Gauge;
        let rated = ["rate(", "increase("].iter().any(|of| expr.contains(&format!("{of}{name}")));
        let rated = rated || (expr.contains("rate(") && counted);
        assert!(!counted || rated, "{name} only grows: {expr}");
    }
    check_selectors(expr);
    let open = |c: char| expr.matches(c).count();
    assert!(open('(') == open(')') && open('{') == open('}'), "{expr}");
}

/// Values of the key `expr` anywhere in the JSON.
fn exprs(value: &serde_json::Value, found: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            found.extend(fields.get("expr").and_then(|expr| expr.as_str()).map(str::to_owned));
            fields.values().for_each(|value| exprs(value, found));
        }
        serde_json::Value::Array(values) => values.iter().for_each(|value| exprs(value, found)),
        _ => {}
    }
}

#[test]
fn every_panel_of_the_dashboard_asks_for_what_there_is() {
    let board: serde_json::Value =
        serde_json::from_str(&file("deploy/grafana/dashboards/delayd.json")).expect("JSON");
    let panels = board["panels"].as_array().expect("panels");
    let (mut ids, mut places) = (BTreeSet::new(), BTreeSet::new());
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64()), "{} has an id of its own", panel["title"]);
        let at = &panel["gridPos"];
        assert!(places.insert((at["y"].as_u64(), at["x"].as_u64())), "{}", panel["title"]);
        let row = panel["type"] == "row";
        assert!(row || !panel["description"].as_str().expect("a description").is_empty());
        assert_eq!(row, panel["targets"].as_array().is_none(), "{}", panel["title"]);
    }
    let mut found = Vec::new();
    exprs(&board, &mut found);
    assert!(found.len() > panels.len(), "each panel asks for something");
    found.iter().for_each(|expr| check(expr));
}

#[test]
fn every_alert_asks_for_what_there_is_and_is_explained() {
    let (rules, guide) = (file("deploy/prometheus/alerts.yml"), file("docs/metrics.md"));
    let value = |line: &str, key: &str| line.trim().strip_prefix(key).map(str::to_owned);
    let alerts: Vec<String> = rules.lines().filter_map(|line| value(line, "- alert: ")).collect();
    let asked: Vec<String> = rules.lines().filter_map(|line| value(line, "expr: ")).collect();
    assert!(!alerts.is_empty() && alerts.len() == asked.len(), "an expression for each");
    asked.iter().for_each(|expr| check(expr));
    for alert in alerts {
        assert!(guide.contains(&format!("`{alert}`")), "docs/metrics.md does not name {alert}");
    }
    let about = |of: &str| asked.iter().any(|expr| expr.contains(of));
    for of in ["lateness", "oldest_ready", "died", "journal_state", "delayd_ready", "memory_jobs"] {
        assert!(about(of), "no alert on {of}");
    }
}

/// The configuration files, compose and Prometheus speak of the same port, and of files that are there.
#[test]
fn the_files_fit_together() {
    let (compose, unit) = (file("docker-compose.yml"), file("deploy/delayd.service"));
    let metrics = |text: &str| text.lines().any(|line| line == "metrics-port 9249");
    assert!(metrics(&file("deploy/delayd.conf")) && metrics(&file("deploy/docker/image.conf")));
    assert!(file("deploy/prometheus/prometheus.yml").contains(r#"["delayd:9249"]"#));
    for volume in compose.lines().filter_map(|line| line.trim().strip_prefix("- ./")) {
        let path = volume.split(':').next().unwrap();
        assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(path).exists(), "{path}");
    }
    let mut config = Config::default();
    let conf = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/delayd.conf");
    config::file::read(&mut config, &conf).expect("the installed file");
    let dir = format!("WorkingDirectory={}", config.text(Name::Dir));
    let start = "ExecStart=/usr/local/bin/delayd /etc/delayd/delayd.conf";
    let (reload, clock) =
        ("ExecReload=/bin/kill -HUP $MAINPID", "network-online.target time-sync.target");
    let (after, wants) = (format!("After={clock}"), format!("Wants={clock}"));
    let rest = [start, &dir, reload, &after, &wants];
    for line in ["Type=notify", "NoNewPrivileges=yes", "ProtectSystem=strict"].iter().chain(&rest) {
        assert!(unit.lines().any(|other| other == *line), "{line}");
    }
}

/// Packages for aarch64 run on kernels with pages of 64 KiB, too, whoever builds them: jemalloc's build reads these.
#[test]
fn the_allocator_is_built_for_the_largest_pages_of_aarch64() {
    let cargo = file(".cargo/config.toml");
    let env = cargo.split_once("[env]").expect("variables for builds").1;
    for target in ["GNU", "MUSL"] {
        let line = format!("AARCH64_UNKNOWN_LINUX_{target}_JEMALLOC_SYS_WITH_LG_PAGE = \"16\"");
        assert!(env.lines().any(|other| other == line), "{line}");
    }
    let image = file("Dockerfile");
    let (copied, built) = (image.find("COPY .cargo .cargo"), image.find("cargo build"));
    assert!(copied.expect("the image is built with it") < built.expect("it builds"));
}

/// What is built for another architecture has its linker and its C compiler, or says what there is to install.
#[test]
fn a_static_binary_for_another_architecture_has_its_tools() {
    let make = |args: &[&str]| {
        let output = Command::new("make")
            .args(["--directory", env!("CARGO_MANIFEST_DIR")])
            .args(args)
            .env_remove("MAKEFLAGS")
            .output()
            .expect("make runs");
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).expect("UTF-8"))
    };
    let foreign = if cfg!(target_arch = "aarch64") { "x86_64" } else { "aarch64" };
    let target = format!("{foreign}-unknown-linux-gnu");
    let (_, lines) = make(&["-n", "static", &format!("STATIC_TARGET={target}")]);
    let variable = target.replace('-', "_");
    for set in [
        format!("CC_{variable}={foreign}-linux-gnu-gcc "),
        format!("CARGO_TARGET_{}_LINKER={foreign}-linux-gnu-gcc ", variable.to_uppercase()),
        format!("--remap-path-prefix={}=", env!("CARGO_MANIFEST_DIR")),
        format!("-ffile-prefix-map={}=", env!("CARGO_MANIFEST_DIR")),
        "+crt-static".to_owned(),
        format!("deploy/static-check target/{target}/dist/delayd"),
    ] {
        assert!(lines.contains(&set), "{set}: {lines}");
    }
    let (_, lines) = make(&["-n", "static"]);
    assert!(!lines.contains("_LINKER="), "{lines}");
    // Nobody has it.
    let (done, lines) = make(&["cross-tools", "STATIC_TARGET=sparc64-unknown-linux-gnu"]);
    let install = "sudo apt-get install gcc-sparc64-linux-gnu libc6-dev-sparc64-cross";
    let target = "rustup target add sparc64-unknown-linux-gnu";
    assert!(!done && lines.contains(install) && lines.contains(target), "{lines}");
}

/// The program of the tests is linked with the system's library, and was built here.
#[test]
fn what_is_not_static_is_no_static_binary() {
    let output = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/static-check"))
        .args([env!("CARGO_BIN_EXE_delayd"), "99000000", env!("CARGO_MANIFEST_DIR")])
        .output()
        .expect("it runs");
    let told = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(!output.status.success() && told.contains("not static"), "{told}");
}

/// The nodes of a StatefulSet are given options that there are, and find each other under the names that it gives them;
/// probes and the proxy ask for pages that there are.
#[test]
fn the_cluster_of_kubernetes_fits_together() {
    let text = file("deploy/kubernetes.yml");
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(key));
        line.unwrap_or_else(|| panic!("no {key}")).trim().to_owned()
    };
    let args =
        text.split_once(" args:\n").expect("args").1.split_once(" ports:\n").expect("ports").0;
    let args = args.lines().map_while(|line| line.trim().strip_prefix("- "));
    let args: Vec<String> = args.map(|word| word.trim_matches('"').to_owned()).collect();
    let mut config = Config::default();
    for pair in args.chunks(2) {
        let word = pair[0].strip_prefix("--").expect("a name");
        config.set(word, &pair[1..]).unwrap_or_else(|error| panic!("{pair:?}: {error}"));
    }
    let (name, replicas) = (value("serviceName:"), value("replicas:").parse::<u16>().unwrap());
    let peers = config.number(Name::Port) + 10_000;
    let host = |node| format!("{name}-{node}={name}-{node}.{name}:{peers}");
    let nodes: Vec<String> = (0..replicas).map(host).collect();
    assert_eq!(config.text(Name::ClusterNodes), nodes.join(","));
    assert_eq!(config.text(Name::ClusterNode), "@hostname");
    for (port, number) in [
        ("redis", config.number(Name::Port)),
        ("peers", peers),
        ("sentinel", config.number(Name::SentinelPort)),
        ("metrics", config.number(Name::MetricsPort)),
    ] {
        assert!(text.contains(&format!("{{ name: {port}, port: {number} }}")), "{port}");
        assert!(text.contains(&format!("{{ name: {port}, containerPort: {number} }}")), "{port}");
    }
    let pages = file("src/server/observe/http/answer.rs");
    let proxy = file("deploy/haproxy.cfg");
    for (asked, page) in [(&text, "/healthz"), (&text, "/readyz"), (&proxy, "/leaderz")] {
        assert!(asked.contains(page) && pages.contains(page), "{page}");
    }
    for line in
        ["podManagementPolicy: Parallel", "publishNotReadyAddresses: true", "maxUnavailable: 1"]
    {
        assert!(text.contains(line), "{line}");
    }
}

/// Options after an image's name are laid over its own file, which `DELAYD_CONFIG` names (`config::args` tests the rule).
#[test]
fn options_given_to_the_image_are_laid_over_its_own() {
    let own = "/etc/delayd/image.conf";
    let built = file("Dockerfile");
    for line in [
        &*format!("COPY deploy/docker/image.conf {own}"),
        &*format!("ENV {}={own}", config::args::FILE_VARIABLE),
        "ENTRYPOINT [\"delayd\"]",
    ] {
        assert!(built.lines().any(|of| of == line), "{line}");
    }
    // Without the user's file, which is empty at first.
    let conf = file("deploy/docker/image.conf");
    let mut config = Config::default();
    for line in conf.lines().filter(|line| !line.starts_with("include")) {
        let words = config::file::split(line).expect("it can be read");
        if let Some((word, values)) = words.split_first() {
            config.set(word, values).expect(line);
        }
    }
    assert_eq!((config.text(Name::Bind), config.flag(Name::ProtectedMode)), ("* -::*", false));
    assert_eq!(conf.lines().last(), Some("include /etc/delayd/delayd.conf"));
}

/// `make install` leaves a `delayd.conf` that is there as it is, and `make uninstall` leaves nothing else.
#[test]
fn what_is_installed_is_uninstalled_but_for_the_configuration() {
    let root = std::env::temp_dir().join(format!("delayd-install-{}", std::process::id()));
    let make = |target: &str| {
        let output = Command::new("make")
            .args([target, "--silent", "--directory", env!("CARGO_MANIFEST_DIR"), "PREFIX=/opt/x"])
            .arg(format!("DESTDIR={}", root.display()))
            .arg(format!("BINARY={}", env!("CARGO_BIN_EXE_delayd")))
            .env_remove("MAKEFLAGS")
            .output()
            .expect("make runs");
        assert!(output.status.success(), "{target}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let conf = root.join("etc/delayd/delayd.conf");
    make("install");
    assert_eq!(std::fs::read_to_string(&conf).expect("installed"), file("deploy/delayd.conf"));
    let unit = std::fs::read_to_string(root.join("opt/x/lib/systemd/system/delayd.service"));
    let start = "\nExecStart=/opt/x/bin/delayd /etc/delayd/delayd.conf\n";
    assert!(unit.expect("installed").contains(start));
    assert!(root.join("opt/x/bin/delayd").exists());
    std::fs::write(&conf, "port 1\n").expect("it can be written");
    make("install");
    assert_eq!(std::fs::read_to_string(&conf).expect("still there"), "port 1\n");
    make("uninstall");
    let mut left = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("it can be read").path();
            if path.is_dir() { folders.push(path) } else { left.push(path) }
        }
    }
    assert_eq!(left, [conf]);
    std::fs::remove_dir_all(&root).expect("it can be removed");
}
