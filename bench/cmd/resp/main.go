// Command resp measures CL.THROTTLE at “headgate serve”, with event loops and without, against INCR at
// a redis-server. redis-benchmark sends the requests.
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

// settings are the flags.
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
	flag.IntVar(&s.rounds, "rounds", 15, "rounds, in each of which every server has its turn; medians count")
	flag.IntVar(&s.size, "requests", 40_000, "requests of a turn without a pipeline; ten times as many with one")
	flag.IntVar(&s.conns, "connections", 50, "connections")
	flag.IntVar(&s.tries, "tries", 30, "how often a turn is begun anew that other programs disturb; at 1 all count, and the processor time tells more than the rate")
	flag.StringVar(&s.results, "results", "", "a directory to keep the rounds in; they are only printed if empty")
	flag.StringVar(&s.headgate, "headgate", "../dist/headgate", "the program to measure")
	flag.Parse()
	bench.Exit("resp", s.measure())
}

// row is a server and what it is asked.
type row struct {
	name    string
	server  *server.Server
	request []string
}

// depths are the pipelines that are measured.
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
	for _, way := range []struct{ name, flag string }{
		{"headgate, event loops", "--resp-event-loops"},
		{"headgate, a goroutine for each connection", "--resp-event-loops=false"},
	} {
		headgate, err := server.Headgate(s.headgate, way.flag)
		if err != nil {
			return err
		}
		defer func() { _ = headgate.Close() }()
		rows = append(rows, row{way.name, headgate, []string{"CL.THROTTLE", "key:__rand_int__", "15", "30", "60"}})
	}
	fmt.Fprintf(out, "# %s; redis-benchmark -c %d -r 100000; requests a second in each round, then medians: "+
		"requests a second, their ratio to the first row's with its quartiles, and of all rounds together the server's processor time for a "+
		"request and its ratio to the first row's\n", redis.Version, s.conns)
	for _, depth := range depths {
		if err := s.table(out, depth, rows); err != nil {
			return err
		}
	}
	return nil
}

// table measures every row in turn, round for round, and compares each with the first: the ratio is taken within a round, so that a
// machine that grows slower does so for both.
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

// turn is how many requests a turn has.
func (s settings) turn(depth int) int {
	if depth > 1 {
		return 10 * s.size
	}
	return s.size
}

// mostDisturbed is the part of one processor that others may take during a turn. If they take more it is begun anew.
const mostDisturbed = 0.2

// undisturbed is a turn in which nobody else had much to do: its rate, and the server's processor time for all of it.
func (s settings) undisturbed(r row, depth int) (rate float64, cost time.Duration, err error) {
	for try := range s.tries {
		if try > 0 {
			time.Sleep(time.Second / 2)
		}
		began, busy, spent := time.Now(), busyTime(), bench.ProcessorTime(r.server.PID())
		var client time.Duration
		if rate, client, err = s.ask(r, depth); err != nil {
			return 0, 0, err
		}
		took := time.Since(began)
		cost = bench.ProcessorTime(r.server.PID()) - spent
		if others := busyTime() - busy - cost - client; others.Seconds() <= mostDisturbed*took.Seconds() {
			return rate, cost, nil
		}
	}
	if s.tries == 1 {
		return rate, cost, nil
	}
	fmt.Fprintln(os.Stderr, "resp: this machine has other things to do; a disturbed turn was taken")
	return rate, cost, nil
}

// busyTime is what all processes together have had of the processors so far; 0 where there is no /proc.
func busyTime() (sum time.Duration) {
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(text), "\n")
	for i, field := range strings.Fields(line) {
		if n, err := strconv.Atoi(field); err == nil && i != 4 && i != 5 && i < 9 { // idle, and waiting for disks; guests are counted already
			sum += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return sum
}

// ask has redis-benchmark ask, and reads its rate. It also tells the processor time that redis-benchmark took.
func (s settings) ask(r row, depth int) (rate float64, took time.Duration, err error) {
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
		return 0, 0, fmt.Errorf("redis-benchmark: %w: apt-get install redis-tools brings it", err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	fields := strings.Split(lines[len(lines)-1], `","`)
	if len(fields) < 2 {
		return 0, 0, fmt.Errorf("redis-benchmark said %q", text)
	}
	rate, err = strconv.ParseFloat(fields[1], 64)
	return rate, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), err
}
