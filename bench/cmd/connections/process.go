package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// process is a running headgate with one listener.
type process struct {
	cmd  *exec.Cmd
	addr string
	dir  string
	tls  bool
}

var listening = regexp.MustCompile(`msg="listener started" listener=\w+ address=(\S+)`)

// start starts headgate with one listener and waits until it is open.
func start(o *options, listener string) (*process, error) {
	p := &process{tls: o.tls}
	args := []string{"serve"}
	for _, name := range []string{"http", "grpc", "resp", "admin"} {
		addr := "off"
		if name == listener {
			addr = "127.0.0.1:0"
		}
		args = append(args, "--"+name+"-addr", addr)
	}
	if listener == "admin" { // headgate requires another listener
		args = append(args, "--resp-addr", "unix:"+filepath.Join(os.TempDir(), fmt.Sprintf("connections-%d.sock", os.Getpid())))
	}
	if o.tls {
		var err error
		if p.dir, err = certificate(); err != nil {
			return nil, err
		}
		args = append(args, "--"+listener+"-tls-cert", filepath.Join(p.dir, "cert.pem"), "--"+listener+"-tls-key", filepath.Join(p.dir, "key.pem"))
	}
	p.cmd = exec.Command(o.headgate, args...)
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(stderr)
	for p.addr == "" && lines.Scan() {
		if m := listening.FindStringSubmatch(lines.Text()); m != nil && !strings.HasPrefix(m[1], "/") {
			p.addr = m[1]
		}
	}
	go func() {
		for lines.Scan() {
		}
	}()
	if p.addr == "" {
		p.stop()
		return nil, fmt.Errorf("%s did not start", o.headgate)
	}
	return p, nil
}

// stop ends the process.
func (p *process) stop() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	_ = os.RemoveAll(p.dir)
}

func (p *process) running() bool { return p.rss() > 0 }

// rss returns the resident memory of the process in MB.
func (p *process) rss() float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	kb, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, _ := strconv.Atoi(kb)
	return float64(n) / 1000
}

// dial connects to the listener.
func (p *process) dial(protocols ...string) (net.Conn, error) {
	conn, err := net.DialTimeout("tcp", p.addr, 5*time.Second)
	if err != nil || !p.tls {
		return conn, err
	}
	secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: protocols})
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if err := secure.Handshake(); err != nil {
		_ = conn.Close()
		return nil, err
	}
	_ = conn.SetDeadline(time.Time{})
	return secure, nil
}

// certificate writes a certificate and its key to a new folder.
func certificate() (dir string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return "", err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", err
	}
	if dir, err = os.MkdirTemp("", "connections"); err != nil {
		return "", err
	}
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: cert}, "key.pem": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			return "", err
		}
	}
	return dir, nil
}
