<?php
// What the programs of phpredis do while leaders end: a producer and a worker, by the program's `call`, which tries again until it
// is answered.

function produce(): void
{
    for ($number = 1; ; $number++) {
        call($queue, 'DELAY.ADD', 'q', '0', 'x', 'ID', "job:$number", 'NX');
        echo "added $number\n";
    }
}

/** `take` is the command that leases a job of q. */
function work(string ...$take): void
{
    while (true) {
        foreach (call($queue, ...$take) ?: [] as [, $job, , $token]) {
            $number = explode(':', $job)[1];
            echo "taken $number\n";
            call($queue, 'DELAY.ACK', 'q', $job, $token);
            echo "done $number\n";
        }
    }
}

/** PHP has no threads. */
function run(string ...$take): void
{
    $children = [];
    foreach ([fn() => produce(), fn() => work(...$take)] as $loop) {
        $child = pcntl_fork();
        if ($child === 0) {
            $loop();
        }
        $children[] = $child;
    }
    stream_get_contents(STDIN);
    foreach ($children as $child) {
        posix_kill($child, SIGKILL);
    }
}
