// Jedis with its own Sentinel support: a producer and a worker, which are told where the Sentinels are and nothing else.

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisSentinelPool;
import redis.clients.jedis.exceptions.JedisException;

class Failover {
    static JedisSentinelPool pool;

    static Object call(String name, String... words) throws InterruptedException {
        while (true) {
            try (Jedis queue = pool.getResource()) {
                return queue.sendBlockingCommand(() -> name.getBytes(UTF_8), words);
            } catch (JedisException error) {
                System.out.println(error.getMessage());
                Thread.sleep(20);
            }
        }
    }

    static void produce() throws InterruptedException {
        for (int number = 1; ; number++) {
            call("DELAY.ADD", "q", "0", "x", "ID", "job:" + number, "NX");
            System.out.println("added " + number);
        }
    }

    @SuppressWarnings("unchecked")
    static void work() throws InterruptedException {
        while (true) {
            Object jobs = call("DELAY.RESERVE", "1", "1", "q", "LEASE", "5s");
            if (jobs == null) continue;
            for (List<byte[]> job : (List<List<byte[]>>) jobs) {
                String id = new String(job.get(1)), number = id.substring("job:".length());
                System.out.println("taken " + number);
                call("DELAY.ACK", "q", id, new String(job.get(3)));
                System.out.println("done " + number);
            }
        }
    }

    interface Loop {
        void run() throws InterruptedException;
    }

    static void start(Loop loop) {
        Thread thread = new Thread(() -> {
            try {
                loop.run();
            } catch (InterruptedException end) {
                // Nobody interrupts it.
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    public static void main(String[] args) throws IOException {
        Set<HostAndPort> nodes = Arrays.stream(args[0].split(",")).map(HostAndPort::from).collect(Collectors.toSet());
        JedisClientConfig limits = DefaultJedisClientConfig.builder()
                .connectionTimeoutMillis(300).socketTimeoutMillis(1500).blockingSocketTimeoutMillis(1500).build();
        JedisClientConfig ofSentinels =
                DefaultJedisClientConfig.builder().connectionTimeoutMillis(300).socketTimeoutMillis(300).build();
        pool = new JedisSentinelPool("delayd", nodes, limits, ofSentinels);
        start(Failover::produce);
        start(Failover::work);
        while (System.in.read() >= 0) {}
        System.exit(0);
    }
}
