// Package server runs the servers that stores are measured on, each alone on a port of the loopback interface, and asks Redis what
// its time went to.
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Server is a server's process, empty when it starts and keeping nothing on disk.
type Server struct {
	// Addr is where it listens: 127.0.0.1 and a port.
	Addr string
	// Version is what the program says of itself.
	Version string

	cmd *exec.Cmd
	dir string
}

// Redis starts redis-server and waits until it accepts connections. It runs until [Server.Close].
func Redis() (*Server, error) {
	return start("redis-server", func(port string) []string {
		return []string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"}
	})
}

// Memcached starts memcached with 1 GiB and waits until it accepts connections. It runs until [Server.Close].
func Memcached() (*Server, error) {
	return start("memcached", func(port string) []string {
		return []string{"-p", port, "-l", "127.0.0.1", "-m", "1024", "-u", "nobody"}
	})
}

// Headgate starts the program at a path, with state in memory and its Redis-compatible endpoint alone,
// and waits until it accepts connections. It runs until [Server.Close].
func Headgate(program string, flags ...string) (*Server, error) {
	path, err := filepath.Abs(program)
	if err != nil {
		return nil, err
	}
	return start(path, func(port string) []string {
		return append([]string{"serve", "--resp-addr", "127.0.0.1:" + port, "--http-addr", "off", "--grpc-addr", "off", "--admin-addr", "off"}, flags...)
	})
}

// PID returns the number of the server's process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

func start(program string, args func(port string) []string) (*Server, error) {
	addrs, err := FreeAddrs(1)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "headgate-bench-")
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addrs[0])
	s := &Server{Addr: addrs[0], cmd: exec.Command(program, args(port)...), dir: dir}
	s.cmd.Dir = dir
	if text, err := exec.Command(program, "--version").Output(); err == nil {
		s.Version = strings.TrimSpace(string(text))
	}
	if err := s.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("server: %s cannot be started: %w; scripts/setup installs what this module runs", program, err), os.RemoveAll(dir))
	}
	if err := s.await(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// FreeAddrs returns addresses of the loopback interface on which nothing listens.
func FreeAddrs(n int) (addrs []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // after the last one is chosen, so that all differ
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

func (s *Server) await() error {
	var err error
	for range 100 {
		var conn net.Conn
		if conn, err = net.Dial("tcp", s.Addr); err == nil {
			return conn.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("server: %s does not answer: %w", s.cmd.Path, err)
}

// Close ends the server and removes its folder.
func (s *Server) Close() error {
	_ = s.cmd.Process.Kill() // it can only have ended by itself
	_ = s.cmd.Wait()         // killed: that is no news
	return os.RemoveAll(s.dir)
}

// Usage is what Redis ran since it was last asked to forget.
type Usage struct {
	Calls   int64         // of the commands that clients sent, not of what scripts called
	Scripts int64         // EVALSHA and EVAL among them
	Busy    time.Duration // in scripts, by the server's own count
	CPU     time.Duration // of the server's process since it started
}

// Forget makes Redis count from zero.
func Forget(ctx context.Context, c rueidis.Client) error {
	return c.Do(ctx, c.B().ConfigResetstat().Build()).Error()
}

// Used is what Redis ran since [Forget].
func Used(ctx context.Context, c rueidis.Client) (Usage, error) {
	text, err := c.Do(ctx, c.B().Info().Section("stats", "commandstats", "cpu").Build()).ToString()
	if err != nil {
		return Usage{}, err
	}
	u := Usage{Calls: number(text, "total_commands_processed:")}
	for _, name := range []string{"evalsha", "eval"} {
		_, line, _ := strings.Cut(text, "cmdstat_"+name+":")
		line, _, _ = strings.Cut(line, "\r\n")
		u.Scripts += number(line, "calls=")
		u.Busy += time.Duration(number(line, "usec=")) * time.Microsecond
	}
	for _, name := range []string{"used_cpu_sys:", "used_cpu_user:"} {
		_, line, _ := strings.Cut(text, "\n"+name)
		line, _, _ = strings.Cut(line, "\r\n")
		seconds, err := strconv.ParseFloat(line, 64)
		if err != nil {
			return Usage{}, fmt.Errorf("server: INFO says nothing of %s %w", name, err)
		}
		u.CPU += time.Duration(seconds * float64(time.Second))
	}
	return u, nil
}

// number is the whole number behind name in text, or 0.
func number(text, name string) int64 {
	_, rest, found := strings.Cut(text, name)
	if !found {
		return 0
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(rest)
	}
	n, _ := strconv.ParseInt(rest[:end], 10, 64)
	return n
}
