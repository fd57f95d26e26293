// Command loglayouts measures what a sliding log costs Redis as a list, a sorted set and a packed string: µs a decision and bytes
// an entry, by the number of entries that count.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/bench"
	"github.com/headgate/headgate/bench/server"
)

func main() {
	rounds := flag.Int("rounds", 15, "rounds, in each of which every layout has its turn; the better quartile counts")
	each := flag.Duration("time", 40*time.Millisecond, "how long a turn is")
	results := flag.String("results", "", "a directory to keep the table in; it is only printed if empty")
	flag.Parse()
	if err := run(*rounds, *each, *results); err != nil {
		fmt.Fprintln(os.Stderr, "loglayouts:", err)
		os.Exit(1)
	}
}

func run(rounds int, each time.Duration, results string) (err error) {
	redis, err := server.Redis()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, redis.Close()) }()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redis.Addr}, DisableCache: true})
	if err != nil {
		return err
	}
	defer client.Close()
	machine := bench.ThisMachine()
	kept, err := machine.Keep(results, "loglayouts")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kept.Close()) }()
	out := io.MultiWriter(os.Stdout, kept)
	fmt.Fprintf(out, "%s\n%d rounds of %v, the better quartile\n", redis.Version, rounds, each)
	for _, entries := range []int{10, 100, 1000, 10_000} {
		if err := table(out, client, entries, rounds, each); err != nil {
			return err
		}
	}
	return nil
}

func table(out io.Writer, client rueidis.Client, entries, rounds int, each time.Duration) error {
	var logs []*log
	for i, l := range layouts() {
		if entries > l.most {
			continue
		}
		g, err := newLog(client, l, strconv.Itoa(i)+":"+strconv.Itoa(entries), entries)
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		logs = append(logs, g)
	}
	admitted, denied := make([][]turn, len(logs)), make([][]turn, len(logs))
	for range rounds {
		for i, g := range logs {
			a, err := g.measure(each, step)
			if err != nil {
				return fmt.Errorf("%s: %w", g.name, err)
			}
			d, err := g.measure(each, 0)
			if err != nil {
				return fmt.Errorf("%s: %w", g.name, err)
			}
			admitted[i], denied[i] = append(admitted[i], a), append(denied[i], d)
		}
	}
	fmt.Fprintf(out, "\n%d entries: µs on the server and decisions a second, pipelined, and the most bytes an entry\n\n", entries)
	fmt.Fprintf(out, "| layout | admitted, µs | a second | denied, µs | a second | bytes an entry |\n|---|--:|--:|--:|--:|--:|\n")
	for i, g := range logs {
		a, d := best(admitted[i]), best(denied[i])
		fmt.Fprintf(out, "| %s | %.1f | %.0f | %.1f | %.0f | %.1f |\n", g.name, a.micros, a.rate, d.micros, d.rate, g.bytes)
	}
	return client.Do(context.Background(), client.B().Flushall().Sync().Build()).Error()
}

// turn is one measurement: the server's own µs for each decision, and decisions a second as the client sees them.
type turn struct{ micros, rate float64 }

// best is what a quarter of the turns surpassed: what others do on the machine can only slow a turn down.
func best(turns []turn) turn {
	var micros, rates []float64
	for _, t := range turns {
		micros, rates = append(micros, t.micros), append(rates, t.rate)
	}
	return turn{bench.LowerQuartile(micros), bench.UpperQuartile(rates)}
}
