#!/usr/bin/env bash
# Look up, list, find, move, run now and remove what is scheduled, with nothing but redis-cli.
set -euo pipefail

queue=case:reports
delayd() { redis-cli -h "${DELAYD_HOST:-127.0.0.1}" -p "${DELAYD_PORT:-9248}" "$@"; }
claim() {
    if [ "$2" == "$3" ]; then echo "ok - $1"; else echo "not ok - $1: got '$2', expected '$3'"; exit 1; fi
}

delayd DEL $queue >/dev/null
delayd DELAY.ADD $queue 1h "daily sales" ID report:1 >/dev/null
delayd DELAY.ADD $queue 2h "daily stock" ID report:2 >/dev/null
delayd DELAY.ADD $queue 15d "monthly sales" ID report:3 >/dev/null
delayd DELAY.ADD $queue 0 "on demand" ID adhoc:1 >/dev/null
echo "four reports are scheduled"

echo "look one up:"
delayd -3 DELAY.GET $queue report:2 | sed 's/^/    /'
claim "its body" "$(delayd DELAY.GET $queue report:2 | sed -n '/^body$/{n;p;}')" "daily stock"

echo "list them, ready ones first, then by due time:"
claim "the order" "$(delayd --csv DELAY.PEEK $queue COUNT 10 | grep -o '"[a-z]*:[0-9]"' | tr -d '"' | paste -sd' ')" \
    "adhoc:1 report:1 report:2 report:3"

echo "find by a pattern:"
claim "three reports match" "$(delayd DELAY.SCAN $queue 0 MATCH 'report:*' COUNT 100 | grep -c '^report:')" 3

echo "move report 1 to tomorrow, run report 3 now:"
claim "moved" "$(delayd DELAY.RESCHEDULE $queue report:1 24h)" 1
claim "report 2 is next to fall due" "$(delayd DELAY.PEEK $queue DELAYED COUNT 1 | head -1)" report:2
claim "run now" "$(delayd DELAY.RESCHEDULE $queue report:3 0)" 1
claim "the ready one comes first" "$(delayd DELAY.POP $queue 1 | paste -sd' ')" "$queue adhoc:1 on demand"
claim "then report 3" "$(delayd DELAY.POP $queue 1 | paste -sd' ')" "$queue report:3 monthly sales"

echo "remove report 2, then everything:"
claim "removed" "$(delayd DELAY.DEL $queue report:2 report:99)" 1
claim "one is left" "$(delayd DELAY.LEN $queue)" 1
claim "the queue is gone" "$(delayd DEL $queue)" 1
