# docker build -t delayd .
# docker run -p 127.0.0.1:9248:9248 -v delayd:/data delayd
#
# Options go behind the name of the image, or into a file that is mounted as /etc/delayd/delayd.conf:
# docker run -p 127.0.0.1:9300:9300 -v delayd:/data delayd --port 9300 --requirepass a-long-secret

ARG RUST_VERSION=1.95

FROM rust:${RUST_VERSION}-slim-bookworm AS toolchain
# The allocator is built with make.
RUN apt-get update \
    && apt-get install -y --no-install-recommends make \
    && rm -rf /var/lib/apt/lists/*

FROM toolchain AS build
ARG PROFILE=dist
WORKDIR /src
# The dependencies alone, for a program that does nothing and has no benchmarks: they are built anew when Cargo.toml or
# Cargo.lock is another one, not with every change of the source.
COPY Cargo.toml Cargo.lock ./
COPY .cargo .cargo
RUN mkdir src \
    && echo 'fn main() {}' >src/main.rs \
    && touch src/lib.rs \
    && sed -i '/^\[\[bench\]\]/,/^harness/d' Cargo.toml \
    && cargo build --locked --profile ${PROFILE} --bin delayd
COPY Cargo.toml ./
COPY benches benches
COPY src src
# What was just built is newer than the source.
RUN touch src/main.rs src/lib.rs \
    && cargo build --locked --profile ${PROFILE} --bin delayd \
    && cp target/${PROFILE}/delayd /delayd

FROM toolchain AS rust-tests
COPY redis-tests/rust /src
RUN CARGO_TARGET_DIR=/rust-tests cargo build --locked --manifest-path /src/Cargo.toml

# The programs of redis-tests/, for `docker-compose --profile test`.
FROM debian:bookworm-slim AS redis-tests
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/*
COPY redis-tests /redis-tests
ENV DELAYD_CACHE=/cache DELAYD_RUST_TESTS=/rust-tests
RUN /redis-tests/install --clients && rm -rf /var/lib/apt/lists/*
COPY README.md /README.md
COPY docs/clients.md /docs/clients.md
COPY --from=rust-tests /rust-tests/debug/redis-rs /rust-tests/debug/consumer /rust-tests/
CMD ["/redis-tests/run"]

# The last stage is the one that is built by default.
FROM debian:bookworm-slim AS delayd
# redis-cli, for whoever looks inside.
RUN apt-get update \
    && apt-get install -y --no-install-recommends redis-tools \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --no-create-home --shell /usr/sbin/nologin delayd \
    && install -d -o delayd -g delayd /data \
    && install -D -m 0644 /dev/null /etc/delayd/delayd.conf
COPY deploy/docker/image.conf /etc/delayd/image.conf
COPY --from=build /delayd /usr/local/bin/delayd
USER delayd
VOLUME /data
WORKDIR /data
EXPOSE 9248 9249 9250
# Loading a large journal is no failure, however long it takes within the start period.
HEALTHCHECK --interval=5s --timeout=2s --start-period=10m --retries=3 CMD ["delayd", "health"]
# Read if the command line names no file: options alone are laid over it, and commands run as they stand.
ENV DELAYD_CONFIG=/etc/delayd/image.conf
ENTRYPOINT ["delayd"]
