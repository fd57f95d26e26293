module github.com/headgate/headgate/redisstore/goredis

go 1.25.0

require github.com/headgate/headgate v0.0.0

require github.com/redis/go-redis/v9 v9.19.0

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/redis/rueidis v1.0.77 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)
