// Command keywrites measures how a script writes the state of keys fastest: what each form costs Redis, with 64 keys a call and
// with one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/bench"
	"github.com/headgate/headgate/bench/server"
)

const (
	allKeys  = 100_000
	perCall  = 64
	pipeline = 64
	life     = "7200000" // ms: longer than any state of these scripts matters
)

func main() {
	rounds := flag.Int("rounds", 7, "rounds, in each of which every form has its turn; the median counts")
	each := flag.Duration("time", 200*time.Millisecond, "how long a turn is")
	results := flag.String("results", "", "a directory to keep the table in; it is only printed if empty")
	flag.Parse()
	if err := run(*rounds, *each, *results); err != nil {
		fmt.Fprintln(os.Stderr, "keywrites:", err)
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
	kept, err := machine.Keep(results, "keywrites")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kept.Close()) }()
	out := io.MultiWriter(os.Stdout, kept)
	fmt.Fprintln(out, redis.Version)
	for _, n := range []int{perCall, 1} {
		if err := (ground{client, allKeys}).table(out, n, rounds, each); err != nil {
			return err
		}
	}
	return nil
}

// turn is one form's measurement: the server's own µs per key, and keys per second as the client sees it.
type turn struct{ micros, rate float64 }

// ground is a server with a number of keys.
type ground struct {
	client rueidis.Client
	keys   int
}

func (g ground) table(out io.Writer, n, rounds int, each time.Duration) error {
	turns := make([][]turn, len(forms))
	for range rounds {
		for i, f := range forms {
			if i == 0 || !f.takes(forms[i-1]) {
				if err := g.fill(f); err != nil {
					return fmt.Errorf("%s: %w", f.name, err)
				}
			}
			t, err := g.measure(f, n, each)
			if err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			turns[i] = append(turns[i], t)
		}
	}
	fmt.Fprintf(out, "\n%d keys a call: µs on the server and calls a second pipelined, for each key; %d rounds, medians\n\n", n, rounds)
	fmt.Fprintf(out, "| form | µs a key | against %s | keys a second |\n|---|--:|--:|--:|\n", forms[0].name)
	for i, f := range forms {
		micros, ratio, rate := summary(turns[i], turns[0])
		fmt.Fprintf(out, "| %s | %.2f | %.2f | %.0f |\n", f.name, micros, ratio, rate)
	}
	return nil
}

// summary has medians over the rounds; the ratio is that of two turns of the same round.
func summary(turns, first []turn) (micros, ratio, rate float64) {
	var m, r, k []float64
	for i, t := range turns {
		m, r, k = append(m, t.micros), append(r, t.micros/first[i].micros), append(k, t.rate)
	}
	return bench.Median(m), bench.Median(r), bench.Median(k)
}

// measure runs a form's script on random keys.
func (g ground) measure(f form, n int, each time.Duration) (turn, error) {
	ctx := context.Background()
	sha, err := g.client.Do(ctx, g.client.B().ScriptLoad().Script(f.script(n == 1)).Build()).ToString()
	if err != nil {
		return turn{}, err
	}
	calls := max(4, pipeline/n)
	if err := server.Forget(ctx, g.client); err != nil {
		return turn{}, err
	}
	began := time.Now()
	for time.Since(began) < each {
		batch := make(rueidis.Commands, calls)
		for i := range batch {
			batch[i] = g.client.B().Evalsha().Sha1(sha).Numkeys(int64(n)).Key(g.some(n)...).Arg(life).Build()
		}
		for _, reply := range g.client.DoMulti(ctx, batch...) {
			if err := reply.Error(); err != nil {
				return turn{}, err
			}
		}
	}
	wall := time.Since(began)
	used, err := server.Used(ctx, g.client)
	done := float64(used.Scripts * int64(n))
	return turn{micros: float64(used.Busy.Microseconds()) / done, rate: done / wall.Seconds()}, err
}

// fill empties the store and writes every key as the form keeps it.
func (g ground) fill(f form) error {
	ctx := context.Background()
	if err := g.client.Do(ctx, g.client.B().Flushall().Sync().Build()).Error(); err != nil {
		return err
	}
	script := f.fill()
	for from := 0; from < g.keys; from += 1000 {
		names := make([]string, 1000)
		for i := range names {
			names[i] = key(from + i)
		}
		if err := g.client.Do(ctx, g.client.B().Eval().Script(script).Numkeys(1000).Key(names...).Arg(life).Build()).Error(); err != nil {
			return err
		}
	}
	return nil
}

// some are n different random keys.
func (g ground) some(n int) []string {
	names := make([]string, 0, n)
	at, step := rand.IntN(g.keys), 1+2*rand.IntN(g.keys/(2*perCall)-1)
	for range n {
		names = append(names, key(at))
		at = (at + step) % g.keys
	}
	return names
}

// key looks like a key of the store's: a hash tag and the text that the user gave.
func key(i int) string {
	return "hg:{" + strconv.FormatUint(uint64(i)*0x9e3779b97f4a7c15, 16) + "}:user:" + strconv.Itoa(i)
}
