package main

import (
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	transcriptBlock = regexp.MustCompile("(?s)<!-- run: TestTranscripts -->\n```console\n(.*?)```")
	// volatile are parts of the output that differ between runs: times and what
	// follows from them.
	volatile = regexp.MustCompile(`(_ms":)\d+|(_at":")[^"]*|(;t=)\d+|(?mi:^(Date|Content-Length|Retry-After|memory|speed): .*$)`)
	remark   = regexp.MustCompile(`(?m) +# .*$`) // explains a line of output
)

// The transcripts of a page, run in order in one new service, print what the page shows.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	found := 0
	for _, page := range transcriptPages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		blocks := transcriptBlock.FindAllStringSubmatch(string(text), -1)
		if len(blocks) == 0 {
			continue
		}
		found++
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			runTranscripts(t, blocks)
		})
	}
	if found == 0 {
		t.Error("no page has a transcript")
	}
}

// transcriptPages returns the pages that may have transcripts.
func transcriptPages(t *testing.T) []string {
	t.Helper()
	pages := []string{"../../README.md", "internal/httpapi/README.md"}
	err := filepath.WalkDir("../../docs", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

func runTranscripts(t *testing.T, blocks [][]string) {
	t.Helper()
	service := launch(t, 3, "--http-addr", "127.0.0.1:0", "--resp-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0", "--grpc-addr", "off")
	_, port, err := net.SplitHostPort(service.addrs["resp"])
	if err != nil {
		t.Fatal(err)
	}
	// The clients print for a terminal, and the service uses other ports.
	replacer := strings.NewReplacer(
		"go run ./cmd/headgate", "headgate", "curl ", "curl -sS ", "redis-cli ", "redis-cli --no-raw ",
		"127.0.0.1:8080", service.addrs["http"], "-p 6380", "-p "+port,
	)
	for _, block := range blocks {
		for command := range strings.SplitSeq(strings.TrimPrefix(block[1], "$ "), "\n$ ") {
			line, want, _ := strings.Cut(command, "\n")
			if strings.Contains(line, "--algorithm all") && hasMadeUp() {
				continue // pages show the published algorithms
			}
			cmd := exec.Command("bash", "-c", replacer.Replace(line))
			cmd.Dir = "../.."
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%s: %v\n%s", line, err, out)
			} else if got, want := normalise(string(out)), normalise(remark.ReplaceAllString(want, "")); !matches(got, want) {
				t.Errorf("%s\ngot:\n%s\nwant:\n%s", line, got, want)
			}
		}
	}
}

// normalise replaces the volatile parts of an output.
func normalise(text string) string {
	text = strings.TrimSpace(strings.ReplaceAll(text, "\r", ""))
	return volatile.ReplaceAllString(text, "$1$2$3$4…")
}

// matches compares an output with a transcript, in which the line … means any lines, and
// … in a line any text.
func matches(got, want string) bool {
	pattern := strings.ReplaceAll(regexp.QuoteMeta("\n"+want+"\n"), "\n…\n", "\n(.*\n)*?")
	pattern = strings.ReplaceAll(pattern, "…", ".*")
	return regexp.MustCompile("^" + pattern + "$").MatchString("\n" + got + "\n")
}
