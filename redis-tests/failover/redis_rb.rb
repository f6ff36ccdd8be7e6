# redis-rb with its own Sentinel support: a producer and a worker, which are told where the Sentinels are and nothing else.

require "redis"

$stdout.sync = true
SENTINELS = ARGV[0].split(",").map { |address| address.split(":") }.map { |host, port| { host: host, port: port.to_i } }

def connect
  Redis.new(url: "redis://delayd", sentinels: SENTINELS, role: :master, timeout: 1.5, connect_timeout: 0.3, reconnect_attempts: 0)
end

def call(queue, *words)
  queue.call(words)
rescue Redis::BaseError => error
  $stdout.write("#{error.message}\n")
  sleep 0.02
  retry
end

def produce
  queue = connect
  (1..).each do |number|
    call(queue, "DELAY.ADD", "q", 0, "x", "ID", "job:#{number}", "NX")
    $stdout.write("added #{number}\n")
  end
end

def work
  queue = connect
  loop do
    (call(queue, "DELAY.RESERVE", 1, 1, "q", "LEASE", "5s") || []).each do |_, job, _, token|
      number = job.split(":").last
      $stdout.write("taken #{number}\n")
      call(queue, "DELAY.ACK", "q", job, token)
      $stdout.write("done #{number}\n")
    end
  end
end

Thread.new { produce }
Thread.new { work }
$stdin.read
