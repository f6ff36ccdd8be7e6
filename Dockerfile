# docker build -t delayd .
# docker run -p 127.0.0.1:9248:9248 -v delayd:/data delayd

ARG RUST_VERSION=1.95

FROM rust:${RUST_VERSION}-slim-bookworm AS build
WORKDIR /src
# The allocator is built with make.
RUN apt-get update \
    && apt-get install -y --no-install-recommends make \
    && rm -rf /var/lib/apt/lists/*
COPY . .
RUN cargo build --locked --release \
    && CARGO_TARGET_DIR=/rust-tests cargo build --locked --manifest-path redis-tests/rust/Cargo.toml

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
COPY --from=build /rust-tests/debug/redis-rs /rust-tests/debug/consumer /rust-tests/
CMD ["/redis-tests/run"]

# The last stage is the one that is built by default.
FROM debian:bookworm-slim AS delayd
# redis-cli, for the health check and for whoever looks inside.
RUN apt-get update \
    && apt-get install -y --no-install-recommends redis-tools \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --no-create-home --shell /usr/sbin/nologin delayd \
    && install -d -o delayd -g delayd /data
COPY --from=build /src/target/release/delayd /usr/local/bin/delayd
USER delayd
VOLUME /data
WORKDIR /data
EXPOSE 9248 9249
HEALTHCHECK --interval=5s --timeout=2s --start-period=60s --retries=3 \
    CMD ["sh", "-c", "[ \"$(redis-cli -p 9248 PING)\" = PONG ]"]
ENTRYPOINT ["delayd"]
# In a container every client comes from another machine, so the server listens on all addresses and
# takes them. There is no password yet: whoever reaches the port may do everything. Publish it on
# the loopback or a private network only.
CMD ["--bind", "0.0.0.0", "--protected-mode", "no", "--dir", "/data"]
