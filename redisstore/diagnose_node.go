package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// node is what a server says of itself.
type node struct {
	about  map[string]string // INFO
	config map[string]string // CONFIG GET, as far as the user may
	clock  time.Duration     // how far it is ahead of this machine's
	err    error             // of INFO
	noTime error
}

// look asks a server for everything at once.
func look(ctx context.Context, client rueidis.Client) *node {
	n := &node{config: map[string]string{}}
	text, err := client.Do(ctx, client.B().Info().Build()).ToString()
	if n.about, n.err = fields(text), err; err != nil {
		n.err = storeError(err)
	}
	for _, name := range []string{"appendfsync", "save", "min-replicas-to-write", "maxclients"} {
		if pairs, err := client.Do(ctx, client.B().ConfigGet().Parameter(name).Build()).AsStrMap(); err == nil {
			n.config[name] = pairs[name]
		}
	}
	n.lookAtClock(ctx, client)
	return n
}

func (n *node) lookAtClock(ctx context.Context, client rueidis.Client) {
	start := time.Now()
	answer, err := client.Do(ctx, client.B().Time().Build()).AsStrSlice()
	if err != nil || len(answer) != 2 {
		n.noTime = storeError(err)
		return
	}
	middle := start.Add(time.Since(start) / 2)
	seconds, _ := strconv.ParseInt(answer[0], 10, 64)
	micros, _ := strconv.ParseInt(answer[1], 10, 64)
	n.clock = time.Unix(seconds, micros*1000).Sub(middle)
}

// fields are the lines name:value of INFO and its like, before which RESP3 may say that it is text.
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
	i, _ := strconv.ParseInt(n.about[name], 10, 64)
	return i
}

// findings is everything that can be said of the server.
func (n *node) findings() []Finding {
	if n.err != nil {
		return []Finding{
			{Check: "server", Level: Warning, Says: "it does not say what it is: the user may not run INFO", Advice: "allow +info for this check; decisions do without"},
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

// version is that of the first release with every command that the scripts use, or later.
func (n *node) version() Finding {
	name, text := "Redis", n.about["redis_version"]
	if valkey := n.about["valkey_version"]; valkey != "" {
		name, text = "Valkey", valkey
	}
	var major, minor int
	if _, err := fmt.Sscanf(text, "%d.%d", &major, &minor); err != nil {
		return Finding{Check: "version", Level: Warning, Says: fmt.Sprintf("%.40q is no version of Redis or Valkey", text), Advice: "6.2 or later is needed"}
	}
	if major < 6 || major == 6 && minor < 2 {
		return Finding{Check: "version", Level: Failing, Says: name + " " + text + " is too old", Advice: "6.2 or later is needed"}
	}
	return Finding{Check: "version", Level: Fine, Says: name + " " + text}
}

func (n *node) role() Finding {
	replicas := n.number("connected_slaves")
	needed, _ := strconv.ParseInt(n.config["min-replicas-to-write"], 10, 64)
	switch {
	case n.about["loading"] == "1":
		return Finding{Check: "role", Level: Failing, Says: "it reads its data from disk and answers nothing until it has", Advice: "wait"}
	case n.about["role"] == "slave":
		return Finding{
			Check: "role", Level: Failing, Says: "it is a replica, which takes no writes",
			Advice: "give the address of the primary, or use redis+sentinel://",
		}
	case needed > 0 && n.number("min_slaves_good_slaves") < needed:
		return Finding{
			Check: "role", Level: Failing, Says: fmt.Sprintf("it takes no writes with fewer than %d replicas in step, and has %d", needed, n.number("min_slaves_good_slaves")),
			Advice: "bring the replicas back, or lower min-replicas-to-write",
		}
	case replicas > 0 && needed == 0:
		return Finding{
			Check: "role", Level: Fine, Says: fmt.Sprintf("a primary with %d replicas; a failover forgets what they had not yet got", replicas),
			Advice: "min-replicas-to-write bounds how much that can be",
		}
	case replicas > 0:
		return Finding{Check: "role", Level: Fine, Says: fmt.Sprintf("a primary with %d replicas, %d of which must be in step", replicas, needed)}
	}
	return Finding{Check: "role", Level: Fine, Says: "a primary without replicas"}
}

// nearlyFull is when memory is worth a warning, in percent of what it may use.
const nearlyFull = 90

func (n *node) memory() Finding {
	used, most := n.number("used_memory"), n.number("maxmemory")
	if most == 0 {
		return Finding{Check: "memory", Level: Fine, Says: megabytes(used) + " used, and no maxmemory: the machine's memory alone bounds it"}
	}
	says := fmt.Sprintf("%s of %s used", megabytes(used), megabytes(most))
	evicts := n.about["maxmemory_policy"] != "noeviction"
	switch {
	case used >= most && !evicts:
		return Finding{Check: "memory", Level: Failing, Says: says + ": decisions that write are refused", Advice: "raise maxmemory, or lower what else lies there"}
	case used >= most/100*nearlyFull:
		return Finding{Check: "memory", Level: Warning, Says: says, Advice: "raise maxmemory, or lower what else lies there"}
	}
	return Finding{Check: "memory", Level: Fine, Says: says}
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

// eviction says what a full memory costs.
func (n *node) eviction() Finding {
	policy, evicted := n.about["maxmemory_policy"], n.number("evicted_keys")
	so := ""
	if evicted > 0 {
		so = fmt.Sprintf("; %d keys were evicted since it started", evicted)
	}
	const cost = ": whoever's key is evicted has his whole burst anew, each time"
	const advice = "noeviction and a maxmemory that is enough; or volatile-ttl, which takes the keys that mean least"
	switch {
	case n.number("maxmemory") == 0:
		return Finding{Check: "eviction", Level: Fine, Says: "nothing is evicted"}
	case policy == "noeviction":
		return Finding{Check: "eviction", Level: Fine, Says: "noeviction: nothing is evicted, and a full memory refuses decisions" + so}
	case policy == "volatile-ttl":
		return Finding{Check: "eviction", Level: Warning, Says: "volatile-ttl: a full memory evicts the keys that end soonest" + cost + so, Advice: "a maxmemory that is enough"}
	case strings.HasPrefix(policy, "volatile-"):
		return Finding{Check: "eviction", Level: Warning, Says: policy + ": all keys here have a life, so a full memory evicts them first" + cost + so, Advice: advice}
	default:
		return Finding{Check: "eviction", Level: Warning, Says: policy + ": a full memory evicts keys" + cost + so, Advice: advice}
	}
}

// persistence says what a restart forgets.
func (n *node) persistence() Finding {
	save, known := n.config["save"]
	fsync := n.config["appendfsync"]
	switch {
	case n.about["aof_last_write_status"] == "err" || n.about["rdb_last_bgsave_status"] == "err" && save != "":
		return Finding{Check: "persistence", Level: Failing, Says: "the last write to its disk failed: it may refuse to write", Advice: "see its log; is the disk full?"}
	case n.about["aof_enabled"] == "1" && fsync == "always":
		return Finding{Check: "persistence", Level: Fine, Says: "appendfsync always: a restart forgets nothing, and every write waits for the disk"}
	case n.about["aof_enabled"] == "1" && fsync == "no":
		return Finding{Check: "persistence", Level: Warning, Says: "appendfsync no: a crash forgets what the system had not yet written, some 30 s", Advice: "appendfsync everysec"}
	case n.about["aof_enabled"] == "1":
		return Finding{Check: "persistence", Level: Fine, Says: "append-only file: a crash forgets the last second or two of what was spent"}
	case known && save == "":
		return Finding{
			Check: "persistence", Level: Warning, Says: "none: a restart forgets what was spent, so every key has its whole burst anew, once",
			Advice: "appendonly yes, if that matters",
		}
	default:
		return Finding{
			Check: "persistence", Level: Warning, Says: "snapshots: a restart forgets what was spent since the last one",
			Advice: "appendonly yes, if that matters",
		}
	}
}

func (n *node) clients() Finding {
	used := n.number("connected_clients")
	most, _ := strconv.ParseInt(n.config["maxclients"], 10, 64)
	if most == 0 {
		most = n.number("maxclients")
	}
	if most > 0 && used >= most*nearlyFull/100 {
		return Finding{Check: "clients", Level: Warning, Says: fmt.Sprintf("%d of %d connections are taken", used, most), Advice: "raise maxclients"}
	}
	return Finding{}
}

// farOff is a difference of clocks that somebody should know of.
const farOff = time.Second

// clockFinding is rounded, so that nodes which agree say the same.
func (n *node) clockFinding() Finding {
	const meaning = "the server's decides, so limits hold all the same"
	switch {
	case n.noTime != nil:
		return Finding{Check: "clock", Level: Failing, Says: "it does not say what time it is: " + n.noTime.Error(), Advice: "allow +time"}
	case n.clock.Abs() < farOff:
		return Finding{Check: "clock", Level: Fine, Says: "within a second of this machine's"}
	case n.clock > 0:
		return Finding{Check: "clock", Level: Warning, Says: fmt.Sprintf("%v ahead of this machine's; %s", n.clock.Round(time.Second), meaning), Advice: "run NTP on both"}
	default:
		return Finding{Check: "clock", Level: Warning, Says: fmt.Sprintf("%v behind this machine's; %s", (-n.clock).Round(time.Second), meaning), Advice: "run NTP on both"}
	}
}
