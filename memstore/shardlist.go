package memstore

// shardList is a region outside the table of slots, divided into shards.
type shardList[S any] struct{ shards []S }

const maxShards = 64

// newShardList returns the shards of a region for n keys.
func newShardList[S any](n int) shardList[S] {
	count := 1
	for count < maxShards && n/count > 1024 {
		count *= 2
	}
	return shardList[S]{make([]S, count)}
}

// index returns the index of the shard of the key with digest d.
func (l *shardList[S]) index(d digest) int { return int(d.hi % uint64(len(l.shards))) }

// shard returns the shard of the key with digest d.
func (l *shardList[S]) shard(d digest) *S { return &l.shards[l.index(d)] }
