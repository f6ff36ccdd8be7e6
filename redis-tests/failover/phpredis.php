<?php
// phpredis: its RedisSentinel names the leader, and the program connects to that. A producer and a worker, which are told where
// the Sentinels are and nothing else.

require __DIR__ . '/../lib/workload.php';

$sentinels = array_map(fn($address) => explode(':', $address), explode(',', $argv[1]));

function connect(): Redis
{
    global $sentinels;
    foreach ($sentinels as [$host, $port]) {
        try {
            // To connect, and to read.
            $master = (new RedisSentinel($host, (int) $port, 0.3, null, 0, 0.3))->getMasterAddrByName('delayd');
        } catch (RedisException $error) {
            continue;
        }
        if (is_array($master)) {
            $queue = new Redis();
            $queue->connect($master[0], (int) $master[1], 0.3);
            $queue->setOption(Redis::OPT_READ_TIMEOUT, 1.5);
            return $queue;
        }
    }
    throw new RedisException('no Sentinel names a leader');
}

function call(?Redis &$queue, string ...$words): mixed
{
    while (true) {
        try {
            $queue ??= connect();
            $reply = $queue->rawCommand(...$words);
            $error = $queue->getLastError();
            if ($error === null) {
                return $reply;
            }
        } catch (RedisException $exception) {
            $error = $exception->getMessage();
        }
        echo "$error\n";
        $queue = null;
        usleep(20_000);
    }
}

run('DELAY.RESERVE', '1', '1', 'q', 'LEASE', '5s');
