package goredis_test

import (
	"errors"
	"io"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/redisstore/goredis"
)

func checkedOptions(addr string) *redis.Options {
	options := &redis.Options{Addr: addr}
	options.Dialer = goredis.CheckReplies(redis.NewDialer(options), 0)
	return options
}

// With CheckReplies, a malformed reply is an error.
func TestCheckReplies(t *testing.T) {
	t.Parallel()
	for _, reply := range []string{"$-5\r\n", "*-2\r\n", "%-1\r\n", "$80000000000\r\n", "*1000000000\r\n", "$9223372036854775807\r\n", "HTTP\r\n"} {
		addr := testserver.Scripted(t, func(command []string, _ io.Writer) string {
			if command[0] == "evalsha" {
				return reply
			}
			return "-ERR unknown command\r\n"
		})
		l := limiter(t, open(t, redis.NewClient(checkedOptions(addr)), nil))
		var storeErr *headgate.StoreError
		if d, err := l.Allow(t.Context(), "key"); !errors.As(err, &storeErr) {
			t.Errorf("%q: got %+v, error %v want a store error", reply, d, err)
		}
	}
}

// CheckReplies does not change decisions.
func TestCheckRepliesOfRedis(t *testing.T) {
	t.Parallel()
	l := limiter(t, open(t, redis.NewClient(checkedOptions(testserver.Redis(t).Addr())), nil))
	for i := range int64(10) {
		if d, err := l.Allow(t.Context(), "key"); err != nil || d.Remaining != 99-i {
			t.Fatalf("request %d: got %+v, error %v", i, d, err)
		}
	}
}
