package stores

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/bench"
	"github.com/headgate/headgate/memcachedstore"
	"github.com/headgate/headgate/redisstore"
)

// ours is a token bucket, used through headgate.Limiter as in a program.
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
	return newLimiter(store, policy(limit))
}

func newLimiter(store headgate.Store, p headgate.Policy) (Limiter, error) {
	l, err := headgate.New(store, p, nil)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return &ours{l, store}, nil
}

// Each row with different options has a separate namespace in Redis.
var (
	batched   = redisstore.Options{Namespace: "batched"}
	unbatched = redisstore.Options{Namespace: "unbatched", NoBatching: true, DenialCacheTTL: -1}
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
		namespace := map[bool]string{true: "joined", false: "unjoined"}[join]
		store, err := memcachedstore.New(&memcachedstore.Options{Namespace: namespace, DisableJoin: !join}, addr)
		if err != nil {
			return nil, err
		}
		return newOurs(store, limit)
	}
}

// replay makes the same script calls as headgate, but without headgate's code: the same
// script and arguments for each key, through the same client. It does not parse the
// replies. When a key is used for the first time, replay makes the call through
// headgate and records it.
type replay struct {
	limiter  Limiter
	client   rueidis.Client
	recorder *recorder
	calls    sync.Map // maps each key to its redisstore.Call
}

func newReplay(addr string, limit bench.Limit) (Limiter, error) {
	client, err := newRueidis(addr)
	if err != nil {
		return nil, err
	}
	rec := &recorder{Client: redisstore.Rueidis(client)}
	store, err := redisstore.New(rec, &redisstore.Options{Namespace: "replay", NoBatching: true, DenialCacheTTL: -1})
	if err != nil {
		return nil, err
	}
	l, err := newOurs(store, limit)
	return &replay{limiter: l, client: client, recorder: rec}, err
}

func (r *replay) Allow(ctx context.Context, key string) (bool, error) {
	recorded, ok := r.calls.Load(key)
	if !ok {
		return r.record(ctx, key)
	}
	call := recorded.(redisstore.Call)
	_, err := r.client.Do(ctx, r.client.B().Evalsha().Sha1(call.SHA).Numkeys(1).Key(call.Keys...).Arg(call.Args...).Build()).ToString()
	return true, err
}

func (r *replay) record(ctx context.Context, key string) (bool, error) {
	r.recorder.mu.Lock()
	defer r.recorder.mu.Unlock()
	ok, err := r.limiter.Allow(ctx, key)
	if err == nil {
		r.calls.Store(string([]byte(key)), r.recorder.last)
	}
	return ok, err
}

// Close closes headgate's store and the client.
func (r *replay) Close() error {
	defer r.client.Close()
	return r.limiter.Close()
}

// recorder is a redisstore.Client that records the last call. The caller must hold mu.
type recorder struct {
	redisstore.Client
	mu   sync.Mutex
	last redisstore.Call
}

func (r *recorder) Run(ctx context.Context, calls []redisstore.Call, replies []redisstore.Reply) {
	r.last = calls[0]
	r.Client.Run(ctx, calls, replies)
}

// holdTTL is the time after which the holds of the benchmark expire.
const holdTTL = time.Minute

// holder opens a hold instead of taking a unit. If commit is true, it commits the hold.
type holder struct {
	*ours
	commit bool
}

func holdRow(commit bool) func(string, bench.Limit) (Limiter, error) {
	return func(addr string, limit bench.Limit) (Limiter, error) {
		l, err := redisstoreRow(redisstore.Options{Namespace: map[bool]string{true: "committed", false: "held"}[commit]})(addr, limit)
		if err != nil {
			return nil, err
		}
		return &holder{l.(*ours), commit}, nil
	}
}

func (h *holder) Allow(ctx context.Context, key string) (bool, error) {
	hold, err := h.Hold(ctx, key, 2, holdTTL)
	if err == nil && hold.OK() && h.commit {
		_, err = hold.Commit(ctx, 1)
	}
	return err == nil && hold.OK(), err
}
