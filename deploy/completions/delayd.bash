# delayd's completions, made from the table of its options; `make docs` writes them anew.

_delayd_words() {
    mapfile -t COMPREPLY < <(compgen -W "$1" -- "$word")
}

# $1 is -f for files, -d for folders.
_delayd_paths() {
    compopt -o filenames 2>/dev/null
    mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen "$1" -- "$word")
}

_delayd() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    COMPREPLY=()
    case $((COMP_CWORD > 1)):${COMP_WORDS[1]}:$before in
    1:demo:--delay) ;;
    1:demo:*) if [[ $word == -* ]]; then _delayd_words "--delay --help"; fi ;;
    1:call:-h) ;;
    1:call:-p) ;;
    1:call:-n) ;;
    1:call:--user) ;;
    1:call:--password-file) ;;
    1:call:--tls-ca-cert-file) ;;
    1:call:--tls-cert-file) ;;
    1:call:--tls-key-file) ;;
    1:call:--sni) ;;
    1:call:*) if [[ $word == -* ]]; then _delayd_words "-h -p -n --user --password-file --tls-ca-cert-file --tls-cert-file --tls-key-file --sni --help"; fi ;;
    1:health:--metrics-port) ;;
    1:health:--metrics-bind) ;;
    1:health:*) if [[ $word == -* ]]; then _delayd_words "--metrics-port --metrics-bind --help"; else _delayd_paths -f; fi ;;
    1:check:*) if [[ $word == -* ]]; then _delayd_words "--repair --clock --lower-clock --yes --help"; else _delayd_paths -d; fi ;;
    1:dump:--from) ;;
    1:dump:--to) ;;
    1:dump:*) if [[ $word == -* ]]; then _delayd_words "--from --to --base --help"; else _delayd_paths -d; fi ;;
    1:backup:--user) ;;
    1:backup:--password-file) ;;
    1:backup:--tls-ca-cert-file) ;;
    1:backup:--tls-cert-file) ;;
    1:backup:--tls-key-file) ;;
    1:backup:--sni) ;;
    1:backup:*) if [[ $word == -* ]]; then _delayd_words "--user --password-file --tls-ca-cert-file --tls-cert-file --tls-key-file --sni --from-leader --help"; else _delayd_paths -d; fi ;;
    1:restore:--cluster-node) ;;
    1:restore:--cluster-nodes) ;;
    1:restore:*) if [[ $word == -* ]]; then _delayd_words "--cluster-node --cluster-nodes --help"; else _delayd_paths -d; fi ;;
    1:spread:--into) ;;
    1:spread:*) if [[ $word == -* ]]; then _delayd_words "--into --yes --help"; else _delayd_paths -d; fi ;;
    1:cluster:--cluster-node) ;;
    1:cluster:--cluster-nodes) ;;
    1:cluster:*) if [[ $word == -* ]]; then _delayd_words "--cluster-node --cluster-nodes --i-accept-losses --yes --help"; else _delayd_paths -d; fi ;;
    1:cluster:--cluster-node) ;;
    1:cluster:--cluster-nodes) ;;
    1:cluster:*) if [[ $word == -* ]]; then _delayd_words "--cluster-node --cluster-nodes --i-accept-losses --yes --help"; else _delayd_paths -d; fi ;;
    1:console:--dir) ;;
    1:console:*) if [[ $word == -* ]]; then _delayd_words "--dir --token --no-open --help"; else _delayd_paths -f; fi ;;
    *:--port) ;;
    *:--bind) ;;
    *:--protected-mode) _delayd_words "yes no" ;;
    *:--tcp-backlog) ;;
    *:--tcp-keepalive) ;;
    *:--timeout) ;;
    *:--maxclients) ;;
    *:--metrics-port) ;;
    *:--metrics-bind) ;;
    *:--metrics-queues-max) ;;
    *:--console-port) ;;
    *:--console-bind) ;;
    *:--console-hosts) ;;
    *:--console-trusted-proxies) ;;
    *:--console-tls) _delayd_words "auto yes no" ;;
    *:--console-insecure) _delayd_words "yes no" ;;
    *:--console-readonly) _delayd_words "yes no" ;;
    *:--console-cors) ;;
    *:--console-wait) ;;
    *:--console-nodes) ;;
    *:--console-grafana-url) _delayd_paths -f ;;
    *:--maxmemory) ;;
    *:--max-body-size) ;;
    *:--max-delay) ;;
    *:--max-lease) ;;
    *:--default-lease) ;;
    *:--stats-retention) ;;
    *:--max-clock-jump) ;;
    *:--tzdata) _delayd_words "auto bundled system" ;;
    *:--max-clients-memory) ;;
    *:--proto-max-bulk-len) ;;
    *:--client-query-buffer-limit) ;;
    *:--client-output-buffer-limit) ;;
    *:--slowlog-log-slower-than) ;;
    *:--slowlog-max-len) ;;
    *:--loglevel) _delayd_words "debug verbose notice warning" ;;
    *:--log-format) _delayd_words "text json" ;;
    *:--ready-fd) ;;
    *:--until-stdin-closes) _delayd_words "yes no" ;;
    *:--dir) _delayd_paths -d ;;
    *:--dbfilename) _delayd_paths -f ;;
    *:--appendonly) _delayd_words "yes no" ;;
    *:--appendfsync) _delayd_words "always everysec no" ;;
    *:--appenddirname) ;;
    *:--journal-segment-size) ;;
    *:--cluster-node) ;;
    *:--cluster-nodes) ;;
    *:--cluster-enabled) _delayd_words "yes no" ;;
    *:--cluster-partitions) _delayd_words "1 2 4 8 16 32 64" ;;
    *:--cluster-leader-balance) _delayd_words "yes no" ;;
    *:--cluster-port) ;;
    *:--cluster-bind) ;;
    *:--cluster-announce-ip) ;;
    *:--cluster-announce-port) ;;
    *:--cluster-announce-tls-port) ;;
    *:--cluster-announce-bus-port) ;;
    *:--cluster-secret) ;;
    *:--cluster-election-timeout) ;;
    *:--cluster-lease-grace) ;;
    *:--cluster-announce-sentinel-port) ;;
    *:--sentinel-port) ;;
    *:--sentinel-master-name) _delayd_paths -f ;;
    *:--cluster-log-keep) ;;
    *:--cluster-sync-rate) ;;
    *:--cluster-max-clock-skew) ;;
    *:--replica-serve-stale-data) _delayd_words "yes no" ;;
    *:--replica-priority) ;;
    *:--notify-keyspace-events) ;;
    *:--requirepass) ;;
    *:--aclfile) _delayd_paths -f ;;
    *:--acl-pubsub-default) _delayd_words "resetchannels allchannels" ;;
    *:--acllog-max-len) ;;
    *:--unixsocket) _delayd_paths -f ;;
    *:--unixsocketperm) ;;
    *:--tls-port) ;;
    *:--tls-cert-file) _delayd_paths -f ;;
    *:--tls-key-file) _delayd_paths -f ;;
    *:--tls-ca-cert-file) _delayd_paths -f ;;
    *:--tls-ca-cert-dir) _delayd_paths -d ;;
    *:--tls-auth-clients) _delayd_words "yes no optional" ;;
    *:--tls-protocols) ;;
    *:--tls-prefer-server-ciphers) _delayd_words "yes no" ;;
    *:--tls-session-caching) _delayd_words "yes no" ;;
    *:--tls-session-cache-size) ;;
    *:--tls-cluster) _delayd_words "yes no" ;;
    1:*) _delayd_words "--port --bind --protected-mode --tcp-backlog --tcp-keepalive --timeout --maxclients --metrics-port --metrics-bind --metrics-queues-max --console-port --console-bind --console-hosts --console-trusted-proxies --console-tls --console-insecure --console-readonly --console-cors --console-wait --console-nodes --console-grafana-url --maxmemory --max-body-size --max-delay --max-lease --default-lease --stats-retention --max-clock-jump --tzdata --max-clients-memory --proto-max-bulk-len --client-query-buffer-limit --client-output-buffer-limit --slowlog-log-slower-than --slowlog-max-len --loglevel --log-format --ready-fd --until-stdin-closes --dir --dbfilename --appendonly --appendfsync --appenddirname --journal-segment-size --cluster-node --cluster-nodes --cluster-enabled --cluster-partitions --cluster-leader-balance --cluster-port --cluster-bind --cluster-announce-ip --cluster-announce-port --cluster-announce-tls-port --cluster-announce-bus-port --cluster-secret --cluster-election-timeout --cluster-lease-grace --cluster-announce-sentinel-port --sentinel-port --sentinel-master-name --cluster-log-keep --cluster-sync-rate --cluster-max-clock-skew --replica-serve-stale-data --replica-priority --notify-keyspace-events --requirepass --aclfile --acl-pubsub-default --acllog-max-len --unixsocket --unixsocketperm --tls-port --tls-cert-file --tls-key-file --tls-ca-cert-file --tls-ca-cert-dir --tls-auth-clients --tls-protocols --tls-prefer-server-ciphers --tls-session-caching --tls-session-cache-size --tls-cluster" ;;
    *)
        _delayd_words "demo call health check dump backup restore spread cluster cluster console --port --bind --protected-mode --tcp-backlog --tcp-keepalive --timeout --maxclients --metrics-port --metrics-bind --metrics-queues-max --console-port --console-bind --console-hosts --console-trusted-proxies --console-tls --console-insecure --console-readonly --console-cors --console-wait --console-nodes --console-grafana-url --maxmemory --max-body-size --max-delay --max-lease --default-lease --stats-retention --max-clock-jump --tzdata --max-clients-memory --proto-max-bulk-len --client-query-buffer-limit --client-output-buffer-limit --slowlog-log-slower-than --slowlog-max-len --loglevel --log-format --ready-fd --until-stdin-closes --dir --dbfilename --appendonly --appendfsync --appenddirname --journal-segment-size --cluster-node --cluster-nodes --cluster-enabled --cluster-partitions --cluster-leader-balance --cluster-port --cluster-bind --cluster-announce-ip --cluster-announce-port --cluster-announce-tls-port --cluster-announce-bus-port --cluster-secret --cluster-election-timeout --cluster-lease-grace --cluster-announce-sentinel-port --sentinel-port --sentinel-master-name --cluster-log-keep --cluster-sync-rate --cluster-max-clock-skew --replica-serve-stale-data --replica-priority --notify-keyspace-events --requirepass --aclfile --acl-pubsub-default --acllog-max-len --unixsocket --unixsocketperm --tls-port --tls-cert-file --tls-key-file --tls-ca-cert-file --tls-ca-cert-dir --tls-auth-clients --tls-protocols --tls-prefer-server-ciphers --tls-session-caching --tls-session-cache-size --tls-cluster --help --version"
        [[ $word == -* ]] || _delayd_paths -f
        ;;
    esac
}
complete -F _delayd delayd
