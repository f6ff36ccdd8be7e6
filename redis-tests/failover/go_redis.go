// go-redis with its own Sentinel support: a producer and a worker, which are told where the Sentinels are and nothing else.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

func call(queue *redis.Client, words ...interface{}) interface{} {
	for {
		reply, err := queue.Do(ctx, words...).Result()
		if err == nil || errors.Is(err, redis.Nil) {
			return reply
		}
		fmt.Println(err)
		time.Sleep(20 * time.Millisecond)
	}
}

func produce(queue *redis.Client) {
	for number := 1; ; number++ {
		call(queue, "DELAY.ADD", "q", 0, "x", "ID", fmt.Sprintf("job:%d", number), "NX")
		fmt.Println("added", number)
	}
}

func work(queue *redis.Client) {
	for {
		jobs, _ := call(queue, "DELAY.RESERVE", 1, 1, "q", "LEASE", "5s").([]interface{})
		for _, each := range jobs {
			job := each.([]interface{})
			number := strings.TrimPrefix(job[1].(string), "job:")
			fmt.Println("taken", number)
			call(queue, "DELAY.ACK", "q", job[1], job[3])
			fmt.Println("done", number)
		}
	}
}

func main() {
	queue := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName:    "delayd",
		SentinelAddrs: strings.Split(os.Args[1], ","),
		DialTimeout:   300 * time.Millisecond,
		ReadTimeout:   1500 * time.Millisecond, // a worker waits for a second
	})
	go produce(queue)
	go work(queue)
	io.ReadAll(os.Stdin)
}
