<?php
// phpredis's RedisCluster, which is told where three nodes are: what it can do, then a producer and a worker. It asks again where
// slots are when it is made, and after MOVED.

require __DIR__ . '/../lib/workload.php';

$nodes = explode(',', $argv[1]);

function connect(): RedisCluster
{
    global $nodes;
    return new RedisCluster(null, $nodes, 0.3, 1.5);
}

/** The queue names the node. */
function say(RedisCluster $queue, string $key, string ...$words): mixed
{
    $queue->clearLastError();
    $reply = $queue->rawCommand($key, ...$words);
    if (($error = $queue->getLastError()) !== null) {
        throw new RedisClusterException($error);
    }
    return $reply;
}

function transaction(RedisCluster $queue): void
{
    $queue->multi();
    foreach (['{t}:a', '{t}:b'] as $name) {
        $queue->rawCommand($name, 'DELAY.ADD', $name, '0', 'x');
    }
    if (in_array(false, $queue->exec(), true)) {
        throw new RedisClusterException('a command failed');
    }
}

function check(): void
{
    $queue = connect();
    say($queue, 'q', 'DELAY.LEN', 'q');
    $all = [
        'add' => fn() => say($queue, 'q', 'DELAY.ADD', 'q', '0', 'x'),
        'lease' => fn() => say($queue, 'q', 'DELAY.LEASE', 'q', 'NOWAIT'),
        'reserve' => fn() => say($queue, 'q', 'DELAY.RESERVE', 'NOWAIT', '1', 'q'),
        'multi' => fn() => transaction($queue),
        'all' => fn() => array_map(fn($node) => $queue->rawCommand($node, 'DELAY.QUEUES'), $queue->_masters()),
    ];
    foreach ($all as $name => $does) {
        try {
            $does();
            echo "checked $name right\n";
        } catch (Exception $error) {
            echo "checked $name {$error->getMessage()}\n";
        }
        fgets(STDIN);
    }
}

function call(?RedisCluster &$queue, string ...$words): mixed
{
    while (true) {
        try {
            $queue ??= connect();
            return say($queue, 'q', ...$words);
        } catch (RedisClusterException | RedisException $error) {
            echo "{$error->getMessage()}\n";
        }
        $queue = null;
        usleep(20_000);
    }
}

check();
run('DELAY.LEASE', 'q', '1', 'LEASE', '5s');
