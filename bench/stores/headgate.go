package stores

import (
	"context"
	"errors"
	"sync"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/bench"
	"github.com/headgate/headgate/memcachedstore"
	"github.com/headgate/headgate/redisstore"
)

// ours is a token bucket through the same headgate.Limiter that a program holds.
type ours struct {
	*headgate.Limiter
	store headgate.Store
}

func (o *ours) Allow(ctx context.Context, key string) (bool, error) {
	d, err := o.Limiter.Allow(ctx, key)
	return d.Allowed, err
}

func (o *ours) Close() error { return o.store.Close() }

func newOurs(store headgate.Store, limit bench.Limit) (Limiter, error) {
	l, err := headgate.New(store, policy(limit), nil)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return &ours{l, store}, nil
}

// Rows of different options keep apart what they have in Redis.
var (
	joined = redisstore.Options{Namespace: "joined"}
	alone  = redisstore.Options{Namespace: "alone", NoBatching: true, DenialCacheTTL: -1}
)

func redisstoreRow(options redisstore.Options) func(string, bench.Limit) (Limiter, error) {
	return func(addr string, limit bench.Limit) (Limiter, error) {
		store, err := redisstore.Open("redis://"+addr, &options)
		if err != nil {
			return nil, err
		}
		return newOurs(store, limit)
	}
}

func memcachedRow(join bool) func(string, bench.Limit) (Limiter, error) {
	return func(addr string, limit bench.Limit) (Limiter, error) {
		namespace := map[bool]string{true: "joined", false: "alone"}[join]
		store, err := memcachedstore.New(&memcachedstore.Options{Namespace: namespace, DisableJoin: !join}, addr)
		if err != nil {
			return nil, err
		}
		return newOurs(store, limit)
	}
}

// replay sends the script calls that headgate would make, without headgate: the same text and arguments for each key, through the
// same client, and looks at no answer. It learns a key's call from headgate when it first sees the key.
type replay struct {
	through Limiter
	client  rueidis.Client
	spy     *spy
	calls   sync.Map // of redisstore.Call by key
}

func newReplay(addr string, limit bench.Limit) (Limiter, error) {
	client, err := newRueidis(addr)
	if err != nil {
		return nil, err
	}
	s := &spy{Client: redisstore.Rueidis(client)}
	store, err := redisstore.New(s, &redisstore.Options{Namespace: "replay", NoBatching: true, DenialCacheTTL: -1})
	if err != nil {
		return nil, err
	}
	l, err := newOurs(store, limit)
	return &replay{through: l, client: client, spy: s}, err
}

func (r *replay) Allow(ctx context.Context, key string) (bool, error) {
	known, ok := r.calls.Load(key)
	if !ok {
		return r.learn(ctx, key)
	}
	call := known.(redisstore.Call)
	_, err := r.client.Do(ctx, r.client.B().Evalsha().Sha1(call.SHA).Numkeys(1).Key(call.Keys...).Arg(call.Args...).Build()).ToString()
	return true, err
}

func (r *replay) learn(ctx context.Context, key string) (bool, error) {
	r.spy.mu.Lock()
	defer r.spy.mu.Unlock()
	ok, err := r.through.Allow(ctx, key)
	if err == nil {
		r.calls.Store(string([]byte(key)), r.spy.last)
	}
	return ok, err
}

// Close closes headgate's store, and so the client.
func (r *replay) Close() error { return r.through.Close() }

// spy is a client that remembers the last call. Whoever calls holds mu.
type spy struct {
	redisstore.Client
	mu   sync.Mutex
	last redisstore.Call
}

func (s *spy) Run(ctx context.Context, calls []redisstore.Call, replies []redisstore.Reply) {
	s.last = calls[0]
	s.Client.Run(ctx, calls, replies)
}
