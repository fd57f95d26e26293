package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// node contains the state that a server reports about itself.
type node struct {
	info        map[string]string // INFO
	config      map[string]string // reply of CONFIG GET, as far as permitted
	clockOffset time.Duration     // time of the server's clock minus time of the local clock
	err         error             // error of INFO
	clockErr    error             // error of TIME
}

// inspect reads the data of a server that the checks need.
func inspect(ctx context.Context, client rueidis.Client) *node {
	n := &node{config: map[string]string{}}
	text, err := client.Do(ctx, client.B().Info().Build()).ToString()
	if n.info, n.err = fields(text), err; err != nil {
		n.err = classify(err)
	}
	for _, name := range []string{"appendfsync", "save", "min-replicas-to-write", "maxclients"} {
		if pairs, err := client.Do(ctx, client.B().ConfigGet().Parameter(name).Build()).AsStrMap(); err == nil {
			n.config[name] = pairs[name]
		}
	}
	n.measureClock(ctx, client)
	return n
}

func (n *node) measureClock(ctx context.Context, client rueidis.Client) {
	start := time.Now()
	answer, err := client.Do(ctx, client.B().Time().Build()).AsStrSlice()
	if err != nil || len(answer) != 2 {
		n.clockErr = classify(err)
		return
	}
	middle := start.Add(time.Since(start) / 2)
	seconds, _ := strconv.ParseInt(answer[0], 10, 64)
	micros, _ := strconv.ParseInt(answer[1], 10, 64)
	n.clockOffset = time.Unix(seconds, micros*1000).Sub(middle)
}

// fields parses the lines of INFO and similar replies, which have the form name:value.
// In RESP3, the prefix “txt:” may precede the first line.
func fields(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.SplitSeq(strings.TrimPrefix(text, "txt:"), "\n") {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[name] = value
		}
	}
	return all
}

func (n *node) number(name string) int64 {
	i, _ := strconv.ParseInt(n.info[name], 10, 64)
	return i
}

// findings returns the findings about the server.
func (n *node) findings() []Finding {
	if n.err != nil {
		return []Finding{
			{Check: "server", Level: Warning, Says: "no details are available: the user may not run INFO", Advice: "grant +info for this check; decisions do not need it"},
			n.clockFinding(),
		}
	}
	all := []Finding{n.version(), n.role(), n.memory(), n.eviction(), n.persistence(), n.clients(), n.clockFinding()}
	kept := all[:0]
	for _, f := range all {
		if f.Check != "" {
			kept = append(kept, f)
		}
	}
	return kept
}

// version checks the version of the server. 6.2 is the first version with all commands
// that the scripts use.
func (n *node) version() Finding {
	name, text := "Redis", n.info["redis_version"]
	if valkey := n.info["valkey_version"]; valkey != "" {
		name, text = "Valkey", valkey
	}
	var major, minor int
	if _, err := fmt.Sscanf(text, "%d.%d", &major, &minor); err != nil {
		return Finding{Check: "version", Level: Warning, Says: fmt.Sprintf("%.40q is not a version of Redis or Valkey", text), Advice: "use 6.2 or later"}
	}
	if major < 6 || major == 6 && minor < 2 {
		return Finding{Check: "version", Level: Failing, Says: name + " " + text + " is too old", Advice: "use 6.2 or later"}
	}
	return Finding{Check: "version", Level: Fine, Says: name + " " + text}
}

func (n *node) role() Finding {
	replicas := n.number("connected_slaves")
	needed, _ := strconv.ParseInt(n.config["min-replicas-to-write"], 10, 64)
	switch {
	case n.info["loading"] == "1":
		return Finding{Check: "role", Level: Failing, Says: "the server is loading its data from disk and refuses commands until it has finished", Advice: "wait until it has finished"}
	case n.info["role"] == "slave":
		return Finding{
			Check: "role", Level: Failing, Says: "the server is a replica and refuses writes",
			Advice: "use the address of the primary, or redis+sentinel://",
		}
	case needed > 0 && n.number("min_slaves_good_slaves") < needed:
		return Finding{
			Check: "role", Level: Failing, Says: fmt.Sprintf("the server refuses writes with fewer than %d replicas in sync, and has %d", needed, n.number("min_slaves_good_slaves")),
			Advice: "restore the replicas, or lower min-replicas-to-write",
		}
	case replicas > 0 && needed == 0:
		return Finding{
			Check: "role", Level: Fine, Says: fmt.Sprintf("a primary with %d replicas; a failover loses the writes that were not yet replicated", replicas),
			Advice: "min-replicas-to-write limits this loss",
		}
	case replicas > 0:
		return Finding{Check: "role", Level: Fine, Says: fmt.Sprintf("a primary with %d replicas, %d of which must be in sync", replicas, needed)}
	}
	return Finding{Check: "role", Level: Fine, Says: "a primary without replicas"}
}

// fullPercent is the percentage of memory or connections in use from which there is a
// warning.
const fullPercent = 90

func (n *node) memory() Finding {
	used, limit := n.number("used_memory"), n.number("maxmemory")
	if limit == 0 {
		return Finding{Check: "memory", Level: Fine, Says: megabytes(used) + " used; maxmemory is not set, so only the machine's memory limits it"}
	}
	usage := fmt.Sprintf("%s of %s used", megabytes(used), megabytes(limit))
	evicts := n.info["maxmemory_policy"] != "noeviction"
	switch {
	case used >= limit && !evicts:
		return Finding{Check: "memory", Level: Failing, Says: usage + ": decisions that write are refused", Advice: "raise maxmemory, or remove other data"}
	case used >= limit/100*fullPercent:
		return Finding{Check: "memory", Level: Warning, Says: usage, Advice: "raise maxmemory, or remove other data"}
	}
	return Finding{Check: "memory", Level: Fine, Says: usage}
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

// eviction returns the finding about what the server does when its memory is full.
func (n *node) eviction() Finding {
	policy, evicted := n.info["maxmemory_policy"], n.number("evicted_keys")
	count := ""
	if evicted > 0 {
		count = fmt.Sprintf("; %d keys were evicted since the server started", evicted)
	}
	const cost = ": each eviction resets a limit, which then allows its whole burst again"
	const advice = "set noeviction and a sufficient maxmemory; or volatile-ttl, which evicts the keys with the shortest TTL"
	switch {
	case n.number("maxmemory") == 0:
		return Finding{Check: "eviction", Level: Fine, Says: "nothing is evicted"}
	case policy == "noeviction":
		return Finding{Check: "eviction", Level: Fine, Says: "noeviction: nothing is evicted; decisions fail if the memory is full" + count}
	case policy == "volatile-ttl":
		return Finding{Check: "eviction", Level: Warning, Says: "volatile-ttl: if the memory is full, the keys with the shortest TTL are evicted" + cost + count, Advice: "set a sufficient maxmemory"}
	case strings.HasPrefix(policy, "volatile-"):
		return Finding{Check: "eviction", Level: Warning, Says: policy + ": if the memory is full, keys with a TTL are evicted first, and every limit has one" + cost + count, Advice: advice}
	default:
		return Finding{Check: "eviction", Level: Warning, Says: policy + ": if the memory is full, keys are evicted" + cost + count, Advice: advice}
	}
}

// persistence returns the finding about what is lost when the server restarts.
func (n *node) persistence() Finding {
	save, known := n.config["save"]
	fsync := n.config["appendfsync"]
	switch {
	case n.info["aof_last_write_status"] == "err" || n.info["rdb_last_bgsave_status"] == "err" && save != "":
		return Finding{Check: "persistence", Level: Failing, Says: "the last write to disk failed: the server may refuse writes", Advice: "see the server's log; check whether the disk is full"}
	case n.info["aof_enabled"] == "1" && fsync == "always":
		return Finding{Check: "persistence", Level: Fine, Says: "appendfsync always: a restart loses nothing, and every write waits for the disk"}
	case n.info["aof_enabled"] == "1" && fsync == "no":
		return Finding{Check: "persistence", Level: Warning, Says: "appendfsync no: a crash loses the writes that the system had not yet flushed, about 30 s", Advice: "set appendfsync everysec"}
	case n.info["aof_enabled"] == "1":
		return Finding{Check: "persistence", Level: Fine, Says: "append-only file: a crash loses the last one or two seconds of usage"}
	case known && save == "":
		return Finding{
			Check: "persistence", Level: Warning, Says: "none: a restart loses all usage, so every limit allows its whole burst again, once",
			Advice: "set appendonly yes if that matters",
		}
	default:
		return Finding{
			Check: "persistence", Level: Warning, Says: "snapshots: a restart loses the usage since the last snapshot",
			Advice: "set appendonly yes if that matters",
		}
	}
}

func (n *node) clients() Finding {
	used := n.number("connected_clients")
	limit, _ := strconv.ParseInt(n.config["maxclients"], 10, 64)
	if limit == 0 {
		limit = n.number("maxclients")
	}
	if limit > 0 && used >= limit*fullPercent/100 {
		return Finding{Check: "clients", Level: Warning, Says: fmt.Sprintf("%d of %d connections are in use", used, limit), Advice: "raise maxclients"}
	}
	return Finding{}
}

// maxClockSkew is the clock difference from which there is a warning.
const maxClockSkew = time.Second

// clockFinding returns the finding about the server's clock. It rounds the difference,
// so that nodes with nearly the same time have the same finding.
func (n *node) clockFinding() Finding {
	const meaning = "the server's clock decides, so limits are still exact"
	switch {
	case n.clockErr != nil:
		return Finding{Check: "clock", Level: Failing, Says: "cannot read the server's clock: " + n.clockErr.Error(), Advice: "grant +time"}
	case n.clockOffset.Abs() < maxClockSkew:
		return Finding{Check: "clock", Level: Fine, Says: "within a second of the local clock"}
	case n.clockOffset > 0:
		return Finding{Check: "clock", Level: Warning, Says: fmt.Sprintf("%v ahead of the local clock; %s", n.clockOffset.Round(time.Second), meaning), Advice: "run NTP on both"}
	default:
		return Finding{Check: "clock", Level: Warning, Says: fmt.Sprintf("%v behind the local clock; %s, unless it was set back: then keys in use are denied for that long", (-n.clockOffset).Round(time.Second), meaning), Advice: "run NTP on both; see Clocks in docs/operate/stores.md"}
	}
}
