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
STATIC_BINARY = target/$(STATIC_TARGET)/$(if $(filter dev,$(PACKAGE_PROFILE)),debug,$(PACKAGE_PROFILE))/delayd
STATIC_BYTES_MAX ?= 12000000
STATIC_ARCH = $(firstword $(subst -, ,$(STATIC_TARGET)))
# Another architecture needs its own compiler and C library, and has a name of its own in Debian.
CROSS = $(if $(filter-out $(shell uname -m),$(STATIC_ARCH)),$(STATIC_ARCH)-linux-gnu)
DEB_ARCH = $(patsubst aarch64,arm64,$(patsubst x86_64,amd64,$(STATIC_ARCH)))
CARGO_FOLDER = $(or $(CARGO_HOME),$(HOME)/.cargo)
RUST_FOLDER = $(shell PATH='$(PATH)' rustc --print sysroot)

# Where `make install` puts what; DESTDIR stands before each.
PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
ZSH_DIR ?= $(PREFIX)/share/zsh/site-functions
BINARY ?= target/release/delayd
BIN = $(DESTDIR)$(PREFIX)/bin/delayd
UNIT = $(DESTDIR)$(PREFIX)/lib/systemd/system/delayd.service
CONF = $(DESTDIR)$(SYSCONFDIR)/delayd/delayd.conf
SHARE = $(DESTDIR)$(PREFIX)/share

# What the clients are tested with. A release checks itself by `make build redis-tests PROGRAM=target/release/delayd`.
PROGRAM ?= target/debug/delayd

# Two targets side by side, the first one under a command: what it says is shown when both are over.
side_by_side = $(1) $(MAKE) --no-print-directory $(2) BUILT=yes >target/$(2).log 2>&1 & other=$$!; \
	failed=0; $(MAKE) --no-print-directory $(3) BUILT=yes || failed=1; \
	wait $$other || failed=1; cat target/$(2).log; exit $$failed

# Simulations only calculate: they have what the targets beside them, which wait much, leave of the processors.
IDLE := $(shell chrt --idle 0 true 2>/dev/null && echo chrt --idle 0)
beside_simulations = $(call side_by_side,$(IDLE),simulations,$(1))

step = @printf '\n==> %s  %s\n' "$$(date +%T)" "$(1)"

.DEFAULT_GOAL := help
.PHONY: help check test deps lint deny unit simulations waiting-tests build run redis-tests small-test redis-rust clients-test libraries-and-packages compose-check bench versus soak soak-real upgrade-test fuzz \
	docs static cross-tools install uninstall package package-test dist dist-test dist-join clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# One after the other whatever -j says: cargo uses every core by itself.
.NOTPARALLEL:

check: ## formatting, the library and all tests without sockets; needs only a compiler and crates, five minutes from a fresh clone
	$(call step,formatting)
	cargo fmt --check
	$(call step,the library, and what is true without a socket)
	cargo test --locked --quiet --no-default-features --lib --test pure

# What asks for root or much disk comes last: what is wrong with the code is known before. The clients on a small machine use the
# libraries that are installed before, and have the machine to themselves.
test: lint deny target/debug/delayd ## everything that must hold, as in CI; installs what it needs
	@$(call beside_simulations,waiting-tests compose-check libraries-and-packages)
	@$(MAKE) --no-print-directory small-test BUILT=yes

deps: ## install what the Redis clients need
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

deny: ## check crates against deny.toml if cargo-deny is installed, advisories if their database can be reached
	$(call step,crates)
	@if ! cargo deny --version >/dev/null 2>&1; then \
		echo 'not checked: cargo-deny is not installed (cargo install --locked cargo-deny)'; \
	elif cargo deny --locked fetch db >/dev/null 2>&1; then \
		cargo deny --locked check --disable-fetch; \
	else \
		echo 'advisories are not checked: their database is not reachable'; \
		cargo deny --locked --offline check bans licenses sources; \
	fi

unit: target/debug/delayd ## the tests written in Rust, documentation examples included
	@$(call beside_simulations,waiting-tests)

simulations: target/debug/delayd
	$(call step,simulations)
	cargo test --locked --quiet --test simulations

# Most of tests/it waits. With as many threads as cores it takes 310 s, with twice as many 150, with four times as many 109.
waiting-tests: export RUST_TEST_THREADS ?= $(shell expr 4 \* $$(nproc))
OTHER_TESTS = $(filter-out simulations,$(basename $(notdir $(wildcard tests/*.rs))) $(notdir $(patsubst %/main.rs,%,$(wildcard tests/*/main.rs))))
waiting-tests: target/debug/delayd
	$(call step,tests)
	cargo test --locked --quiet --lib $(OTHER_TESTS:%=--test %)
	$(call step,documentation examples)
	cargo test --locked --quiet --doc

build: ## the server, target/release/delayd
	$(call step,release build)
	cargo build --locked --release

run: ## build and start the server on 127.0.0.1:9248
	cargo run --locked --release

# The program that the tests in Rust start, too: nothing is built for the clients alone.
$(CURDIR)/target/debug/delayd target/debug/delayd: $(if $(BUILT),,FORCE)
	$(call step,the server and its tests)
	cargo test --locked --quiet --lib --tests --no-run
FORCE:

redis-rust: deps
	$(call step,the client written in Rust)
	CARGO_TARGET_DIR=.cache/redis-tests-rust \
		cargo build --locked --quiet --manifest-path redis-tests/rust/Cargo.toml

redis-tests: $(PROGRAM) redis-rust ## real Redis clients against the server
	$(call step,Redis clients)
	@DELAYD_BIN=$(abspath $(PROGRAM)) redis-tests/run

# What passes here passes with more memory and files, so `make test` runs the clients once.
small-test: $(PROGRAM) redis-rust ## the same on a small machine: maxmemory 48mb, 256 files, a control group of 96 MB if root can make one
	$(call step,Redis clients on a small machine)
	@DELAYD_BIN=$(abspath $(PROGRAM)) redis-tests/run --small

clients-test: $(PROGRAM) deps ## the libraries in clients/: built, installed from the built file, and run against the server
	$(call step,the Python library)
	@DELAYD_BIN=$(abspath $(PROGRAM)) clients/python/tests/run
	$(call step,the Node library)
	@DELAYD_BIN=$(abspath $(PROGRAM)) clients/node/test/run

# Both wait most of the time, and dist-test has a network of its own: side by side they take 100 s instead of 180.
libraries-and-packages: $(PROGRAM) deps
	@$(call side_by_side,,dist-test,clients-test)

compose-check: deps
	$(call step,docker-compose files)
	docker-compose config --quiet
	docker-compose --profile test config --quiet
	docker-compose --profile watch config --quiet
	docker-compose --file deploy/cluster.yml config --quiet

bench: ## the benchmarks of delayd alone
	cargo bench --locked --bench wheel --bench calendar --bench framer --bench engine --bench schedules \
		--bench durability

versus: ## compare delayd with Redis and beanstalkd, half an hour; writes docs/benchmarks.md
	@redis-tests/install --servers
	cargo bench --locked --bench versus

soak: ## the property and simulation tests with many seeds; DELAYD_CASES=100000 make soak for more
	DELAYD_CASES=$(SOAK_CASES) cargo test --locked --release --tests -- --nocapture

soak-real: ## ten minutes of everything at once against the release build; DELAYD_SOAK_SECONDS for longer
	DELAYD_SOAK_SECONDS=$(or $(DELAYD_SOAK_SECONDS),600) \
		cargo test --locked --release --test soak -- --nocapture

upgrade-test: ## run nodes of this build and of UPGRADE_FROM, an earlier commit, in one cluster
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

docs: ## rewrite everything generated from the source: docs/, deploy/, golden transcripts and pages; then read the diff
	DELAYD_UPDATE=1 cargo test --locked --test pure

# The binary contains no paths of the build machine: the same source builds the same program anywhere.
static: cross-tools ## a static binary that runs on any Linux of its architecture; STATIC_TARGET=aarch64-unknown-linux-gnu for another
	CARGO_INCREMENTAL=0 RUSTFLAGS="-C target-feature=+crt-static --remap-path-prefix=$(CURDIR)=delayd \
		--remap-path-prefix=$(CARGO_FOLDER)=cargo --remap-path-prefix=$(RUST_FOLDER)=rust" \
	CFLAGS="-g0 -ffile-prefix-map=$(CURDIR)=delayd -ffile-prefix-map=$(CARGO_FOLDER)=cargo" \
	$(if $(CROSS),CC_$(subst -,_,$(STATIC_TARGET))=$(CROSS)-gcc \
		CARGO_TARGET_$(shell echo $(STATIC_TARGET) | tr a-z- A-Z_)_LINKER=$(CROSS)-gcc) \
		cargo build --locked --bin delayd --profile $(PACKAGE_PROFILE) --target $(STATIC_TARGET)
	@deploy/static-check $(STATIC_BINARY) $(STATIC_BYTES_MAX) $(CURDIR) $(CARGO_FOLDER) $(RUST_FOLDER)
	@echo $(STATIC_BINARY)

cross-tools:
	@missing=; for have in \
		$(if $(CROSS),gcc-$(subst _,-,$(CROSS)):$(CROSS)-gcc libc6-dev-$(DEB_ARCH)-cross:/usr/$(CROSS)/lib/libc.a); do \
		command -v "$${have#*:}" >/dev/null || [ -e "$${have#*:}" ] || missing="$$missing $${have%:*}"; \
	done; \
	[ -z "$$missing" ] || echo "missing: sudo apt-get install$$missing" >&2; \
	[ -d "$(RUST_FOLDER)/lib/rustlib/$(STATIC_TARGET)" ] \
		|| { echo "missing: rustup target add $(STATIC_TARGET)" >&2; missing=rust; }; \
	[ -z "$$missing" ]

install: ## install the result of `make build`, with manual pages, completions, unit and delayd.conf; PREFIX, DESTDIR
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

uninstall: ## remove what `make install` installed, except delayd.conf; jobs stay
	rm -f $(BIN) $(UNIT) $(SHARE)/man/man1/delayd.1 $(SHARE)/man/man5/delayd.conf.5 \
		$(SHARE)/bash-completion/completions/delayd $(DESTDIR)$(ZSH_DIR)/_delayd \
		$(SHARE)/fish/vendor_completions.d/delayd.fish
	rm -rf $(SHARE)/doc/delayd

package: static ## build a Debian package, target/delayd_VERSION_ARCH.deb, with the static binary
	@deploy/deb/build $(STATIC_BINARY)

package-test: package ## install, upgrade, remove and purge the package here; for a bare Debian, as root
	@deploy/deb/test "$$(ls -t target/delayd_*.deb | head -n 1)"

# Packed from these; several, for as many machines, where the cross compilers are.
DIST_PROGRAMS ?= $(STATIC_BINARY)
$(STATIC_BINARY): static

dist: $(DIST_PROGRAMS) ## build all files of a release in target/dist: wheels, npm packages, Debian package, image, archive, SHA256SUMS
	$(call step,packages)
	@deploy/dist $(DIST_PROGRAMS)

# npm is where redis-tests/install puts it on a machine that has none. A static program takes ten minutes to build, so `make test` packs
# the one that its tests have built; a release checks itself by `make dist-test PROGRAM=target/.../dist/delayd`.
dist-test: $(PROGRAM) ## pack PROGRAM twice, install it in a bare Debian by pip, uv, pipx, npm, npx and dpkg, and work with it; as root
	$(call step,packages of $(PROGRAM))
	@PATH='$(PATH):$(CURDIR)/.cache/venv-node/bin' deploy/dist-test/run $(PROGRAM)

dist-join: ## put together in target/dist what several machines packed, in folders FROM; files of one name must be equal
	@deploy/dist --join $(FROM)

clean: ## remove everything that was built or installed here
	rm -rf target .cache redis-tests/node_modules fuzz/target
