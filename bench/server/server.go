// Package server starts the servers with which stores are measured. Each server listens
// on a free port of the loopback interface. The package also reads the statistics of
// Redis.
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

// Server is a server process. It has no data when it starts and stores nothing on disk.
type Server struct {
	// Addr is the listen address: 127.0.0.1 and a port.
	Addr string
	// Version is the output of the program's flag --version, or empty.
	Version string

	cmd *exec.Cmd
	dir string
}

// Redis starts redis-server and waits until it accepts connections. The caller must
// call [Server.Close].
func Redis() (*Server, error) {
	return start("redis-server", func(port string) []string {
		return []string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"}
	})
}

// Memcached starts memcached with 1 GiB of memory and waits until it accepts
// connections. The caller must call [Server.Close].
func Memcached() (*Server, error) {
	return start("memcached", func(port string) []string {
		return []string{"-p", port, "-l", "127.0.0.1", "-m", "1024", "-u", "nobody"}
	})
}

// Headgate starts the headgate program at the given path and waits until it accepts
// connections. The state is in memory, and only the Redis-compatible endpoint is
// enabled. The caller must call [Server.Close].
func Headgate(program string, flags ...string) (*Server, error) {
	path, err := filepath.Abs(program)
	if err != nil {
		return nil, err
	}
	return start(path, func(port string) []string {
		return append([]string{"serve", "--resp-addr", "127.0.0.1:" + port, "--http-addr", "off", "--grpc-addr", "off", "--admin-addr", "off"}, flags...)
	})
}

// PID returns the process ID of the server.
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
		return nil, errors.Join(fmt.Errorf("server: cannot start %s: %w; scripts/setup installs it", program, err), os.RemoveAll(dir))
	}
	if err := s.waitUntilListening(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// FreeAddrs returns n different loopback addresses on which no process listens.
func FreeAddrs(n int) (addrs []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // closed only after all addresses are chosen, so that they differ
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

func (s *Server) waitUntilListening() error {
	var err error
	for range 100 {
		var conn net.Conn
		if conn, err = net.Dial("tcp", s.Addr); err == nil {
			return conn.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("server: %s does not accept connections: %w", s.cmd.Path, err)
}

// Close kills the server and removes its directory.
func (s *Server) Close() error {
	_ = s.cmd.Process.Kill() // returns an error only if the process has already exited
	_ = s.cmd.Wait()         // always returns an error, because the process was killed
	return os.RemoveAll(s.dir)
}

// Usage contains the statistics of Redis since [ResetStats].
type Usage struct {
	Calls   int64         // number of commands of clients; commands within scripts are not counted
	Scripts int64         // number of EVALSHA and EVAL commands among Calls
	Busy    time.Duration // time that the server spent in scripts, as it reports
	CPU     time.Duration // processor time that the server has used since it started
}

// ResetStats resets the statistics of Redis.
func ResetStats(ctx context.Context, c rueidis.Client) error {
	return c.Do(ctx, c.B().ConfigResetstat().Build()).Error()
}

// ReadUsage returns the statistics of Redis since [ResetStats].
func ReadUsage(ctx context.Context, c rueidis.Client) (Usage, error) {
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
			return Usage{}, fmt.Errorf("server: INFO has no valid field %s %w", name, err)
		}
		u.CPU += time.Duration(seconds * float64(time.Second))
	}
	return u, nil
}

// number returns the integer that follows name in text, or 0 if name does not occur.
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
