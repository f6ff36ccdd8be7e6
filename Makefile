# Every target works from a fresh clone; `make help` lists them.

CARGO_BIN := $(HOME)/.cargo/bin
export PATH := $(PATH):$(CARGO_BIN)
export CARGO_TERM_COLOR ?= auto
# A first build is 60 s shorter without what makes the second one incremental.
ifeq ($(wildcard target/debug),)
export CARGO_INCREMENTAL ?= 0
endif

# Property and simulation tests take their number of cases, or of seeds, from here.
SOAK_CASES ?= $(or $(DELAYD_CASES),20000)
FUZZ_SECONDS ?= 60
CARGO_FUZZ_VERSION := 0.13.2

# The last one before nodes told each other of their clocks.
UPGRADE_FROM ?= 92b0288

# Packages and static binaries are built with this profile.
PACKAGE_PROFILE ?= dist
STATIC_TARGET ?= $(shell PATH='$(PATH)' rustc -vV | sed -n 's/^host: //p')
STATIC_BINARY = target/$(STATIC_TARGET)/$(PACKAGE_PROFILE)/delayd

# Where `make install` puts what; DESTDIR stands before each.
PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
ZSH_DIR ?= $(PREFIX)/share/zsh/site-functions
BINARY ?= target/release/delayd
BIN = $(DESTDIR)$(PREFIX)/bin/delayd
UNIT = $(DESTDIR)$(PREFIX)/lib/systemd/system/delayd.service
CONF = $(DESTDIR)$(SYSCONFDIR)/delayd/delayd.conf
SHARE = $(DESTDIR)$(PREFIX)/share

step = @printf '\n==> %s\n' "$(1)"

.DEFAULT_GOAL := help
.PHONY: help check test deps lint deny unit build run redis-tests small-test redis-rust compose-check bench versus soak soak-real upgrade-test fuzz \
	docs static install uninstall package package-test clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# One after the other whatever -j says: cargo uses every core by itself.
.NOTPARALLEL:

check: ## formatting, the library and all tests without sockets: a compiler and crates are enough, five minutes from a fresh clone
	$(call step,formatting)
	cargo fmt --check
	$(call step,the library, and what is true without a socket)
	cargo test --locked --quiet --no-default-features --lib --test pure

# What asks for root or much disk comes last: what is wrong with the code is known before.
test: lint deny unit compose-check small-test ## everything that must hold, as in CI; installs what it needs

deps: ## what the Redis clients need and is not there yet
	$(call step,what the Redis clients need)
	@redis-tests/install

lint: ## formatting and lints
	$(call step,formatting)
	@cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
	cargo fmt --check
	cargo fmt --check --manifest-path redis-tests/rust/Cargo.toml
	$(call step,lints)
	@cargo clippy --version >/dev/null 2>&1 || rustup component add clippy
	cargo clippy --locked --quiet --all-targets -- -D warnings

deny: ## crates against deny.toml where cargo-deny is installed, advisories where their database is reachable
	$(call step,crates)
	@if ! cargo deny --version >/dev/null 2>&1; then \
		echo 'not checked: cargo-deny is not installed (cargo install --locked cargo-deny)'; \
	elif cargo deny --locked fetch db >/dev/null 2>&1; then \
		cargo deny --locked check --disable-fetch; \
	else \
		echo 'advisories are not checked: their database is not reachable'; \
		cargo deny --locked --offline check bans licenses sources; \
	fi

# Most of tests/it waits: with twice as many threads as cores it takes 170 s instead of 310.
unit: export RUST_TEST_THREADS ?= $(shell expr 2 \* $$(nproc))
unit: ## the tests written in Rust, documentation examples included
	$(call step,tests)
	cargo test --locked --quiet --lib --bins --tests --examples
	$(call step,documentation examples)
	cargo test --locked --quiet --doc

build: ## the server, target/release/delayd
	$(call step,release build)
	cargo build --locked --release

run: ## build and start the server on 127.0.0.1:9248
	cargo run --locked --release

# The program that the tests in Rust start, too: nothing is built for the clients alone. A release checks itself by
# `make build redis-tests PROGRAM=target/release/delayd`.
PROGRAM ?= target/debug/delayd
$(CURDIR)/target/debug/delayd target/debug/delayd: FORCE
	$(call step,the server)
	cargo test --locked --quiet --lib --bins --tests --examples --no-run
FORCE:

redis-rust: deps
	$(call step,the client written in Rust)
	CARGO_TARGET_DIR=.cache/redis-tests-rust \
		cargo build --locked --quiet --manifest-path redis-tests/rust/Cargo.toml

redis-tests: $(PROGRAM) redis-rust ## real Redis clients against the server
	$(call step,Redis clients)
	@DELAYD_BIN=$(abspath $(PROGRAM)) redis-tests/run

# What passes here passes with more memory and files, so `make test` runs the clients once.
small-test: $(PROGRAM) redis-rust ## the same on a small machine: maxmemory 48mb, 256 files, a control group of 96 MB where root may make one
	$(call step,Redis clients on a small machine)
	@DELAYD_BIN=$(abspath $(PROGRAM)) redis-tests/run --small

compose-check: deps
	$(call step,docker-compose files)
	docker-compose config --quiet
	docker-compose --profile test config --quiet
	docker-compose --profile watch config --quiet
	docker-compose --file deploy/cluster.yml config --quiet

bench: ## the benchmarks of delayd alone
	cargo bench --locked --bench wheel --bench calendar --bench framer --bench engine --bench lateness --bench throughput \
		--bench schedules --bench durability

versus: ## delayd beside Redis and beanstalkd, half an hour; writes docs/benchmarks.md
	@redis-tests/install --servers
	cargo bench --locked --bench versus

soak: ## the property and simulation tests with many seeds; DELAYD_CASES=100000 make soak for more
	DELAYD_CASES=$(SOAK_CASES) cargo test --locked --release --tests -- --nocapture

soak-real: ## ten minutes of everything at once against the release build; DELAYD_SOAK_SECONDS for longer
	DELAYD_SOAK_SECONDS=$(or $(DELAYD_SOAK_SECONDS),600) \
		cargo test --locked --release --test soak -- --nocapture

upgrade-test: ## nodes of this build beside those of UPGRADE_FROM, an earlier commit, in one cluster
	$(call step,delayd of $(UPGRADE_FROM))
	@rm -rf target/upgrade/source && mkdir -p target/upgrade/source
	git archive $(UPGRADE_FROM) | tar -x -C target/upgrade/source
	CARGO_TARGET_DIR=$(CURDIR)/target/upgrade cargo build --locked --release --manifest-path target/upgrade/source/Cargo.toml
	$(call step,both in one cluster)
	DELAYD_OTHER=$(CURDIR)/target/upgrade/release/delayd \
		cargo test --locked --release --test it processes::upgrade -- --nocapture

fuzz: ## every fuzz target for FUZZ_SECONDS (60) each; needs a nightly toolchain
	@cargo fuzz --version >/dev/null 2>&1 || cargo install --locked cargo-fuzz@$(CARGO_FUZZ_VERSION)
	@set -e; for target in $$(cargo +nightly fuzz list); do \
		printf '\n==> fuzz %s, %ss\n' "$$target" "$(FUZZ_SECONDS)"; \
		cargo +nightly fuzz run "$$target" -- -max_total_time=$(FUZZ_SECONDS); \
	done

docs: ## rewrite all that is made from the source: docs/, deploy/, the golden transcripts and pages; then read the diff
	DELAYD_UPDATE=1 cargo test --locked --test pure

static: ## a static binary, which runs on any Linux of this architecture
	RUSTFLAGS="-C target-feature=+crt-static" \
		cargo build --locked --bin delayd --profile $(PACKAGE_PROFILE) --target $(STATIC_TARGET)
	@echo $(STATIC_BINARY)

install: ## what `make build` built, with manual pages, completions, unit and delayd.conf; PREFIX, DESTDIR
	@test -x $(BINARY) || { echo "$(BINARY) is not there yet: make build" >&2; exit 1; }
	install -D -m 0755 $(BINARY) $(BIN)
	install -D -m 0644 deploy/man/delayd.1 $(SHARE)/man/man1/delayd.1
	install -D -m 0644 deploy/man/delayd.conf.5 $(SHARE)/man/man5/delayd.conf.5
	install -D -m 0644 deploy/completions/delayd.bash $(SHARE)/bash-completion/completions/delayd
	install -D -m 0644 deploy/completions/_delayd $(DESTDIR)$(ZSH_DIR)/_delayd
	install -D -m 0644 deploy/completions/delayd.fish $(SHARE)/fish/vendor_completions.d/delayd.fish
	install -D -m 0644 -t $(SHARE)/doc/delayd README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT
	install -D -m 0644 -t $(SHARE)/doc/delayd/docs docs/*.*
	install -D -m 0644 -t $(SHARE)/doc/delayd/docs/images docs/images/*
	install -D -m 0644 deploy/delayd.service $(UNIT)
	sed -i 's|/usr/local/bin/|$(PREFIX)/bin/|; s|/etc/delayd|$(SYSCONFDIR)/delayd|' $(UNIT)
	@# Never overwritten: it is yours.
	test -e $(CONF) || install -D -m 0644 deploy/delayd.conf $(CONF)

uninstall: ## what `make install` installed, but for delayd.conf; jobs stay
	rm -f $(BIN) $(UNIT) $(SHARE)/man/man1/delayd.1 $(SHARE)/man/man5/delayd.conf.5 \
		$(SHARE)/bash-completion/completions/delayd $(DESTDIR)$(ZSH_DIR)/_delayd \
		$(SHARE)/fish/vendor_completions.d/delayd.fish
	rm -rf $(SHARE)/doc/delayd

package: static ## a Debian package, target/delayd_VERSION_ARCH.deb, with the static binary
	@deploy/deb/build $(STATIC_BINARY)

package-test: package ## installs the package, upgrades, removes and purges it here; for a bare Debian, as root
	@deploy/deb/test "$$(ls -t target/delayd_*.deb | head -n 1)"

clean: ## everything that was built or installed here
	rm -rf target .cache redis-tests/node_modules fuzz/target
