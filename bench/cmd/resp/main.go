// Command resp compares CL.THROTTLE on “headgate serve”, both with and without event
// loops, with INCR on redis-server. redis-benchmark sends the requests.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/bench"
	"github.com/headgate/headgate/bench/server"
)

// settings contains the values of the flags.
type settings struct {
	rounds   int
	size     int
	conns    int
	results  string
	tries    int
	headgate string
}

func main() {
	var s settings
	flag.IntVar(&s.rounds, "rounds", 15, "number of rounds; medians are printed")
	flag.IntVar(&s.size, "requests", 40_000, "requests per turn; ten times as many with a pipeline")
	flag.IntVar(&s.conns, "connections", 50, "number of connections")
	flag.IntVar(&s.tries, "tries", 30, "maximum attempts per turn; 1 accepts every turn")
	flag.StringVar(&s.results, "results", "", "`directory` for the rounds; empty: print only")
	flag.StringVar(&s.headgate, "headgate", "../dist/headgate", "headgate `program`")
	flag.Parse()
	bench.Exit("resp", s.measure())
}

// row is a row of the table: a server and the request that is sent to it.
type row struct {
	name    string
	server  *server.Server
	request []string
}

// depths are the measured pipeline depths: the number of requests that a connection
// sends before it waits for the replies.
var depths = []int{1, 16, 64}

func (s settings) measure() (err error) {
	out, err := bench.OpenReport(s.results, "resp")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	redis, err := server.Redis()
	if err != nil {
		return err
	}
	defer func() { _ = redis.Close() }()
	rows := []row{{"redis INCR", redis, []string{"INCR", "key:__rand_int__"}}}
	for _, mode := range []struct{ name, flag string }{
		{"headgate, event loops", "--resp-event-loops"},
		{"headgate, one goroutine per connection", "--resp-event-loops=false"},
	} {
		headgate, err := server.Headgate(s.headgate, mode.flag)
		if err != nil {
			return err
		}
		defer func() { _ = headgate.Close() }()
		rows = append(rows, row{mode.name, headgate, []string{"CL.THROTTLE", "key:__rand_int__", "15", "30", "60"}})
	}
	fmt.Fprintf(out, "# %s; redis-benchmark -c %d -r 100000; requests/s in each round, then medians: "+
		"requests/s, ratio to the first row with quartiles, and over all rounds the server's CPU time per request "+
		"and its ratio to the first row\n", redis.Version, s.conns)
	for _, depth := range depths {
		if err := s.table(out, depth, rows); err != nil {
			return err
		}
	}
	return nil
}

// table prints the table for one pipeline depth. It measures every row in each round
// and compares the row with the first row. A ratio is computed from rates of the same
// round, so that a change of the machine's speed affects both rates.
func (s settings) table(out io.Writer, depth int, rows []row) error {
	rates, ratios, costs := make([][]float64, len(rows)), make([][]float64, len(rows)), make([]time.Duration, len(rows))
	for round := range s.rounds {
		for turn := range rows {
			i := (round + turn) % len(rows)
			rate, cost, err := s.undisturbed(rows[i], depth)
			if err != nil {
				return err
			}
			rates[i] = append(rates[i], rate)
			costs[i] += cost
		}
		fmt.Fprintf(out, "-P %d, round %d:", depth, round+1)
		for i := range rows {
			fmt.Fprintf(out, " %.0f", rates[i][round])
			ratios[i] = append(ratios[i], rates[i][round]/rates[0][round])
		}
		fmt.Fprintln(out)
	}
	for i, r := range rows {
		fmt.Fprintf(out, "| -P %d | %s | %.0f | %.2f (%.2f to %.2f) | %.2f µs | %.2f |\n", depth, r.name, bench.Median(rates[i]),
			bench.Median(ratios[i]), bench.LowerQuartile(ratios[i]), bench.UpperQuartile(ratios[i]),
			float64(costs[i].Nanoseconds())/1000/float64(s.rounds*s.turn(depth)), costs[i].Seconds()/costs[0].Seconds())
	}
	return nil
}

// turn returns how many requests redis-benchmark sends in a turn.
func (s settings) turn(depth int) int {
	if depth > 1 {
		return 10 * s.size
	}
	return s.size
}

// maxDisturbance is the maximum processor time that other processes may use during a
// turn, as a fraction of one processor. A turn with more is repeated.
const maxDisturbance = 0.2

// undisturbed repeats a turn until other processes used little processor time during
// it. It returns the rate, and the server's processor time for the whole turn.
func (s settings) undisturbed(r row, depth int) (rate float64, cost time.Duration, err error) {
	for try := range s.tries {
		if try > 0 {
			time.Sleep(time.Second / 2)
		}
		began, busy, spent := time.Now(), busyTime(), bench.ProcessorTime(r.server.PID())
		var client time.Duration
		if rate, client, err = s.runClient(r, depth); err != nil {
			return 0, 0, err
		}
		wall := time.Since(began)
		cost = bench.ProcessorTime(r.server.PID()) - spent
		if others := busyTime() - busy - cost - client; others.Seconds() <= maxDisturbance*wall.Seconds() {
			return rate, cost, nil
		}
	}
	if s.tries == 1 {
		return rate, cost, nil
	}
	fmt.Fprintln(os.Stderr, "resp: machine is busy; a disturbed turn was accepted")
	return rate, cost, nil
}

// busyTime returns the processor time of all processes since boot, or 0 if /proc does
// not exist.
func busyTime() (sum time.Duration) {
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(text), "\n")
	for i, field := range strings.Fields(line) {
		// fields 4 and 5 are idle and iowait; the guest fields are already part of user
		// time
		if n, err := strconv.Atoi(field); err == nil && i != 4 && i != 5 && i < 9 {
			sum += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return sum
}

// runClient runs redis-benchmark and returns its rate and its processor time.
func (s settings) runClient(r row, depth int) (rate float64, cpu time.Duration, err error) {
	host, port, err := net.SplitHostPort(r.server.Addr)
	if err != nil {
		return 0, 0, err
	}
	args := []string{
		"-h", host, "-p", port, "-c", strconv.Itoa(s.conns), "-n", strconv.Itoa(s.turn(depth)), "-P", strconv.Itoa(depth), "-r", "100000", "--csv",
	}
	cmd := exec.Command("redis-benchmark", append(args, r.request...)...)
	text, err := cmd.Output()
	if err != nil {
		return 0, 0, fmt.Errorf("running redis-benchmark: %w; apt-get install redis-tools installs it", err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	fields := strings.Split(lines[len(lines)-1], `","`)
	if len(fields) < 2 {
		return 0, 0, fmt.Errorf("invalid output of redis-benchmark: %q", text)
	}
	rate, err = strconv.ParseFloat(fields[1], 64)
	return rate, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), err
}
